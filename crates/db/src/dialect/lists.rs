//! Conditions on JSON arrays.

use crate::{Engine, Value};

/// The path of a JSON document itself.
pub fn json_root(engine: Engine) -> &'static str {
    match engine {
        Engine::Sqlite => "'$'",
        Engine::Postgres => "'{}'",
    }
}

/// The number of items of `column`, a JSON array. Null if it is something else.
pub fn json_items(engine: Engine, column: &str) -> String {
    match engine {
        Engine::Sqlite => {
            // Another program may have written text that is no JSON, for which the other functions fail.
            format!(
                "(CASE WHEN json_valid({column}) THEN CASE json_type({column}) WHEN 'array' THEN json_array_length({column}) END END)"
            )
        }
        Engine::Postgres => {
            format!("(CASE WHEN jsonb_typeof({column}) = 'array' THEN jsonb_array_length({column}) END)")
        }
    }
}

/// Whether the JSON array at `path` in `column` has the text `element`, an expression.
pub fn json_has_text(engine: Engine, column: &str, path: &str, element: &str) -> String {
    match engine {
        Engine::Sqlite => format!(
            "(CASE WHEN json_valid({column}) THEN json_type({column}, {path}) = 'array' AND EXISTS (SELECT 1 \
             FROM json_each({column}, {path}) AS \"_e\" WHERE \"_e\".\"type\" = 'text' AND \"_e\".\"value\" = {element}) ELSE FALSE END)"
        ),
        Engine::Postgres => {
            let array = format!("({column} #> {path})");
            format!("(jsonb_typeof({array}) = 'array' AND {array} @> to_jsonb({element}))")
        }
    }
}

/// A text or a number as the parameter with which elements of a JSON array are compared, and whether it is a number.
pub fn json_element(engine: Engine, element: &Value) -> (Value, bool) {
    match (engine, element) {
        // As text, so that no digit is lost on the way.
        (Engine::Postgres, Value::Int(number)) => (Value::Text(number.to_string()), true),
        (Engine::Postgres, Value::Float(number)) => (Value::Text(number.to_string()), true),
        (Engine::Sqlite, Value::Int(_) | Value::Float(_)) => (element.clone(), true),
        _ => (element.clone(), false),
    }
}

/// The expression for the value of a [`json_element`].
pub fn json_parameter(engine: Engine, placeholder: &str, is_number: bool) -> String {
    match (engine, is_number) {
        (Engine::Sqlite, _) => placeholder.to_owned(),
        (Engine::Postgres, true) => format!("CAST(CAST({placeholder} AS text) AS numeric)"),
        (Engine::Postgres, false) => format!("CAST({placeholder} AS text)"),
    }
}

/// What the items of an array are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ItemType {
    /// Texts.
    Text,
    /// Integers of 64 bits.
    Int,
    /// Doubles.
    Float,
    /// Exact decimals, as texts.
    Decimal,
}

/// A table of the items of `column`, a JSON array, each once, to be joined to the row.
pub fn json_distinct(engine: Engine, column: &str) -> String {
    match engine {
        Engine::Sqlite => format!("json_each(json_distinct({column}))"),
        Engine::Postgres => format!(
            "LATERAL (SELECT DISTINCT \"value\" #>> '{{}}' AS \"value\" FROM jsonb_array_elements(\
             CASE WHEN jsonb_typeof({column}) = 'array' THEN {column} ELSE '[]' END) AS \"_e\"(\"value\"))"
        ),
    }
}

/// The item in a row of [`json_distinct`], whose alias is `table`.
pub fn json_item(engine: Engine, table: &str, item: ItemType) -> String {
    let text = format!("{table}.\"value\"");
    let matches = |form: &str| format!("{text} ~ '{form}'");
    let numeric = format!("CAST({text} AS numeric)");
    // An item of another type, which the service does not write, has the group null.
    match (engine, item) {
        (Engine::Sqlite, ItemType::Text | ItemType::Decimal) => text,
        (Engine::Sqlite, ItemType::Int) => {
            format!("(CASE typeof(json_number({text})) WHEN 'integer' THEN json_number({text}) END)")
        }
        (Engine::Sqlite, ItemType::Float) => format!("CAST(json_number({text}) AS REAL)"),
        (Engine::Postgres, ItemType::Text) => format!("({text} COLLATE \"C\")"),
        (Engine::Postgres, ItemType::Int) => format!(
            "(CASE WHEN {} THEN CASE WHEN {numeric} BETWEEN -9223372036854775808 AND 9223372036854775807 \
             THEN CAST({text} AS bigint) END END)",
            matches("^-?[0-9]{1,19}$")
        ),
        (Engine::Postgres, ItemType::Float) => format!(
            "(CASE WHEN {} THEN CASE WHEN {numeric} = 0 OR abs({numeric}) BETWEEN 5e-324 AND 1.7976931348623157e308 \
             THEN CAST({text} AS double precision) END END)",
            matches("^-?[0-9]+([.][0-9]+)?$")
        ),
        (Engine::Postgres, ItemType::Decimal) => {
            format!("(CASE WHEN {} THEN {numeric} END)", matches("^-?[0-9]{1,38}([.][0-9]{1,38})?$"))
        }
    }
}
