//! `GET /{table}/_events`: the writes that the caller could read, as they happen.
//!
//! The rule is the one of the list: [`Action::Read`] at the start, the reach that it gives as the stream's filter, and
//! both again at every heartbeat, from the credentials that the request presented. The streams themselves, their buffers
//! and seats are the event crate's.

use std::sync::Arc;

use axum::extract::{RawQuery, State};
use axum::response::{IntoResponse, Response};
use gatewright_base::{Credential, Identity, Presented, Unavailable, nearest};
use gatewright_events::sse::{Client, Condition, Params, Sight, Subscribe, Verdict};
use gatewright_events::{EntityEvent, EventKind};
use gatewright_http::{Caller, ClientAddr, Problem};
use http::{Extensions, HeaderMap};

use super::Endpoint;
use crate::access::{Action, Reach};
use crate::audience::{Audience, Place};
use crate::condition::Bound;
use crate::entities::Entities;
use crate::filter::{self, Predicate, Subject};
use crate::operations::{self, Call, Error, print};
use crate::plan::Plan;
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
    let reach = endpoint.operations.reach(&endpoint.plan, &call, Action::Read).await?;
    let Asked { filter, tags } = Asked::read(&query, &endpoint)?;
    let params = Params::read(Some(&query), &headers);
    let wanted = Wanted { entities: endpoint.entities.clone(), index: endpoint.plan.index };
    let request = Subscribe::new(endpoint.plan.table.clone(), call.identity.clone(), params, wanted.within(reach))
        .matching(filter.map(|filter| wanted.condition(filter)))
        .tagged(tags);
    let request = request.from_client(match client.ip() {
        None => Client::Unknown,
        Some(address) if address.is_loopback() => Client::Local,
        Some(_) => Client::Address(client.limit_key().into()),
    });
    let presented = extensions.get::<Presented>().cloned();
    let asker = Asker { wanted, call, presented };
    let request = match (&asker.call.identity, &asker.presented) {
        // Nobody in particular: nothing can end that would refuse them.
        (Identity::Anonymous, None) => request,
        _ => {
            let asker = asker.clone();
            request.rechecked(move || asker.clone().recheck())
        }
    };
    let request = request.admitted(move |events| asker.clone().admit(events));
    Ok(endpoint.entities.streams().respond(request)?.into_response())
}

/// The entity that a stream is about.
#[derive(Clone)]
struct Wanted {
    entities: Entities,
    index: usize,
}

impl Wanted {
    /// The events of records within `reach`. Under an access rule those whose audience the caller is in.
    fn within(&self, reach: Reach) -> impl Fn(&EntityEvent) -> Sight + Send + Sync + use<> + 'static {
        let followers = self.entities.followers().clone();
        let place = |bound: &Bound| followers.join(self.index, &bound.viewer);
        let places: Vec<Place> = reach.conditions().iter().map(place).collect();
        move |event| {
            if !reach.bounds(event.owner(), event.tenant_id()) {
                return Sight::Hidden;
            }
            if places.is_empty() {
                return Sight::Shown;
            }
            let carried = event.payload::<Audience>().cloned();
            let Some(audience) = carried.or_else(|| followers.remembered(event.id()?)) else { return Sight::Unknown };
            places.iter().map(|place| place.sight(&audience)).reduce(both).unwrap_or(Sight::Unknown)
        }
    }

    /// The condition that a record passes the filter. Equal filters make equal conditions.
    fn condition(&self, filter: Predicate) -> Condition {
        let (entities, index) = (self.entities.clone(), self.index);
        Condition::new(format!("{filter:?}"), move |event: &EntityEvent| {
            let columns = &entities.at(index).columns;
            let record = event.view(|record| Subject::read(columns, record));
            filter::matches::matches(&filter, columns, &record)
        })
    }
}

/// What somebody sees of an event to whom both apply.
fn both(one: Sight, other: Sight) -> Sight {
    match (one, other) {
        (Sight::Hidden, _) | (_, Sight::Hidden) => Sight::Hidden,
        (Sight::Unknown, _) | (_, Sight::Unknown) => Sight::Unknown,
        (Sight::Left, _) | (_, Sight::Left) => Sight::Left,
        (Sight::Shown, Sight::Shown) => Sight::Shown,
    }
}

/// A stream's caller, to be asked about again.
#[derive(Clone)]
struct Asker {
    wanted: Wanted,
    call: Call,
    presented: Option<Presented>,
}

impl Asker {
    /// How far the caller reaches now; `None` where they would be refused.
    async fn reach(&self) -> Result<Option<Reach>, Unavailable> {
        let Wanted { entities, index } = &self.wanted;
        let now = match &self.presented {
            Some(Presented(credentials)) => credentials.again().await?,
            None if has_expired(&self.call.identity, entities) => Identity::Anonymous,
            None => self.call.identity.clone(),
        };
        // Who came as somebody and is nobody now has lost what they came with, also where anybody may read.
        if self.call.identity.principal().is_some() && now.principal().is_none() {
            return Ok(None);
        }
        let call = Call { identity: now, ..self.call.clone() };
        match entities.operations().reach(entities.at(*index), &call, Action::Read).await {
            Ok(reach) => Ok(Some(reach)),
            Err(Error::Memberships(_)) => Err(Unavailable),
            Err(_) => Ok(None),
        }
    }

