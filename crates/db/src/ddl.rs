use crate::Engine;

/// The words for column types in schema SQL, and what each engine calls them.
///
/// Text compares by its bytes on both engines, so that lists come in the same order.
const WORDS: [(&str, &str, &str); 10] = [
    ("{text}", "TEXT", "TEXT COLLATE \"C\""),
    ("{int}", "INTEGER", "BIGINT"),
    ("{float}", "REAL", "DOUBLE PRECISION"),
    ("{bool}", "BOOLEAN", "BOOLEAN"),
    ("{time}", "TIMESTAMP_TEXT", "TIMESTAMPTZ"),
    ("{date}", "DATE_TEXT", "DATE"),
    ("{bytes}", "BLOB", "BYTEA"),
    ("{json}", "JSON_TEXT", "JSONB"),
    ("{decimal}", "DECIMAL_TEXT", "NUMERIC"),
    ("{uuid}", "UUID_TEXT", "UUID"),
];

/// Replaces `{text}`, `{int}`, `{float}`, `{bool}`, `{time}`, `{date}`, `{bytes}`, `{json}`, `{decimal}` and `{uuid}`
/// by the engine's own types. SQLite's names end in `TEXT` where the value is text, which gives the column that affinity.
pub fn column_types(sql: &str, engine: Engine) -> String {
    WORDS.iter().fold(sql.to_owned(), |sql, (word, sqlite, postgres)| {
        sql.replace(word, if engine == Engine::Sqlite { sqlite } else { postgres })
    })
}
