//! Times by parts of the calendar.

use crate::Engine;

/// A part of the calendar or the clock that times are grouped by.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TimeUnit {
    /// An hour, which begins at a time.
    Hour,
    /// A day. It and the longer ones are the date of their first day.
    Day,
    /// A week, which begins on Monday.
    Week,
    /// A month.
    Month,
    /// Three months.
    Quarter,
    /// A year.
    Year,
}

impl TimeUnit {
    /// All of them, the shortest first.
    pub const ALL: [Self; 6] = [Self::Hour, Self::Day, Self::Week, Self::Month, Self::Quarter, Self::Year];

    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Hour => "hour",
            Self::Day => "day",
            Self::Week => "week",
            Self::Month => "month",
            Self::Quarter => "quarter",
            Self::Year => "year",
        }
    }
}

/// Where a day begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Zone<'a> {
    /// So many seconds before UTC, as to the east of Greenwich.
    Offset(i32),
    /// The name of a time zone in the IANA database.
    Named(&'a str),
}

/// The beginning of the unit in which the time or the date `column` is: for an hour its time, otherwise the date of the first day.
pub fn truncated(engine: Engine, unit: TimeUnit, column: &str, is_date: bool, zone: Zone<'_>) -> String {
    let name = unit.name();
    if engine == Engine::Sqlite {
        let zone = match zone {
            Zone::Offset(seconds) => seconds.to_string(),
            Zone::Named(name) => name.replace('\'', "''"),
        };
        return format!("truncated('{name}', {column}, '{zone}')");
    }
    let zone = match zone {
        Zone::Offset(seconds) => format!("INTERVAL '{seconds} seconds'"),
        Zone::Named(name) => format!("'{}'", name.replace('\'', "''")),
    };
    let local =
        if is_date { format!("CAST({column} AS timestamp)") } else { format!("({column} AT TIME ZONE {zone})") };
    match unit {
        // The hours that a change of the clock repeats differ.
        TimeUnit::Hour => format!("({column} - ({local} - date_trunc('hour', {local})))"),
        _ => format!("CAST(date_trunc('{name}', {local}) AS date)"),
    }
}
