use std::sync::Arc;

use gatewright_base::{canonical_id, time};
use gatewright_db::{Value, dialect};

use super::columns::{Column, Names};
use super::lexer::Place;
use super::syntax::{Comparison, Expression, Literal, Operand, Operator};
use crate::declare::Kind;
use crate::search::Sought;
use crate::value::{Type, decimal, list, types};

/// A filter whose names exist and whose values have their columns' types. Columns are positions in [`Columns`].
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Predicate {
    /// At least one holds. False if there are no parts.
    Any(Vec<Self>),
    /// All hold. True if there are no parts.
    All(Vec<Self>),
    /// The inner predicate does not hold.
    Not(Box<Self>),
    /// A test of one column.
    Test(usize, Test),
    /// The words of the record are sought.
    Words(Arc<Sought>),
}

impl Predicate {
    /// How many values the columns are compared with.
    pub(crate) fn values(&self) -> usize {
        match self {
            Self::Any(parts) | Self::All(parts) => parts.iter().map(Self::values).sum(),
            Self::Not(inner) => inner.values(),
            Self::Test(_, Test::In(list)) => list.len(),
            Self::Test(..) | Self::Words(_) => 1,
        }
    }

    /// Whether an index finds the records by the value of one of its columns. `indexed` returns whether a column has an
    /// index.
    pub(crate) fn is_found(&self, indexed: &dyn Fn(usize) -> bool) -> bool {
        match self {
            Self::Any(parts) => !parts.is_empty() && parts.iter().all(|part| part.is_found(indexed)),
            Self::All(parts) => parts.iter().any(|part| part.is_found(indexed)),
            Self::Test(column, Test::Equal(_) | Test::In(_)) => indexed(*column),
            Self::Words(_) => true,
            Self::Not(_) | Self::Test(..) => false,
        }
    }

    /// The parts for which one index is enough, by values or a range of its column: the records of each part include all
    /// matches.
    pub(crate) fn narrowings(&self, indexed: &dyn Fn(usize) -> bool) -> Vec<Self> {
        match self {
            Self::Any(parts) => {
                let first = |part: &Self| part.narrowings(indexed).into_iter().next();
                let parts: Option<Vec<Self>> = parts.iter().map(first).collect();
                parts.filter(|parts| !parts.is_empty()).map(Self::Any).into_iter().collect()
            }
            Self::All(parts) => {
                let mut narrowings: Vec<Self> = Vec::new();
                let mut ranges: Vec<(usize, Vec<Self>)> = Vec::new();
                for part in parts {
                    match part {
                        Self::Test(column, _) => match ranges.iter_mut().find(|(of, _)| of == column) {
                            Some((_, tests)) => tests.extend(part.narrowings(indexed)),
                            None => ranges.push((*column, part.narrowings(indexed))),
                        },
                        part => narrowings.extend(part.narrowings(indexed)),
                    }
                }
                narrowings.extend(
                    ranges.into_iter().filter(|(_, tests)| !tests.is_empty()).map(|(_, tests)| Self::All(tests)),
                );
                narrowings
            }
            Self::Not(_) | Self::Test(_, Test::Absent | Test::Contains(_) | Test::Has(_) | Test::Empty) => Vec::new(),
            Self::Test(column, _) => indexed(*column).then(|| self.clone()).into_iter().collect(),
            Self::Words(_) => vec![self.clone()],
        }
    }

    /// The column, if only its value is tested.
    pub(crate) fn as_equal(&self) -> Option<usize> {
        match self {
            Self::Test(column, Test::Equal(_)) => Some(*column),
            Self::All(parts) if parts.len() == 1 => parts[0].as_equal(),
            _ => None,
        }
    }
}

/// A test of a column. Each is false for an absent value, except the first.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Test {
    /// The value is absent.
    Absent,
    /// The value is this one.
    Equal(Value),
    /// The value comes after this one.
    Greater(Value),
    /// The value comes after this one or is it.
    GreaterOrEqual(Value),
    /// The value comes before this one.
    Less(Value),
    /// The value comes before this one or is it.
    LessOrEqual(Value),
    /// The text contains this text, which is already case-folded.
    Contains(String),
    /// The value is one of these.
    In(Vec<Value>),
    /// The list has this [element](list::element).
    Has(Value),
    /// The list has no items.
    Empty,
}

/// Reads the expression of `filter=` where it compares the record's own fields with values, and nothing else. The error
/// is a sentence for the caller.
#[cfg(test)]
pub(crate) fn read(text: &str, columns: Names<'_>) -> Result<Predicate, String> {
    let expression = super::syntax::parse(text).map_err(|error| format!("filter: {error}"))?;
    resolve(&expression, columns).map_err(|error| format!("filter: {error}"))
}

