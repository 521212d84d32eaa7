//! Converts a call's arguments into the input of operations.

use gatewright_base::canonical_id;
use gatewright_entities::operations::IfMatch;
use gatewright_entities::{IdempotencyKey, Kind, ListQuery, Plan, PlanField, RecordQuery};
use rmcp::model::JsonObject;
use serde_json::Value;

use super::catalogue::{ETAG, KEY, Verb};
use super::sent::Sent;

/// A call, read.
pub(super) enum Asked {
    List { query: ListQuery },
    Get { id: String, query: RecordQuery },
    Create { body: Vec<u8> },
    Update { id: String, if_match: Option<IfMatch>, body: Vec<u8> },
    Delete { id: String, if_match: Option<IfMatch> },
}

impl Asked {
    /// Reads the arguments of a tool. The error is a sentence for the caller.
    pub(super) fn read(plan: &Plan, verb: Verb, mut arguments: JsonObject, sent: &Sent) -> Result<Self, String> {
        Ok(match verb {
            Verb::List => Self::List { query: query(arguments)? },
            Verb::Group => Self::List { query: groups(arguments)? },
            Verb::Get => Self::Get { id: id(&mut arguments)?, query: query(arguments)? },
            Verb::Create if arguments.contains_key(ETAG) => return Err(format!("there is no argument \"{ETAG}\"")),
            Verb::Create => Self::Create { body: body(plan, &arguments, sent)? },
            Verb::Update => {
                let (id, if_match) = (id(&mut arguments)?, if_match(&mut arguments)?);
                Self::Update { id, if_match, body: body(plan, &arguments, sent)? }
            }
            Verb::Delete => {
                let (id, if_match) = (id(&mut arguments)?, if_match(&mut arguments)?);
                nothing_else(&arguments)?;
                Self::Delete { id, if_match }
            }
        })
    }
}

/// The query of groups. Without one of these arguments it would be a list of records.
fn groups(arguments: JsonObject) -> Result<ListQuery, String> {
    let query: ListQuery = query(arguments)?;
    if query.is_grouped() {
        return Ok(query);
    }
    Err("name a field in group, sum, min, max, avg or count_distinct".to_owned())
}

/// The arguments of a list as the parameters of a query: text unchanged, numbers and booleans as text, lists joined by
/// commas.
fn query<Q: FromIterator<(String, String)>>(arguments: JsonObject) -> Result<Q, String> {
    // A tool's answer has the entity tag beside the record.
    if arguments.contains_key("etag") {
        return Err("there is no argument \"etag\"".to_owned());
    }
    let pair = |(name, value): (String, Value)| {
        let text = text(&name, value).transpose()?;
        Some(text.map(|text| (name, text)))
    };
    arguments.into_iter().filter_map(pair).collect()
}

/// The text of an argument; `None` for null, which counts as left out.
fn text(name: &str, value: Value) -> Result<Option<String>, String> {
    Ok(Some(match value {
        Value::Null => return Ok(None),
        Value::String(text) => text,
        Value::Bool(truth) => truth.to_string(),
        Value::Number(number) => number.to_string(),
        Value::Array(parts) => {
            let part = |part| match text(name, part) {
                Ok(Some(text)) if !text.contains(',') => Ok(text),
                _ => Err(format!("{name} takes a list of words or numbers without commas")),
            };
            parts.into_iter().map(part).collect::<Result<Vec<_>, _>>()?.join(",")
        }
        Value::Object(_) => return Err(format!("{name} takes text, a number, true, false or a list")),
    }))
}

/// The id among the arguments, taken out.
fn id(arguments: &mut JsonObject) -> Result<String, String> {
    match arguments.remove("id") {
        Some(Value::String(id)) => Ok(canonical_id(&id).into_owned()),
        Some(_) => Err("id must be the record's id, as a string".to_owned()),
        None => Err("id is missing".to_owned()),
    }
}

/// The key under which the call is made once, taken out. The error is a sentence for the caller.
pub(super) fn key(arguments: &mut JsonObject) -> Result<Option<IdempotencyKey>, String> {
    match arguments.remove(KEY) {
        None | Some(Value::Null) => Ok(None),
        Some(Value::String(key)) => IdempotencyKey::parse(&key).map(Some).map_err(str::to_owned),
        Some(_) => Err(format!("{KEY} must be a string")),
    }
}

