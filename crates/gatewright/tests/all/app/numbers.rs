//! The one form of numbers in JSON at every door by which JSON enters: REST, tools, the admin API and profiles.

use axum::body::Body;
use gatewright_testing::{Actor, Answer, TestApp};
use http::{Method, header};
use serde_json::{Value, json};

use super::admin::operator;

const DECLARED: &str = r#"
[[auth.profile.field]]
name = "settings"
type = "json"
[[entity]]
name = "notes"
owner_field = "user_id"
[[entity.field]]
name = "meta"
type = "json"
default = { n = 1.0, old = -0.0 }
"#;

async fn send(actor: &Actor, method: Method, path: &str, body: &str) -> Answer {
    let request = actor
        .request(method, path)
        .header(header::CONTENT_TYPE, "application/json")
        .header(header::ACCEPT, "application/json, text/event-stream");
    actor.send(request.body(Body::from(body.to_owned())).unwrap()).await
}

fn tool(name: &str, arguments: &str) -> String {
    format!(r#"{{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{{"name":"{name}","arguments":{arguments}}}}}"#)
}

/// Sends a value through every door, and returns the answers: the field, the status and the answer.
async fn through_every_door(
    app: &TestApp,
    ann: &Actor,
    operator: &Actor,
    value: &str,
) -> Vec<(&'static str, &'static str, u16, Value)> {
    let id = ann.post("/notes", json!({})).await.is(201).at("/data/id").as_str().unwrap().to_owned();
    let meta = format!(r#"{{"meta":{value}}}"#);
    let with_id = format!(r#"{{"id":"{id}","meta":{value}}}"#);
    let record = format!("/notes/{id}");
    let by_operator = format!("/admin/api/records/notes/{id}");
    let profile = format!(r#"{{"profile":{{"settings":{value}}}}}"#);
    let mut answers = Vec::new();
    for (door, field, method, path, body) in [
        ("create", "meta", Method::POST, "/notes", meta.clone()),
        ("update", "meta", Method::PATCH, &*record, meta.clone()),
        ("replace", "meta", Method::PUT, &*record, meta.clone()),
        ("batch create", "meta", Method::POST, "/notes/_batch", format!(r#"{{"items":[{meta}]}}"#)),
        ("batch update", "meta", Method::PATCH, "/notes/_batch", format!(r#"{{"items":[{with_id}]}}"#)),
        ("tool create", "meta", Method::POST, "/mcp", tool("notes_create", &meta)),
        ("tool update", "meta", Method::POST, "/mcp", tool("notes_update", &with_id)),
        ("admin update", "meta", Method::PATCH, &*by_operator, meta.clone()),
        ("profile", "settings", Method::PATCH, "/auth/me", profile),
    ] {
        let actor = if door == "admin update" { operator } else { ann };
        let answer = send(actor, method, path, &body).await;
        let json = answer.json_if_any().unwrap_or_default();
        let (status, json) = match (&json["results"][0], &json["result"]["structuredContent"]) {
            (Value::Object(result), _) if result.contains_key("error") => {
                let error = result["error"].clone();
                (error["status"].as_u64().and_then(|status| u16::try_from(status).ok()).unwrap_or(0), error)
            }
            (Value::Object(result), _) => (answer.status(), Value::Object(result.clone())),
            (_, Value::Object(result)) => {
                let result = Value::Object(result.clone());
                let status = result["status"].as_u64().and_then(|status| u16::try_from(status).ok());
                (status.unwrap_or(answer.status()), result)
            }
            _ => (answer.status(), json),
        };
        answers.push((door, field, status, json));
    }
    assert_eq!(answers.len(), 9, "{}", app.engine());
    answers
}

#[tokio::test]
async fn a_number_that_nothing_holds_is_refused_at_every_door() {
    for app in TestApp::on_every_engine(DECLARED).await {
        let (ann, operator) = (app.signed_in("ann@example.com").await, operator(&app).await);
        for number in ["18446744073709551617", "-9223372036854775809", "1e-400", "1e400"] {
            for (door, field, status, answer) in
                through_every_door(&app, &ann, &operator, &format!(r#"{{"a":[0,{number}]}}"#)).await
            {
                if number == "1e400" && door.starts_with("tool") {
                    // The SDK does not read such a message.
                    assert!(!answer["data"]["id"].is_string(), "{} {door} {number}: {answer}", app.engine());
                    continue;
                }
                assert_eq!(status, 422, "{} {door} {number}: {answer}", app.engine());
                assert_eq!(answer["errors"][0]["field"], field, "{door} {number}: {answer}");
                let message = answer["errors"][0]["message"].as_str().unwrap();
                assert!(message.ends_with(&format!(", at {field}.a[1]")), "{door}: {message}");
            }
        }
    }
}

#[tokio::test]
async fn a_number_gets_its_form_at_every_door() {
    for app in TestApp::on_every_engine(DECLARED).await {
        let (ann, operator) = (app.signed_in("ann@example.com").await, operator(&app).await);
        let id = ann.post("/notes", json!({})).await.is(201).at("/data/id").as_str().unwrap().to_owned();
        let text = ann.get(&format!("/notes/{id}")).await.text().replace(": ", ":").replace(", ", ",");
        assert!(text.contains(r#""meta":{"n":1,"old":0}"#), "the default: {text}");
        for (written, form) in [
            ("[-0.0,1.0,1E2]", "[0,1,100]"),
            ("[9007199254740993,9007199254740993.0]", "[9007199254740993,9007199254740993]"),
            ("[0.30000000000000004,1e-300,1e300]", "[0.30000000000000004,1e-300,1e+300]"),
            ("[18446744073709551616]", "[1.8446744073709552e+19]"),
        ] {
            for (door, field, status, answer) in through_every_door(&app, &ann, &operator, written).await {
                assert!((200..300).contains(&status), "{} {door} {written}: {status} {answer}", app.engine());
                let shown =
                    answer.pointer(&format!("/data/{field}")).or_else(|| answer.pointer("/user/profile/settings"));
                let shown = shown.or_else(|| answer.pointer("/profile/settings"));
                let shown = shown.unwrap_or_else(|| panic!("{door}: {answer}"));
                assert_eq!(shown.to_string(), form, "{} {door} {written}", app.engine());
            }
            let listed = ann.get("/notes?limit=100&sort=-id").await.is(200);
            assert!(listed.text().replace(", ", ",").contains(&format!(r#""meta":{form}"#)), "{}", listed.text());
        }
    }
}
