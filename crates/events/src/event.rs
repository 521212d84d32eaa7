use std::any::Any;
use std::fmt;
use std::sync::{Arc, OnceLock};

use bytes::Bytes;
use gatewright_base::JsonCase;
use gatewright_http::entity_tag;

use crate::Cursor;
use crate::log::generation::Generation;
use crate::log::witness::Witness;

/// The kind of a write.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum EventKind {
    /// A create was committed, also one in a batch.
    Created,
    /// An update was committed, also one in a batch.
    Updated,
    /// A delete was committed, also one in a batch or by cascade.
    Deleted,
}

impl EventKind {
    /// The name on the wire: `entity.created`, `entity.updated` or `entity.deleted`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Created => "entity.created",
            Self::Updated => "entity.updated",
            Self::Deleted => "entity.deleted",
        }
    }

    /// The kind with that wire name.
    pub fn parse(name: &str) -> Option<Self> {
        [Self::Created, Self::Updated, Self::Deleted].into_iter().find(|kind| kind.as_str() == name)
    }
}

impl fmt::Display for EventKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// One committed write to an entity.
///
/// The record is the JSON object of the writer's answer, byte for byte. In addition to what a client may see, an event
/// has data for routing: the record's owner, whether another replica sent it, and values that the writer attached for
/// filters. These are never written to a stream.
#[derive(Clone)]
pub struct EntityEvent {
    kind: EventKind,
    entity: Arc<str>,
    table: Arc<str>,
    record: Bytes,
    tenant_id: Option<Arc<str>>,
    owner: Option<Arc<str>>,
    remote: bool,
    payload: Option<Arc<dyn Any + Send + Sync>>,
    view: OnceLock<Arc<dyn Any + Send + Sync>>,
    before: Option<Arc<str>>,
    generation: Option<Arc<Generation>>,
    place: Option<Place>,
}

/// Where an event is in the log.
#[derive(Debug, Clone)]
struct Place {
    id: Arc<str>,
    position: i64,
    /// All events up to here were published, with this event.
    passed: i64,
    /// An event that the log has, for a client that has everything up to there and this event.
    witness: Option<Witness>,
}

impl EntityEvent {
    /// An event of this process. `record` is one JSON object in wire form, in UTF-8 and without line breaks (JSON
    /// escapes those inside strings); a deleted record is given as it last was.
    pub fn new(
        kind: EventKind,
        entity: impl Into<Arc<str>>,
        table: impl Into<Arc<str>>,
        record: impl Into<Bytes>,
    ) -> Self {
        let record = record.into();
        debug_assert!(record.starts_with(b"{") && record.ends_with(b"}"), "a record is a JSON object");
        debug_assert!(!record.contains(&b'\n') && !record.contains(&b'\r'), "a record is one line");
        Self {
            kind,
            entity: entity.into(),
            table: table.into(),
            record,
            tenant_id: None,
            owner: None,
            remote: false,
            payload: None,
            view: OnceLock::new(),
            before: None,
            generation: None,
            place: None,
        }
    }

    /// Sets the tenant, for multi-tenant entities. The tenant is part of the event on the wire.
    pub fn with_tenant(mut self, tenant_id: impl Into<Arc<str>>) -> Self {
        self.tenant_id = Some(tenant_id.into());
        self
    }

    /// Sets the record's owner, for filters. It is sent to other replicas and never to clients.
    pub fn with_owner(mut self, owner: impl Into<Arc<str>>) -> Self {
        self.owner = Some(owner.into());
        self
    }

    /// Attaches a value for filters of this process. It is not sent to other replicas.
    pub fn with_payload<T: Any + Send + Sync>(mut self, payload: Arc<T>) -> Self {
        self.payload = Some(payload);
        self
    }

    /// Attaches the values that decided who could read the record before the write, in the writer's own format. They
    /// are stored in the log to decide what a stream shows, and are never shown.
    pub fn with_before(mut self, before: impl Into<Arc<str>>) -> Self {
        self.before = Some(before.into());
        self
    }

    /// The value of [`EntityEvent::with_before`]. Carriers do not send it; the log contains it.
    pub fn before(&self) -> Option<&str> {
        self.before.as_deref()
    }

