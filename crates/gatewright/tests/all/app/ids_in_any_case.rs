//! Ids as Swift prints UUIDs, in upper case, at every door that takes one (RFC 9562, section 4).

use gatewright::auth::tokens::TokenDraft;
use gatewright::base::{Roles, Subject};
use gatewright_testing::TestApp;
use http::Method;
use serde_json::{Value, json};

use super::admin::operator;
use super::mcp::worked;

const CONFIG: &str = concat!(
    r#"
[outbox]
enabled = true
[[outbox.consumer]]
name = "crm"
event = "entity.created"
pull = true
[[entity]]
name = "notes"
owner_field = "user_id"
soft_delete = true
[[entity.field]]
name = "title"
type = "string"
[[entity.field]]
name = "topic"
type = "relation"
to = "topics"
[[entity.field]]
name = "reader"
type = "relation"
to = "users"
"#,
    entity!(public "topics" "title"),
);

/// An id in upper case.
fn upper(id: &Value) -> String {
    let id = id.as_str().unwrap();
    let upper = id.to_uppercase();
    assert_ne!(upper, id, "a test needs an id with letters");
    upper
}

#[tokio::test]
async fn records_are_found_by_ids_in_upper_case_through_rest_admin_and_tools() {
    for app in TestApp::on_every_engine(CONFIG).await {
        let (admin, ada) = (operator(&app).await, app.signed_in("ada@example.com").await);
        let topic = ada.post("/topics", json!({ "title": "t" })).await.is(201).at("/data/id");
        let ada_id = json!(app.user_id("ada@example.com").await.as_str());
        let body = json!({ "title": "n", "topic": upper(&topic), "reader": upper(&ada_id) });
        let made = ada.post("/notes", body).await.is(201);
        let (id, note) = (made.at("/data/id"), format!("/notes/{}", upper(&made.at("/data/id"))));
        assert_eq!((made.at("/data/topic"), made.at("/data/reader")), (topic.clone(), ada_id.clone()));
        for filter in [
            format!("topic={}", upper(&topic)),
            format!("id={}", upper(&id)),
            format!("id_in={},x", upper(&id)),
            format!("filter=topic%20%3D%20'{}'", upper(&topic)),
            format!("filter=id%20in%20%5B'{}'%5D", upper(&id)),
            format!("filter=topic.id%20%3D%20'{}'", upper(&topic)),
            format!("filter=reader%20%3D%20'{}'", upper(&ada_id)),
            format!("filter=%40me%20%3D%20'{}'", upper(&ada_id)),
        ] {
            let found = ada.get(&format!("/notes?include=topic&{filter}")).await.is(200);
            assert_eq!(found.at("/data/0/id"), id, "{}: {filter}: {}", app.engine(), found.text());
            assert_eq!(found.at("/data/0/_included/topic/id"), topic);
        }
        assert_eq!(ada.get(&note).await.is(200).at("/data/id"), id);
        assert_eq!(ada.get(&format!("{note}?include=topic")).await.is(200).at("/data/_included/topic/id"), topic);
        assert_eq!(ada.patch(&note, json!({ "title": "m" })).await.is(200).at("/data/id"), id);
        assert_eq!(ada.patch(&note, json!({})).await.is(200).at("/data/id"), id);
        let batch = json!({ "items": [{ "id": upper(&id), "title": "o", "topic": upper(&topic) }] });
        assert_eq!(ada.patch("/notes/_batch", batch).await.is(200).at("/results/0/data/id"), id);
        let read = worked(&ada, "notes_get", json!({ "id": upper(&id) })).await;
        assert_eq!(read["data"]["id"], id);
        let listed = worked(&ada, "notes_list", json!({ "topic": upper(&topic) })).await;
        assert_eq!(listed["data"][0]["id"], id);
        let changed = worked(&ada, "notes_update", json!({ "id": upper(&id), "title": "p" })).await;
        assert_eq!(changed["data"]["id"], id);
        let record = format!("/admin/api/records/notes/{}", upper(&id));
        assert_eq!(admin.get(&record).await.is(200).at("/data/id"), id);
        assert_eq!(admin.patch(&record, json!({ "title": "q" })).await.is(200).at("/data/id"), id);
        // Each way to delete it, and back.
        let restore = format!("{note}/_restore");
        ada.delete(&note).await.is(204);
        assert_eq!(ada.post(&restore, json!({})).await.is(200).at("/data/id"), id);
        let ids = json!({ "ids": [upper(&id)] });
        ada.json(Method::DELETE, "/notes/_batch", &ids).await.is(200);
        ada.post(&restore, json!({})).await.is(200);
        assert_eq!(worked(&ada, "notes_delete", json!({ "id": upper(&id) })).await["id"], id);
        ada.post(&restore, json!({})).await.is(200);
        admin.delete(&record).await.is(204);
        admin.post(&format!("{record}/restore"), json!({})).await.is(200);
        let question = json!({ "as": "ada@example.com", "operation": "read", "table": "notes", "id": upper(&id) });
        let explained = admin.post("/admin/api/explain", question).await.is(200);
        assert_eq!((explained.at("/data/allowed"), explained.at("/data/id")), (json!(true), id));
    }
}

