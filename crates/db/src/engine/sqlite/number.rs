//! Numbers in JSON, read by the reader that wrote them. The reader of SQLite may round a double differently, so that a
//! number would not equal itself.

use rusqlite::Connection;
use rusqlite::functions::{Context, FunctionFlags};
use rusqlite::types::{Value, ValueRef};

use super::limit;
use crate::json::{self, Number};

/// `json_number(text)`: the number that a JSON text is, and NULL for any other text. `has_number(array, number)`: whether a
/// JSON array has the number. `json_distinct(array)`: its items as texts, each once.
pub(super) fn create_functions(connection: &Connection, flags: FunctionFlags) -> rusqlite::Result<()> {
    connection.create_scalar_function("json_number", 1, flags, |arguments| {
        let Ok(text) = arguments.get_raw(0).as_str() else { return Ok(Value::Null) };
        Ok(match json::nearest(text) {
            Some(Number::Int(whole)) => Value::Integer(whole),
            Some(Number::Float(double)) => Value::Real(double),
            None => Value::Null,
        })
    })?;
    connection.create_scalar_function("json_distinct", 1, flags, |arguments| {
        let Ok(array) = arguments.get_raw(0).as_str() else { return Ok("[]".to_owned()) };
        limit::search(array.len())?;
        Ok(json::distinct(array))
    })?;
    connection.create_scalar_function("has_number", 2, flags, |arguments| {
        let (Ok(array), Some(number)) = (arguments.get_raw(0).as_str(), number(arguments)) else { return Ok(false) };
        // One call may take as long as thousands of steps, between which the time is looked at.
        limit::search(array.len())?;
        Ok(json::has_number(array, number))
    })
}

fn number(arguments: &Context<'_>) -> Option<Number> {
    match arguments.get_raw(1) {
        ValueRef::Integer(whole) => Some(Number::Int(whole)),
        ValueRef::Real(double) => Some(Number::Float(double)),
        ValueRef::Null | ValueRef::Text(_) | ValueRef::Blob(_) => None,
    }
}
