//! Two servers behind a real `PgBouncer` in transaction mode, which gives a connection to another client after each transaction.

use gatewright_servers::PrivateBouncer;
use reqwest::Method;
use serde_json::{Value, json};

use crate::harness::{Answer, Client, Database, Launch, Receiver, Server, gatewright, installed};
use crate::outbox::until;

/// The size of the pooler's pool.
const CONNECTIONS: usize = 6;
/// Clients at a time.
const WRITERS: usize = 12;
/// Records that each client creates.
const RECORDS: usize = 10;

fn configuration(direct: &str, hook: &str) -> String {
    format!(
        r#"
[database]
direct_url = "{direct}"
[events]
fanout = "postgres"
heartbeat_seconds = 1
[rate_limit]
store = "database"
[outbox]
enabled = true
allow_private_networks = true
[[outbox.consumer]]
name = "hook"
event = "entity.created"
url = "{hook}/good"
secret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
[audit]
entities = true
[auth.limits.register]
max_attempts = 1000
[auth.limits.login]
max_attempts = 1000
[[entity]]
name = "projects"
owner_field = "user_id"
[[entity.field]]
name = "name"
type = "string"
unique = true
[[entity]]
name = "tasks"
owner_field = "user_id"
search_fields = ["title"]
[[entity.field]]
name = "title"
type = "string"
required = true
[[entity.field]]
name = "price"
type = "decimal"
[[entity.field]]
name = "due"
type = "date"
[[entity.field]]
name = "meta"
type = "json"
[[entity.field]]
name = "project"
type = "relation"
to = "projects"
[entity.rules]
read = "project.name != 'hidden'"
"#
    )
}

/// Runs every kind of statement: writes with values of many types, batches, conflicts, lists with all parameters,
/// deletes.
async fn work(client: Client, number: usize) {
    let email = format!("user{number}@example.com");
    client.register(&email).await;
    client.log_in(&email).await;
    let project = client.post("/projects", &json!({ "name": format!("p{number}") })).await.is(201).json();
    let project = project["data"]["id"].as_str().unwrap().to_owned();
    client.post("/projects", &json!({ "name": format!("p{number}") })).await.is(409);
    for record in 0..RECORDS {
        let task = json!({ "title": format!("task {record}"), "price": "9.50", "due": "2026-03-01", "meta": { "a": [1] }, "project": project });
        let made = client.post("/tasks", &task).await.is(201);
        let path = format!("/tasks/{}", made.json()["data"]["id"].as_str().unwrap());
        let change = client.request(Method::PATCH, &path).json(&json!({ "title": "task changed" }));
        Answer::read(change).await.is(200);
        let list = client.get("/tasks?q=task&sort=-createdAt&include=project&filter=price%20%3E%201%20%26%26%20project.name%20~%20'p'&limit=5").await;
        assert_eq!(list.is(200).json()["data"][0]["price"], "9.5");
        client.get("/tasks?cursor=&limit=3").await.is(200);
        if record % 2 == 0 {
            Answer::read(client.request(Method::DELETE, &path)).await.is(204);
        }
    }
    let batch = json!({ "items": [{ "title": "a" }, { "title": "b" }] });
    let answer = Answer::read(client.request(Method::POST, "/tasks/_batch").json(&batch)).await;
    answer.is(200);
    let total = client.get("/tasks?filter=project.name%20~%20'p'").await.is(200).json()["total"].clone();
    assert_eq!(total, json!(RECORDS / 2), "{number}");
}

#[tokio::test(flavor = "multi_thread")]
async fn two_servers_behind_a_pooler_in_transaction_mode_do_everything() {
    let Some(database) = Database::postgres().await else { return };
    if !installed("pgbouncer") {
        return;
    }
    let (direct, name) = database.server_and_name();
    let mut bouncer = PrivateBouncer::start(&direct, CONNECTIONS).unwrap();
    let pooled = Database::Through(bouncer.database_url(&name));
    let (receiver, hook) = Receiver::start().await;
    let launch = || Launch::configured(&configuration(&direct, &hook));
    let servers: [Server; 2] = [launch().start(&pooled).await, launch().start(&pooled).await];

    // A stream at each server receives the writes of the other.
    let listener = servers[1].client();
    listener.register("listener@example.com").await;
    listener.log_in("listener@example.com").await;
    let mut stream = listener.listen("tasks").await;

    let work: Vec<_> = (0..WRITERS).map(|number| tokio::spawn(work(servers[number % 2].client(), number))).collect();
    for writer in work {
        writer.await.unwrap();
    }

    let writer = servers[0].client();
    writer.log_in("listener@example.com").await;
    writer.post("/tasks", &json!({ "title": "seen elsewhere" })).await.is(201);
    let event = stream.next().await.unwrap();
    assert_eq!(event.data["data"]["record"]["title"], "seen elsewhere");
    until("every delivery is made", async || receiver.records("/good").len() > WRITERS * (RECORDS + 1)).await;

    // An operator's command uses the pooler too.
    let listed = gatewright(servers[0].folder(), &["user", "list", "--json", "--database", &pooled.url()], "");
    assert_eq!(listed.status, 0, "{}", listed.err);
    let listed: Value = serde_json::from_str(&listed.out).unwrap();
    assert_eq!(listed["total"], WRITERS + 1);

    for server in &servers {
        let log = server.log();
        assert!(!log.contains("prepared statement") && !log.contains(" ERROR "), "{log}");
    }

    // The pooler stops and starts again.
    bouncer.kill();
    let ready = async || servers[0].client().get("/readyz").await.status.as_u16();
    until("the server is not ready", async || ready().await == 503).await;
    bouncer.restart().unwrap();
    until("the server is ready again", async || ready().await == 200).await;
    writer.post("/tasks", &json!({ "title": "after" })).await.is(201);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_direct_url_to_another_database_is_refused() {
    let (Some(one), Some(other)) = (Database::postgres().await, Database::postgres().await) else { return };
    let folder = gatewright_servers::Folder::create("pooler").unwrap();
    let text = format!("[database]\nurl = \"{}\"\ndirect_url = \"{}\"\n", one.url(), other.url());
    std::fs::write(folder.path().join("gatewright.toml"), text).unwrap();
    let ended = gatewright(folder.path(), &["user", "list"], "");
    assert_eq!(ended.status, 1, "{}", ended.err);
    assert!(ended.err.contains("the direct URL leads to another database"), "{}", ended.err);
}