#[tokio::test]
async fn accounts_sessions_tokens_tenants_and_events_are_found_by_ids_in_upper_case() {
    for app in TestApp::on_every_engine(CONFIG).await {
        app.registered("ada@example.com").await;
        let admin = operator(&app).await;
        let id = json!(app.user_id("ada@example.com").await.as_str());
        let user = format!("/admin/api/users/{}", upper(&id));
        assert_eq!(admin.get(&user).await.is(200).at("/data/id"), id);
        assert_eq!(admin.get(&format!("/admin/api/users?q={}", upper(&id))).await.is(200).at("/data/0/id"), id);
        for (method, path, body) in [
            (Method::PUT, "/roles", json!({ "roles": ["editor"], "unverified": true })),
            (Method::POST, "/disable", json!({})),
            (Method::POST, "/enable", json!({})),
            (Method::POST, "/unlock", json!({})),
        ] {
            let answer = admin.json(method, &format!("{user}{path}"), &body).await;
            assert!(answer.status() < 300, "{} {path}: {}", app.engine(), answer.text());
        }
        let events = admin.get(&format!("/admin/api/audit?user={}", upper(&id))).await.is(200);
        assert_eq!(events.at("/data/0/user"), id, "{}", app.engine());

        // Sessions and tokens of one's own.
        let (mut ada, mut other) = (app.anonymous(), app.anonymous());
        ada.sign_in("ada@example.com").await.is(200);
        other.sign_in("ada@example.com").await.is(200);
        let sessions = ada.get("/auth/sessions").await.is(200).at("/sessions");
        let past = sessions.as_array().unwrap().iter().find(|session| session["current"] != true).unwrap();
        ada.delete(&format!("/auth/sessions/{}", upper(&past["id"]))).await.is(204);
        ada.post("/auth/tokens", json!({ "name": "t", "scopes": ["notes:read"] })).await.is(200);
        let token = ada.get("/auth/tokens").await.is(200).at("/tokens/0/id");
        ada.delete(&format!("/auth/tokens/{}", upper(&token))).await.is(204);

        // Service accounts and their events.
        let auth = app.app().auth().unwrap();
        let service = auth.service_accounts().unwrap().create("worker", Roles::default()).await.unwrap();
        let path = format!("/admin/api/service-accounts/{}", service.id.as_str().to_uppercase());
        for change in ["disable", "enable"] {
            let answer = admin.post(&format!("{path}/{change}"), json!({})).await;
            assert!(answer.status() < 300, "{}", answer.text());
        }
        let draft = TokenDraft::parse("worker", &["consumers:crm"], 0).unwrap();
        let issued = auth.api_tokens().unwrap().issue(Subject::Service(service.id), draft).await.unwrap();
        let program = app.anonymous().bearing(issued.plaintext.expose());
        ada.post("/topics", json!({ "title": "an event" })).await.is(201);
        let event = program.get("/consumers/crm/events?wait=20").await.is(200).at("/events/0/id");
        let path = format!("/admin/api/outbox/events/{}", upper(&event));
        admin.get(&path).await.is(200);
        program.post("/consumers/crm/ack", json!({ "ids": [upper(&event)] })).await.is(204);
    }
}