/// Whether the expression compares fields of the record itself with values, and nothing else.
pub(crate) fn is_plain(expression: &Expression, columns: Names<'_>) -> bool {
    match expression {
        Expression::Any(parts) | Expression::All(parts) => parts.iter().all(|part| is_plain(part, columns)),
        Expression::Not(inner) => is_plain(inner, columns),
        Expression::Compare(comparison) => plain(comparison, columns).is_some(),
        Expression::Bound(..) | Expression::Constant(..) | Expression::Changed(_) => false,
    }
}

/// The field and the value, where nothing else is compared. Only a list can have a value here: JSON is for the database.
fn plain<'a>(comparison: &'a Comparison, columns: Names<'_>) -> Option<(&'a str, &'a Literal)> {
    let column = |name: &str| columns.find(name).map(|index| columns.at(index));
    // The database follows links.
    let plain = comparison.plain().filter(|(name, _)| column(name).is_none_or(|column| column.links.is_none()));
    plain.filter(|(name, _)| {
        comparison.operator != Operator::Has || column(name).is_some_and(|column| column.kind == Kind::List)
    })
}

/// Looks up the names and types the values of an expression that [is plain](is_plain).
pub(crate) fn resolve(expression: &Expression, columns: Names<'_>) -> Result<Predicate, String> {
    let all = |parts: &[Expression]| parts.iter().map(|part| resolve(part, columns)).collect::<Result<_, _>>();
    Ok(match expression {
        Expression::Any(parts) => Predicate::Any(all(parts)?),
        Expression::All(parts) => Predicate::All(all(parts)?),
        Expression::Not(inner) => Predicate::Not(Box::new(resolve(inner, columns)?)),
        Expression::Compare(comparison) => compare(comparison, columns)?,
        Expression::Bound(_, path, _) => return Err(located(PLAIN, path.0[0].place)),
        Expression::Constant(_, place) => return Err(located(PLAIN, *place)),
        Expression::Changed(field) => return Err(located(PLAIN, field.place)),
    })
}

/// Why an expression with paths is refused.
const PLAIN: &str = "this filter compares fields of the record with values only";

fn compare(comparison: &Comparison, columns: Names<'_>) -> Result<Predicate, String> {
    let Some((field, value)) = plain(comparison, columns) else {
        let place = match comparison.right {
            Operand::Literal(_) => comparison.place,
            _ => comparison.right_place,
        };
        return Err(located(PLAIN, place));
    };
    let place = comparison.place;
    let Some(index) = columns.find(field) else { return Err(unknown_field(columns, field, place)) };
    test(index, comparison.operator, value.clone(), columns).map_err(|error| located(&error, place))
}

/// The error of a name without a field.
pub(crate) fn unknown_field(columns: Names<'_>, name: &str, place: Place) -> String {
    let (shown, meant) = columns.unknown(name);
    let hint = meant.map(|meant| format!(", did you mean \"{meant}\"?")).unwrap_or_default();
    format!("unknown field \"{shown}\" at {place}{hint}")
}

fn located(error: &str, place: Place) -> String {
    format!("{error} at {place}")
}

/// Puts a column, an operator and a value together.
pub(crate) fn test(index: usize, operator: Operator, value: Literal, columns: Names<'_>) -> Result<Predicate, String> {
    let column = columns.at(index);
    let is = |test| Predicate::Test(index, test);
    let not = |predicate| Predicate::Not(Box::new(predicate));
    let absent = value == Literal::Null;
    let empty = column.kind == Kind::List && value == Literal::List(Vec::new());
    if absent && column.of == Some(Kind::File) {
        return Err(format!("\"{}\" takes {OF_MANY_FILES}", column.key));
    }
    // A relation to many records is compared with each id that it has.
    let operator = match operator {
        Operator::Equal if column.links.is_some() && !empty && !absent => Operator::Has,
        operator => operator,
    };
    Ok(match operator {
        Operator::Equal if empty => is(Test::Empty),
        Operator::NotEqual if empty => not(is(Test::Empty)),
        Operator::Equal if absent => is(Test::Absent),
        Operator::NotEqual if absent => not(is(Test::Absent)),
        Operator::Contains | Operator::NotContains => {
            let contains = is(Test::Contains(needle(column, value)?));
            if operator == Operator::Contains { contains } else { not(contains) }
        }
        Operator::In => one_of(index, value, columns)?,
        Operator::Has => match column.item() {
            Some(item) => is(Test::Has(list::element(coerce(&item, value)?))),
            None => return Err(format!("\"{}\" is not an array; has needs an array", column.key)),
        },
        _ if absent => return Err(format!("\"{}\" cannot be ordered against null", column.key)),
        Operator::Equal => is(Test::Equal(coerce(column, value)?)),
        Operator::NotEqual => not(is(Test::Equal(coerce(column, value)?))),
        Operator::Greater => is(Test::Greater(coerce(column, value)?)),
        Operator::GreaterOrEqual => is(Test::GreaterOrEqual(coerce(column, value)?)),
        Operator::Less => is(Test::Less(coerce(column, value)?)),
        Operator::LessOrEqual => is(Test::LessOrEqual(coerce(column, value)?)),
    })
}

