//! Consumers that pull, over HTTP: the answers to a program with a token, and to others.

use gatewright::auth::tokens::TokenDraft;
use gatewright::base::{Roles, Subject};
use gatewright_testing::{Actor, TestApp};
use http::Method;
use jiff::SignedDuration;
use serde_json::{Value, json};

const CONFIG: &str = concat!(
    r#"
[roles]
worker = ["consumers:crm"]

[outbox]
enabled = true
lease_seconds = 60
max_attempts = 2
poll_interval_ms = 50

[[outbox.consumer]]
name = "crm"
event = "entity.created"
entities = ["posts"]
pull = true

[[outbox.consumer]]
name = "mail"
event = "entity.deleted"
pull = true
"#,
    entity!(public "posts" "title"),
    entity!(public "notes" "title"),
);

/// A program of a service account whose token has these scopes.
async fn program(app: &TestApp, name: &str, scopes: &[&str]) -> Actor {
    let auth = app.app().auth().unwrap();
    let service = auth.service_accounts().unwrap().create(name, Roles::default()).await.unwrap();
    let draft = TokenDraft::parse(name, scopes, 0).unwrap();
    let issued = auth.api_tokens().unwrap().issue(Subject::Service(service.id), draft).await.unwrap();
    app.anonymous().bearing(issued.plaintext.expose())
}

async fn events(program: &Actor, query: &str) -> Vec<Value> {
    let answer = program.get(&format!("/consumers/crm/events{query}")).await.is(200).json();
    assert_eq!(answer["leaseSeconds"], 60);
    answer["events"].as_array().unwrap().clone()
}

async fn post(app: &TestApp, path: &str, title: &str) -> String {
    let made = app.anonymous().post(path, json!({ "title": title })).await.is(201).json();
    made["data"]["id"].as_str().unwrap().to_owned()
}

#[tokio::test]
async fn a_program_pulls_acknowledges_and_refuses() {
    for app in TestApp::on_every_engine(CONFIG).await {
        let worker = program(&app, "worker", &["consumers:crm"]).await;
        assert_eq!(events(&worker, "").await, Vec::<Value>::new());
        let asked = tokio::spawn({
            let worker = worker.clone();
            async move { events(&worker, "?limit=10&wait=25").await }
        });
        post(&app, "/notes", "not for this one").await;
        let id = post(&app, "/posts", "first").await;
        let got = asked.await.unwrap();
        let [event] = &got[..] else { panic!("one event: {got:?}") };
        assert_eq!((&event["type"], &event["attempt"]), (&json!("entity.created"), &json!(1)));
        assert_eq!((&event["data"]["entity"], &event["data"]["record"]["id"]), (&json!("posts"), &json!(id)));
        let row = event["id"].as_str().unwrap();
        assert!(event["timestamp"].as_str().unwrap().ends_with('Z'));

        let other = program(&app, "other", &["consumers:*"]).await;
        let refused = other.post("/consumers/crm/ack", json!({ "ids": [row] })).await.is(409).json();
        assert_eq!(refused, json!({ "refused": [row] }), "leases belong to the token");
        let nack = json!({ "ids": [{ "id": row, "attempt": 1 }], "delaySeconds": 30 });
        worker.post("/consumers/crm/nack", nack.clone()).await.is(204);
        worker.post("/consumers/crm/nack", nack).await.is(409);
        assert_eq!(events(&worker, "").await, Vec::<Value>::new());
        app.wait(SignedDuration::from_secs(30));
        let again = events(&other, "?wait=25").await;
        assert_eq!((&again[0]["id"], &again[0]["attempt"]), (&json!(row), &json!(2)));
        other.post("/consumers/crm/ack", json!({ "ids": [{ "id": row, "attempt": 1 }] })).await.is(409);
        other.post("/consumers/crm/ack", json!({ "ids": [row] })).await.is(204);
        let metrics = app.anonymous().get("/metrics").await.is(200).text().to_owned();
        assert!(metrics.contains("gatewright_outbox_failed_total{consumer=\"crm\"} 1\n"), "{metrics}");
    }
}

