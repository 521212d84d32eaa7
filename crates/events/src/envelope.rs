use std::borrow::Cow;

use bytes::Bytes;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::{EntityEvent, EventKind};

/// An event in the form that is sent between replicas: one JSON object with what a stream shows, and also the owner,
/// which the receiver's filters need.
///
/// The record is copied byte for byte, so that it is neither parsed into a tree nor reordered.
#[derive(Debug)]
pub(crate) struct Envelope {
    /// The bus that published the event.
    pub(crate) origin: String,
    /// Counts the events that this bus sent.
    pub(crate) number: u64,
    /// The name of the log to which the event's position belongs. Servers before 0.11 do not send it.
    pub(crate) log: Option<String>,
    pub(crate) event: EntityEvent,
}

/// A fan-out message that is not an event of this version.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Malformed {
    /// It is not JSON, or does not have the shape of an event.
    #[error("not an event: {0}")]
    Shape(#[from] serde_json::Error),
    /// Its version is unknown to this program.
    #[error("version {0} of the event envelope is unknown here")]
    Version(u32),
    /// The name of the bus that sent it is too long.
    #[error("the sender's name is too long")]
    Origin,
    /// Its kind is unknown.
    #[error("not a kind of event")]
    Kind,
    /// Its record is not an object.
    #[error("the record is not an object")]
    Record,
}

/// The version written, and the only one read.
const VERSION: u32 = 1;
/// The longest name of a bus, in bytes. They are UUIDs.
const LONGEST_ORIGIN: usize = 64;

/// Everything except the record, which is copied unchanged.
#[derive(Serialize)]
struct Head<'a> {
    v: u32,
    origin: &'a str,
    number: u64,
    #[serde(rename = "type")]
    kind: &'a str,
    entity: &'a str,
    table: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    tenant: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    owner: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    id: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    position: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    log: Option<&'a str>,
}

#[derive(Deserialize)]
struct Wire<'a> {
    v: u32,
    origin: String,
    number: u64,
    #[serde(borrow, rename = "type")]
    kind: Cow<'a, str>,
    entity: String,
    table: String,
    #[serde(default)]
    tenant: Option<String>,
    #[serde(default)]
    owner: Option<String>,
    #[serde(default)]
    id: Option<String>,
    #[serde(default)]
    position: Option<i64>,
    #[serde(default)]
    log: Option<String>,
    #[serde(borrow)]
    record: &'a RawValue,
}

impl Envelope {
    /// The message for `event`, the `number`th that the bus named `origin` sends.
    pub(crate) fn encode(origin: &str, number: u64, event: &EntityEvent) -> Bytes {
        let head = Head {
            v: VERSION,
            origin,
            number,
            kind: event.kind().as_str(),
            entity: event.entity(),
            table: event.table(),
            tenant: event.tenant_id(),
            owner: event.owner(),
            id: event.id(),
            position: event.position(),
            log: event.position().and(event.generation()).map(|generation| &*generation.name),
        };
        let mut message = Vec::with_capacity(160 + event.record().len());
        serde_json::to_writer(&mut message, &head).expect("text is written to memory");
        message.pop();
        message.extend_from_slice(b",\"record\":");
        message.extend_from_slice(event.record());
        message.push(b'}');
        message.into()
    }

    /// Parses a message. The event is not flagged as remote yet; publishing it does that.
    pub(crate) fn decode(message: &[u8]) -> Result<Self, Malformed> {
        let wire: Wire<'_> = serde_json::from_slice(message)?;
        if wire.v != VERSION {
            return Err(Malformed::Version(wire.v));
        }
        if wire.origin.len() > LONGEST_ORIGIN {
            return Err(Malformed::Origin);
        }
        let kind = EventKind::parse(&wire.kind).ok_or(Malformed::Kind)?;
        let mut event = EntityEvent::new(kind, wire.entity, wire.table, one_line(wire.record)?);
        if let Some(tenant) = wire.tenant {
            event = event.with_tenant(tenant);
        }
        if let Some(owner) = wire.owner {
            event = event.with_owner(owner);
        }
        if let (Some(id), Some(position)) = (wire.id, wire.position) {
            event = event.with_place(id, position);
        }
        Ok(Self { origin: wire.origin, number: wire.number, log: wire.log, event })
    }
}

