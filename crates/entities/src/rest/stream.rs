//! `GET /{table}/_events`: a live stream of the writes that the caller may read.
//!
//! The access check is that of the list: [`Action::Read`] at the start, with its reach as the stream's filter. Both are
//! computed again at every heartbeat from the request's credentials. The event crate has the streams, their buffers and
//! their limits.

use std::sync::Arc;

use axum::extract::{RawQuery, State};
use axum::response::{IntoResponse, Response};
use gatewright_base::{Credential, Identity, Presented, Unavailable, nearest};
use gatewright_events::sse::{Admitted, Condition, Params, RecordView, Subscribe, Verdict, Visibility};
use gatewright_events::{EntityEvent, EventKind};
use gatewright_http::{Caller, ClientAddr, Problem};
use http::{Extensions, HeaderMap};

use super::endpoint::Endpoint;
use crate::access::{Action, Reach};
use crate::audience::{Audience, Followers, Holder, Place, TooManyFilters, Wanted};
use crate::before;
use crate::call::Call;
use crate::condition::Viewer;
use crate::context::admission::field_rights;
use crate::context::entities::Entities;
use crate::context::table::Table;
use crate::encode::only;
use crate::error::Error;
use crate::filter::syntax::Expression;
use crate::filter::{self, Predicate, Subject};
use crate::operations::{self, print};
use crate::plan::Plan;
use crate::readable::{FieldRights, Readable};
use crate::tenancy::Named;

pub(super) async fn events(
    State(endpoint): State<Arc<Endpoint>>,
    Caller(identity): Caller,
    RawQuery(query): RawQuery,
    client: ClientAddr,
    headers: HeaderMap,
    extensions: Extensions,
) -> Result<Response, Problem> {
    let query = query.unwrap_or_default();
    let call = in_named_tenant(endpoint.entities.call(identity, &headers), &query)?;
    let reach = endpoint.table().reach(&call, Action::Read).await?;
    let rights = field_rights(&endpoint.entities, &call).await?;
    let readable = rights.of(endpoint.index);
    let Asked { filter, related, tags } = Asked::read(&query, &endpoint, readable)?;
    let view = view(readable);
    let params = Params::read(Some(&query), &headers);
    let holder = Holder::of(&call.identity, client);
    let source = Source { entities: endpoint.entities.clone(), index: endpoint.index, holder };
    let wanted = source.wanted(&call, related.as_deref()).await?;
    let seat = source.seat(reach, wanted)?;
    let request = Subscribe::new(endpoint.table().plan.table.clone(), call.identity.clone(), params, move |event| {
        seat.visibility(event)
    })
    .matching(filter.map(|filter| source.condition(filter)))
    .tagged(tags)
    .showing(view)
    .from_client(client.into());
    let presented = extensions.get::<Presented>().cloned().map(Presented::kept);
    let stream_caller = StreamCaller { source, call, rights, related, presented };
    let request = match (&stream_caller.call.identity, &stream_caller.presented) {
        // An anonymous caller: no credential can expire or be revoked.
        (Identity::Anonymous, None) => request,
        _ => {
            let stream_caller = stream_caller.clone();
            request.rechecked(move || stream_caller.clone().recheck())
        }
    };
    let request = request.admitted(move |events| stream_caller.clone().admit(events));
    Ok(endpoint.entities.streams().respond(request)?.into_response())
}

/// What a stream shows of records to a caller who may read these fields.
fn view(readable: &Readable) -> Option<RecordView> {
    if readable.is_all() {
        return None;
    }
    let readable = readable.clone();
    Some(RecordView::new(format!("{readable:?}"), move |record| only(record, |key| readable.has_key(key))))
}

/// The entity that a stream is about.
#[derive(Clone)]
struct Source {
    entities: Entities,
    index: usize,
    /// Whose share its filters count against.
    holder: Holder,
}

/// How far a stream's caller reaches, and their place among the followers.
struct Seat {
    followers: Followers,
    reach: Reach,
    place: Option<Place>,
}

impl Seat {
    /// What the caller sees of an event: the record must be within reach, and the event's audience must include the caller if
    /// an access rule or a filter over relations applies.
    fn visibility(&self, event: &EntityEvent) -> Visibility {
        if !self.reach.bounds(event.owner(), event.tenant_id()) {
            return Visibility::Hidden;
        }
        let Some(place) = &self.place else { return Visibility::Shown };
        self.audience(event).map_or(Visibility::Unknown, |audience| place.visibility(&audience))
    }

    /// Whether the caller may see an event, according to its audience. The filter does not matter.
    fn may_see(&self, event: &EntityEvent) -> bool {
        let Some(place) = &self.place else { return true };
        self.audience(event).is_some_and(|audience| place.may_see(&audience))
    }

