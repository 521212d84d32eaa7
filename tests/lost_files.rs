//! The files of a SQLite database are removed or replaced while the server runs.

use std::path::PathBuf;

use serde_json::json;

use crate::harness::{Client, Database, Launch, Server};
use crate::outbox::until;

const TABLE: &str =
    "[[entity]]\nname = \"posts\"\npublic = true\n[[entity.field]]\nname = \"title\"\ntype = \"string\"\n";

fn file(server: &Server, suffix: &str) -> PathBuf {
    server.folder().join(format!("gatewright.db{suffix}"))
}

async fn write(client: &Client, title: &str) -> u16 {
    client.post("/posts", &json!({ "title": title })).await.status.as_u16()
}

async fn titles(client: &Client) -> Vec<String> {
    let page = client.get("/posts?limit=100").await.is(200).json();
    let mut titles: Vec<_> =
        page["data"].as_array().unwrap().iter().map(|post| post["title"].as_str().unwrap().to_owned()).collect();
    titles.sort();
    titles
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_whose_log_is_removed_acknowledges_nothing_more_and_loses_nothing() {
    let mut server = Launch::configured(TABLE).start(&Database::Sqlite).await;
    let client = server.client();
    let acknowledged: Vec<_> = (0..20).map(|number| format!("post {number:02}")).collect();
    for title in &acknowledged {
        assert_eq!(write(&client, title).await, 201);
    }
    std::fs::remove_file(file(&server, "-wal")).unwrap();
    assert_eq!(write(&client, "lost").await, 503);
    for path in ["/posts", "/readyz"] {
        client.get(path).await.is(503);
    }
    client.get("/healthz").await.is(200);
    let log = server.log();
    let line = log.lines().find(|line| line.contains("was removed or replaced while this server uses it")).unwrap();
    assert!(line.contains("gatewright.db-wal") && line.contains("restart"), "{line}");
    until("what was acknowledged is saved", async || server.log().contains("was moved into the database file")).await;
    // Without a chance to save anything at its end.
    server.kill();
    server.restart();
    let found = titles(&server.client()).await;
    assert_eq!(found.into_iter().filter(|title| title != "lost").collect::<Vec<_>>(), acknowledged);
    assert_eq!(write(&server.client(), "after").await, 201);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_whose_database_is_replaced_acknowledges_nothing_more_and_leaves_the_new_one_alone() {
    let mut server = Launch::configured(TABLE).start(&Database::Sqlite).await;
    assert_eq!(write(&server.client(), "old").await, 201);
    assert_eq!(server.stop().await, Some(0));
    std::fs::copy(file(&server, ""), file(&server, ".copy")).unwrap();
    server.restart();
    assert_eq!(write(&server.client(), "new").await, 201);
    std::fs::rename(file(&server, ".copy"), file(&server, "")).unwrap();
    assert_eq!(write(&server.client(), "lost").await, 503);
    server.client().get("/readyz").await.is(503);
    assert!(server.log().contains("file=") || server.log().contains("gatewright.db"));
    until("the log is emptied", async || server.log().contains("was moved into the database file")).await;
    server.kill();
    server.restart();
    assert_eq!(titles(&server.client()).await, ["old"], "the file that was put there");
    assert_eq!(write(&server.client(), "after").await, 201);
}
