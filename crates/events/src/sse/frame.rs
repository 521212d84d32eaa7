//! The bytes on a stream, as the WHATWG HTML standard (section 9.2, server-sent events) defines them.

use bytes::Bytes;
use gatewright_base::JsonCase;

use crate::{Cursor, EntityEvent};

/// The first bytes of a stream: a comment, so that proxies pass the headers on at once, and how many milliseconds a
/// client waits before it reconnects.
pub(crate) const OPENING: &[u8] = b": connected\nretry: 3000\n\n";

/// The heartbeat, sent if there is nothing else to send.
pub(crate) const HEARTBEAT: &[u8] = b": heartbeat\n\n";

/// The first bytes of a stream with a log: [`OPENING`], and the position that it starts from.
pub(crate) fn ready(cursor: &Cursor) -> Bytes {
    let opening = String::from_utf8_lossy(OPENING);
    format!("{opening}id: {cursor}\nevent: ready\ndata: {{\"cursor\":\"{cursor}\"}}\n\n").into()
}

/// Why events may be missing on a stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Gap {
    /// The position that a client resumed from is older than the log, or unknown.
    Expired,
    /// A client did not read for longer than the log's retention.
    Overflow,
}

/// The frame of a gap, after which the stream continues from `cursor`.
pub(crate) fn gap(gap: Gap, cursor: &Cursor) -> Bytes {
    let reason = match gap {
        Gap::Expired => "expired",
        Gap::Overflow => "overflow",
    };
    format!("id: {cursor}\nevent: gap\ndata: {{\"reason\":\"{reason}\"}}\n\n").into()
}

/// The frame of an event: its type, and `{"type":…,"data":…}` as its data. With a cursor it has that as its id, and the
/// data has the event's own. With `tags` the record carries its entity tag.
pub(crate) fn encode(event: &EntityEvent, case: JsonCase, cursor: Option<&Cursor>, tags: bool) -> Bytes {
    let kind = event.kind().as_str();
    let mut frame = Vec::with_capacity(192 + event.record().len());
    if let Some(cursor) = cursor {
        frame.extend_from_slice(format!("id: {cursor}\n").as_bytes());
    }
    for part in ["event: ", kind, "\ndata: {"] {
        frame.extend_from_slice(part.as_bytes());
    }
    if let (Some(_), Some(id)) = (cursor, event.id()) {
        frame.extend_from_slice(format!("\"id\":{},", serde_json::Value::from(id)).as_bytes());
    }
    for part in ["\"type\":\"", kind, "\",\"data\":"] {
        frame.extend_from_slice(part.as_bytes());
    }
    let start = frame.len();
    event.write_data(&mut frame, case, tags);
    if frame[start..].contains(&b'\n') || frame[start..].contains(&b'\r') {
        let data = frame.split_off(start);
        lines(&mut frame, &data);
    }
    frame.extend_from_slice(b"}\n\n");
    frame.into()
}

/// A record has no line breaks. One that has them anyway must not end the event early and smuggle in another: each of
/// its lines becomes a data line, which a client joins again.
fn lines(frame: &mut Vec<u8>, data: &[u8]) {
    let mut bytes = data.iter().peekable();
    while let Some(&byte) = bytes.next() {
        match byte {
            b'\r' | b'\n' => {
                if byte == b'\r' {
                    bytes.next_if(|next| **next == b'\n');
                }
                frame.extend_from_slice(b"\ndata: ");
            }
            other => frame.push(other),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::EventKind;

    fn event(record: &str) -> EntityEvent {
        EntityEvent::new(EventKind::Created, "posts", "blog_posts", record.to_owned())
    }

    #[test]
    fn a_frame_is_exactly_this() {
        assert_eq!(
            encode(&event(r#"{"id":"1","createdAt":"x"}"#), JsonCase::Camel, None, false),
            "event: entity.created\n\
             data: {\"type\":\"entity.created\",\"data\":{\"entity\":\"posts\",\"table\":\"blog_posts\",\
             \"record\":{\"id\":\"1\",\"createdAt\":\"x\"}}}\n\n"
        );
    }

    #[test]
    fn an_escaped_line_break_stays_inside_its_line() {
        let record = r#"{"title":"a\n\ndata: {\"forged\":true}\r\n"}"#;
        let frame = String::from_utf8(encode(&event(record), JsonCase::Camel, None, false).to_vec()).unwrap();
        assert_eq!(frame.lines().count(), 3);
        assert!(frame.contains(record));
    }

    #[test]
    fn a_raw_line_break_cannot_start_a_frame_of_its_own() {
        let mut frame = Vec::new();
        lines(&mut frame, b"{\n\n\"a\":1,\r\n\"b\":2\r}");
        assert_eq!(frame, b"{\ndata: \ndata: \"a\":1,\ndata: \"b\":2\ndata: }");
    }
}