    /// The event for callers who could read the record before but no longer can.
    pub(crate) fn left(&self) -> Self {
        #[derive(serde::Deserialize, serde::Serialize)]
        struct Named {
            id: serde_json::Value,
        }
        let named = serde_json::from_slice::<Named>(&self.record).and_then(|named| serde_json::to_vec(&named));
        Self {
            kind: EventKind::Deleted,
            record: named.unwrap_or_else(|_| b"{}".to_vec()).into(),
            payload: None,
            view: OnceLock::new(),
            before: None,
            ..self.clone()
        }
    }

    /// The same event with another record, for a stream that shows less of it.
    pub(crate) fn showing(&self, record: Vec<u8>) -> Self {
        Self { record: record.into(), payload: None, view: OnceLock::new(), before: None, ..self.clone() }
    }

    /// Names the event and its position in the log.
    pub(crate) fn with_place(mut self, id: impl Into<Arc<str>>, position: i64) -> Self {
        self.place = Some(Place { id: id.into(), position, passed: 0, witness: None });
        self
    }

    /// The generation of the log in which its write began.
    pub(crate) fn of_generation(self, generation: Arc<Generation>) -> Self {
        Self { generation: Some(generation), ..self }
    }

    /// Sets what a client has that has got this event: everything up to `passed`.
    pub(crate) fn set_passed(&mut self, passed: i64, witness: Option<Witness>, generation: &Arc<Generation>) {
        self.generation = Some(generation.clone());
        if let Some(place) = &mut self.place {
            (place.passed, place.witness) = (passed, witness);
        }
    }

    pub(crate) fn generation(&self) -> Option<&Arc<Generation>> {
        self.generation.as_ref()
    }

    /// The position of a client that has got this event.
    pub(crate) fn cursor(&self) -> Option<Cursor> {
        let (place, generation) = (self.place.as_ref()?, self.generation.as_ref()?);
        Some(Cursor { log: generation.name.clone(), position: place.passed, witness: place.witness })
    }

    /// The event's id, the same on every replica and for every consumer, if events are logged.
    pub fn id(&self) -> Option<&str> {
        self.place.as_ref().map(|place| &*place.id)
    }

    pub(crate) fn position(&self) -> Option<i64> {
        self.place.as_ref().map(|place| place.position)
    }

    /// The position up to which all events were published together with this one.
    pub(crate) fn passed(&self) -> i64 {
        self.place.as_ref().map_or(0, |place| place.passed)
    }

    /// What happened.
    pub fn kind(&self) -> EventKind {
        self.kind
    }

    /// The entity's name.
    pub fn entity(&self) -> &str {
        &self.entity
    }

    /// The table's name.
    pub fn table(&self) -> &str {
        &self.table
    }

    /// The record, a JSON object in wire form.
    pub fn record(&self) -> &Bytes {
        &self.record
    }

    /// The tenant, for multi-tenant entities.
    pub fn tenant_id(&self) -> Option<&str> {
        self.tenant_id.as_deref()
    }

    /// The record's owner, for entities with owners. For a record without an owner that was deleted with an account,
    /// that account.
    pub fn owner(&self) -> Option<&str> {
        self.owner.as_deref()
    }

    /// Whether another replica made this write. A handler that derives a new event must skip such an event, because the
    /// other replica's handler derives it as well.
    pub fn is_remote(&self) -> bool {
        self.remote
    }

    /// The value of [`EntityEvent::with_payload`], if it is a `T`. Absent on events of other replicas.
    pub fn payload<T: Any + Send + Sync>(&self) -> Option<&T> {
        self.payload.as_ref()?.downcast_ref()
    }

    /// The result of `make` for the record, computed once for all filters. All should use the same type; a filter with
    /// another type gets a separate result.
    pub fn view<T: Any + Send + Sync>(&self, make: impl Fn(&[u8]) -> T) -> Arc<T> {
        let shared = self.view.get_or_init(|| Arc::new(make(&self.record))).clone();
        shared.downcast().unwrap_or_else(|_| Arc::new(make(&self.record)))
    }

