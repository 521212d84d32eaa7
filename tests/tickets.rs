//! A stream ticket is part of the URL, and must not appear in any log.

use reqwest::Method;
use serde_json::json;

use crate::harness::{Answer, Database, Launch, Stream};

const POSTS: &str =
    "[[entity]]\nname = \"posts\"\npublic = true\n[[entity.field]]\nname = \"title\"\ntype = \"text\"\n";

#[tokio::test(flavor = "multi_thread")]
async fn no_ticket_appears_in_the_log() {
    // The readable log and the JSON log, both at the most verbose level.
    for launch in [Launch::configured(POSTS), Launch::production(POSTS)] {
        let server = launch.env("RUST_LOG", "trace").start(&Database::Sqlite).await;
        let client = server.client();
        client.register("ada@example.com").await.is(200);
        let token = client.log_in("ada@example.com").await.is(200).json()["token"].as_str().unwrap().to_owned();
        let anybody = server.client();
        let mut tickets = Vec::new();
        for _ in 0..3 {
            let request = anybody.request(Method::POST, "/auth/stream-ticket").bearer_auth(&token).json(&json!({}));
            let made = Answer::read(request).await.is(200).json();
            tickets.push(made["ticket"].as_str().unwrap().to_owned());
        }
        // Tickets that are valid, used, sent to another route, sent with an unknown table, and truncated.
        let response = anybody.stream(&format!("/posts/_events?ticket={}", tickets[0])).send().await.unwrap();
        let mut stream = Stream::new(response);
        anybody.post("/posts", &json!({ "title": "one" })).await.is(201);
        assert_eq!(stream.next().await.unwrap().kind, "entity.created");
        anybody.get(&format!("/posts/_events?ticket={}", tickets[0])).await.is(401);
        anybody.get(&format!("/posts?ticket={}", tickets[1])).await;
        anybody.get(&format!("/nowhere/_events?ticket={}", tickets[1])).await;
        anybody.get(&format!("/posts/_events?ticket={}x", tickets[2])).await.is(401);
        anybody.get(&format!("/posts/_events?tenant=a&ticket={}&ticket={}", tickets[2], tickets[2])).await.is(400);
        drop(stream);
        let log = server.log();
        assert!(log.contains("/auth/stream-ticket") && log.contains("/posts/_events"), "the log was written: {log}");
        for ticket in &tickets {
            assert!(!log.contains(ticket.as_str()), "{ticket} in the log");
        }
    }
}