/// HEAD would take the events without showing them.
#[tokio::test]
async fn head_of_a_pull_takes_nothing() {
    for app in TestApp::on_every_engine(CONFIG).await {
        let worker = program(&app, "worker", &["consumers:crm"]).await;
        post(&app, "/posts", "first").await;
        for _ in 0..20 {
            let answer = worker.json(Method::HEAD, "/consumers/crm/events", &Value::Null).await;
            assert_eq!((answer.status(), answer.header("allow")), (405, Some("GET")));
        }
        assert_eq!(events(&worker, "?wait=25").await[0]["attempt"], 1, "{}", app.engine());
    }
}

#[tokio::test]
async fn a_lease_that_ends_too_often_makes_the_event_dead() {
    for app in TestApp::on_every_engine(CONFIG).await {
        let worker = program(&app, "worker", &["consumers:crm"]).await;
        post(&app, "/posts", "first").await;
        let row = events(&worker, "?wait=25").await[0]["id"].clone();
        app.wait(SignedDuration::from_secs(60));
        let late = worker.post("/consumers/crm/ack", json!({ "ids": [row] })).await.is(409).json();
        assert_eq!(late, json!({ "refused": [row] }));
        assert_eq!(events(&worker, "").await[0]["attempt"], 2);
        app.wait(SignedDuration::from_secs(60));
        assert_eq!(events(&worker, "").await, Vec::<Value>::new());
        let outbox = app.app().outbox().unwrap();
        assert_eq!(outbox.stats().await.unwrap().consumers["crm"]["dead"], 1, "{}", app.engine());
        assert_eq!(outbox.replay(row.as_str().unwrap()).await.unwrap(), 1);
        assert_eq!(events(&worker, "").await[0]["attempt"], 1);
    }
}

#[tokio::test]
async fn a_consumer_accepts_only_tokens_with_its_scope() {
    for app in TestApp::on_every_engine(CONFIG).await {
        post(&app, "/posts", "first").await;
        let ada = app.signed_in("ada@example.com").await;
        app.grant("ada@example.com", &["user", "worker"]).await;
        let issued = ada.post("/auth/tokens", json!({ "name": "t", "scopes": ["consumers:crm"] })).await.is(200).json();
        let mine = app.anonymous().bearing(issued["token"].as_str().unwrap());
        let reader = program(&app, "reader", &["*:read", "posts:*", "consumers:mail"]).await;
        let anybody = app.anonymous();
        let bearing_jwt = app.with_jwt("ben@example.com").await;
        app.grant("ben@example.com", &["worker"]).await;
        let body = json!({ "ids": ["x"] });
        for (case, actor, status) in [
            ("nobody", &anybody, 401),
            ("a session whose account may", &ada, 403),
            ("a JWT whose account may", &bearing_jwt, 403),
            ("a token with other scopes", &reader, 403),
        ] {
            // The answer does not reveal whether there is such a consumer.
            for name in ["crm", "unknown"] {
                actor.get(&format!("/consumers/{name}/events")).await.is(status);
                actor.post(&format!("/consumers/{name}/ack"), body.clone()).await.is(status);
                let said = actor.post(&format!("/consumers/{name}/nack"), body.clone()).await.is(status);
                let said = said.text();
                assert!(!said.contains("no such"), "{case}: {said}");
            }
        }
        mine.get("/consumers/crm/events").await.is(200);
        app.grant("ada@example.com", &["user"]).await;
        mine.get("/consumers/crm/events").await.is(403);
        let all = program(&app, "all", &["consumers:*"]).await;
        all.get("/consumers/unknown/events").await.is(404);
        let listed = ada.get("/auth/tokens").await.is(200).json();
        let id = listed["tokens"][0]["id"].as_str().unwrap().to_owned();
        app.grant("ada@example.com", &["worker"]).await;
        mine.get("/consumers/crm/events").await.is(200);
        ada.delete(&format!("/auth/tokens/{id}")).await.is(204);
        mine.get("/consumers/crm/events").await.is(401);
    }
}

