//! Fragments of SQL that several parts write.

pub(crate) use gatewright_db::dialect::quoted;
use gatewright_db::{Engine, column_types};

/// Null in a column's type.
pub(crate) fn null(engine: Engine, word: &str) -> String {
    match engine {
        Engine::Sqlite => "NULL".to_owned(),
        Engine::Postgres => {
            let name = column_types(word, engine);
            format!("CAST(NULL AS {})", name.split(" COLLATE ").next().unwrap_or(&name))
        }
    }
}

/// A parameter in a column's type. SQLite keeps the types of its values.
pub(crate) fn typed(engine: Engine, word: &str, number: usize) -> String {
    match engine {
        Engine::Sqlite => format!("?{number}"),
        Engine::Postgres => cast(engine, &column_types(word, engine), &format!("?{number}")),
    }
}

/// An expression as a type, as a column names it. Text compares by its bytes.
pub(crate) fn cast(engine: Engine, name: &str, expression: &str) -> String {
    let (name, collation) = name.split_once(" COLLATE ").map_or((name, ""), |(name, by)| (name, by));
    let collate = match (engine, collation) {
        (Engine::Sqlite, _) | (_, "") => String::new(),
        (Engine::Postgres, by) => format!(" COLLATE {by}"),
    };
    format!("CAST({expression} AS {name}){collate}")
}
