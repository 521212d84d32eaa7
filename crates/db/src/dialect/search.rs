//! Columns that hold words, by which records are searched.

use crate::Engine;

/// `expression`, a text, as the value of a column of the type `{words}`: on Postgres the text of a `tsvector`.
pub fn words(engine: Engine, expression: &str) -> String {
    match engine {
        Engine::Sqlite => expression.to_owned(),
        Engine::Postgres => format!("CAST(CAST({expression} AS text) AS tsvector)"),
    }
}

/// Whether `column`, of the type `{words}`, has what the text of a `tsquery` asks for. Only on Postgres.
pub fn has_words(column: &str, query: &str) -> String {
    format!("{column} @@ CAST(CAST({query} AS text) AS tsquery)")
}

/// The column of the type `{words}` as text.
pub fn words_as_text(engine: Engine, column: &str) -> String {
    match engine {
        Engine::Sqlite => column.to_owned(),
        Engine::Postgres => format!("CAST({column} AS text)"),
    }
}

/// How much a number of occurrences of a word counts in a rank: once 1, two or three times 2, four to seven times 3, more 4.
pub fn word_class(occurrences: usize) -> usize {
    match occurrences {
        0 => 0,
        1 => 1,
        2 | 3 => 2,
        4..=7 => 3,
        _ => 4,
    }
}