    fn audience(&self, event: &EntityEvent) -> Option<Audience> {
        event.payload::<Audience>().cloned().or_else(|| self.followers.remembered(event.id()?))
    }
}

impl Source {
    fn table(&self) -> Table<'_> {
        self.entities.table_at(self.index)
    }

    /// The filter over relations, under the caller's own rights.
    async fn wanted(&self, call: &Call, related: Option<&Expression>) -> Result<Option<Wanted>, Error> {
        let Some(expression) = related else { return Ok(None) };
        let bound = self.table().condition(call, expression).await?;
        if bound.rule.resolved.entities.iter().any(|index| self.entities.at(*index).is_read_only) {
            let message =
                "filter: a stream does not follow relations to accounts and views: they change without events";
            return Err(Error::Query(message.to_owned()));
        }
        Wanted::new(expression, bound).map(Some).map_err(Error::Query)
    }

    /// The seat of a new stream.
    fn seat(&self, reach: Reach, wanted: Option<Wanted>) -> Result<Seat, TooManyFilters> {
        let followers = self.entities.followers().clone();
        let place = viewer(&reach, wanted.as_ref())
            .map(|viewer| followers.join(self.index, &viewer, &self.holder, wanted))
            .transpose()?;
        Ok(Seat { followers, reach, place })
    }

    /// The seat of a stream that has one already.
    fn seat_again(&self, reach: Reach, wanted: Option<Wanted>) -> Seat {
        let followers = self.entities.followers().clone();
        let place =
            viewer(&reach, wanted.as_ref()).map(|viewer| followers.rejoin(self.index, &viewer, &self.holder, wanted));
        Seat { followers, reach, place }
    }

    /// The condition that a record passes the filter. Equal filters produce equal conditions.
    fn condition(&self, filter: Predicate) -> Condition {
        let (entities, index) = (self.entities.clone(), self.index);
        Condition::new(format!("{filter:?}"), move |event: &EntityEvent| {
            let columns = &entities.at(index).columns;
            let record = event.view(|record| Subject::read(columns, record));
            filter::matches::matches(&filter, columns, &record)
        })
    }
}

/// The caller whose properties a rule or a filter reads, if there is one.
fn viewer(reach: &Reach, wanted: Option<&Wanted>) -> Option<Arc<Viewer>> {
    let viewers = reach.conditions().iter().chain(wanted.map(Wanted::bound)).map(|bound| &bound.viewer);
    // A viewer that does not need the tenant has not looked it up.
    viewers.reduce(|one, other| if one.tenant.is_some() { one } else { other }).cloned()
}

/// A stream's caller, kept to check their access again.
#[derive(Clone)]
struct StreamCaller {
    source: Source,
    call: Call,
    /// The fields that the caller could read when the stream began: its records and its filter depend on them.
    rights: FieldRights,
    /// The filter, if it follows relations.
    related: Option<Arc<Expression>>,
    presented: Option<Presented>,
}

impl StreamCaller {
    /// How far the caller reaches now, and their filter; `None` if they would be refused.
    async fn again(&self) -> Result<Option<(Reach, Option<Wanted>)>, Unavailable> {
        let now = match &self.presented {
            Some(Presented(credentials)) => credentials.again().await?,
            None if has_expired(&self.call.identity, &self.source.entities) => Identity::Anonymous,
            None => self.call.identity.clone(),
        };
        // A caller who was signed in and is anonymous now has lost their credential. The stream ends, even if anonymous
        // callers may read.
        if self.call.identity.principal().is_some() && now.principal().is_none() {
            return Ok(None);
        }
        let call = Call { identity: now, ..self.call.clone() };
        let asked = async {
            let reach = self.source.table().reach(&call, Action::Read).await?;
            // The stream ends, and the client opens another one with its present rights.
            if field_rights(&self.source.entities, &call).await? != self.rights {
                return Err(Error::NotFound);
            }
            Ok((reach, self.source.wanted(&call, self.related.as_deref()).await?))
        };
        match asked.await {
            Ok(found) => Ok(Some(found)),
            Err(Error::Memberships(_)) => Err(Unavailable),
            Err(_) => Ok(None),
        }
    }

    async fn recheck(self) -> Result<Verdict, Unavailable> {
        let Some((reach, wanted)) = self.again().await? else { return Ok(Verdict::End) };
        let seat = self.source.seat_again(reach, wanted);
        Ok(Verdict::Continue(Arc::new(move |event| seat.visibility(event))))
    }

