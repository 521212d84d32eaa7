//! Every operation of the HTTP surface, from the OpenAPI document.

use std::fmt::Write;

use gatewright::{Config, openapi};
use serde_json::{Map, Value};

/// A server with every feature that has paths, and one entity as an example.
const EVERYTHING: &str = r#"
[server]
public_url = "https://example.com"
[auth]
jwt_secret = "it signs nothing: this server never starts"
[authorization_server]
enabled = true
dynamic_registration = true
[admin]
enabled = true
[outbox]
enabled = true
[[outbox.consumer]]
name = "billing"
event = "entity.created"
pull = true
[[entity]]
name = "posts"
owner_field = "user_id"
soft_delete = true
[[entity.field]]
name = "title"
type = "string"
"#;

const METHODS: [&str; 5] = ["get", "post", "put", "patch", "delete"];

pub(super) fn text() -> anyhow::Result<String> {
    let config = Config::from_toml("everything", EVERYTHING)?;
    let document: Value = serde_json::from_str(&openapi::document(&config)?.to_json()?)?;
    let mut text = String::new();
    for tag in list(&document["tags"]) {
        let (name, about) = (word(&tag["name"]), word(&tag["description"]));
        let _infallible = write!(text, "\n## {name}\n\n{about}\n");
        for (path, operations) in members(&document["paths"]) {
            for method in METHODS {
                let operation = &operations[method];
                if operation["tags"][0] == name {
                    let _infallible = write!(text, "\n### `{} {path}`\n\n", method.to_uppercase());
                    Operation { document: &document, operation }.write(&mut text);
                }
            }
        }
    }
    text.push('\n');
    Ok(text)
}

struct Operation<'a> {
    document: &'a Value,
    operation: &'a Value,
}

impl Operation<'_> {
    fn write(&self, text: &mut String) {
        let more = self.operation["description"].as_str().map(|more| format!(" {more}")).unwrap_or_default();
        let _infallible = write!(text, "{}.{more}\n\n", word(&self.operation["summary"]));
        let _infallible = writeln!(text, "- For {}", self.callers());
        for parameter in list(&self.operation["parameters"]) {
            let parameter = self.resolved(parameter);
            let (place, name) = (word(&parameter["in"]), word(&parameter["name"]));
            let required = if parameter["required"] == true && place != "path" { ", required" } else { "" };
            let about = about(word(&parameter["description"]));
            let _infallible = writeln!(text, "- {place} `{name}`{required}{about}");
        }
        self.write_body(text);
        let mut failures = Vec::new();
        for (status, response) in members(&self.operation["responses"]) {
            let named = response.get("$ref").is_some();
            if named && status.as_str() >= "400" {
                failures.push(format!("`{status}`"));
                continue;
            }
            let response = self.resolved(response);
            let schema = &response["content"]["application/json"]["schema"];
            let keys: Vec<&str> = members(&self.resolved(schema)["properties"]).map(|(key, _)| &**key).collect();
            let shape = if keys.is_empty() { String::new() } else { format!(" `{{{}}}`", keys.join(", ")) };
            let _infallible = writeln!(text, "- `{status}`{shape}{}", about(word(&response["description"])));
        }
        let _infallible = writeln!(text, "- Errors: {}", failures.join(", "));
    }

    fn write_body(&self, text: &mut String) {
        let content = &self.operation["requestBody"]["content"];
        let Some((_, first)) = members(content).next() else { return };
        let types: Vec<String> = members(content).map(|(name, _)| format!("`{name}`")).collect();
        let _infallible = writeln!(text, "- Body: {}", types.join(", "));
        let schema = self.resolved(&first["schema"]);
        for (name, field) in members(&schema["properties"]) {
            let required = list(&schema["required"]).any(|required| required == name);
            let kind = kind(self.resolved(field));
            let required = if required { format!("{kind}, required") } else { kind };
            let _infallible =
                writeln!(text, "  - `{name}` ({required}){}", about(word(&self.resolved(field)["description"])));
        }
    }

    /// Who may call, by the accepted credentials.
    fn callers(&self) -> String {
        let schemes = list(&self.operation["security"]).map(|scheme| match members(scheme).next() {
            Some((name, _)) if name == "apiToken" => "an API token".to_owned(),
            Some((name, _)) if name == "jwt" => "a JWT".to_owned(),
            Some((name, _)) => format!("a {name}"),
            None => "anybody".to_owned(),
        });
        let schemes: Vec<String> = schemes.collect();
        if schemes.is_empty() { "anybody".to_owned() } else { schemes.join(", ") }
    }

    /// The target of a reference, or the value itself.
    fn resolved<'a>(&'a self, value: &'a Value) -> &'a Value {
        let pointer = value["$ref"].as_str().and_then(|reference| reference.strip_prefix('#'));
        pointer.and_then(|pointer| self.document.pointer(pointer)).unwrap_or(value)
    }
}

fn kind(schema: &Value) -> String {
    match &schema["type"] {
        Value::String(kind) => kind.clone(),
        Value::Array(kinds) => kinds.iter().map(word).collect::<Vec<_>>().join(" or "),
        _ => "object".to_owned(),
    }
}

/// A description on one line.
fn about(text: &str) -> String {
    let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
    if text.is_empty() { text } else { format!(": {text}") }
}

fn word(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

fn list(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().into_iter().flatten()
}

fn members(value: &Value) -> impl Iterator<Item = (&String, &Value)> {
    value.as_object().into_iter().flat_map(Map::iter)
}
