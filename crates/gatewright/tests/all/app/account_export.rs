//! Everything about an account, for its owner and for nobody else.

use gatewright_testing::{Actor, TestApp};
use jiff::SignedDuration;
use serde_json::{Value, json};

const ANN: &str = "ann@example.com";
const BEN: &str = "ben@example.com";
const PASSWORD: &str = "correct horse battery";

const ENTITIES: &str = r#"
[[entity]]
name = "notes"
owner_field = "user_id"
soft_delete = true
[[entity.field]]
name = "text"
type = "string"
[[entity.field]]
name = "remark"
type = "string"
hidden = true
[[entity]]
name = "tags"
public = true
[[entity.field]]
name = "name"
type = "string"
[[entity]]
name = "books"
owner_field = "owner"
[[entity.field]]
name = "title"
type = "string"
"#;

async fn exported(actor: &Actor) -> Value {
    actor.post("/auth/export", json!({ "password": PASSWORD })).await.is(200).json()
}

#[tokio::test]
async fn an_export_has_everything_of_the_caller_and_nothing_of_others() {
    for app in TestApp::on_every_engine(ENTITIES).await {
        let ann = app.signed_in(ANN).await;
        let ben = app.signed_in(BEN).await;
        for number in 0..450 {
            ann.post("/notes", json!({ "text": format!("note {number}") })).await.is(201);
        }
        let trashed = ann.post("/notes", json!({ "text": "in the trash" })).await.is(201).json();
        ann.delete(&format!("/notes/{}", trashed["data"]["id"].as_str().unwrap())).await.is(204);
        ann.post("/books", json!({ "title": "mine" })).await.is(201);
        ben.post("/notes", json!({ "text": "canary of ben" })).await.is(201);
        let token = ann.post("/auth/tokens", json!({ "name": "CI", "scopes": ["notes:read"] })).await.is(200).json();
        ann.post("/auth/tenants", json!({ "name": "Acme" })).await;
        let all = exported(&ann).await;
        assert_eq!(all["account"]["email"], ANN);
        assert_eq!(all["account"]["emailVerified"], false);
        assert_eq!(all["apiTokens"][0]["name"], "CI");
        assert_eq!(all["sessions"].as_array().unwrap().len(), 1);
        assert!(all["passkeys"].is_array() && all["providerLinks"].is_array(), "{}", all["account"]);
        assert!(all["audit"].as_array().unwrap().iter().any(|event| event["kind"] == "register.succeeded"));
        let notes = all["records"]["notes"].as_array().unwrap();
        assert_eq!(notes.len(), 451, "{}", app.engine());
        assert!(notes.iter().any(|note| note["text"] == "in the trash"));
        assert_eq!(all["records"]["books"][0]["title"], "mine");
        assert!(all["records"].get("tags").is_none());
        let text = all.to_string();
        for secret in ["canary", BEN, "remark", token["token"].as_str().unwrap(), "password_hash", "$2"] {
            assert!(!text.contains(secret), "{}: {secret}", app.engine());
        }
    }
}

#[tokio::test]
async fn an_export_of_nothing_is_whole_json() {
    for app in TestApp::on_every_engine("").await {
        let ann = app.signed_in(ANN).await;
        let all = exported(&ann).await;
        assert_eq!(all["records"], json!({}));
        let answer = ann.get("/auth/export").await.is(200);
        assert_eq!(answer.header("content-disposition"), Some("attachment; filename=\"account.json\""));
        assert_eq!(answer.header("cache-control"), Some("no-store"));
    }
}

#[tokio::test]
async fn a_thief_with_an_old_session_gets_nothing() {
    for app in TestApp::on_every_engine(ENTITIES).await {
        let ann = app.signed_in(ANN).await;
        app.wait(SignedDuration::from_mins(6));
        let refused = ann.get("/auth/export").await.is(403).json();
        assert_eq!(refused["code"], "session_too_old");
        for body in [json!({}), json!({ "password": "wrong one" })] {
            let status = ann.post("/auth/export", body).await.status();
            assert!([401, 422].contains(&status), "{status}");
        }
        app.anonymous().get("/auth/export").await.is(401);
        app.anonymous().post("/auth/export", json!({ "password": PASSWORD })).await.is(401);
        // No page of another site makes the browser fetch it.
        let crossing = ann.clone().sending("sec-fetch-site", "cross-site");
        crossing.get("/auth/export").await.is(403);
        for _ in 0..10 {
            ann.post("/auth/export", json!({ "password": "guess" })).await;
        }
        ann.post("/auth/export", json!({ "password": PASSWORD })).await.is(429);
    }
}