    /// Which of some logged events the caller may see: by the record at that time and, if it still exists, by the
    /// record now.
    async fn admit(self, events: Vec<Arc<EntityEvent>>) -> Result<Option<Admitted>, Unavailable> {
        let Some((reach, wanted)) = self.again().await? else { return Ok(None) };
        let ids: Vec<Option<String>> = events.iter().map(|event| id_of(event.record())).collect();
        let visibilities = match reach.conditions() {
            _ if reach == Reach::ALL => Ok(Some(vec![Visibility::Shown; events.len()])),
            [] => self.admit_within(reach, &events, &ids).await.map(Some),
            _ => self.admit_under_rules(reach, wanted.clone(), &events, &ids).await,
        };
        let Some(visibilities) = visibilities.map_err(|error| not_compared(&error))? else {
            return Ok(self.too_slow("the read rule"));
        };
        Ok(Some(match wanted {
            None => Admitted::Now(visibilities),
            Some(wanted) => Admitted::Later(Box::pin(self.matching(wanted, events, visibilities))),
        }))
    }

    /// Applies a filter over relations to each record as it was logged, with related records as they are now.
    async fn matching(
        self,
        wanted: Wanted,
        events: Vec<Arc<EntityEvent>>,
        mut visibilities: Vec<Visibility>,
    ) -> Result<Option<Vec<Visibility>>, Unavailable> {
        let shown: Vec<usize> = (0..events.len()).filter(|at| visibilities[*at] == Visibility::Shown).collect();
        let records: Vec<&str> =
            shown.iter().map(|at| std::str::from_utf8(events[*at].record()).unwrap_or_default()).collect();
        let matching = self.source.table().matching(&self.call, wanted.bound(), &records).await;
        let Some(matching) = matching.map_err(|error| not_compared(&error))? else {
            return Ok(self.too_slow("its filter"));
        };
        for (at, matches) in shown.into_iter().zip(matching) {
            visibilities[at] = Visibility::from(matches);
        }
        Ok(Some(visibilities))
    }

    /// Ends the stream.
    fn too_slow<T>(&self, condition: &str) -> Option<T> {
        let table = self.source.table().plan.table();
        tracing::warn!(table, "stream ended: {condition} takes longer for one event than a list may take");
        None
    }

    async fn admit_within(
        &self,
        reach: Reach,
        events: &[Arc<EntityEvent>],
        ids: &[Option<String>],
    ) -> Result<Vec<Visibility>, Error> {
        let unreachable = self.source.table().out_of_reach(&self.call, &reach, ids).await?;
        let may = |(event, id): (&Arc<EntityEvent>, &Option<String>)| {
            let gone = event.kind() == EventKind::Deleted;
            let may = reach.covers(event.owner(), event.tenant_id())
                && (gone || id.as_ref().is_some_and(|id| !unreachable.contains(id)));
            Visibility::from(may)
        };
        Ok(events.iter().zip(ids).map(may).collect())
    }

    /// A record must be within reach as it is now and as it was logged, with related records as they are now. If the rule reads
    /// hidden fields, which the log lacks, the record must be unchanged since. If it was deleted or left the reach, the event goes
    /// to callers who could read it before: as the audience says or, without one, by the logged values.
    async fn admit_under_rules(
        &self,
        reach: Reach,
        wanted: Option<Wanted>,
        events: &[Arc<EntityEvent>],
        ids: &[Option<String>],
    ) -> Result<Option<Vec<Visibility>>, Error> {
        let table = self.source.table();
        let now = table.prints(&self.call, &reach, ids).await?;
        // An id that clients choose may have been that of another record, whose events must not become readable with it.
        let is_logged = before::is_logged(table.plan) && !table.plan.client_ids;
        let mut changed: Vec<(usize, &str)> = Vec::new();
        let seat = self.source.seat_again(reach.clone(), wanted);
        let mut visibilities = Vec::with_capacity(events.len());
        let mut doubtful: Vec<(usize, &str)> = Vec::new();
        for (at, (event, id)) in events.iter().zip(ids).enumerate() {
            let current = id.as_ref().and_then(|id| now.get(id));
            let bounded = reach.bounds(event.owner(), event.tenant_id());
            let visibility = match (event.kind(), current) {
                _ if !bounded => Visibility::Hidden,
                (EventKind::Deleted, _) => Visibility::from(seat.may_see(event)),
                (EventKind::Created | EventKind::Updated, Some(current)) => {
                    let is_same = *current == print(event.record());
                    if !is_same && is_logged {
                        changed.push((at, std::str::from_utf8(event.record()).unwrap_or_default()));
                    }
                    Visibility::from(is_same)
                }
                (EventKind::Created | EventKind::Updated, None) => Visibility::Hidden,
            };
            let is_gone = event.kind() != EventKind::Created && current.is_none();
            if let (Visibility::Hidden, true, true, Some(before)) = (visibility, bounded, is_gone, event.before()) {
                doubtful.push((at, before));
            }
            visibilities.push(visibility);
        }
        let logged: Vec<&str> = changed.iter().map(|(_, record)| *record).collect();
        let mut readable = vec![true; logged.len()];
        for rule in reach.conditions() {
            let Some(holds) = table.matching(&self.call, rule, &logged).await? else { return Ok(None) };
            readable.iter_mut().zip(holds).for_each(|(readable, holds)| *readable &= holds);
        }
        for ((at, _), readable) in changed.into_iter().zip(readable) {
            visibilities[at] = Visibility::from(readable);
        }
        for (asked, could) in doubtful.iter().zip(table.could_read(&self.call, &reach, &doubtful).await?) {
            if could {
                let deleted = events[asked.0].kind() == EventKind::Deleted;
                visibilities[asked.0] = if deleted { Visibility::Shown } else { Visibility::Left };
            }
        }
        Ok(Some(visibilities))
    }
}

