//! Changes as merge patches (RFC 7396), and other types of bodies that are written as JSON.

use std::collections::BTreeSet;

use axum::body::Body;
use futures_util::future::join_all;
use gatewright_testing::{Actor, Answer, TestApp};
use http::Method;
use serde_json::{Value, json};

use super::admin::operator;

const MERGE: &str = "application/merge-patch+json";
const ENTITIES: &str = r#"
[admin]
enabled = true
[[auth.profile.field]]
name = "settings"
type = "json"
[[entity]]
name = "notes"
owner_field = "user_id"
[[entity.field]]
name = "title"
type = "string"
[[entity.field]]
name = "body"
type = "json"
"#;

async fn send(actor: &Actor, method: Method, path: &str, content_type: &str, body: &str) -> Answer {
    let request = actor.request(method, path).header("content-type", content_type);
    actor.send(request.body(Body::from(body.to_owned())).unwrap()).await
}

async fn merge(actor: &Actor, path: &str, body: Value) -> Answer {
    send(actor, Method::PATCH, path, MERGE, &body.to_string()).await
}

/// The doors where a JSON field is changed: each returns the field after a merge of `patch` into `stored`.
const DOORS: [&str; 3] = ["record", "record by an operator", "profile"];

async fn through(door: &str, actor: &Actor, stored: Value, patch: Value) -> Value {
    match door {
        "profile" => {
            actor.patch("/auth/me", json!({ "profile": { "settings": stored } })).await.is(200);
            let changed = merge(actor, "/auth/me", json!({ "profile": { "settings": patch } })).await.is(200);
            changed.at("/user/profile/settings")
        }
        _ => {
            let made = actor.post("/notes", json!({ "title": "kept", "body": stored })).await.is(201);
            let id = made.at("/data/id");
            let id = id.as_str().unwrap();
            let address = match door {
                "record" => format!("/notes/{id}"),
                _ => format!("/admin/api/records/notes/{id}"),
            };
            let changed = merge(actor, &address, json!({ "body": patch })).await.is(200);
            assert_eq!(changed.at("/data/title"), "kept", "{door}");
            let read = actor.get(&format!("/notes/{id}")).await.is(200);
            assert_eq!(read.at("/data/body"), changed.at("/data/body"), "{door}");
            read.at("/data/body")
        }
    }
}

