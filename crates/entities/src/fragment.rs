//! Fragments of SQL that several parts write.

pub(crate) use gatewright_db::dialect::quoted;
use gatewright_db::{Engine, column_types};

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
