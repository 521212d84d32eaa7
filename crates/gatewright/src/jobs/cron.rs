//! Schedules of five fields, as cron has them, in a time zone.
//!
//! A schedule names minutes of the local calendar, and each of them is due once. A minute that the clocks repeat is due when it
//! comes first. A minute that they leave out is due when they go on: several that are left out are one due time.

use std::ops::RangeInclusive;

use gatewright_base::nearest;
use jiff::civil::{Date, DateTime, Time};
use jiff::tz::{AmbiguousOffset, TimeZone};
use jiff::{SignedDuration, Timestamp, ToSpan};

/// How far a next time is looked for, in days: February 29 comes again after eight years at most.
const FARTHEST: usize = 366 * 12;

/// When a job is due.
#[derive(Debug, Clone)]
pub(crate) struct Schedule {
    text: String,
    zone: TimeZone,
    minutes: u64,
    hours: u64,
    days: u64,
    months: u64,
    /// Sunday is 0.
    weekdays: u64,
    /// Whether the day of the month, or that of the week, begins with `*`. Then both must match, otherwise one is enough.
    has_open_day: bool,
}

/// Why a text is no schedule.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub(crate) struct ScheduleError {
    /// What is wrong.
    pub(crate) message: String,
    /// Where in the text, in characters from 1.
    pub(crate) column: u32,
}

/// One of the five fields.
struct Field {
    name: &'static str,
    range: RangeInclusive<u32>,
    /// The names of its values, beginning with the first.
    names: &'static [&'static str],
}

const MONTHS: &[&str] = &["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"];
const WEEKDAYS: &[&str] = &["sun", "mon", "tue", "wed", "thu", "fri", "sat"];

const FIELDS: [Field; 5] = [
    Field { name: "minute", range: 0..=59, names: &[] },
    Field { name: "hour", range: 0..=23, names: &[] },
    Field { name: "day of the month", range: 1..=31, names: &[] },
    Field { name: "month", range: 1..=12, names: MONTHS },
    // 7 is Sunday too.
    Field { name: "day of the week", range: 0..=7, names: WEEKDAYS },
];

impl Schedule {
    /// Reads five fields of cron: `*`, numbers, names of months and days, ranges, steps and lists of these.
    pub(crate) fn parse(text: &str, zone: TimeZone) -> Result<Self, ScheduleError> {
        let words = words(text);
        if words.len() != FIELDS.len() {
            let shortcut = words.first().is_some_and(|(_, word)| word.starts_with('@'));
            let message = if shortcut {
                "words such as @daily are not known: a schedule has five fields, such as \"0 3 * * *\"".to_owned()
            } else {
                let wanted = "minute, hour, day of the month, month, day of the week";
                format!("a schedule has five fields ({wanted}), and this has {}", words.len())
            };
            let column = words.get(FIELDS.len()).map_or(1, |(column, _)| *column);
            return Err(ScheduleError { message, column });
        }
        let mut sets = [0_u64; 5];
        for ((set, field), (column, word)) in sets.iter_mut().zip(&FIELDS).zip(&words) {
            *set = field.read(word, *column)?;
        }
        let [minutes, hours, days, months, weekdays] = sets;
        let weekdays = (weekdays | weekdays >> 7) & 0x7f;
        let has_open_day = [2, 4].iter().any(|at| words[*at].1.starts_with('*'));
        let normal = words.iter().map(|(_, word)| *word).collect::<Vec<_>>().join(" ");
        let schedule = Self { text: normal, zone, minutes, hours, days, months, weekdays, has_open_day };
        // The calendar repeats itself after 28 years, until 2100.
        let first = Date::constant(2000, 1, 1);
        let is_ever = first.series(1.day()).take(28 * 366).any(|date| schedule.has_day(date));
        if is_ever {
            Ok(schedule)
        } else {
            Err(ScheduleError {
                message: "no month has such a day: it would never be due".to_owned(),
                column: words[2].0,
            })
        }
    }

    /// The five fields, with one space between them.
    pub(crate) fn text(&self) -> &str {
        &self.text
    }

    /// The name of the time zone.
    pub(crate) fn zone(&self) -> &str {
        self.zone.iana_name().unwrap_or("UTC")
    }

