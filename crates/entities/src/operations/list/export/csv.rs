//! Records as lines of CSV (RFC 4180).

use std::borrow::Cow;

use crate::encode::{Cell, Projection};

/// A column of the file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Column {
    pub(super) key: String,
    pub(super) cell: Cell,
}

/// The columns that an export shows.
pub(super) fn columns(projection: &Projection<'_>) -> Vec<Column> {
    projection.keys().map(|(key, cell)| Column { key, cell }).collect()
}

/// The first line.
pub(super) fn header(columns: &[Column]) -> Vec<u8> {
    let mut line = Line::default();
    for column in columns {
        line.text(&column.key);
    }
    line.end()
}

/// A line being written.
#[derive(Debug, Default)]
pub(super) struct Line {
    bytes: Vec<u8>,
    is_begun: bool,
}

impl Line {
    /// Adds a cell with a value that is JSON. Null is an empty cell, and an empty text `""`.
    pub(super) fn json(&mut self, json: &[u8], cell: Cell, is_raw: bool) {
        self.comma();
        if json == b"null" {
            return;
        }
        let json = String::from_utf8_lossy(json);
        let text = match cell {
            Cell::Text | Cell::Plain => serde_json::from_str::<Cow<'_, str>>(&json).ok(),
            Cell::Json => None,
        };
        match text {
            Some(text) if !is_raw && is_formula(&text, cell) => self.quoted(&format!("'{text}")),
            Some(text) => self.quoted(&text),
            None => self.quoted(&json),
        }
    }

    fn text(&mut self, text: &str) {
        self.comma();
        self.quoted(text);
    }

    fn comma(&mut self) {
        if self.is_begun {
            self.bytes.push(b',');
        }
        self.is_begun = true;
    }

    fn quoted(&mut self, text: &str) {
        let is_special = |c: char| matches!(c, '"' | ',' | '\r' | '\n');
        let is_bare = !text.is_empty() && !text.contains(is_special) && text.trim() == text;
        if is_bare {
            self.bytes.extend_from_slice(text.as_bytes());
            return;
        }
        self.bytes.push(b'"');
        self.bytes.extend_from_slice(text.replace('"', "\"\"").as_bytes());
        self.bytes.push(b'"');
    }

    pub(super) fn end(mut self) -> Vec<u8> {
        self.bytes.extend_from_slice(b"\r\n");
        self.bytes
    }
}

/// Whether a spreadsheet would calculate the text. A number of a column of numbers is none.
fn is_formula(text: &str, cell: Cell) -> bool {
    let is_number = || text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'.' | b'-'));
    text.starts_with(['=', '+', '-', '@', '\t', '\r']) && !(cell == Cell::Plain && is_number())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(cells: &[(&str, Cell)], is_raw: bool) -> String {
        let mut line = Line::default();
        for (json, cell) in cells {
            line.json(json.as_bytes(), *cell, is_raw);
        }
        String::from_utf8(line.end()).unwrap()
    }

    #[test]
    fn cells_are_quoted_where_they_must_be() {
        let cells = [
            (r#""plain""#, Cell::Text),
            (r#""""#, Cell::Text),
            ("null", Cell::Text),
            (r#""a,b""#, Cell::Text),
            (r#""say \"hi\"""#, Cell::Text),
            (r#""two\nlines""#, Cell::Text),
            (r#"" space""#, Cell::Text),
            ("12", Cell::Plain),
            (r#""-1.50""#, Cell::Plain),
            ("-3", Cell::Plain),
            ("true", Cell::Plain),
            (r#"["=1",2]"#, Cell::Json),
            (r#"{"a":null}"#, Cell::Json),
            (r#""=1""#, Cell::Json),
        ];
        let expected = "plain,\"\",,\"a,b\",\"say \"\"hi\"\"\",\"two\nlines\",\" space\",12,-1.50,-3,true,\
                        \"[\"\"=1\"\",2]\",\"{\"\"a\"\":null}\",\"\"\"=1\"\"\"\r\n";
        assert_eq!(line(&cells, false), expected);
    }

    #[test]
    fn text_that_a_spreadsheet_would_calculate_is_prefixed() {
        for formula in ["=1+1", "+1", "-1", "@SUM(A1)", "\\t=1", "\\r=1", "=HYPERLINK(1)", "-2+3+cmd|' /C calc'!A0"] {
            let json = format!("\"{formula}\"");
            let safe = line(&[(&json, Cell::Text)], false);
            assert!(safe.trim_start_matches('"').starts_with('\''), "{safe:?}");
            let raw = line(&[(&json, Cell::Text)], true);
            assert!(!raw.trim_start_matches('"').starts_with('\''), "{raw:?}");
        }
        // A value of a column of numbers that is none, as a hook might write it.
        assert_eq!(line(&[(r#""-1+cmd""#, Cell::Plain)], false), "'-1+cmd\r\n");
    }
}
