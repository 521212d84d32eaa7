use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;

use gatewright_base::Lease;
use jiff::Timestamp;
use serde::Deserialize;
use serde_json::{Map, Number, Value};

use super::facts::with;
use super::payloads::Staged;

/// One delivery of an outbox row, as its handler gets it.
#[derive(Clone)]
pub struct Event {
    pub(super) id: Arc<str>,
    pub(super) kind: Arc<str>,
    pub(super) payload: Arc<str>,
    pub(super) created_at: Timestamp,
    pub(super) attempt: u32,
    pub(super) previous: Option<Arc<str>>,
    pub(super) chain: u8,
    /// The memory of the payload.
    pub(super) _lease: Option<Arc<Lease>>,
}

/// The payload is not a JSON object. This is only possible for rows that another program has written.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the payload is not a JSON object")]
pub struct MalformedPayload;

impl Event {
    /// The event of a row that was read, for an attempt.
    pub(super) fn of(row: Staged, kind: Arc<str>, attempt: u32) -> Self {
        let Staged { id, created_at, payload, previous, chain, lease } = row;
        Self { id: id.into(), kind, payload, created_at, attempt, previous, chain, _lease: Some(lease) }
    }

    /// The row's id, the same for every consumer and every attempt. Delivery is at least once: a consumer that must not
    /// act twice stores the ids.
    pub fn id(&self) -> &str {
        &self.id
    }

    /// The event type: `entity.created`, or a type of the program's own.
    pub fn event_type(&self) -> &str {
        &self.kind
    }

    /// When it was staged.
    pub fn created_at(&self) -> Timestamp {
        self.created_at
    }

    /// Which attempt this is, from 1.
    pub fn attempt(&self) -> u32 {
        self.attempt
    }

    /// The payload as JSON text, as it was staged.
    pub fn json(&self) -> &str {
        &self.payload
    }

    /// The earlier values of the fields that an update has changed, as JSON text: an object by the keys of the wire. Absent unless a
    /// consumer wanted them when the write was made ([`OutboxOptions::previous`](super::OutboxOptions::previous)).
    pub fn previous(&self) -> Option<&str> {
        self.previous.as_deref()
    }

    /// The payload as JSON text, with the earlier values as `previous`, if there are some.
    pub fn json_with_previous(&self) -> Cow<'_, str> {
        let with = self.previous().and_then(|previous| with(&self.payload, "previous", previous));
        with.map_or(Cow::Borrowed(&self.payload), Cow::Owned)
    }

    /// How many events led to this one: 0 for that of a request.
    pub fn chain(&self) -> u8 {
        self.chain
    }

    /// The payload as a map, its numbers as `f64`.
    pub fn payload(&self) -> Result<Map<String, Value>, MalformedPayload> {
        let map: Map<String, Value> = serde_json::from_str(&self.payload).map_err(|_| MalformedPayload)?;
        Ok(map.into_iter().map(|(key, value)| (key, floats(value))).collect())
    }
}

/// The entity that a payload is about, if it is about one.
pub(super) fn entity_of(payload: &str) -> Result<Option<Cow<'_, str>>, MalformedPayload> {
    #[derive(Deserialize)]
    struct OfEntity<'a> {
        #[serde(borrow, default)]
        entity: Option<Cow<'a, str>>,
    }
    // A JSON array could be parsed as this structure.
    if !payload.trim_start().starts_with('{') {
        return Err(MalformedPayload);
    }
    let of: OfEntity<'_> = serde_json::from_str(payload).map_err(|_| MalformedPayload)?;
    Ok(of.entity)
}

fn floats(value: Value) -> Value {
    match value {
        Value::Number(number) => number.as_f64().and_then(Number::from_f64).map_or(Value::Null, Value::Number),
        Value::Array(items) => Value::Array(items.into_iter().map(floats).collect()),
        Value::Object(map) => Value::Object(map.into_iter().map(|(key, value)| (key, floats(value))).collect()),
        other => other,
    }
}

impl fmt::Debug for Event {
    /// Without the payload, because users' data must not be logged.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Event")
            .field("id", &self.id)
            .field("type", &self.kind)
            .field("attempt", &self.attempt)
            .field("payload_bytes", &self.payload.len())
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(payload: &str) -> Event {
        let created_at = Timestamp::UNIX_EPOCH;
        let (id, kind, payload) = ("1".into(), "a".into(), payload.into());
        Event { id, kind, payload, created_at, attempt: 1, previous: None, chain: 0, _lease: None }
    }

    #[test]
    fn numbers_arrive_as_floats_at_every_depth() {
        let map = event(r#"{"a":1,"b":[2,{"c":-3}],"d":"4","e":18446744073709551615,"f":null}"#).payload().unwrap();
        assert_eq!(map["b"], serde_json::json!([2.0, { "c": -3.0 }]));
        assert_eq!((&map["d"], &map["f"]), (&Value::from("4"), &Value::Null));
        assert_eq!(map["e"].as_f64(), Some(18_446_744_073_709_551_615.0));
        assert!(map["a"].is_f64() && map["b"][1]["c"].is_f64());
    }

    #[test]
    fn a_payload_other_than_an_object_is_refused() {
        for payload in ["", "[]", "1", "null", "{", "{} {}"] {
            assert_eq!(event(payload).payload(), Err(MalformedPayload), "{payload}");
        }
    }

    #[test]
    fn debug_does_not_show_the_payload() {
        assert!(!format!("{:?}", event(r#"{"a":"canary-17"}"#)).contains("canary"));
    }
}
