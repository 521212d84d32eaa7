use std::fmt;
use std::sync::Arc;

use super::witness::{Check, Witness};

/// A position in an event log for clients: opaque, and valid on any replica and any entity's stream.
///
/// The client has received all events up to it that it may see.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cursor {
    /// The log's name. A position of another log, as after a restored backup, is unknown in this one.
    pub(crate) log: Arc<str>,
    pub(crate) position: i64,
    /// An event that the log must have. Absent in cursors of servers before 0.11, and of a log without events.
    pub(crate) witness: Option<Witness>,
}

/// The longest cursor, in bytes.
const LONGEST: usize = 64;
/// Digits of a log's name, and of a check.
const NAME: usize = 16;
const CHECK: usize = 8;

impl Cursor {
    /// Reads what [`fmt::Display`] wrote; `None` for anything else.
    pub fn parse(text: &str) -> Option<Self> {
        let (log, position) = text.split_once('-').filter(|_| text.len() <= LONGEST)?;
        if log.is_empty() || !log.bytes().all(is_digit) {
            return None;
        }
        let position = number(position)?;
        let Some((log, witness)) = log.split_at_checked(NAME).filter(|(_, witness)| !witness.is_empty()) else {
            return Some(Self { log: log.into(), position, witness: None });
        };
        let (check, at) = witness.split_at_checked(CHECK)?;
        let witness = Witness { position: number(at)?, check: Check(u32::from_str_radix(check, 16).ok()?) };
        Some(Self { log: log.into(), position, witness: Some(witness) })
    }
}

fn is_digit(byte: u8) -> bool {
    matches!(byte, b'0'..=b'9' | b'a'..=b'f')
}

fn number(text: &str) -> Option<i64> {
    let is_shortest = text == "0" || !text.starts_with('0');
    i64::from_str_radix(text, 16).ok().filter(|_| is_shortest && text.bytes().all(is_digit))
}

impl fmt::Display for Cursor {
    /// `{log}-{position}`, with the check and the position of the witness after the log's name.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.log)?;
        if let Some(Witness { position, check }) = self.witness {
            write!(f, "{:0CHECK$x}{position:x}", check.0)?;
        }
        write!(f, "-{:x}", self.position)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cursor_is_read_as_it_was_written_and_nothing_else_is() {
        for position in [0, 1, 255, i64::MAX] {
            let cursor = Cursor { log: "0123456789abcdef".into(), position, witness: None };
            assert_eq!(Cursor::parse(&cursor.to_string()), Some(cursor.clone()));
            for (at, check) in [(0, 0), (7, u32::MAX), (i64::MAX, 0x0a00_0000)] {
                let witness = Some(Witness { position: at, check: Check(check) });
                let cursor = Cursor { witness, ..cursor.clone() };
                assert_eq!(Cursor::parse(&cursor.to_string()), Some(cursor));
            }
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
            // The check is short, has no position, or a wrong one.
            "0123456789abcdef1-1",
            "0123456789abcdef0123456-1",
            "0123456789abcdef01234567-1",
            "0123456789abcdef0123456701-1",
            "0123456789abcdef012345678000000000000000-1",
            &long,
        ] {
            assert_eq!(Cursor::parse(bad), None, "{bad}");
        }
    }

    #[test]
    fn a_cursor_without_a_check_is_still_read() {
        let cursor = Cursor::parse("6f0c3ab8d21e4f77-1a").unwrap();
        assert_eq!((&*cursor.log, cursor.position, cursor.witness), ("6f0c3ab8d21e4f77", 26, None));
    }
}
