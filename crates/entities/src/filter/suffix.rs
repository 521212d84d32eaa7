use super::columns::Names;
use super::syntax::{Literal, MAX_LIST, Operator};
use super::typed::{self, Predicate};

const SUFFIXES: [(&str, Operator); 7] = [
    ("_gt", Operator::Greater),
    ("_gte", Operator::GreaterOrEqual),
    ("_lt", Operator::Less),
    ("_lte", Operator::LessOrEqual),
    ("_ne", Operator::NotEqual),
    ("_like", Operator::Contains),
    ("_in", Operator::In),
];

/// Parses the parameter `name=value`, where `name` is a field or a field with a suffix such as `_gte`. `None` if it is
/// neither; the inner error is a sentence for the caller.
///
/// If a field's own name ends in a suffix, the name refers to that field. `_in` takes values separated by commas,
/// `_null` true or false.
pub(crate) fn read(name: &str, value: &str, columns: Names<'_>) -> Option<Result<Predicate, String>> {
    let text = || Literal::Text(value.to_owned());
    if let Some(index) = columns.find(name) {
        return Some(typed::test(index, Operator::Equal, text(), columns));
    }
    if let Some(index) = name.strip_suffix("_null").and_then(|field| columns.find(field)) {
        return Some(match value {
            "true" => typed::test(index, Operator::Equal, Literal::Null, columns),
            "false" => typed::test(index, Operator::NotEqual, Literal::Null, columns),
            _ => Err(format!("{name} takes true or false")),
        });
    }
    let (index, operator) = SUFFIXES
        .into_iter()
        .find_map(|(suffix, operator)| Some((columns.find(name.strip_suffix(suffix)?)?, operator)))?;
    let literal = if operator == Operator::In {
        let values: Vec<Literal> = match value {
            "" => Vec::new(),
            list => list.split(',').map(|value| Literal::Text(value.to_owned())).collect(),
        };
        if values.len() > MAX_LIST {
            return Some(Err(format!("{name} takes at most {MAX_LIST} values")));
        }
        Literal::List(values)
    } else {
        text()
    };
    Some(typed::test(index, operator, literal, columns))
}

/// A suggestion for a name that has a suffix but names no field: the nearest field with the same suffix.
pub(crate) fn meant(name: &str, columns: Names<'_>) -> Option<String> {
    let suffixes = SUFFIXES.iter().map(|(suffix, _)| *suffix).chain(["_null"]);
    let (field, suffix) = suffixes
        .filter_map(|suffix| Some((name.strip_suffix(suffix)?, suffix)))
        .min_by_key(|(field, _)| field.len())?;
    columns.unknown(field).1.map(|field| format!("{field}{suffix}"))
}
