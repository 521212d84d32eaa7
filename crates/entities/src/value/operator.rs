//! Operators: values of a body that say how to change what is stored, such as `{"$add": 1}`.
//!
//! No field whose type has operators takes an object as its value, so the two cannot be confused. An operator is applied
//! to the record under its lock, and the result must fit the field like a value that was sent.

use std::collections::HashSet;

use gatewright_db::Value;

use super::decimal::Decimal;
use super::error::{Fault, code};
use super::json::Members;
use super::list::List;
use super::types::{Type, exact, float, integer};

/// The operator of numbers.
const ADD: &str = "$add";
/// The operators of lists.
const APPEND: &str = "$append";
const REMOVE: &str = "$remove";

/// A change of one field's value, read.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Operator {
    /// Adds to a number.
    Add(Number),
    /// Adds items to the end of a list.
    Append(Vec<String>),
    /// Takes all items out of a list that equal one of these.
    Remove(Vec<String>),
}

/// A number of the field's type.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Number {
    Int(i64),
    Float(f64),
    Decimal(Decimal),
}

impl Operator {
    /// The operators of a type.
    pub(crate) fn of(rule: &Type) -> &'static [&'static str] {
        match rule {
            Type::Int(_) | Type::Float(_) | Type::Decimal(_) => &[ADD],
            Type::List(_) => &[APPEND, REMOVE],
            Type::Text(_)
            | Type::Bool
            | Type::Enum(_)
            | Type::Date(_)
            | Type::Timestamp(_)
            | Type::Uuid
            | Type::Json
            | Type::Relation
            | Type::File => &[],
        }
    }

    /// Reads an operator. `None` for a value.
    pub(crate) fn read(rule: &Type, json: &str) -> Option<Result<Self, Fault>> {
        let known = Self::of(rule);
        if known.is_empty() || !json.starts_with('{') {
            return None;
        }
        let wrong = || Fault::new(code::TYPE, format!("takes a value, or one operator of {}", known.join(", ")));
        let Ok(Members(members)) = serde_json::from_str(json) else { return Some(Err(wrong())) };
        Some(match members.as_slice() {
            [(name, operand)] if known.contains(&&**name) => {
                Self::with(rule, name, operand).unwrap_or_else(|| Err(wrong()))
            }
            _ => Err(wrong()),
        })
    }

    fn with(rule: &Type, name: &str, operand: &str) -> Option<Result<Self, Fault>> {
        let read = match (rule, name) {
            (Type::Int(_), ADD) => integer(operand).map(Number::Int).map(Self::Add),
            (Type::Float(_), ADD) => float(operand).map(Number::Float).map(Self::Add),
            (Type::Decimal(_), ADD) => exact(operand).map(Number::Decimal).map(Self::Add),
            (Type::List(list), APPEND) => list.items(operand).map(Self::Append),
            (Type::List(list), REMOVE) => list.items(operand).map(Self::Remove),
            _ => return None,
        };
        Some(read.map_err(|fault| fault.within(&format!(".{name}"))))
    }

    /// The value after the change, which must fit the type. `stored` is the JSON of the present value; none and null count
    /// as zero, or as no items.
    pub(crate) fn apply(&self, rule: &Type, stored: Option<&str>) -> Result<Value, Fault> {
        let stored = stored.filter(|stored| *stored != "null");
        let sum = match self {
            Self::Add(Number::Int(more)) => {
                let present = stored.map_or(Ok(0), integer)?;
                present.checked_add(*more).ok_or_else(|| beyond(*more > 0, i64::MIN, i64::MAX))?.to_string()
            }
            Self::Add(Number::Float(more)) => {
                let sum = stored.map_or(Ok(0.0), float)? + more;
                if !sum.is_finite() {
                    return Err(beyond(*more > 0.0, f64::MIN, f64::MAX));
                }
                // As JSON: a whole number of more digits than a float has would be read as another one.
                serde_json::Value::from(sum).to_string()
            }
            Self::Add(Number::Decimal(more)) => {
                let present = stored.map(exact).transpose()?;
                let sum = present.as_ref().map_or(Some(more.clone()), |present| present.plus(more));
                let sum = sum.ok_or_else(|| Fault::new(code::MAX, "must have at most 38 digits"))?;
                format!("\"{}\"", sum.into_string())
            }
            Self::Append(items) => {
                let list = of_list(rule)?;
                return list.fit(&list.appended(list.present(stored), items));
            }
            Self::Remove(items) => {
                let list = of_list(rule)?;
                let mut present = list.present(stored);
                let taken: HashSet<&String> = items.iter().collect();
                present.retain(|item| !taken.contains(item));
                return list.fit(&present);
            }
        };
        rule.read(&sum)
    }
}