/// The tag that the record must still have, removed from the arguments: as in an answer, without the quotes of the
/// header.
fn if_match(arguments: &mut JsonObject) -> Result<Option<IfMatch>, String> {
    match arguments.remove(ETAG) {
        None | Some(Value::Null) => Ok(None),
        Some(Value::String(tag)) => Ok(Some(IfMatch::Tags(vec![format!("\"{}\"", tag.trim_matches('"'))]))),
        Some(_) => Err(format!("{ETAG} must be the _etag of a response, as a string")),
    }
}

/// Refuses arguments that the tool does not have.
fn nothing_else(arguments: &JsonObject) -> Result<(), String> {
    match arguments.keys().next() {
        None => Ok(()),
        Some(name) => Err(format!("there is no argument \"{}\"", name.chars().take(64).collect::<String>())),
    }
}

/// The body of a write, as it was sent. An exact decimal must come as text: clients write numbers from floats.
fn body(plan: &Plan, arguments: &JsonObject, sent: &Sent) -> Result<Vec<u8>, String> {
    match inexact(plan, arguments) {
        Some(reason) => Err(reason),
        None => sent.body(arguments.keys()).ok_or_else(|| "the message is not a single call".to_owned()),
    }
}

/// An exact decimal among the fields that was sent as a number, as a sentence for the caller.
pub(super) fn inexact(plan: &Plan, fields: &JsonObject) -> Option<String> {
    let is_float = |value: &Value| {
        value.is_f64() || value.as_object().is_some_and(|operator| operator.values().any(Value::is_f64))
    };
    let is_float = |value: &Value| is_float(value) || has_float(value, &is_float);
    let is_decimal = |field: &&PlanField| field.items().map_or(field.kind(), |items| items.kind) == Kind::Decimal;
    plan.fields().filter(is_decimal).find_map(|field| {
        let mut given = [field.key(), field.column()].into_iter().filter_map(|key| fields.get(key));
        given.any(is_float).then(|| format!("{} is an exact decimal: send it as a string", field.key()))
    })
}

/// Whether an array, or one inside an operator, has such a value.
fn has_float(value: &Value, is_float: &dyn Fn(&Value) -> bool) -> bool {
    match value {
        Value::Array(items) => items.iter().any(is_float),
        Value::Object(operator) => operator.values().filter_map(Value::as_array).flatten().any(is_float),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn object(value: &Value) -> JsonObject {
        value.as_object().unwrap().clone()
    }

    #[test]
    fn arguments_become_the_parameters_that_a_query_would_have() {
        let read: Result<ListQuery, String> = query(object(&json!({
            "filter": "a = 1, b", "limit": 5, "done": true, "fields": ["id", "title"], "page": null, "rank_in": [1, 2],
        })));
        let expected = ListQuery::parse("filter=a+%3D+1,+b&limit=5&done=true&fields=id,title&rank_in=1,2");
        assert_eq!(read, Ok(expected));
        for wrong in [
            json!({ "filter": { "a": 1 } }),
            json!({ "fields": ["a,b"] }),
            json!({ "fields": [["a"], null] }),
            json!({ "etag": true }),
        ] {
            assert!(query::<ListQuery>(object(&wrong)).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_condition_is_only_a_tag_from_an_answer() {
        for tag in ["a1", "\"a1\""] {
            let read = if_match(&mut object(&json!({ ETAG: tag }))).unwrap().unwrap();
            assert!(read.matches("\"a1\"") && !read.matches("\"a2\""), "{tag}");
        }
        // A star does not make the change unconditional: only leaving the tag out does.
        assert!(!if_match(&mut object(&json!({ ETAG: "*" }))).unwrap().unwrap().matches("\"a1\""));
        assert_eq!(if_match(&mut object(&json!({}))), Ok(None));
        for wrong in [json!(1), json!(true), json!(["a1"]), json!({})] {
            assert!(if_match(&mut object(&json!({ ETAG: wrong }))).is_err(), "{wrong}");
        }
    }

    #[test]
    fn an_id_is_a_string() {
        assert_eq!(id(&mut object(&json!({ "id": "x" }))), Ok("x".to_owned()));
        for wrong in [json!({}), json!({ "id": 1 }), json!({ "id": ["x"] }), json!({ "id": null })] {
            assert!(id(&mut object(&wrong)).is_err(), "{wrong}");
        }
    }
}