    /// The public data of this event: `{"entity","table","record","tenantId"?}`, with the only multi-word key in
    /// `case`. The owner, the payload and the remote flag are not included.
    pub fn data(&self, case: JsonCase) -> Bytes {
        let mut data = Vec::with_capacity(96 + self.record.len());
        self.write_data(&mut data, case, false);
        data.into()
    }

    /// [`EntityEvent::data`], at the end of `out`; with `tags`, the record carries its entity tag.
    pub(crate) fn write_data(&self, out: &mut Vec<u8>, case: JsonCase, tags: bool) {
        out.extend_from_slice(b"{\"entity\":");
        write_string(out, &self.entity);
        out.extend_from_slice(b",\"table\":");
        write_string(out, &self.table);
        out.extend_from_slice(b",\"record\":");
        out.extend_from_slice(&self.record);
        // If only the id of a record is shown, its tag is not shown either.
        if tags && self.record.contains(&b',') {
            entity_tag::append(&entity_tag::of(&self.record), out);
        }
        if let Some(tenant_id) = &self.tenant_id {
            out.extend_from_slice(match case {
                JsonCase::Camel => b",\"tenantId\":",
                JsonCase::Snake => b",\"tenant_id\":",
            });
            write_string(out, tenant_id);
        }
        out.push(b'}');
    }

    pub(crate) fn shared_table(&self) -> &Arc<str> {
        &self.table
    }

    pub(crate) fn into_remote(mut self) -> Self {
        self.remote = true;
        self.payload = None;
        self
    }
}

fn write_string(out: &mut Vec<u8>, text: &str) {
    serde_json::to_writer(out, text).expect("writing text to memory does not fail");
}

impl fmt::Debug for EntityEvent {
    /// Without the record, because users' data must not be logged.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EntityEvent")
            .field("kind", &self.kind)
            .field("table", &self.table)
            .field("remote", &self.remote)
            .field("record_bytes", &self.record.len())
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kind_is_parsed_only_from_its_own_name() {
        for kind in [EventKind::Created, EventKind::Updated, EventKind::Deleted] {
            assert_eq!(EventKind::parse(kind.as_str()), Some(kind));
        }
        for name in ["", "entity.", "created", "entity.created ", "Entity.Created"] {
            assert_eq!(EventKind::parse(name), None, "{name}");
        }
    }

    #[test]
    fn a_payload_is_given_back_as_the_type_that_was_put_in() {
        let event = EntityEvent::new(EventKind::Created, "posts", "posts", "{}").with_payload(Arc::new(7_u32));
        assert_eq!(event.payload::<u32>(), Some(&7));
        assert_eq!(event.payload::<u64>(), None);
        assert!(event.into_remote().payload::<u32>().is_none());
    }

    #[test]
    fn the_data_is_one_object_in_the_configured_case() {
        let event = EntityEvent::new(EventKind::Created, "posts", "blog_posts", r#"{"a":1}"#);
        assert_eq!(event.data(JsonCase::Camel), r#"{"entity":"posts","table":"blog_posts","record":{"a":1}}"#);
        let event = event.with_tenant("t\n\"1\"").with_owner("canary");
        for (case, key) in [(JsonCase::Camel, "tenantId"), (JsonCase::Snake, "tenant_id")] {
            let expected =
                format!(r#"{{"entity":"posts","table":"blog_posts","record":{{"a":1}},"{key}":"t\n\"1\""}}"#);
            assert_eq!(event.data(case), expected);
        }
    }

    #[test]
    fn the_event_of_a_record_that_left_contains_only_its_id() {
        let record = r#"{"id":"7","title":"canary","owner":"canary"}"#;
        let event =
            EntityEvent::new(EventKind::Updated, "posts", "posts", record).with_before("canary").with_place("e", 3);
        let left = event.left();
        assert_eq!((left.kind(), &**left.record()), (EventKind::Deleted, &br#"{"id":"7"}"#[..]));
        assert_eq!((left.id(), left.position(), left.before()), (Some("e"), Some(3), None));
    }

    #[test]
    fn debug_does_not_show_the_record() {
        let event = EntityEvent::new(EventKind::Created, "posts", "posts", r#"{"a":"canary-91"}"#).with_owner("canary");
        assert!(!format!("{event:?}").contains("canary"));
    }
}