/// An operator of lists was read for a list.
fn of_list(rule: &Type) -> Result<&List, Fault> {
    match rule {
        Type::List(list) => Ok(list),
        _ => Err(Fault::new(code::TYPE, "is no list")),
    }
}

fn beyond<T: std::fmt::Display>(is_above: bool, least: T, most: T) -> Fault {
    if is_above {
        Fault::new(code::MAX, format!("must be at most {most}"))
    } else {
        Fault::new(code::MIN, format!("must be at least {least}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::value::types::Bounds;

    fn done(rule: &Type, operator: &str, stored: Option<&str>) -> Result<Value, &'static str> {
        let operator = Operator::read(rule, operator).expect("an operator");
        operator.and_then(|operator| operator.apply(rule, stored)).map_err(|fault| fault.code)
    }

    #[test]
    fn sums_are_exact_and_must_fit() {
        let int = Type::Int(Bounds { min: Some(0), max: Some(10) });
        let any = Type::Int(Bounds::default());
        let float = Type::Float(Bounds::default());
        let decimal = Type::Decimal(Bounds { min: None, max: Some(Decimal::parse("100").unwrap()) });
        let text = |text: &str| Ok(Value::Text(text.to_owned()));
        for (rule, operator, stored, expected) in [
            (&int, r#"{"$add":3}"#, Some("4"), Ok(Value::Int(7))),
            (&int, r#"{"$add":3}"#, None, Ok(Value::Int(3))),
            (&int, r#"{"$add":3}"#, Some("null"), Ok(Value::Int(3))),
            (&int, r#"{ "$add" : -4e0 }"#, Some("4"), Ok(Value::Int(0))),
            (&int, r#"{"$add":-5}"#, Some("4"), Err(code::MIN)),
            (&int, r#"{"$add":7}"#, Some("4"), Err(code::MAX)),
            (&int, r#"{"$add":100}"#, Some("-95"), Ok(Value::Int(5))),
            (&int, r#"{"$add":0.5}"#, Some("4"), Err(code::TYPE)),
            (&int, r#"{"$add":null}"#, Some("4"), Err(code::TYPE)),
            (&int, r#"{"$add":1,"$add":1}"#, Some("4"), Err(code::TYPE)),
            (&int, r#"{"$append":[1]}"#, Some("4"), Err(code::TYPE)),
            (&int, "{}", Some("4"), Err(code::TYPE)),
            (&any, r#"{"$add":1}"#, Some("9223372036854775807"), Err(code::MAX)),
            (&any, r#"{"$add":-1}"#, Some("-9223372036854775808"), Err(code::MIN)),
            (&any, r#"{"$add":1}"#, Some("9007199254740993"), Ok(Value::Int(9_007_199_254_740_994))),
            (&float, r#"{"$add":0.5}"#, Some("1e300"), Ok(Value::Float(1e300))),
            (&float, r#"{"$add":0.25}"#, Some("1.5"), Ok(Value::Float(1.75))),
            (&float, r#"{"$add":1.7e308}"#, Some("1.7e308"), Err(code::MAX)),
            (&float, r#"{"$add":-1.7e308}"#, Some("-1.7e308"), Err(code::MIN)),
            (&decimal, r#"{"$add":"0.2"}"#, Some(r#""0.1""#), text("0.3")),
            (&decimal, r#"{"$add":0.2}"#, Some(r#""-0.2""#), text("0")),
            (&decimal, r#"{"$add":"99.95"}"#, Some(r#""0.06""#), Err(code::MAX)),
            (&decimal, r#"{"$add":"1e-30"}"#, Some(r#""-10000000000""#), Err(code::MAX)),
        ] {
            assert_eq!(done(rule, operator, stored), expected, "{operator} {stored:?}");
        }
        assert_eq!(Operator::read(&int, "3"), None);
        assert_eq!(Operator::read(&Type::Json, r#"{"$add":1}"#), None);
        assert_eq!(Operator::read(&Type::Text(crate::value::types::Text::default()), r#"{"$add":1}"#), None);
    }
}
