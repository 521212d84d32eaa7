use gatewright_http::locale;
use jiff::Timestamp;
use jiff::tz::TimeZone;
use serde::Serialize;

const MONTHS: [&str; 12] = [
    "time.month_1",
    "time.month_2",
    "time.month_3",
    "time.month_4",
    "time.month_5",
    "time.month_6",
    "time.month_7",
    "time.month_8",
    "time.month_9",
    "time.month_10",
    "time.month_11",
    "time.month_12",
];

/// A moment for people and for programs.
#[derive(Serialize)]
pub(crate) struct Moment {
    text: String,
    machine: String,
}

impl Moment {
    pub(crate) fn new(at: Timestamp) -> Self {
        let at = at.to_zoned(TimeZone::UTC);
        let month = locale::text(MONTHS[usize::from(at.month().unsigned_abs()) - 1], &[]);
        let (day, year) = (at.day().to_string(), at.year().to_string());
        let time = at.strftime("%H:%M").to_string();
        let values = [("day", &*day), ("month", &month), ("year", &year), ("time", &time)];
        Self { text: locale::text("time.moment", &values), machine: at.strftime("%Y-%m-%dT%H:%MZ").to_string() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_is_shown_in_words_and_in_numbers() {
        let moment = Moment::new("2026-01-02T03:04:05Z".parse().unwrap());
        assert_eq!((&*moment.text, &*moment.machine), ("2 January 2026, 03:04 UTC", "2026-01-02T03:04Z"));
    }
}
