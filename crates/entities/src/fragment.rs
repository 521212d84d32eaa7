//! Fragments of SQL that several parts write.

use gatewright_db::{Engine, column_types};

/// An identifier in quotes, so that an entity may be called `order`. Names were checked to hold no quotes.
pub(crate) fn quoted(name: &str) -> String {
    debug_assert!(!name.contains('"'), "names are plain words");
    format!("\"{name}\"")
}

/// A parameter in a column's type. SQLite keeps the types of its values.
pub(crate) fn typed(engine: Engine, word: &str, number: usize) -> String {
    match engine {
        Engine::Sqlite => format!("?{number}"),
        Engine::Postgres => {
            let name = column_types(word, engine);
            let (name, collation) = name.split_once(" COLLATE ").map_or((&*name, ""), |(name, by)| (name, by));
            let collate = if collation.is_empty() { String::new() } else { format!(" COLLATE {collation}") };
            format!("CAST(?{number} AS {name}){collate}")
        }
    }
}