    async fn recheck(self) -> Result<Verdict, Unavailable> {
        Ok(match self.reach().await? {
            Some(reach) => Verdict::Continue(Arc::new(self.wanted.within(reach))),
            None => Verdict::End,
        })
    }

    /// Which of some logged events the caller may see: as the record was, and as it is now if it is still there.
    async fn admit(self, events: Vec<Arc<EntityEvent>>) -> Result<Option<Vec<Sight>>, Unavailable> {
        let Some(reach) = self.reach().await? else { return Ok(None) };
        if reach == Reach::ALL {
            return Ok(Some(vec![Sight::Shown; events.len()]));
        }
        let ids: Vec<Option<String>> = events.iter().map(|event| id_of(event.record())).collect();
        let admitted = match reach.conditions() {
            [] => self.admit_within(reach, &events, &ids).await,
            _ => self.admit_under_rules(reach, &events, &ids).await,
        };
        admitted.map(Some).map_err(|error| {
            tracing::debug!(%error, "logged events could not be compared with their records");
            Unavailable
        })
    }

    async fn admit_within(
        &self,
        reach: Reach,
        events: &[Arc<EntityEvent>],
        ids: &[Option<String>],
    ) -> Result<Vec<Sight>, Error> {
        let Wanted { entities, index } = &self.wanted;
        let unreachable = entities.operations().out_of_reach(entities.at(*index), &reach, ids).await?;
        let may = |(event, id): (&Arc<EntityEvent>, &Option<String>)| {
            let gone = event.kind() == EventKind::Deleted;
            let may = reach.covers(event.owner(), event.tenant_id())
                && (gone || id.as_ref().is_some_and(|id| !unreachable.contains(id)));
            Sight::from(may)
        };
        Ok(events.iter().zip(ids).map(may).collect())
    }

    /// A record must be within reach now, and still be as it was logged. What left the reach or was deleted is told to those who
    /// could read it before, as it was then and as related records are now, or as they were asked about at that time.
    async fn admit_under_rules(
        &self,
        reach: Reach,
        events: &[Arc<EntityEvent>],
        ids: &[Option<String>],
    ) -> Result<Vec<Sight>, Error> {
        let Wanted { entities, index } = &self.wanted;
        let (operations, plan) = (entities.operations(), entities.at(*index));
        let now = operations.prints(plan, &reach, ids).await?;
        let seen = self.wanted.within(reach.clone());
        let mut sights = Vec::with_capacity(events.len());
        let mut doubtful: Vec<(usize, &str)> = Vec::new();
        for (at, (event, id)) in events.iter().zip(ids).enumerate() {
            let current = id.as_ref().and_then(|id| now.get(id));
            let bounded = reach.bounds(event.owner(), event.tenant_id());
            let sight = match (event.kind(), current) {
                _ if !bounded => Sight::Hidden,
                (EventKind::Deleted, _) => Sight::from(seen(event) == Sight::Shown),
                (EventKind::Created | EventKind::Updated, Some(current)) => {
                    Sight::from(*current == print(event.record()))
                }
                (EventKind::Created | EventKind::Updated, None) => Sight::Hidden,
            };
            let is_gone = event.kind() != EventKind::Created && current.is_none();
            if let (Sight::Hidden, true, true, Some(before)) = (sight, bounded, is_gone, event.before()) {
                doubtful.push((at, before));
            }
            sights.push(sight);
        }
        for (asked, could) in doubtful.iter().zip(operations.could_read(plan, &reach, &doubtful).await?) {
            if could {
                let deleted = events[asked.0].kind() == EventKind::Deleted;
                sights[asked.0] = if deleted { Sight::Shown } else { Sight::Left };
            }
        }
        Ok(sights)
    }
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

/// What a client asks of its stream's records.
struct Asked {
    filter: Option<Predicate>,
    /// Whether records carry their entity tags.
    tags: bool,
}

impl Asked {
    /// Reads `filter` and `etag`, and refuses parameters that are not known: one that is silently ignored could be a
    /// condition that its author believes in.
    fn read(query: &str, endpoint: &Endpoint) -> Result<Self, Problem> {
        let plan: &Plan = &endpoint.plan;
        let mut known = vec!["slow", "subscriber_id", "filter", "etag", "tenant"];
        known.extend(endpoint.entities.log().map(|_| "since"));
        let (mut filter, mut tags) = (None, None);
        for (name, value) in form_urlencoded::parse(query.as_bytes()) {
            let is_repeated = match &*name {
                "filter" if value.is_empty() => false,
                "filter" => {
                    let read = filter::typed::read(&value, &plan.columns).map_err(Problem::bad_request)?;
                    filter.replace(read).is_some()
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
        Ok(Self { filter, tags: tags.unwrap_or_default() })
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