    /// The first due time after this time. `None` beyond the calendar.
    pub(crate) fn next_after(&self, time: Timestamp) -> Option<Timestamp> {
        let today = self.zone.to_datetime(time).date();
        // A whole day may be left out, and what was due in it is due at the end.
        let first = today.yesterday().unwrap_or(today);
        let days = first.series(1.day()).take(FARTHEST).filter(|date| self.has_day(*date));
        // The instants of one calendar are in its order, so that the first that is later is the next.
        days.flat_map(|date| self.minutes_of(date)).filter_map(|minute| self.instant(minute)).find(|due| *due > time)
    }

    fn has_day(&self, date: Date) -> bool {
        let has = |set: u64, value: i8| set >> u32::try_from(value).unwrap_or(63) & 1 == 1;
        let (day, weekday) = (has(self.days, date.day()), has(self.weekdays, date.weekday().to_sunday_zero_offset()));
        has(self.months, date.month()) && if self.has_open_day { day && weekday } else { day || weekday }
    }

    fn minutes_of(&self, date: Date) -> impl Iterator<Item = DateTime> {
        let members = |set: u64, all: RangeInclusive<i8>| {
            all.filter(move |value| set >> u32::try_from(*value).unwrap_or(63) & 1 == 1)
        };
        let (hours, minutes) = (self.hours, self.minutes);
        let times =
            members(hours, 0..=23).flat_map(move |hour| members(minutes, 0..=59).map(move |minute| (hour, minute)));
        times.map(move |(hour, minute)| date.to_datetime(Time::constant(hour, minute, 0, 0)))
    }

    /// When a minute of the local calendar is due.
    fn instant(&self, minute: DateTime) -> Option<Timestamp> {
        match self.zone.to_ambiguous_timestamp(minute).offset() {
            AmbiguousOffset::Unambiguous { offset: before } | AmbiguousOffset::Fold { before, .. } => {
                before.to_timestamp(minute).ok()
            }
            AmbiguousOffset::Gap { before, .. } => {
                // By the old offset, it is after the clocks went on.
                let later = before.to_timestamp(minute).ok()?.checked_add(SignedDuration::from_secs(1)).ok()?;
                self.zone.preceding(later).next().map(|transition| transition.timestamp())
            }
        }
    }
}

/// Reads the name of a time zone: `UTC`, or one of the IANA database.
pub(crate) fn zone(name: &str) -> Result<TimeZone, String> {
    if name == "UTC" {
        return Ok(TimeZone::UTC);
    }
    let known = TimeZone::get(name).ok().filter(|zone| zone.iana_name().is_some());
    known.ok_or_else(|| {
        let all: Vec<String> = jiff::tz::db().available().map(|name| name.to_string()).collect();
        let near = nearest(name, all.iter().map(String::as_str)).map(|near| format!("; did you mean {near:?}?"));
        let near = near.unwrap_or_default();
        format!(
            "{name:?} is no time zone: write \"UTC\" or a name of the IANA database, such as \"Europe/Berlin\"{near}"
        )
    })
}

/// The words of a text with their columns.
fn words(text: &str) -> Vec<(u32, &str)> {
    let mut words = Vec::new();
    let mut rest = text;
    loop {
        rest = rest.trim_start_matches([' ', '\t']);
        if rest.is_empty() {
            return words;
        }
        let end = rest.find([' ', '\t']).unwrap_or(rest.len());
        let before = text.len() - rest.len();
        words.push((column(text, before), &rest[..end]));
        rest = &rest[end..];
    }
}

fn column(text: &str, before: usize) -> u32 {
    u32::try_from(text[..before].chars().count()).unwrap_or(u32::MAX).saturating_add(1)
}

impl Field {
    /// The values that a word names, as bits.
    fn read(&self, word: &str, column: u32) -> Result<u64, ScheduleError> {
        let (mut set, mut at) = (0, column);
        for item in word.split(',') {
            set |= self
                .item(item)
                .map_err(|message| ScheduleError { message: format!("{}: {message}", self.name), column: at })?;
            at = at.saturating_add(u32::try_from(item.chars().count()).unwrap_or(u32::MAX)).saturating_add(1);
        }
        Ok(set)
    }