fn one_of(index: usize, value: Literal, columns: Names<'_>) -> Result<Predicate, String> {
    let Literal::List(literals) = value else { return Err(format!("\"{}\" in takes a list", columns.at(index).key)) };
    let absent = literals.contains(&Literal::Null);
    let present = literals.into_iter().filter(|literal| *literal != Literal::Null);
    let values: Vec<Value> = present.map(|literal| coerce(columns.at(index), literal)).collect::<Result<_, _>>()?;
    let listed = Predicate::Test(index, Test::In(values));
    Ok(if absent { Predicate::Any(vec![Predicate::Test(index, Test::Absent), listed]) } else { listed })
}

pub(crate) fn needle(column: &Column, value: Literal) -> Result<String, String> {
    if !matches!(column.kind, Kind::String | Kind::Text | Kind::Enum) {
        return Err(format!("\"{}\" is not text; ~ needs text", column.key));
    }
    match value {
        Literal::Text(text) | Literal::Number(text) if !text.contains('\0') => Ok(dialect::fold_case(&text)),
        _ => Err(format!("\"{}\" ~ takes a text", column.key)),
    }
}

/// How lists are compared.
const OF_LISTS: &str = "has for one of its items, = [] and != []; length() gives how many there are";

/// How files are compared.
const OF_FILES: &str = "= null and != null: a file has no other comparison";
const OF_MANY_FILES: &str = "= [] and != []; length() gives how many there are";

/// Turns a value into the column's type.
pub(crate) fn coerce(column: &Column, value: Literal) -> Result<Value, String> {
    let misfit = |expected: &str| format!("\"{}\" takes {expected}", column.key);
    let text = match (&column.kind, value) {
        (Kind::Json, _) => return Err(misfit("no comparison but = null and != null")),
        (Kind::File, _) => return Err(misfit(OF_FILES)),
        (Kind::List, _) if column.of == Some(Kind::File) => return Err(misfit(OF_MANY_FILES)),
        (Kind::List, _) => return Err(misfit(OF_LISTS)),
        (Kind::Bool, Literal::Bool(value)) => return Ok(Value::Bool(value)),
        (_, Literal::Text(text) | Literal::Number(text)) => text,
        (kind, _) => return Err(misfit(expected(*kind))),
    };
    let quoted = || serde_json::to_string(&text).unwrap_or_default();
    let read = match column.kind {
        Kind::String | Kind::Text | Kind::Relation if text.contains('\0') => {
            return Err(misfit("no character U+0000"));
        }
        Kind::String | Kind::Text => return Ok(Value::Text(text)),
        Kind::Relation => return Ok(Value::Text(canonical_id(&text).into_owned())),
        Kind::Enum => {
            return if column.values.contains(&text) {
                Ok(Value::Text(text))
            } else {
                Err(misfit(&format!("one of {}", column.values.join(", "))))
            };
        }
        Kind::Bool => match &*text {
            "true" => Ok(Value::Bool(true)),
            "false" => Ok(Value::Bool(false)),
            _ => return Err(misfit(expected(Kind::Bool))),
        },
        Kind::Int => types::integer(&text).map(Value::Int),
        Kind::Float => types::float(&text).map(Value::Float),
        Kind::Decimal => match decimal::Decimal::parse(&text) {
            Ok(number) => Ok(Value::Text(number.into_string())),
            Err(_) => return Err(misfit(expected(Kind::Decimal))),
        },
        Kind::Date => types::day(&quoted()).map(|day| Value::Text(day.to_string())),
        // A day without a time is its first moment.
        Kind::Timestamp => match time::parse(&format!("{text}T00:00:00Z")) {
            Some(midnight) if text.len() == 10 => Ok(Value::Time(midnight)),
            _ => types::instant(&quoted()).map(Value::Time),
        },
        Kind::Uuid => Type::Uuid.read(&quoted()),
        Kind::Json | Kind::List | Kind::File => return Err(misfit("no comparison")),
    };
    read.map_err(|_| misfit(expected(column.kind)))
}

fn expected(kind: Kind) -> &'static str {
    match kind {
        Kind::Int => "a whole number",
        Kind::Float => "a number",
        Kind::Decimal => "a decimal number",
        Kind::Bool => "true or false",
        Kind::Date => "a date written YYYY-MM-DD, from the year 1 to 9999",
        Kind::Timestamp => "a timestamp with an offset (RFC 3339) or a date, from the year 1 to 9999-12-30T22:00:00Z",
        Kind::Uuid => "a UUID",
        Kind::String | Kind::Text | Kind::Enum | Kind::Relation | Kind::Json | Kind::List | Kind::File => "a text",
    }
}
