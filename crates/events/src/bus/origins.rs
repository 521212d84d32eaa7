use std::collections::HashMap;

/// A number at most this far back is a duplicate: more than a sender ever sends again after a failure.
const AGAIN: u64 = 4_096;
/// A larger gap is not a loss but an invalid number.
const GAP: u64 = 1 << 20;
/// How many replicas are remembered. When the limit is reached, the one that was silent for longest is removed.
const REMEMBERED: usize = 1_024;

/// The last number of each replica, whose messages are numbered. It detects duplicates and losses.
///
/// A sender that does not know whether its last batch arrived sends it again. The transport is trusted, but an invalid
/// number must not silence a replica permanently: a number far below the last one counts as a new beginning.
#[derive(Debug, Default)]
pub(super) struct Origins {
    heard: HashMap<String, Heard>,
    count: u64,
}

#[derive(Debug)]
struct Heard {
    last: u64,
    /// Of all messages, which one that was.
    at: u64,
}

/// What a message's number means.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Turn {
    /// A new message. `missed` messages before it were lost.
    New { missed: u64 },
    /// A duplicate.
    Again,
}

impl Origins {
    pub(super) fn note(&mut self, origin: &str, number: u64) -> Turn {
        self.count += 1;
        let at = self.count;
        let Some(heard) = self.heard.get_mut(origin) else {
            self.make_room();
            self.heard.insert(origin.to_owned(), Heard { last: number, at });
            return Turn::New { missed: 0 };
        };
        heard.at = at;
        let missed = match number.checked_sub(heard.last) {
            None | Some(0) if heard.last - number < AGAIN => return Turn::Again,
            Some(step @ 1..=GAP) => step - 1,
            _ => 0,
        };
        heard.last = number;
        Turn::New { missed }
    }

    fn make_room(&mut self) {
        if self.heard.len() < REMEMBERED {
            return;
        }
        let longest = self.heard.iter().min_by_key(|(_, heard)| heard.at).map(|(origin, _)| origin.clone());
        if let Some(origin) = longest {
            self.heard.remove(&origin);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn duplicates_are_detected_and_missing_messages_counted() {
        let mut origins = Origins::default();
        for (number, expected) in [
            (7, Turn::New { missed: 0 }),
            (8, Turn::New { missed: 0 }),
            (8, Turn::Again),
            (7, Turn::Again),
            (6, Turn::Again),
            (12, Turn::New { missed: 3 }),
            (13, Turn::New { missed: 0 }),
        ] {
            assert_eq!(origins.note("a", number), expected, "{number}");
        }
        assert_eq!(origins.note("b", 13), Turn::New { missed: 0 });
    }

    #[test]
    fn a_forged_number_does_not_silence_a_replica() {
        let mut origins = Origins::default();
        origins.note("a", 10);
        assert_eq!(origins.note("a", u64::MAX), Turn::New { missed: 0 });
        assert_eq!(origins.note("a", 11), Turn::New { missed: 0 });
        assert_eq!(origins.note("a", 12), Turn::New { missed: 0 });
        assert_eq!(origins.note("a", 0), Turn::Again);
    }

    #[test]
    fn invented_replicas_cost_a_bounded_amount_and_push_out_the_silent_ones() {
        let mut origins = Origins::default();
        for number in 0..10_000 {
            origins.note(&format!("invented {number}"), 1);
            assert_eq!(origins.note("busy", number), Turn::New { missed: 0 });
        }
        assert_eq!(origins.heard.len(), REMEMBERED);
    }
}
