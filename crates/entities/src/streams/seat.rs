//! What a stream sees of the events of one entity.

use std::sync::Arc;

use gatewright_events::EntityEvent;
use gatewright_events::sse::{Condition, RecordView, Visibility};

use crate::access::Reach;
use crate::audience::{Audience, Followers, Holder, Place, TooManyFilters, Wanted};
use crate::call::Call;
use crate::condition::Viewer;
use crate::context::entities::Entities;
use crate::context::table::Table;
use crate::encode::only;
use crate::error::Error;
use crate::filter::syntax::Expression;
use crate::filter::{self, Predicate, Subject};
use crate::plan::Plan;
use crate::readable::Readable;

/// What a stream shows of records to a caller who may read these fields.
pub(super) fn view(readable: &Readable) -> Option<RecordView> {
    if readable.is_all() {
        return None;
    }
    let readable = readable.clone();
    Some(RecordView::new(format!("{readable:?}"), move |record| only(record, |key| readable.has_key(key))))
}

/// The entity that a stream is about.
#[derive(Clone)]
pub(super) struct Source {
    pub(super) entities: Entities,
    pub(super) index: usize,
    /// Whose share its filters count against.
    pub(super) holder: Holder,
}

/// What a stream sees, by the tables of its entities.
#[derive(Default)]
pub(super) struct Seats(Vec<(Arc<str>, Seat)>);

impl Seats {
    pub(super) fn add(&mut self, plan: &Plan, seat: Seat) {
        self.0.push((plan.table.clone(), seat));
    }

    pub(super) fn visibility(&self, event: &EntityEvent) -> Visibility {
        let seat = self.0.iter().find(|(table, _)| **table == *event.table());
        seat.map_or(Visibility::Hidden, |(_, seat)| seat.visibility(event))
    }
}

/// How far a stream's caller reaches, and their place among the followers.
pub(super) struct Seat {
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
    pub(super) fn may_see(&self, event: &EntityEvent) -> bool {
        let Some(place) = &self.place else { return true };
        self.audience(event).is_some_and(|audience| place.may_see(&audience))
    }

    fn audience(&self, event: &EntityEvent) -> Option<Audience> {
        event.payload::<Audience>().cloned().or_else(|| self.followers.remembered(event.id()?))
    }
}

impl Source {
    pub(super) fn table(&self) -> Table<'_> {
        self.entities.table_at(self.index)
    }

    pub(super) fn plan(&self) -> &Plan {
        self.entities.at(self.index)
    }

    /// The filter over relations, under the caller's own rights.
    pub(super) async fn wanted(&self, call: &Call, related: Option<&Expression>) -> Result<Option<Wanted>, Error> {
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
    pub(super) fn seat(&self, reach: Reach, wanted: Option<Wanted>) -> Result<Seat, TooManyFilters> {
        let followers = self.entities.followers().clone();
        let place = viewer(&reach, wanted.as_ref())
            .map(|viewer| followers.join(self.index, &viewer, &self.holder, wanted))
            .transpose()?;
        Ok(Seat { followers, reach, place })
    }

    /// The seat of a stream that has one already.
    pub(super) fn seat_again(&self, reach: Reach, wanted: Option<Wanted>) -> Seat {
        let followers = self.entities.followers().clone();
        let place =
            viewer(&reach, wanted.as_ref()).map(|viewer| followers.rejoin(self.index, &viewer, &self.holder, wanted));
        Seat { followers, reach, place }
    }

    /// The condition that a record passes the filter. Equal filters produce equal conditions.
    pub(super) fn condition(&self, filter: Predicate) -> Condition {
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
