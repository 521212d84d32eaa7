use jiff::Timestamp;
use jiff::tz::TimeZone;
use serde::Serialize;

/// A moment for people and for programs.
#[derive(Serialize)]
pub(crate) struct Moment {
    text: String,
    machine: String,
}

impl Moment {
    pub(crate) fn new(at: Timestamp) -> Self {
        let at = at.to_zoned(TimeZone::UTC);
        let (text, machine) = ("%-d %B %Y, %H:%M UTC", "%Y-%m-%dT%H:%MZ");
        Self { text: at.strftime(text).to_string(), machine: at.strftime(machine).to_string() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_moment_reads_in_words_and_in_numbers() {
        let moment = Moment::new("2026-01-02T03:04:05Z".parse().unwrap());
        assert_eq!((&*moment.text, &*moment.machine), ("2 January 2026, 03:04 UTC", "2026-01-02T03:04Z"));
    }
}
