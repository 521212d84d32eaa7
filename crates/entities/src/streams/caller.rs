//! The caller of a stream: whether they may still read its entities, and which logged events they may see.

use std::sync::Arc;

use gatewright_base::{Credential, Identity, Presented, Unavailable};
use gatewright_events::sse::{Admitted, Verdict, Visibility};
use gatewright_events::{EntityEvent, EventKind};

use super::seat::{Seats, Source};
use crate::access::{Action, Reach};
use crate::audience::Wanted;
use crate::before;
use crate::call::Call;
use crate::context::admission::field_rights;
use crate::context::entities::Entities;
use crate::error::Error;
use crate::filter::syntax::Expression;
use crate::operations::print;
use crate::readable::FieldRights;

/// A stream's caller, kept to check their access again.
#[derive(Clone)]
pub(super) struct StreamCaller(Arc<Kept>);

struct Kept {
    entities: Entities,
    call: Call,
    /// The fields that the caller could read when the stream began: its records and its filters depend on them.
    rights: FieldRights,
    followed: Vec<Followed>,
    presented: Option<Presented>,
}

/// An entity of a stream.
pub(super) struct Followed {
    pub(super) source: Source,
    /// The filter, if it follows relations.
    pub(super) related: Option<Arc<Expression>>,
}

/// How far the caller reaches, and their filter.
type Right = (Reach, Option<Wanted>);

impl StreamCaller {
    pub(super) fn new(
        entities: Entities,
        call: Call,
        rights: FieldRights,
        followed: Vec<Followed>,
        presented: Option<Presented>,
    ) -> Self {
        Self(Arc::new(Kept { entities, call, rights, followed, presented }))
    }

    /// Who it is, and whether with a credential.
    pub(super) fn identity(&self) -> (&Identity, bool) {
        (&self.0.call.identity, self.0.presented.is_some())
    }

    /// How far the caller reaches now in each entity, and their filters; `None` if they would be refused in one of them.
    async fn again(&self) -> Result<Option<Vec<Right>>, Unavailable> {
        let Kept { entities, call, rights, followed, presented } = &*self.0;
        let now = match presented {
            Some(Presented(credentials)) => credentials.again().await?,
            None if has_expired(&call.identity, entities) => Identity::Anonymous,
            None => call.identity.clone(),
        };
        // A caller who was signed in and is anonymous now has lost their credential. The stream ends, even if anonymous
        // callers may read.
        if call.identity.principal().is_some() && now.principal().is_none() {
            return Ok(None);
        }
        let call = Call { identity: now, ..call.clone() };
        let asked = async {
            let mut found = Vec::with_capacity(followed.len());
            for Followed { source, related } in followed {
                let reach = source.table().reach(&call, Action::Read).await?;
                found.push((reach, source.wanted(&call, related.as_deref()).await?));
            }
            // The stream ends, and the client opens another one with its present rights.
            if field_rights(entities, &call).await? != *rights {
                return Err(Error::NotFound);
            }
            Ok(found)
        };
        match asked.await {
            Ok(found) => Ok(Some(found)),
            Err(Error::Memberships(_)) => Err(Unavailable),
            Err(_) => Ok(None),
        }
    }

    pub(super) async fn recheck(self) -> Result<Verdict, Unavailable> {
        let Some(rights) = self.again().await? else { return Ok(Verdict::End) };
        let mut seats = Seats::default();
        for (Followed { source, .. }, (reach, wanted)) in self.0.followed.iter().zip(rights) {
            seats.add(source.plan(), source.seat_again(reach, wanted));
        }
        Ok(Verdict::Continue(Arc::new(move |event| seats.visibility(event))))
    }