fn not_compared(error: &Error) -> Unavailable {
    tracing::debug!(%error, "logged events could not be compared with their records");
    Unavailable
}

fn id_of(record: &[u8]) -> Option<String> {
    #[derive(serde::Deserialize)]
    struct Record {
        id: String,
    }
    serde_json::from_slice::<Record>(record).ok().map(|record| record.id)
}

/// Whether a credential's own deadline has passed, for hosts that offer no way to ask again.
fn has_expired(identity: &Identity, entities: &Entities) -> bool {
    let deadline = identity.principal().and_then(|principal| match &principal.credential {
        Credential::Session { .. } => None,
        Credential::Jwt { expires_at } => Some(*expires_at),
        Credential::ApiToken { expires_at, .. } => *expires_at,
        Credential::Grant(grant) => Some(grant.expires_at),
    });
    deadline.is_some_and(|deadline| deadline <= entities.ambient().now())
}

/// The parameters of a stream that select its records.
struct Asked {
    filter: Option<Predicate>,
    /// A filter that the database evaluates, because the record itself is not enough.
    related: Option<Arc<Expression>>,
    /// Whether records carry their entity tags.
    tags: bool,
}

impl Asked {
    /// Reads `filter` and `etag`, and refuses parameters that are not known: one that is silently ignored could be a
    /// condition that its author believes in.
    fn read(query: &str, endpoint: &Endpoint, readable: &Readable) -> Result<Self, Problem> {
        let plan: &Plan = endpoint.table().plan;
        let mut known = vec!["slow", "subscriber_id", "filter", "etag", "tenant"];
        known.extend(endpoint.entities.log().map(|_| "since"));
        let (mut filter, mut related, mut tags) = (None, None, None);
        for (name, value) in form_urlencoded::parse(query.as_bytes()) {
            let is_repeated = match &*name {
                "filter" if value.is_empty() => false,
                "filter" => {
                    let is_repeated = filter.is_some() || related.is_some();
                    let refused = |error: String| Problem::bad_request(format!("filter: {error}"));
                    let expression = filter::syntax::parse(&value).map_err(|error| refused(error.to_string()))?;
                    let names = plan.columns.seen_by(readable);
                    if filter::typed::is_plain(&expression, names) {
                        filter = Some(filter::typed::resolve(&expression, names).map_err(refused)?);
                    } else {
                        related = Some(Arc::new(expression));
                    }
                    is_repeated
                }
                "etag" => tags.replace(operations::tags(&value).map_err(Problem::bad_request)?).is_some(),
                name if known.contains(&name) => false,
                name => {
                    let name: String = name.chars().take(64).collect();
                    let hint = nearest(&name, known).map(|meant| format!("; did you mean \"{meant}\"?"));
                    let detail = format!("there is no parameter \"{name}\"{}", hint.unwrap_or_default());
                    return Err(Problem::bad_request(detail));
                }
            };
            if is_repeated {
                return Err(Problem::bad_request(format!("the parameter \"{name}\" is given more than once")));
            }
        }
        Ok(Self { filter, related, tags: tags.unwrap_or_default() })
    }
}

/// The same call for the tenant that the parameter `tenant` names, for clients that cannot send headers.
fn in_named_tenant(call: Call, query: &str) -> Result<Call, Problem> {
    let mut named = form_urlencoded::parse(query.as_bytes()).filter(|(name, _)| name == "tenant");
    let Some((_, tenant)) = named.next().filter(|(_, tenant)| !tenant.is_empty()) else { return Ok(call) };
    let tenant = Named::parse(&tenant);
    if named.next().is_some() || (call.tenant != Named::default() && call.tenant != tenant) {
        return Err(Problem::bad_request("the parameter \"tenant\" and the tenant header name different tenants"));
    }
    Ok(Call { tenant, ..call })
}
