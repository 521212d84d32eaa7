//! The export of an account, only for its owner.

use std::net::Ipv4Addr;

use axum::body::Body;
use axum::response::Response;
use futures_util::StreamExt as _;
use gatewright_db::params;
use gatewright_testing::{Actor, TestApp};
use jiff::SignedDuration;
use serde_json::{Value, json};
use tower::ServiceExt as _;

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
type = "text"
max = 1000000
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
[[entity]]
name = "rooms"
multi_tenant = true
[[entity.field]]
name = "name"
type = "string"
"#;

async fn exported(actor: &Actor) -> Value {
    actor.post("/auth/export", json!({ "password": PASSWORD })).await.is(200).json()
}

/// An export of which nothing has been read.
async fn begun(app: &TestApp, actor: &Actor) -> Response {
    let request = actor.request(http::Method::POST, "/auth/export").header("content-type", "application/json");
    let body = json!({ "password": PASSWORD }).to_string();
    app.app().router().oneshot(request.body(Body::from(body)).unwrap()).await.unwrap()
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
async fn an_empty_export_is_complete_json() {
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

#[tokio::test]
async fn an_export_contains_former_addresses_and_invitations_of_a_proven_address() {
    for app in TestApp::on_every_engine(ENTITIES).await {
        let ann = app.signed_in(ANN).await;
        let id = app.app().auth().unwrap().accounts().find(ANN).await.unwrap().id;
        let db = app.app().db();
        let until = app.now() + SignedDuration::from_hours(24);
        let sql = "INSERT INTO users_email_changes (token_hash, user_id, old_email, had_second_factor, changed_at, expires_at) \
                   VALUES (?1, ?2, 'before@example.com', ?3, ?4, ?5)";
        db.execute(sql, params![vec![7_u8; 32], &id, false, app.now(), until]).await.unwrap();
        // One sent by her to her tenant, and one sent to her by the owner of another tenant.
        let ben = app.signed_in(BEN).await;
        let mut tenants = Vec::new();
        for (sender, email) in [(&ann, "guest@example.com"), (&ben, ANN)] {
            let tenant = sender.post("/auth/tenants", json!({ "name": "Acme" })).await.is(201).at("/id");
            let tenant = tenant.as_str().unwrap().to_owned();
            sender.post(&format!("/auth/tenants/{tenant}/members"), json!({ "email": email })).await.is(201);
            tenants.push(tenant);
        }
        let of = |all: &Value| -> Vec<(Value, Value, Value)> {
            let open = all["invitations"].as_array().unwrap();
            open.iter().map(|one| (one["email"].clone(), one["tenant"].clone(), one["sent"].clone())).collect()
        };
        let sent = (json!("guest@example.com"), json!(tenants[0]), json!(true));
        let received = (json!(ANN), json!(tenants[1]), json!(false));
        let all = exported(&ann).await;
        assert_eq!(all["formerAddresses"][0]["email"], "before@example.com", "{}", app.engine());
        assert_eq!(of(&all), std::slice::from_ref(&sent), "the address is not proven");
        app.prove_mailbox(ANN).await;
        let mut both = of(&exported(&ann).await);
        both.sort_by_key(|(_, _, sent)| sent.as_bool());
        assert_eq!(both, [received, sent], "{}", app.engine());
        assert_eq!(of(&exported(&ben).await).len(), 1, "what he sent");
    }
}

/// Clients that do not read hold a place each, at most four per address.
#[tokio::test]
async fn slow_readers_of_one_address_do_not_use_up_the_places_of_others() {
    for app in TestApp::on_every_engine(ENTITIES).await {
        let mut readers = Vec::new();
        for number in 0..5 {
            let email = format!("reader{number}@example.com");
            let reader = app.signed_in(&email).await.from_address("198.51.100.7".parse().unwrap());
            let note = json!({ "text": "x".repeat(300_000) });
            for _ in 0..6 {
                reader.post("/notes", note.clone()).await.is(201);
            }
            readers.push(reader);
        }
        let mut held = Vec::new();
        for reader in &readers[..4] {
            let answer = begun(&app, reader).await;
            assert_eq!(answer.status(), 200);
            held.push(answer);
        }
        assert_eq!(begun(&app, &readers[0]).await.status(), 409, "one at a time for each account");
        assert_eq!(begun(&app, &readers[4]).await.status(), 503, "{}", app.engine());
        let ben = app.signed_in(BEN).await.from_address("192.0.2.1".parse().unwrap());
        assert_eq!(exported(&ben).await["records"]["notes"], json!([]));
        // A client that reads to the end, or disconnects, frees its place.
        let body = axum::body::to_bytes(held.pop().unwrap().into_body(), usize::MAX).await.unwrap();
        assert!(body.len() > 1_800_000 && serde_json::from_slice::<Value>(&body).is_ok());
        assert_eq!(begun(&app, &readers[4]).await.status(), 200);
    }
}

/// Many addresses together have at most the places of the server.
#[tokio::test]
async fn a_server_writes_32_exports_at_once_and_refuses_the_next() {
    let config = format!("[auth.limits.register]\nmax_attempts = 100\n{ENTITIES}");
    for app in TestApp::on_every_engine(&config).await {
        let mut readers = Vec::new();
        for number in 0..33_u8 {
            let reader = app.signed_in(&format!("reader{number}@example.com")).await;
            readers.push(reader.from_address(Ipv4Addr::new(198, 51, 100, number / 3).into()));
        }
        let mut held = Vec::new();
        for reader in &readers[..32] {
            held.push(begun(&app, reader).await);
        }
        assert!(held.iter().all(|answer| answer.status() == 200), "{}", app.engine());
        let refused = begun(&app, &readers[32]).await;
        assert_eq!(refused.status(), 503, "{}", app.engine());
        assert_eq!(refused.headers()["retry-after"], "60");
        axum::body::to_bytes(held.pop().unwrap().into_body(), usize::MAX).await.unwrap();
        assert_eq!(begun(&app, &readers[32]).await.status(), 200, "{}", app.engine());
    }
}

/// No piece is larger than 256 KiB, so a slow connection has a minute for each.
#[tokio::test]
async fn an_export_is_sent_in_small_pieces() {
    for app in TestApp::on_every_engine(ENTITIES).await {
        let ann = app.signed_in(ANN).await;
        for _ in 0..3 {
            ann.post("/notes", json!({ "text": "x".repeat(700_000) })).await.is(201);
        }
        let mut pieces = begun(&app, &ann).await.into_body().into_data_stream();
        let mut sizes = Vec::new();
        while let Some(piece) = pieces.next().await {
            sizes.push(piece.unwrap().len());
        }
        assert!(sizes.iter().all(|size| *size <= 256 << 10), "{sizes:?}");
        assert!(sizes.iter().sum::<usize>() > 2_100_000);
    }
}
