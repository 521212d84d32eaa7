//! Records between JSON and functions.

use gatewright_entities::Plan;
use gatewright_functions::{Data, HostError};
use gatewright_http::Problem;
use serde_json::Value;

/// A record as a function sees it: wide integers as `bigint`.
pub(super) fn record(plan: &Plan, json: &[u8]) -> Data {
    let value: Value = serde_json::from_slice(json).unwrap_or_default();
    widened(plan, Data::from(value))
}

pub(super) fn widened(plan: &Plan, data: Data) -> Data {
    let Data::Object(entries) = data else { return data };
    let wide = |key: &str| plan.fields().any(|field| field.key() == key && field.is_wide());
    let entry = |(key, value): (String, Data)| {
        let value = if wide(&key) { bigint(value) } else { value };
        (key, value)
    };
    Data::Object(entries.into_iter().map(entry).collect())
}

/// The value of a field with wide integers: a number, or a list of them.
pub(super) fn bigint(data: Data) -> Data {
    match data {
        Data::Number(number) => number.as_i64().map_or(Data::Number(number), Data::BigInt),
        Data::List(items) => Data::List(items.into_iter().map(bigint).collect()),
        other => other,
    }
}

/// The answer of a list, `{"data":[…],…}`, or of a write to many.
pub(super) fn answer(plan: &Plan, json: &[u8]) -> Data {
    let value: Value = serde_json::from_slice(json).unwrap_or_default();
    let Data::Object(entries) = Data::from(value) else { return Data::Null };
    let entry = |(key, value): (String, Data)| match value {
        Data::List(records) if key == "data" => {
            (key, Data::List(records.into_iter().map(|record| widened(plan, record)).collect()))
        }
        value => (key, value),
    };
    Data::Object(entries.into_iter().map(entry).collect())
}

/// `{"data":…}`.
pub(super) fn within_data(data: Data) -> Data {
    Data::Object(vec![("data".to_owned(), data)])
}

/// Whether both are the same value for a field: numbers count by their value, not by how they are written.
pub(super) fn is_same(one: &Data, other: &Data) -> bool {
    match (one, other) {
        (Data::List(one), Data::List(other)) => {
            one.len() == other.len() && one.iter().zip(other).all(|(one, other)| is_same(one, other))
        }
        (Data::Object(one), Data::Object(other)) => {
            let is_there =
                |(key, value): &(String, Data)| other.iter().any(|(name, other)| name == key && is_same(value, other));
            one.len() == other.len() && one.iter().all(is_there)
        }
        (Data::BigInt(one), Data::Number(other)) | (Data::Number(other), Data::BigInt(one)) => {
            other.as_i64() == Some(*one)
        }
        (Data::Number(one), Data::Number(other)) => match (one.as_i64(), other.as_i64()) {
            (Some(one), Some(other)) => one == other,
            _ => one.as_f64() == other.as_f64(),
        },
        _ => one == other,
    }
}

/// An exception of a function that is no error of an operation.
pub(super) fn exception(status: u16, name: &str, message: &str) -> HostError {
    HostError { status, code: name.to_owned(), message: message.to_owned(), errors: None }
}

/// An error of the service, as an exception of the function.
pub(super) fn error(problem: &Problem) -> HostError {
    let entry = |error: &gatewright_http::FieldError| {
        let field = error.field.as_deref().map_or(Data::Null, Data::from);
        Data::Object(vec![
            ("field".to_owned(), field),
            ("code".to_owned(), Data::from(&*error.code)),
            ("message".to_owned(), Data::from(&*error.message)),
        ])
    };
    let errors: Vec<Data> = problem.errors().iter().map(entry).collect();
    HostError {
        status: problem.status().as_u16(),
        code: problem.code().to_owned(),
        message: problem.detail().to_owned(),
        errors: (!errors.is_empty()).then_some(Data::List(errors)),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn numbers_are_the_same_however_they_are_written() {
        let same = |one: Value, other: Value| is_same(&Data::from(one), &Data::from(other));
        assert!(same(json!(1.0), json!(1)));
        assert!(same(json!({"a": [1.0], "b": null}), json!({"b": null, "a": [1]})));
        assert!(!same(json!(9_007_199_254_740_993_i64), json!(9_007_199_254_740_992_i64)));
        assert!(!same(json!({"a": 1}), json!({"a": 1, "b": 2})));
        assert!(is_same(&Data::BigInt(5), &Data::from(json!(5))));
        assert!(!is_same(&Data::from("5"), &Data::from(json!(5))));
    }
}
