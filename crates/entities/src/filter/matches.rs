use std::cmp::Ordering;

use gatewright_base::time;
use gatewright_db::{Value, dialect};
use serde_json::Value as Json;

use super::Subject;
use super::columns::Columns;
use super::typed::{Predicate, Test};
use crate::declare::Kind;

/// Whether a record in wire form passes.
pub(crate) fn matches(predicate: &Predicate, columns: &Columns, record: &Subject) -> bool {
    match predicate {
        Predicate::Any(parts) => parts.iter().any(|part| matches(part, columns, record)),
        Predicate::All(parts) => parts.iter().all(|part| matches(part, columns, record)),
        Predicate::Not(inner) => !matches(inner, columns, record),
        Predicate::Words(sought) => sought.matches(|field| record.value(columns.declared(&field.column)?)?.as_str()),
        Predicate::Test(index, Test::Contains(needle)) => {
            record.folded(*index).is_some_and(|text| text.contains(needle.as_str()))
        }
        Predicate::Test(index, test) => match record.value(*index) {
            None => *test == Test::Absent,
            Some(value) => passes(test, columns.at(*index).kind, value),
        },
    }
}

fn passes(test: &Test, kind: Kind, value: &Json) -> bool {
    let is = |wanted: &Value, expected: fn(Ordering) -> bool| compare(kind, value, wanted).is_some_and(expected);
    match test {
        // A text is searched in its folded form, above.
        Test::Absent | Test::Contains(_) => false,
        Test::Equal(wanted) => is(wanted, Ordering::is_eq),
        Test::Greater(wanted) => is(wanted, Ordering::is_gt),
        Test::GreaterOrEqual(wanted) => is(wanted, Ordering::is_ge),
        Test::Less(wanted) => is(wanted, Ordering::is_lt),
        Test::LessOrEqual(wanted) => is(wanted, Ordering::is_le),
        Test::Has(wanted) => value.as_array().is_some_and(|items| items.iter().any(|item| is_item(item, wanted))),
        Test::Empty => value.as_array().is_some_and(Vec::is_empty),
        Test::In(list) => list.iter().any(|wanted| is(wanted, Ordering::is_eq)),
    }
}

/// Whether an item of a list is this [element](crate::value::list::element).
fn is_item(item: &Json, wanted: &Value) -> bool {
    match (item, wanted) {
        (Json::String(found), Value::Text(wanted)) => found == wanted,
        (Json::Number(found), Value::Int(wanted)) => found.as_i64() == Some(*wanted),
        // The double of a whole number of 64 bits is that number.
        (Json::Number(found), Value::Float(wanted)) => found.as_i64().is_none() && found.as_f64() == Some(*wanted),
        _ => false,
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