#[tokio::test]
async fn malformed_requests_are_refused_and_settle_nothing() {
    for app in TestApp::on_every_engine(CONFIG).await {
        let worker = program(&app, "worker", &["consumers:crm"]).await;
        for query in ["?limit=0", "?limit=1001", "?limit=-1", "?limit=x", "?wait=26", "?wait=x", "?wait=1&wait=2"] {
            worker.get(&format!("/consumers/crm/events{query}")).await.is(400);
        }
        let many: Vec<String> = (0..1_001).map(|n| n.to_string()).collect();
        for body in [
            json!({}),
            json!({ "ids": [] }),
            json!({ "ids": "x" }),
            json!({ "ids": [1] }),
            json!({ "ids": [{ "attempt": 1 }] }),
            json!({ "ids": [{ "id": "x", "attempt": -1 }] }),
            json!({ "ids": ["a\u{0}b"] }),
            json!({ "ids": many }),
        ] {
            worker.post("/consumers/crm/ack", body.clone()).await.is(422);
            worker.post("/consumers/crm/nack", body).await.is(422);
        }
        worker.post("/consumers/crm/ack", json!({ "ids": ["x"], "delaySeconds": 1 })).await.is(422);
        for delay in [json!(-1), json!(86_401), json!("1")] {
            worker.post("/consumers/crm/nack", json!({ "ids": ["x"], "delaySeconds": delay })).await.is(422);
        }
        let hostile = json!({ "ids": ["'; DROP TABLE event_outbox; --", "x", "x"] });
        let refused = worker.post("/consumers/crm/ack", hostile).await.is(409).json();
        assert_eq!(refused, json!({ "refused": ["'; DROP TABLE event_outbox; --", "x"] }));
    }
}

/// The outbox may forget an event before the streams do.
#[tokio::test]
async fn a_stream_resumes_after_events_that_the_outbox_has_purged() {
    let config = format!(
        "[outbox]\nenabled = true\npoll_interval_ms = 50\nretention_seconds = 1\nhandler_grace_seconds = 1\n{}",
        entity!(public "posts" "title")
    );
    for app in TestApp::on_every_engine(&config).await {
        let anonymous = app.anonymous();
        let since = anonymous.get("/posts").await.is(200).header("event-cursor").unwrap().to_owned();
        let id = post(&app, "/posts", "kept").await;
        let rows = async || {
            let found = app.app().db().query_opt("SELECT COUNT(*) AS n FROM event_outbox", Vec::new()).await;
            found.unwrap().unwrap().get::<i64>("n").unwrap()
        };
        assert_eq!(rows().await, 1, "{}", app.engine());
        tokio::time::timeout(std::time::Duration::from_mins(1), async {
            // It is dispatched after the grace, and purged after the retention.
            while rows().await > 0 {
                app.wait(SignedDuration::from_secs(1));
                tokio::time::sleep(std::time::Duration::from_millis(20)).await;
            }
        })
        .await
        .expect("the row is purged after its retention");
        let mut stream = anonymous.open(&format!("/posts/_events?since={since}")).await.unwrap();
        let resumed = async {
            loop {
                let (kind, event) = stream.next().await.unwrap();
                assert_ne!(kind, "gap", "{}", app.engine());
                if kind == "entity.created" {
                    return event;
                }
            }
        };
        let event = tokio::time::timeout(std::time::Duration::from_secs(30), resumed).await.expect("the event comes");
        let record = &event["data"]["record"];
        assert_eq!((&record["id"], &record["title"]), (&json!(id), &json!("kept")), "{event}");

        // An earlier version stored the record only in the outbox: it is gone, which the stream reports.
        app.app().db().execute("UPDATE event_log SET record = NULL", vec![]).await.unwrap();
        let told = async || {
            let mut stream = anonymous.open(&format!("/posts/_events?since={since}")).await.unwrap();
            loop {
                let (kind, _) = stream.next().await.unwrap();
                if kind != "ready" {
                    return kind;
                }
            }
        };
        // A page that was read a moment ago is reused.
        let gap = async { while told().await != "gap" {} };
        tokio::time::timeout(std::time::Duration::from_secs(30), gap).await.expect("the gap is told");
    }
}