#[tokio::test]
async fn a_merge_patch_merges_json_fields_at_every_door() {
    for app in TestApp::on_every_engine(ENTITIES).await {
        let ada = operator(&app).await;
        for door in DOORS {
            for (stored, patch, expected) in [
                (
                    json!({ "a": 1, "b": { "c": 2, "d": 3 } }),
                    json!({ "b": { "c": null, "e": 4 } }),
                    json!({ "a": 1, "b": { "d": 3, "e": 4 } }),
                ),
                (json!({ "a": [1, 2] }), json!({ "a": [3] }), json!({ "a": [3] })),
                (json!([1]), json!({ "a": { "b": null } }), json!({ "a": {} })),
                (Value::Null, json!({ "a": null, "b": 1 }), json!({ "b": 1 })),
                (json!({ "a": 1 }), json!([1]), json!([1])),
                (json!({ "a": 1 }), json!("text"), json!("text")),
                (json!({ "a": 1 }), Value::Null, Value::Null),
                (json!({ "a": 1 }), json!({}), json!({ "a": 1 })),
                (
                    json!({ "n": 9_007_199_254_740_993_i64 }),
                    json!({ "m": 0.1 }),
                    json!({ "n": 9_007_199_254_740_993_i64, "m": 0.1 }),
                ),
            ] {
                let found = through(door, &ada, stored.clone(), patch.clone()).await;
                assert_eq!(found, expected, "{door} on {}: {stored} {patch}", app.engine());
            }
        }
        // A PATCH of plain JSON replaces, and a PUT is no merge patch.
        let made = ada.post("/notes", json!({ "title": "x", "body": { "a": 1 } })).await.is(201);
        let path = format!("/notes/{}", made.at("/data/id").as_str().unwrap());
        assert_eq!(ada.patch(&path, json!({ "body": { "b": 2 } })).await.is(200).at("/data/body"), json!({ "b": 2 }));
        send(&ada, Method::PUT, &path, MERGE, r#"{"body":{"c":3}}"#).await.is(415);
        // Conditions and errors are those of a PATCH.
        merge(&ada, &path, json!({ "nonsense": {} })).await.is(422);
        merge(&ada, &path, json!([])).await.is(400);
        let request = ada.request(Method::PATCH, &path).header("content-type", MERGE).header("if-match", "\"other\"");
        ada.send(request.body(Body::from(r#"{"body":{"c":3}}"#)).unwrap()).await.is(412);
        merge(&app.signed_in("ben@example.com").await, &path, json!({ "body": { "c": 3 } })).await.is(404);
        assert_eq!(ada.get(&path).await.is(200).at("/data/body"), json!({ "b": 2 }));
    }
}

/// The attack on the write: merges that each read the same stored value would lose all but one.
#[tokio::test]
async fn of_twenty_merges_at_once_none_is_lost() {
    for app in TestApp::on_every_engine(ENTITIES).await {
        let ada = app.signed_in("ada@example.com").await;
        let made = ada.post("/notes", json!({ "title": "x", "body": { "list": {} } })).await.is(201);
        let path = format!("/notes/{}", made.at("/data/id").as_str().unwrap());
        let all = (0..20).map(|n| merge(&ada, &path, json!({ "body": { "list": { (n.to_string()): n } } })));
        for answer in join_all(all).await {
            answer.is(200);
        }
        let list = ada.get(&path).await.is(200).at("/data/body/list");
        assert_eq!(list.as_object().unwrap().len(), 20, "on {}: {list}", app.engine());
    }
}

/// Every operation of the document that takes JSON.
fn doors(document: &Value) -> Vec<(Method, String)> {
    let mut found = Vec::new();
    for (path, operations) in document["paths"].as_object().unwrap() {
        for (method, operation) in operations.as_object().unwrap() {
            let takes_json = operation["requestBody"]["content"].get("application/json").is_some();
            if takes_json && let Ok(method) = method.to_uppercase().parse() {
                found.push((method, path.clone()));
            }
        }
    }
    found
}

#[tokio::test]
async fn another_type_that_is_written_as_json_is_refused_at_every_door_that_reads_a_body() {
    for app in TestApp::on_every_engine(ENTITIES).await {
        let ada = operator(&app).await;
        let made = ada.post("/notes", json!({ "title": "x", "body": { "a": 1 } })).await.is(201);
        let id = made.at("/data/id").as_str().unwrap().to_owned();
        let document = app.anonymous().get("/openapi.json").await.is(200).json();
        let mut refused = BTreeSet::new();
        for (method, path) in doors(&document) {
            let real = path.replace("{entity}", "notes").replace("{id}", &id);
            for content_type in ["application/json-patch+json", "application/vnd.api+json"] {
                let answer = send(&ada, method.clone(), &real, content_type, r#"{"title":"y"}"#).await;
                let is_refused = [401, 403, 404, 406, 409, 415, 429].contains(&answer.status());
                assert!(is_refused, "{method} {path} {content_type}: {} {}", answer.status(), answer.text());
                if answer.status() == 415 {
                    refused.insert(format!("{method} {path}"));
                    let accepted = answer.header("accept-patch").unwrap_or_default();
                    assert_eq!(accepted.contains("application/json"), method == Method::PATCH, "{method} {path}");
                    let is_batch = path.ends_with("_batch");
                    assert_eq!(accepted.contains(MERGE), method == Method::PATCH && !is_batch, "{method} {path}");
                }
            }
        }
        for door in [
            "POST /notes",
            "PATCH /notes/{id}",
            "PUT /notes/{id}",
            "POST /notes/_batch",
            "PATCH /notes/_batch",
            "DELETE /notes/_batch",
            "PATCH /auth/me",
            "POST /auth/login",
            "POST /auth/register",
            "POST /auth/tokens",
            "PATCH /admin/api/records/{entity}/{id}",
        ] {
            assert!(refused.contains(door), "{door}: {refused:?}");
        }
        assert_eq!(ada.get(&format!("/notes/{id}")).await.is(200).at("/data/title"), "x");
        // A batch is no patch of one resource.
        let items = json!({ "items": [{ "id": id, "title": "y" }] }).to_string();
        send(&ada, Method::PATCH, "/notes/_batch", MERGE, &items).await.is(415);
        send(&ada, Method::POST, "/notes", MERGE, r#"{"title":"y"}"#).await.is(415);
    }
}
