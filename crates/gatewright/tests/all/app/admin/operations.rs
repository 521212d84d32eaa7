use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use axum::Router;
use axum::routing::post;
use gatewright_testing::TestApp;
use http::StatusCode;
use serde_json::json;
use tokio::net::TcpListener;

use super::{ENTITIES, operator};

#[tokio::test]
async fn the_health_and_the_last_hour_of_the_process_are_reported() {
    for app in TestApp::on_every_engine(ENTITIES).await {
        let operator = operator(&app).await;
        let health = operator.get("/admin/api/health").await.is(200);
        assert_eq!(health.at("/data/database"), json!(true));
        assert_eq!(health.at("/data/engine"), json!(app.engine()));
        assert_eq!(health.at("/data/mail/failed"), json!(0));
        let series = operator.get("/admin/api/series").await.is(200).json();
        let minutes = series["data"].as_array().unwrap();
        assert_eq!(minutes.len(), 60);
        let requests: i64 = minutes.iter().map(|minute| minute["requests"].as_i64().unwrap()).sum();
        assert!(requests >= 5, "{requests}");
        let plan = operator.get("/admin/api/migrations").await.is(200);
        assert_eq!(plan.at("/data/statements"), json!([]));
        for path in ["/admin/api/clients", "/admin/api/nothing"] {
            operator.get(path).await.is(404);
        }
    }
}

#[tokio::test]
async fn the_configuration_is_shown_without_a_secret() {
    const CANARY: &str = "canary-0123456789-0123456789-abcdef";
    let toml = format!(
        r#"
[auth]
jwt_secret = "{CANARY}"
jwt_previous_secrets = ["{CANARY}"]
[auth.keys]
secret = "{CANARY}"
previous_secrets = ["{CANARY}"]
[auth.oauth]
state_secret = "{CANARY}"
[auth.oauth.github]
client_id = "id"
client_secret = "{CANARY}"
[csrf]
secret = "{CANARY}"
[email]
smtp_url = "smtp://{CANARY}:{CANARY}@localhost:2525"
from = "a@example.com"
[[outbox.consumer]]
name = "crm"
event = "entity.created"
url = "http://localhost:9/{CANARY}?key={CANARY}"
secret = "whsec_MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTIz"
{ENTITIES}"#
    );
    for app in TestApp::on_every_engine(&toml).await {
        let shown = operator(&app).await.get("/admin/api/configuration").await.is(200);
        assert!(!shown.text().contains("canary") && !shown.text().contains("whsec"), "{}", shown.text());
        assert_eq!(shown.at("/data/auth/jwt_secret"), json!("(set)"));
        assert_eq!(shown.at("/data/auth/plugins/1"), json!("magic_link"), "as the file spells it");
        assert_eq!(shown.at("/data/email/smtp_url"), json!("smtp://localhost:2525"));
        assert_eq!(shown.at("/data/outbox/consumer/0/delivery/host"), json!("localhost"));
        assert_eq!(shown.at("/data/auth/registration"), json!("open"));
        assert_eq!(shown.at("/data/auth/limits/login/max_attempts"), json!(10));
        assert_eq!(shown.at("/data/auth/oauth/github"), json!({ "client_id": "id", "client_secret": "(set)" }));
        assert_eq!(shown.at("/data/entity/0/name"), json!("notes"));
        assert_eq!(shown.at("/data/entity/0/has_rules"), json!(true));
    }
}

#[tokio::test]
async fn a_dead_delivery_is_found_with_its_error_and_replayed() {
    let fixed = Arc::new(AtomicBool::new(false));
    let url = receiver(fixed.clone()).await;
    let consumer = format!(
        "[[outbox.consumer]]\nname = \"crm\"\nevent = \"entity.created\"\nurl = \"{url}\"\n\
         secret = \"whsec_MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTIz\"\n"
    );
    for app in TestApp::on_every_engine(&format!("{ENTITIES}{consumer}")).await {
        fixed.store(false, Ordering::Relaxed);
        let operator = operator(&app).await;
        let ann = app.signed_in("ann@example.com").await;
        ann.post("/notes", json!({ "title": "first" })).await.is(201);

        let listing =
            async |query: &str| operator.get(&format!("/admin/api/outbox/deliveries{query}")).await.is(200).json();
        let failing = loop {
            let found = listing("").await;
            if found["data"].as_array().is_some_and(|rows| !rows.is_empty()) {
                break found;
            }
            tokio::task::yield_now().await;
        };
        let delivery = &failing["data"][0];
        assert_eq!((&delivery["consumer"], &delivery["attempts"]), (&json!("crm"), &json!(1)));
        assert!(delivery["lastError"].as_str().unwrap().contains("500"), "{delivery}");
        let event = delivery["eventId"].as_str().unwrap();
        let kill = "UPDATE event_outbox_delivery SET status = 'dead' WHERE row_id = ?1";
        app.app().db().execute(kill, vec![event.into()]).await.unwrap();

        assert_eq!(listing("?status=dead&consumer=crm").await["data"].as_array().unwrap().len(), 1);
        assert_eq!(listing("?status=dead&consumer=other").await["data"], json!([]));
        assert_eq!(operator.get("/admin/api/outbox").await.is(200).at("/data/0/dead"), json!(1));
        operator.get("/admin/api/outbox/deliveries?status=nonsense").await.is(400);
        operator.get("/admin/api/outbox/events/nothing").await.is(404);

        fixed.store(true, Ordering::Relaxed);
        let replay = format!("/admin/api/outbox/events/{event}/replay");
        assert_eq!(operator.post(&replay, json!({ "consumer": "crm" })).await.is(200).at("/data/replayed"), json!(1));
        loop {
            let deliveries = operator.get(&format!("/admin/api/outbox/events/{event}")).await.is(200);
            if deliveries.at("/data/0/status") == json!("dispatched") {
                break;
            }
            tokio::task::yield_now().await;
        }
        operator.post(&replay, json!({ "consumer": "nobody" })).await.is(404);
    }
}

/// A program that receives webhooks: it answers 500 until it is fixed.
async fn receiver(fixed: Arc<AtomicBool>) -> String {
    let take = async move || {
        if fixed.load(Ordering::Relaxed) { StatusCode::OK } else { StatusCode::INTERNAL_SERVER_ERROR }
    };
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/", listener.local_addr().unwrap());
    tokio::spawn(async move { axum::serve(listener, Router::new().route("/", post(take))).await });
    url
}
