//! Times in a time zone. SQLite knows none.

use gatewright_base::time;
use jiff::civil::{Date, Weekday};
use jiff::tz::{Offset, TimeZone};
use jiff::{SignedDuration, Timestamp};
use rusqlite::Connection;
use rusqlite::functions::FunctionFlags;
use rusqlite::types::Value;

use crate::dialect::TimeUnit;

/// `truncated(unit, value, zone)`: the first day of the unit that a time or a date is in, or the time at which its hour begins. The
/// zone is a name, or an offset in seconds. What is neither a time nor a date stays as it is.
pub(super) fn create_functions(connection: &Connection, flags: FunctionFlags) -> rusqlite::Result<()> {
    connection.create_scalar_function("truncated", 3, flags, |arguments| {
        let Ok(text) = arguments.get_raw(1).as_str() else { return arguments.get::<Value>(1) };
        let unit = TimeUnit::ALL.into_iter().find(|unit| Some(unit.name()) == arguments.get_raw(0).as_str().ok());
        let zone = arguments.get_raw(2).as_str().ok().and_then(zone);
        let truncated = unit.zip(zone).and_then(|(unit, zone)| truncated(unit, text, &zone));
        Ok(Value::Text(truncated.unwrap_or_else(|| text.to_owned())))
    })
}

fn zone(text: &str) -> Option<TimeZone> {
    match text.parse() {
        Ok(seconds) => Offset::from_seconds(seconds).ok().map(Offset::to_time_zone),
        Err(_) => TimeZone::get(text).ok(),
    }
}

fn truncated(unit: TimeUnit, text: &str, zone: &TimeZone) -> Option<String> {
    let local = |at: Timestamp| at.to_zoned(zone.clone());
    let day = match (text.len(), unit) {
        (10, TimeUnit::Hour) => return None,
        (10, _) => text.parse().ok()?,
        (_, TimeUnit::Hour) => {
            let at = time::parse(text)?;
            let clock = local(at).time();
            let since = SignedDuration::new(
                i64::from(clock.minute()) * 60 + i64::from(clock.second()),
                clock.subsec_nanosecond(),
            );
            return Some(time::format(at.checked_sub(since).ok()?));
        }
        (_, _) => local(time::parse(text)?).date(),
    };
    Some(first_day(unit, day)?.to_string())
}

fn first_day(unit: TimeUnit, day: Date) -> Option<Date> {
    let month = |month: i8| Date::new(day.year(), month, 1).ok();
    match unit {
        TimeUnit::Hour | TimeUnit::Day => Some(day),
        TimeUnit::Week => {
            let since = i64::from(day.weekday().since(Weekday::Monday));
            day.checked_sub(SignedDuration::from_hours(24 * since)).ok()
        }
        TimeUnit::Month => month(day.month()),
        TimeUnit::Quarter => month((day.month() - 1) / 3 * 3 + 1),
        TimeUnit::Year => month(1),
    }
}
