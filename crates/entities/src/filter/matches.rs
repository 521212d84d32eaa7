use std::cmp::Ordering;

use gatewright_base::time;
use gatewright_db::{Value, dialect};
use serde_json::{Map, Value as Json};

use super::columns::{Column, Columns};
use super::typed::{Predicate, Test};
use crate::declare::Kind;

/// Whether a record, as it is on the wire, passes.
pub(crate) fn matches(predicate: &Predicate, columns: &Columns, record: &Map<String, Json>) -> bool {
    match predicate {
        Predicate::Any(parts) => parts.iter().any(|part| matches(part, columns, record)),
        Predicate::All(parts) => parts.iter().all(|part| matches(part, columns, record)),
        Predicate::Not(inner) => !matches(inner, columns, record),
        Predicate::Test(index, test) => {
            let column = columns.at(*index);
            match record.get(&column.key) {
                None | Some(Json::Null) => *test == Test::Absent,
                Some(value) => passes(test, column, value),
            }
        }
    }
}

fn passes(test: &Test, column: &Column, value: &Json) -> bool {
    let is = |wanted: &Value, expected: fn(Ordering) -> bool| compare(column.kind, value, wanted).is_some_and(expected);
    match test {
        Test::Absent => false,
        Test::Equal(wanted) => is(wanted, Ordering::is_eq),
        Test::Greater(wanted) => is(wanted, Ordering::is_gt),
        Test::GreaterOrEqual(wanted) => is(wanted, Ordering::is_ge),
        Test::Less(wanted) => is(wanted, Ordering::is_lt),
        Test::LessOrEqual(wanted) => is(wanted, Ordering::is_le),
        Test::In(list) => list.iter().any(|wanted| is(wanted, Ordering::is_eq)),
        Test::Contains(needle) => value.as_str().is_some_and(|text| dialect::fold_case(text).contains(needle)),
    }
}

fn compare(kind: Kind, found: &Json, wanted: &Value) -> Option<Ordering> {
    match (found, wanted) {
        (Json::Bool(found), Value::Bool(wanted)) => Some(found.cmp(wanted)),
        (Json::Number(found), Value::Int(wanted)) => found.as_i64().map(|found| found.cmp(wanted)),
        (Json::Number(found), Value::Float(wanted)) => found.as_f64().and_then(|found| found.partial_cmp(wanted)),
        (Json::String(found), Value::Time(wanted)) => time::parse(found).map(|found| found.cmp(wanted)),
        (Json::String(found), Value::Text(wanted)) if kind == Kind::Decimal => {
            Some(dialect::compare_decimals(found, wanted))
        }
        (Json::String(found), Value::Text(wanted)) => Some(found.as_bytes().cmp(wanted.as_bytes())),
        _ => None,
    }
}
