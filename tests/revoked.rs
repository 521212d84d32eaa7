//! Two servers on one database: a caller who loses a right on one server loses their streams on the other.

use std::time::{Duration, Instant};

use reqwest::Method;
use serde_json::json;

use crate::harness::{Answer, Client, Database, Launch, Server, Stream, gatewright};
use crate::outbox::until;

const CONFIGURATION: &str = r#"
[events]
fanout = "postgres"
heartbeat_seconds = 1
[roles]
reader = ["reports:read", "reports:write"]
[[entity]]
name = "notes"
owner_field = "user_id"
[[entity.field]]
name = "title"
type = "string"
[[entity]]
name = "reports"
access = { read = "reports:read", create = "reports:write" }
[[entity.field]]
name = "title"
type = "string"
[[entity]]
name = "projects"
multi_tenant = true
[[entity.field]]
name = "title"
type = "string"
"#;

/// Headers of a request.
type Headers<'a> = &'a [(&'a str, &'a str)];

fn ask(client: &Client, method: Method, path: &str, headers: Headers<'_>) -> reqwest::RequestBuilder {
    headers.iter().fold(client.request(method, path), |request, (name, value)| request.header(*name, *value))
}

/// Opens a stream, and checks that it sends a record that is created with the same credentials.
async fn live(client: &Client, table: &str, headers: Headers<'_>) -> Stream {
    let opened = ask(client, Method::GET, &format!("/{table}/_events"), headers).send().await.unwrap();
    assert_eq!(opened.status(), 200, "{table} {headers:?}");
    let mut stream = Stream::new(opened);
    let record = json!({ "title": "seen" });
    Answer::read(ask(client, Method::POST, &format!("/{table}"), headers).json(&record)).await.is(201);
    while stream.next().await.expect("the stream goes on").data["data"]["record"]["title"] != "seen" {}
    stream
}

/// Reads until a stream ends, which must happen soon.
async fn ends(what: &str, mut stream: Stream) {
    let begun = Instant::now();
    while stream.next().await.is_some() {}
    assert!(begun.elapsed() < Duration::from_mins(1), "{what}: the stream went on for {:?}", begun.elapsed());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_right_lost_on_one_server_ends_the_streams_on_the_other() {
    let Some(database) = Database::postgres().await else { return };
    let [a, b] = [Launch::configured(CONFIGURATION), Launch::configured(CONFIGURATION)];
    let [a, b]: [Server; 2] = [a.start(&database).await, b.start(&database).await];
    until("ready", async || b.client().get("/readyz").await.json()["status"] == "ready").await;
    let url = database.url();
    let run = |words: &[&str]| {
        let words = [words, &["--database", &url]].concat();
        let finished = tokio::task::block_in_place(|| gatewright(a.folder(), &words, ""));
        assert_eq!(finished.status, 0, "{words:?}: {finished:?}");
        finished.out.trim_end().to_owned()
    };
    let sign_in = async |email: &str| {
        let client = b.client();
        client.register(email).await.is(200);
        let token = client.log_in(email).await.is(200).json()["token"].as_str().unwrap().to_owned();
        (client, format!("Bearer {token}"))
    };

    let (ada, _) = sign_in("ada@example.com").await;
    let session = live(&ada, "notes", &[]).await;
    let (_, jwt) = sign_in("bob@example.com").await;
    let by_jwt = live(&b.client(), "notes", &[("authorization", &jwt)]).await;
    let (cid, _) = sign_in("cid@example.com").await;
    run(&["user", "set-roles", "cid@example.com", "reader", "--unverified"]);
    let by_role = live(&cid, "reports", &[]).await;
    let (dan, _) = sign_in("dan@example.com").await;
    run(&["tenant", "add-member", "acme", "dan@example.com", "--unverified"]);
    let by_tenant = live(&dan, "projects", &[("x-tenant-id", "acme")]).await;
    run(&["service-account", "create", "robot", "--roles", "reader"]);
    let issued =
        run(&["token", "issue", "--service", "robot", "--name", "n", "--scopes", "reports:read,reports:write"]);
    let bearer = format!("Bearer {issued}");
    let by_token = live(&b.client(), "reports", &[("authorization", &bearer)]).await;
    let (eve, _) = sign_in("eve@example.com").await;
    let mut untouched = live(&eve, "notes", &[]).await;

    // Ada ends her session on one server with a request to the other.
    let elsewhere = a.client();
    elsewhere.log_in("ada@example.com").await.is(200);
    let sessions = elsewhere.get("/auth/sessions").await.is(200).json();
    let other = sessions["sessions"].as_array().unwrap().iter().find(|session| session["current"] == false).unwrap();
    let path = format!("/auth/sessions/{}", other["id"].as_str().unwrap());
    Answer::read(elsewhere.request(Method::DELETE, &path)).await.is(204);
    ends("session", session).await;

    run(&["user", "logout", "bob@example.com"]);
    ends("JWT", by_jwt).await;
    run(&["user", "set-roles", "cid@example.com", "user", "--unverified"]);
    ends("role", by_role).await;
    run(&["tenant", "remove-member", "acme", "dan@example.com"]);
    ends("tenant", by_tenant).await;
    run(&["service-account", "disable", "robot"]);
    ends("service account", by_token).await;

    eve.post("/notes", &json!({ "title": "still here" })).await.is(201);
    assert_eq!(untouched.next().await.unwrap().data["data"]["record"]["title"], "still here");
    let metrics = b.client().get("/metrics").await.is(200).text;
    assert!(metrics.contains("gatewright_event_subscribers 1\n"), "seats are given back: {metrics}");
}
