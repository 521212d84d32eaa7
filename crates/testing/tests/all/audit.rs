//! `[audit] entities = true`: an entry for each write.
#![expect(clippy::unwrap_used, reason = "a step that fails fails its test, in helpers as in tests")]

use gatewright_testing::TestApp;
use serde_json::{Value, json};

const CONFIG: &str = r#"
[audit]
entities = true
[[entity]]
name = "folders"
[[entity.field]]
name = "title"
type = "string"
unique = true
[[entity]]
name = "notes"
owner_field = "user_id"
[[entity.field]]
name = "text"
type = "text"
[[entity.field]]
name = "secret"
type = "string"
hidden = true
default = "canary-55d"
[[entity.field]]
name = "folder"
type = "relation"
to = "folders"
on_delete = "cascade"
"#;

/// Kind, account, address and details of each entry about entities, oldest first.
async fn entries(app: &TestApp) -> Vec<(String, Option<String>, Option<String>, Value)> {
    let sql = "SELECT kind, user_id, remote, meta FROM audit_log WHERE kind LIKE 'entity.%' ORDER BY id";
    let rows = app.app().db().query(sql, vec![]).await.unwrap();
    rows.iter()
        .map(|row| {
            let meta = serde_json::from_str(&row.get::<String>("meta").unwrap()).unwrap();
            (row.get("kind").unwrap(), row.get("user_id").unwrap(), row.get("remote").unwrap(), meta)
        })
        .collect()
}

#[tokio::test]
async fn every_write_leaves_an_entry_in_its_own_transaction() {
    for app in TestApp::on_every_engine(CONFIG).await {
        let ada = app.signed_in("ada@example.com").await;
        let user = app.app().auth().unwrap().accounts().find("ada@example.com").await.unwrap();
        let folder = ada.post("/folders", json!({ "title": "f" })).await.is(201).json()["data"]["id"].clone();
        let note = ada.post("/notes", json!({ "text": "one", "folder": folder })).await.is(201).json();
        let id = note["data"]["id"].as_str().unwrap();
        ada.patch(&format!("/notes/{id}"), json!({ "text": "two" })).await.is(200);
        // Neither a refused write nor one that changes nothing leaves an entry.
        ada.post("/folders", json!({ "title": "f" })).await.is(409);
        ada.patch(&format!("/notes/{id}"), json!({})).await.is(200);
        app.anonymous().post("/notes", json!({ "text": "x" })).await.is(401);
        ada.delete(&format!("/folders/{}", folder.as_str().unwrap())).await.is(204);

        let entries = entries(&app).await;
        let mut told: Vec<(&str, &str, &Value)> = entries
            .iter()
            .map(|(kind, _, _, meta)| (&**kind, meta["entity"].as_str().unwrap(), &meta["fields"]))
            .collect();
        told.sort_by_key(|(kind, entity, _)| (*kind, *entity));
        assert_eq!(
            told,
            [
                ("entity.created", "folders", &json!({ "title": "f" })),
                ("entity.created", "notes", &json!({ "text": "one", "folder": folder })),
                ("entity.deleted", "folders", &Value::Null),
                ("entity.deleted", "notes", &Value::Null),
                ("entity.updated", "notes", &json!({ "text": "two" })),
            ],
            "{}",
            app.engine()
        );
        for (_, by, remote, meta) in &entries {
            assert_eq!((by.as_deref(), remote.as_deref()), (Some(user.id.as_str()), Some("127.0.0.1")), "{meta}");
            assert!(!meta.to_string().contains("canary") && !meta.to_string().contains("secret"), "{meta}");
        }
    }
}

#[tokio::test]
async fn batches_and_tools_leave_entries_like_any_write_and_none_when_they_fail() {
    for app in TestApp::on_every_engine(CONFIG).await {
        let ada = app.signed_in("ada@example.com").await;
        let user = app.app().auth().unwrap().accounts().find("ada@example.com").await.unwrap();
        let batch = |items: Value| ada.post("/notes/_batch", json!({ "items": items }));
        batch(json!([{ "text": "one" }, { "text": "two" }])).await.is(200);
        batch(json!([{ "text": "three" }, { "text": 3 }])).await.is(422);
        batch(json!([{ "text": "three" }, { "folder": "nosuch" }])).await.is(422);
        let call = json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {
            "name": "notes_create", "arguments": { "text": "by a tool" },
        } });
        let request = ada.request(http::Method::POST, "/mcp").header("content-type", "application/json");
        let request = request.header("accept", "application/json, text/event-stream");
        ada.send(request.body(call.to_string().into()).unwrap()).await.is(200);

        let entries = entries(&app).await;
        let mut texts: Vec<&str> = entries.iter().map(|(.., meta)| meta["fields"]["text"].as_str().unwrap()).collect();
        texts.sort_unstable();
        assert_eq!(texts, ["by a tool", "one", "two"], "{}", app.engine());
        for (_, by, remote, meta) in &entries {
            assert_eq!((by.as_deref(), remote.as_deref()), (Some(user.id.as_str()), Some("127.0.0.1")), "{meta}");
        }
    }
}