/// The record's own bytes. A record with line breaks is written again without them: an event must not contain any.
fn one_line(record: &RawValue) -> Result<Bytes, Malformed> {
    let text = record.get();
    if !text.starts_with('{') {
        return Err(Malformed::Record);
    }
    if text.contains(['\n', '\r']) {
        let value: serde_json::Value = serde_json::from_str(text)?;
        return Ok(serde_json::to_vec(&value)?.into());
    }
    Ok(Bytes::copy_from_slice(text.as_bytes()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event() -> EntityEvent {
        EntityEvent::new(EventKind::Updated, "posts", "blog_posts", r#"{"id":"1","n":1.50,"title":"a\nb \"c\""}"#)
            .with_tenant("acme \"x\"")
            .with_owner("u1")
    }

    #[test]
    fn an_event_can_be_read_back() {
        let back = Envelope::decode(&Envelope::encode("bus-1", 7, &event())).unwrap();
        assert_eq!((&*back.origin, back.number), ("bus-1", 7));
        assert_eq!(back.event.kind(), EventKind::Updated);
        assert_eq!(back.event.entity(), "posts");
        assert_eq!(back.event.table(), "blog_posts");
        assert_eq!(back.event.tenant_id(), Some("acme \"x\""));
        assert_eq!(back.event.owner(), Some("u1"));
        assert_eq!(back.event.record(), event().record());
    }

    #[test]
    fn an_invalid_message_is_an_error() {
        let good = String::from_utf8(Envelope::encode("bus-1", 7, &event()).to_vec()).unwrap();
        for bad in [
            String::new(),
            "null".into(),
            "[]".into(),
            "{}".into(),
            "\u{0}\u{1}".into(),
            good[..good.len() - 1].into(),
            format!("{good}{good}"),
            good.replace("\"v\":1", "\"v\":2"),
            good.replace("\"v\":1", "\"v\":-1"),
            good.replace("entity.updated", "entity.exploded"),
            good.replace("\"table\":\"blog_posts\"", "\"table\":7"),
            good.replace("\"origin\":\"bus-1\",", ""),
            good.replace("bus-1", &"b".repeat(65)),
            good.replace("\"number\":7", "\"number\":-7"),
            r#"{"v":1,"origin":"a","number":1,"type":"entity.created","entity":"e","table":"t","record":[1]}"#.into(),
            r#"{"v":1,"origin":"a","number":1,"type":"entity.created","entity":"e","table":"t","record":{"a":}}"#
                .into(),
            format!(r#"{{"v":1,"record":{}1{}}}"#, "[".repeat(100_000), "]".repeat(100_000)),
        ] {
            assert!(Envelope::decode(bad.as_bytes()).is_err(), "{bad:.200}");
        }
        assert!(Envelope::decode(&[0xff, 0xfe, b'{']).is_err());
    }

    #[test]
    fn every_cut_and_every_flipped_byte_is_read_without_a_panic() {
        let good = Envelope::encode("bus-1", 7, &event());
        for at in 0..good.len() {
            assert!(Envelope::decode(&good[..at]).is_err());
            let mut bent = good.to_vec();
            bent[at] ^= 0x15;
            let _ = Envelope::decode(&bent);
        }
    }

    #[test]
    fn a_record_over_several_lines_becomes_one() {
        let message = "{\"v\":1,\"origin\":\"a\",\"number\":1,\"type\":\"entity.created\",\"entity\":\"e\",\"table\":\"t\",\
                       \"record\":{\r\n  \"b\": 1,\n  \"a\": \"x\"\n}}";
        let event = Envelope::decode(message.as_bytes()).unwrap().event;
        assert_eq!(&event.record()[..], br#"{"b":1,"a":"x"}"#);
    }
}