    /// Which of some logged events the caller may see: by the record at that time and, if it still exists, by the
    /// record now.
    pub(super) async fn admit(self, events: Vec<Arc<EntityEvent>>) -> Result<Option<Admitted>, Unavailable> {
        let Some(rights) = self.again().await? else { return Ok(None) };
        let mut all = vec![Visibility::Hidden; events.len()];
        let mut later = Vec::new();
        for (number, (Followed { source, .. }, (reach, wanted))) in self.0.followed.iter().zip(rights).enumerate() {
            let table = source.plan().table();
            let places: Vec<usize> = (0..events.len()).filter(|at| events[*at].table() == table).collect();
            if places.is_empty() {
                continue;
            }
            let of_table: Vec<Arc<EntityEvent>> = places.iter().map(|at| events[*at].clone()).collect();
            let Some(visibilities) = self.admit_to(source, reach, wanted.clone(), &of_table).await? else {
                return Ok(None);
            };
            places.iter().zip(visibilities).for_each(|(at, visibility)| all[*at] = visibility);
            later.extend(wanted.map(|wanted| (number, places, wanted)));
        }
        if later.is_empty() {
            return Ok(Some(Admitted::Now(all)));
        }
        Ok(Some(Admitted::Later(Box::pin(async move {
            for (number, places, wanted) in later {
                let source = &self.0.followed[number].source;
                if !self.matching(source, (places, &wanted), &events, &mut all).await? {
                    return Ok(None);
                }
            }
            Ok(Some(all))
        }))))
    }

    async fn admit_to(
        &self,
        source: &Source,
        reach: Reach,
        wanted: Option<Wanted>,
        events: &[Arc<EntityEvent>],
    ) -> Result<Option<Vec<Visibility>>, Unavailable> {
        let ids: Vec<Option<String>> = events.iter().map(|event| id_of(event.record())).collect();
        let visibilities = match reach.conditions() {
            _ if reach == Reach::ALL => Ok(Some(vec![Visibility::Shown; events.len()])),
            [] => self.admit_within(source, reach, events, &ids).await.map(Some),
            _ => self.admit_under_rules(source, reach, wanted, events, &ids).await,
        };
        let visibilities = visibilities.map_err(|error| not_compared(&error))?;
        if visibilities.is_none() {
            too_slow(source, "the read rule");
        }
        Ok(visibilities)
    }

    /// Applies a filter over relations to each record as it was logged, with related records as they are now.
    /// `false` if the stream ends.
    async fn matching(
        &self,
        source: &Source,
        (places, wanted): (Vec<usize>, &Wanted),
        events: &[Arc<EntityEvent>],
        visibilities: &mut [Visibility],
    ) -> Result<bool, Unavailable> {
        let shown: Vec<usize> = places.into_iter().filter(|at| visibilities[*at] == Visibility::Shown).collect();
        let records: Vec<&str> =
            shown.iter().map(|at| std::str::from_utf8(events[*at].record()).unwrap_or_default()).collect();
        let matching = source.table().matching(&self.0.call, wanted.bound(), &records).await;
        let Some(matching) = matching.map_err(|error| not_compared(&error))? else {
            too_slow(source, "its filter");
            return Ok(false);
        };
        for (at, matches) in shown.into_iter().zip(matching) {
            visibilities[at] = Visibility::from(matches);
        }
        Ok(true)
    }

    async fn admit_within(
        &self,
        source: &Source,
        reach: Reach,
        events: &[Arc<EntityEvent>],
        ids: &[Option<String>],
    ) -> Result<Vec<Visibility>, Error> {
        let unreachable = source.table().out_of_reach(&self.0.call, &reach, ids).await?;
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
        source: &Source,
        reach: Reach,
        wanted: Option<Wanted>,
        events: &[Arc<EntityEvent>],
        ids: &[Option<String>],
    ) -> Result<Option<Vec<Visibility>>, Error> {
        let table = source.table();
        let now = table.prints(&self.0.call, &reach, ids).await?;
        // An id that clients choose may have been that of another record, whose events must not become readable with it.
        let is_logged = before::is_logged(table.plan) && !table.plan.client_ids;
        let mut changed: Vec<(usize, &str)> = Vec::new();
        let seat = source.seat_again(reach.clone(), wanted);
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
            let Some(holds) = table.matching(&self.0.call, rule, &logged).await? else { return Ok(None) };
            readable.iter_mut().zip(holds).for_each(|(readable, holds)| *readable &= holds);
        }
        for ((at, _), readable) in changed.into_iter().zip(readable) {
            visibilities[at] = Visibility::from(readable);
        }
        for (asked, could) in doubtful.iter().zip(table.could_read(&self.0.call, &reach, &doubtful).await?) {
            if could {
                let deleted = events[asked.0].kind() == EventKind::Deleted;
                visibilities[asked.0] = if deleted { Visibility::Shown } else { Visibility::Left };
            }
        }
        Ok(Some(visibilities))
    }
}

fn too_slow(source: &Source, condition: &str) {
    let table = source.plan().table();
    tracing::warn!(table, "stream ended: {condition} takes longer for one event than a list may take");
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