    fn item(&self, item: &str) -> Result<u64, String> {
        let (values, step) = match item.split_once('/') {
            None => (item, None),
            Some((values, step)) => (values, Some(step)),
        };
        let (first, last) = match values.split_once('-') {
            _ if values == "*" => (*self.range.start(), *self.range.end()),
            Some((first, last)) => {
                let (first, last) = (self.value(first)?, self.value(last)?);
                // A week may end with Sunday.
                let last = if last == 0 && first > 0 && self.names.len() == 7 { 7 } else { last };
                (first, last)
            }
            None => {
                let value = self.value(values)?;
                if step.is_some() {
                    return Err(format!(
                        "a step needs a range: {value}-{}/{}",
                        self.range.end(),
                        step.unwrap_or_default()
                    ));
                }
                (value, value)
            }
        };
        if first > last {
            return Err(format!("the range {values} ends before it begins"));
        }
        let step = match step {
            None => 1,
            Some(step) => {
                number(step).filter(|step| *step > 0).ok_or_else(|| format!("the step {step:?} is no number from 1"))?
            }
        };
        let step = usize::try_from(step).unwrap_or(usize::MAX);
        Ok((first..=last).step_by(step).fold(0, |set, value| set | 1 << value))
    }

    fn value(&self, text: &str) -> Result<u32, String> {
        let place = self.names.iter().position(|name| text.eq_ignore_ascii_case(name));
        let value = place.and_then(|at| u32::try_from(at).ok()).map(|at| at + self.range.start());
        let value = value.or_else(|| number(text));
        value.filter(|value| self.range.contains(value)).ok_or_else(|| {
            let (first, last) = self.range.clone().into_inner();
            let names = match self.names {
                [] => String::new(),
                names => format!(" or a name from {} to {}", names[0], names[names.len() - 1]),
            };
            let shown: String = text.chars().take(20).collect();
            format!("{shown:?} is no number from {first} to {last}{names}")
        })
    }
}

