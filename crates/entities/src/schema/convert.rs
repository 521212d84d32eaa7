//! How SQLite converts a column's values to another type. Pure.
//!
//! SQLite stores any value in any column, so a value that does not convert must be found by a condition.

/// The converted value, and which values do not convert.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Conversion {
    /// An expression for the new value.
    pub(super) value: String,
    /// A condition that holds for values that do not convert. `None` if all do.
    pub(super) fails: Option<String>,
}

impl Conversion {
    /// From one type to another, both as SQLite's columns name them; `column` is a qualified name.
    pub(super) fn of(from: &str, to: &str, column: &str) -> Self {
        if from == to {
            return Self { value: column.to_owned(), fails: None };
        }
        let text = match from {
            "BOOLEAN" => format!("CASE {column} WHEN 1 THEN 'true' WHEN 0 THEN 'false' END"),
            _ => format!("CAST({column} AS TEXT)"),
        };
        let (value, fails) = match (from, to) {
            ("BOOLEAN", "INTEGER") => (column.to_owned(), None),
            ("REAL", "INTEGER") => {
                (format!("CAST({column} AS INTEGER)"), Some(format!("{column} <> CAST({column} AS INTEGER)")))
            }
            (_, "INTEGER") => {
                let whole = format!("CAST({text} AS INTEGER)");
                (whole.clone(), Some(format!("CAST({whole} AS TEXT) <> {text}")))
            }
            ("INTEGER", "REAL") => (format!("CAST({column} AS REAL)"), None),
            (_, "REAL") => (format!("CAST({text} AS REAL)"), Some(no_number(&text, "[^0-9.eE+-]"))),
            ("INTEGER", "DECIMAL_TEXT") => (text, None),
            (_, "DECIMAL_TEXT") => (text.clone(), Some(no_number(&text, "[^0-9.-]"))),
            ("INTEGER", "BOOLEAN") => (column.to_owned(), Some(format!("{column} NOT IN (0, 1)"))),
            (_, "BOOLEAN") => (
                format!("CASE lower({text}) WHEN 'true' THEN 1 WHEN 'false' THEN 0 END"),
                Some(format!("lower({text}) NOT IN ('true', 'false')")),
            ),
            ("TIMESTAMP_TEXT", "DATE_TEXT") => (format!("substr({column}, 1, 10)"), None),
            (_, "DATE_TEXT") => (text.clone(), Some(format!("date({text}) IS NOT {text}"))),
            ("DATE_TEXT", "TIMESTAMP_TEXT") => (format!("{column} || 'T00:00:00.000000Z'"), None),
            (_, "TIMESTAMP_TEXT") => (timestamp(&text), Some(no_timestamp(&text))),
            (_, "UUID_TEXT") => {
                let groups = [8, 4, 4, 4, 12].map(|digits| "[0-9a-f]".repeat(digits)).join("-");
                (format!("lower({text})"), Some(format!("lower({text}) NOT GLOB '{groups}'")))
            }
            (_, "JSON_TEXT") => (text.clone(), Some(format!("NOT json_valid({text})"))),
            _ => (text, None),
        };
        let fails = fails.map(|fails| format!("{column} IS NOT NULL AND ({fails})"));
        Self { value, fails }
    }
}

fn no_number(text: &str, foreign: &str) -> String {
    format!("{text} GLOB '*{foreign}*' OR NOT json_valid({text}) OR json_type({text}) NOT IN ('integer', 'real')")
}

/// In the form that is stored: UTC with six digits of a second.
fn timestamp(text: &str) -> String {
    let stored = format!("????-??-??T??:??:??.{}Z", "[0-9]".repeat(6));
    format!("CASE WHEN {text} GLOB '{stored}' THEN {text} ELSE strftime('%Y-%m-%dT%H:%M:%f', {text}) || '000Z' END")
}

fn no_timestamp(text: &str) -> String {
    let day = "[0-9][0-9][0-9][0-9]-[0-9][0-9]-[0-9][0-9]T*";
    format!("{text} NOT GLOB '{day}' OR strftime('%s', {text}) IS NULL")
}
