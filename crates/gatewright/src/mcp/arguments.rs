//! From a call's arguments to what the operations read.

use gatewright_entities::{Kind, Plan};
use rmcp::model::JsonObject;
use serde_json::Value;

/// The arguments of a list as the parameters of a query: text as it is, numbers and truth values as they are written,
/// lists joined by commas. The list's own parser decides what they mean.
pub(super) fn query(arguments: JsonObject) -> Result<Vec<(String, String)>, String> {
    let pair = |(name, value): (String, Value)| {
        let text = text(&name, value).transpose()?;
        Some(text.map(|text| (name, text)))
    };
    arguments.into_iter().filter_map(pair).collect()
}

/// The text of an argument; `None` for null, which is as good as leaving it out.
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
pub(super) fn id(arguments: &mut JsonObject) -> Result<String, String> {
    match arguments.remove("id") {
        Some(Value::String(id)) => Ok(id),
        Some(_) => Err("id is the record's id, as a string".to_owned()),
        None => Err("id is missing".to_owned()),
    }
}

/// Refuses arguments beyond those that a tool has.
pub(super) fn nothing_else(arguments: &JsonObject) -> Result<(), String> {
    match arguments.keys().next() {
        None => Ok(()),
        Some(name) => Err(format!("there is no argument \"{}\"", name.chars().take(64).collect::<String>())),
    }
}

/// The body of a write. An exact decimal must come as text: a number has been through a float by now.
pub(super) fn body(plan: &Plan, arguments: &JsonObject) -> Result<Vec<u8>, String> {
    let decimals = plan.fields().filter(|field| field.kind() == Kind::Decimal);
    for field in decimals {
        let given = [field.key(), field.column()].into_iter().filter_map(|key| arguments.get(key));
        if given.into_iter().any(Value::is_f64) {
            return Err(format!("{} is an exact decimal: send it as a string", field.key()));
        }
    }
    serde_json::to_vec(arguments).map_err(|error| error.to_string())
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
        let pairs = query(object(&json!({
            "filter": "a = 1, b", "limit": 5, "done": true, "fields": ["id", "title"], "page": null, "rank_in": [1, 2],
        })));
        let expected =
            [("filter", "a = 1, b"), ("limit", "5"), ("done", "true"), ("fields", "id,title"), ("rank_in", "1,2")];
        assert_eq!(pairs.unwrap(), expected.map(|(name, text)| (name.to_owned(), text.to_owned())));
        for wrong in [json!({ "filter": { "a": 1 } }), json!({ "fields": ["a,b"] }), json!({ "fields": [["a"], null] })]
        {
            assert!(query(object(&wrong)).is_err(), "{wrong}");
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