/// Digits alone, without a sign.
fn number(text: &str) -> Option<u32> {
    text.bytes().all(|byte| byte.is_ascii_digit()).then(|| text.parse().ok()).flatten()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    fn schedule(text: &str, zone_name: &str) -> Schedule {
        Schedule::parse(text, zone(zone_name).unwrap()).unwrap()
    }

    fn after(text: &str, zone: &str, time: &str, count: usize) -> Vec<String> {
        let schedule = schedule(text, zone);
        let mut time: Timestamp = time.parse().unwrap();
        let next = || {
            time = schedule.next_after(time).unwrap();
            time.to_string()
        };
        std::iter::repeat_with(next).take(count).collect()
    }

    #[test]
    fn fields_name_their_times() {
        for (text, time, next) in [
            ("0 3 * * *", "2026-01-31T03:00:00Z", "2026-02-01T03:00:00Z"),
            ("0 3 * * *", "2026-01-31T02:59:59.999Z", "2026-01-31T03:00:00Z"),
            ("*/15 * * * *", "2026-01-01T00:14:00Z", "2026-01-01T00:15:00Z"),
            ("5-59/20 * * * *", "2026-01-01T00:45:00Z", "2026-01-01T01:05:00Z"),
            ("0 7 * * 1-5", "2026-01-02T07:00:00Z", "2026-01-05T07:00:00Z"),
            ("0 7 * * MON-fri", "2026-01-02T07:00:00Z", "2026-01-05T07:00:00Z"),
            ("0 0 * * 7", "2026-01-01T00:00:00Z", "2026-01-04T00:00:00Z"),
            ("0 0 * * 0", "2026-01-01T00:00:00Z", "2026-01-04T00:00:00Z"),
            ("0 0 * * sat-sun", "2026-01-03T00:00:00Z", "2026-01-04T00:00:00Z"),
            ("0 0 29 feb *", "2026-01-01T00:00:00Z", "2028-02-29T00:00:00Z"),
            ("0 0 29 2 *", "2096-02-29T00:00:00Z", "2104-02-29T00:00:00Z"),
            ("0,30 6,18 * jan,dec *", "2026-01-31T18:30:00Z", "2026-12-01T06:00:00Z"),
            ("\t0  0 31\t* * ", "2026-01-31T00:00:00Z", "2026-03-31T00:00:00Z"),
            // Both days are restricted: one is enough.
            ("0 0 13 * fri", "2026-01-01T00:00:00Z", "2026-01-02T00:00:00Z"),
            ("0 0 13 * fri", "2026-01-09T00:00:00Z", "2026-01-13T00:00:00Z"),
            // One begins with *: both must match.
            ("0 0 */2 * mon", "2026-01-01T00:00:00Z", "2026-01-05T00:00:00Z"),
            ("0 0 */2 * mon", "2026-01-05T00:00:00Z", "2026-01-19T00:00:00Z"),
        ] {
            assert_eq!(after(text, "UTC", time, 1), [next], "{text} after {time}");
        }
    }

    #[test]
    fn an_hour_that_comes_twice_runs_once_and_one_that_does_not_come_runs_when_the_clocks_go_on() {
        // Berlin: on 2026-03-29 no 02:00 to 02:59; on 2026-10-25 these twice.
        let berlin = "Europe/Berlin";
        let spring = after("30 2 * * *", berlin, "2026-03-28T00:00:00Z", 3);
        assert_eq!(spring, ["2026-03-28T01:30:00Z", "2026-03-29T01:00:00Z", "2026-03-30T00:30:00Z"]);
        let once = after("*/20 2 * * *", berlin, "2026-03-29T00:00:00Z", 2);
        assert_eq!(once, ["2026-03-29T01:00:00Z", "2026-03-30T00:00:00Z"], "what is left out is due once");
        let with_the_next = after("0 2,3 * * *", berlin, "2026-03-29T00:00:00Z", 2);
        assert_eq!(with_the_next, ["2026-03-29T01:00:00Z", "2026-03-30T00:00:00Z"], "and once with what is due then");
        let autumn = after("30 2 * * *", berlin, "2026-10-24T10:00:00Z", 2);
        assert_eq!(autumn, ["2026-10-25T00:30:00Z", "2026-10-26T01:30:00Z"]);
        let between = after("30 2 * * *", berlin, "2026-10-25T01:10:00Z", 1);
        assert_eq!(between, ["2026-10-26T01:30:00Z"], "asked in the second pass");
        let hourly = after("0 * * * *", berlin, "2026-10-24T23:30:00Z", 3);
        assert_eq!(hourly, ["2026-10-25T00:00:00Z", "2026-10-25T02:00:00Z", "2026-10-25T03:00:00Z"]);
        // Half an hour on Lord Howe Island, a midnight in Cairo, a whole day in Samoa.
        let howe = after("10 2 * * *", "Australia/Lord_Howe", "2026-10-02T16:00:00Z", 2);
        assert_eq!(howe, ["2026-10-03T15:30:00Z", "2026-10-04T15:10:00Z"]);
        let cairo = after("30 0 * * *", "Africa/Cairo", "2026-04-22T22:00:00Z", 2);
        assert_eq!(cairo, ["2026-04-22T22:30:00Z", "2026-04-23T22:00:00Z"]);
        let samoa = after("0 12 * * *", "Pacific/Apia", "2011-12-29T12:00:00Z", 3);
        assert_eq!(samoa, ["2011-12-29T22:00:00Z", "2011-12-30T10:00:00Z", "2011-12-30T22:00:00Z"]);
    }

    #[test]
    fn what_is_no_schedule_is_refused_with_its_column() {
        for (text, column, part) in [
            ("", 1, "five fields"),
            ("0 3 * *", 1, "this has 4"),
            ("0 3 * * * *", 11, "this has 6"),
            ("@daily", 1, "@daily"),
            ("60 3 * * *", 1, "no number from 0 to 59"),
            ("0 24 * * *", 3, "hour"),
            ("0 3 0 * *", 5, "day of the month"),
            ("0 3 * 13 *", 7, "month"),
            ("0 3 * * 8", 9, "0 to 7"),
            ("0 3 * * fry", 9, "a name from sun to sat"),
            ("0 1,2,x * * *", 7, "\"x\""),
            ("0 5-3 * * *", 3, "ends before it begins"),
            ("*/0 * * * *", 1, "step"),
            ("*/x * * * *", 1, "step"),
            ("5/10 * * * *", 1, "needs a range"),
            ("+5 * * * *", 1, "\"+5\""),
            ("-5 * * * *", 1, "\"\""),
            ("0,, * * * *", 3, "\"\""),
            ("0 0 30 feb *", 5, "never"),
            ("0 0 L * *", 5, "\"L\""),
            ("99999999999999999999 * * * *", 1, "no number"),
        ] {
            let refused = Schedule::parse(text, TimeZone::UTC).unwrap_err();
            assert!(refused.message.contains(part), "{text}: {refused}");
            assert_eq!(refused.column, column, "{text}: {refused}");
        }
        assert!(zone("Europe/Berln").unwrap_err().contains("Europe/Berlin"));
        for name in ["", "local", "+01:00", "CEST+1"] {
            assert!(zone(name).is_err(), "{name}");
        }
    }

    /// Reads one field by trying each value, and knows nothing of bits.
    fn names(field: &str, value: u32, range: RangeInclusive<u32>) -> bool {
        field.split(',').any(|item| {
            let (values, step) = item.split_once('/').unwrap_or((item, "1"));
            let (first, last) = match values.split_once('-') {
                Some((first, last)) => (first.parse().unwrap(), last.parse().unwrap()),
                None if values == "*" => (*range.start(), *range.end()),
                None => (values.parse().unwrap(), values.parse().unwrap()),
            };
            (first..=last).contains(&value) && (value - first).is_multiple_of(step.parse().unwrap())
        })
    }

    /// Every due time of the minutes from `start` on, found by looking at each minute that passes.
    fn walked(fields: &[String], zone: &TimeZone, start: Timestamp, minutes: i64) -> Vec<Timestamp> {
        let local = |minute: i64| {
            let time = start.checked_add(SignedDuration::from_mins(minute)).unwrap();
            (time, zone.to_datetime(time))
        };
        let is_named = |at: DateTime| {
            let value = |value: i8| u32::try_from(value).unwrap();
            let day = names(&fields[2], value(at.day()), 1..=31);
            let weekday = value(at.weekday().to_sunday_zero_offset());
            let weekday = names(&fields[4], weekday, 0..=7) || (weekday == 0 && names(&fields[4], 7, 0..=7));
            let is_open = fields[2].starts_with('*') || fields[4].starts_with('*');
            names(&fields[0], value(at.minute()), 0..=59)
                && names(&fields[1], value(at.hour()), 0..=23)
                && names(&fields[3], value(at.month()), 1..=12)
                && if is_open { day && weekday } else { day || weekday }
        };
        let (mut seen, mut due) = (BTreeSet::new(), Vec::new());
        let mut before = local(-2 * 24 * 60).1;
        // Two days before, so that what has come already is known.
        for minute in -2 * 24 * 60 + 1..=minutes {
            let (time, at) = local(minute);
            let mut is_due = is_named(at) && seen.insert(at);
            let mut left_out = before.checked_add(1.minute()).unwrap();
            while left_out < at {
                is_due |= is_named(left_out) && seen.insert(left_out);
                left_out = left_out.checked_add(1.minute()).unwrap();
            }
            before = before.max(at);
            if is_due && minute > 0 {
                due.push(time);
            }
        }
        due
    }

    fn field(range: RangeInclusive<u32>) -> impl Strategy<Value = String> {
        let (first, last) = range.into_inner();
        let item = prop_oneof![
            3 => Just("*".to_owned()),
            4 => (first..=last).prop_map(|value| value.to_string()),
            2 => (first..=last, first..=last).prop_map(|(a, b)| format!("{}-{}", a.min(b), a.max(b))),
            1 => (1..=20_u32).prop_map(|step| format!("*/{step}")),
            1 => (first..=last, first..=last, 1..=9_u32).prop_map(|(a, b, step)| format!("{}-{}/{step}", a.min(b), a.max(b))),
        ];
        prop::collection::vec(item, 1..3).prop_map(|items| items.join(","))
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 96, ..ProptestConfig::default() })]
        #[test]
        fn due_times_are_those_that_a_look_at_every_minute_finds(
            fields in (field(0..=59), field(0..=23), field(1..=31), field(1..=12), field(0..=7)),
            zone_name in prop::sample::select(vec![
                "UTC", "Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "Africa/Cairo", "Asia/Kathmandu", "Pacific/Apia",
            ]),
            // The days around the changes of 2026, and any other.
            start in prop_oneof![
                Just("2026-03-28T00:00:00Z"), Just("2026-10-24T12:00:00Z"), Just("2026-03-07T12:00:00Z"),
                Just("2026-10-31T12:00:00Z"), Just("2026-10-02T12:00:00Z"), Just("2026-04-04T00:00:00Z"),
                Just("2026-04-22T12:00:00Z"), Just("2026-10-29T12:00:00Z"), Just("2011-12-29T00:00:00Z"),
            ],
        ) {
            let fields: Vec<String> = [fields.0, fields.1, fields.2, fields.3, fields.4].into();
            let text = fields.join(" ");
            let zone = zone(zone_name).unwrap();
            let Ok(schedule) = Schedule::parse(&text, zone.clone()) else { return Ok(()) };
            let start: Timestamp = start.parse().unwrap();
            let minutes = 3 * 24 * 60;
            let end = start.checked_add(SignedDuration::from_mins(minutes)).unwrap();
            let expected = walked(&fields, &zone, start, minutes);
            let (mut found, mut time) = (Vec::new(), start);
            while let Some(next) = schedule.next_after(time).filter(|next| *next <= end) {
                found.push(next);
                time = next;
            }
            prop_assert_eq!(found, expected, "{} in {}", text, zone_name);
        }
    }
}
