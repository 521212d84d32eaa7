use std::fmt;
use std::sync::Arc;

/// A position in an event log for clients: opaque, and valid on any replica and any entity's stream.
///
/// The client has received all events up to it that it may see.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cursor {
    /// The log's name. A position of another log, as after a restored backup, is unknown in this one.
    pub(crate) log: Arc<str>,
    pub(crate) position: i64,
}

/// The longest cursor, in bytes.
const LONGEST: usize = 64;

impl Cursor {
    /// Reads what [`fmt::Display`] wrote; `None` for anything else.
    pub fn parse(text: &str) -> Option<Self> {
        let (log, position) = text.split_once('-').filter(|_| text.len() <= LONGEST)?;
        let hex = |text: &str| !text.is_empty() && text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
        if !hex(log) || !hex(position) || (position.len() > 1 && position.starts_with('0')) {
            return None;
        }
        Some(Self { log: log.into(), position: i64::from_str_radix(position, 16).ok()? })
    }
}

impl fmt::Display for Cursor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{:x}", self.log, self.position)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cursor_is_read_as_it_was_written_and_nothing_else_is() {
        for position in [0, 1, 255, i64::MAX] {
            let cursor = Cursor { log: "0123abcd".into(), position };
            assert_eq!(Cursor::parse(&cursor.to_string()), Some(cursor));
        }
        let long = format!("{}-1", "a".repeat(64));
        for bad in [
            "",
            "-",
            "a-",
            "-1",
            "a",
            "a-01",
            "A-1",
            "a-1-2",
            "a-g",
            "a-+1",
            "a--1",
            " a-1",
            "a-8000000000000000",
            &long,
        ] {
            assert_eq!(Cursor::parse(bad), None, "{bad}");
        }
    }
}
