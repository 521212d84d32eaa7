//! JSON Merge Patch (RFC 7396) inside the values of JSON fields.

use gatewright_db::Value;
use gatewright_db::json::Json;
use serde_json::{Map, Value as Tree};

use super::error::Fault;
use super::types::Type;

/// Whether a value in a merge patch changes a part of what is stored. Any other value replaces it.
pub(crate) fn is_partial(value: &Value) -> bool {
    matches!(value, Value::Json(json) if json.as_str().starts_with('{'))
}

/// The stored JSON (`None` for null) after the merge patch `patch`.
pub(crate) fn merged(stored: Option<&str>, patch: &Json) -> Result<Value, Fault> {
    let tree = |text: &str| serde_json::from_str::<Tree>(text).unwrap_or(Tree::Null);
    let mut target = stored.map_or(Tree::Null, tree);
    merge(&mut target, tree(patch.as_str()));
    Type::Json.read(&target.to_string())
}

/// The function `MergePatch` of RFC 7396, section 2. The nesting of `patch` was limited when it was read.
fn merge(target: &mut Tree, patch: Tree) {
    let Tree::Object(patch) = patch else {
        *target = patch;
        return;
    };
    if !target.is_object() {
        *target = Tree::Object(Map::new());
    }
    if let Tree::Object(members) = target {
        for (name, value) in patch {
            if value.is_null() {
                members.shift_remove(&name);
            } else {
                merge(members.entry(name).or_insert(Tree::Null), value);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The examples of RFC 7396, appendix A, whose patch is an object.
    #[test]
    fn the_examples_of_the_standard_hold() {
        for (stored, patch, expected) in [
            (r#"{"a":"b"}"#, r#"{"a":"c"}"#, r#"{"a":"c"}"#),
            (r#"{"a":"b"}"#, r#"{"b":"c"}"#, r#"{"a":"b","b":"c"}"#),
            (r#"{"a":"b"}"#, r#"{"a":null}"#, "{}"),
            (r#"{"a":"b","b":"c"}"#, r#"{"a":null}"#, r#"{"b":"c"}"#),
            (r#"{"a":["b"]}"#, r#"{"a":"c"}"#, r#"{"a":"c"}"#),
            (r#"{"a":"c"}"#, r#"{"a":["b"]}"#, r#"{"a":["b"]}"#),
            (r#"{"a":{"b":"c"}}"#, r#"{"a":{"b":"d","c":null}}"#, r#"{"a":{"b":"d"}}"#),
            (r#"{"a":[{"b":"c"}]}"#, r#"{"a":[1]}"#, r#"{"a":[1]}"#),
            (r#"{"e":null}"#, r#"{"a":1}"#, r#"{"e":null,"a":1}"#),
            ("[1,2]", r#"{"a":"b","c":null}"#, r#"{"a":"b"}"#),
            ("{}", r#"{"a":{"bb":{"ccc":null}}}"#, r#"{"a":{"bb":{}}}"#),
            ("null", r#"{"a":{"b":null},"c":[null,{"d":null}]}"#, r#"{"a":{},"c":[null,{"d":null}]}"#),
            (
                r#"{"n":9007199254740993,"f":0.1}"#,
                r#"{"m":-9223372036854775808}"#,
                r#"{"n":9007199254740993,"f":0.1,"m":-9223372036854775808}"#,
            ),
        ] {
            let found = merged(Some(stored), &Json::read(patch).unwrap()).unwrap();
            assert_eq!(found, Value::Json(Json::read(expected).unwrap()), "{stored} {patch}");
        }
        let first = merged(None, &Json::read(r#"{"a":{"b":null}}"#).unwrap()).unwrap();
        assert_eq!(first, Value::Json(Json::read(r#"{"a":{}}"#).unwrap()));
    }
}
