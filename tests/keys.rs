//! `gatewright key list` and `key rotate` against a running server.

use serde_json::Value;

use crate::harness::{Database, Launch, Server, gatewright};

/// The keys as `key list --json` prints them.
fn listed(server: &Server, database: &Database) -> Vec<Value> {
    let done = gatewright(server.folder(), &["key", "list", "--json", "--database", &database.url()], "");
    assert_eq!(done.status, 0, "{done:?}");
    let list: Value = serde_json::from_str(&done.out).unwrap();
    let items = list["items"].as_array().unwrap().clone();
    assert_eq!(list["total"], items.len());
    items
}

fn states(keys: &[Value]) -> Vec<&str> {
    keys.iter().map(|key| key["state"].as_str().unwrap()).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn the_operator_lists_and_rotates_the_keys_of_a_running_server() {
    for database in Database::all().await {
        let mut server = Launch::production("jwt_algorithm = \"ES256\"\n").start(&database).await;
        let client = server.client();
        client.register("ada@example.com").await.is(200);
        let token = client.log_in("ada@example.com").await.is(200).json()["token"].as_str().unwrap().to_owned();
        let before = listed(&server, &database);
        assert_eq!(states(&before), ["signing"]);
        assert_eq!(before[0]["algorithm"], "ES256");

        let rotate = || gatewright(server.folder(), &["key", "rotate", "--database", &database.url()], "");
        let done = rotate();
        assert_eq!((done.status, done.out.lines().count()), (0, 2), "{done:?}");
        let after = listed(&server, &database);
        assert_eq!(states(&after), ["signing", "waiting"]);
        assert_eq!(after[0]["kid"], before[0]["kid"]);
        for key in &after {
            let kid = key["kid"].as_str().unwrap();
            assert!(done.out.contains(&format!("{kid}  ES256  signs")), "{}", done.out);
        }
        // A second rotation would sign with a key that nobody has seen.
        let refused = rotate();
        let waiting = after[1]["kid"].as_str().unwrap();
        assert!(refused.status != 0 && refused.out.is_empty(), "{refused:?}");
        assert!(refused.err.contains(waiting) && refused.err.contains("rotate again after that"), "{}", refused.err);
        assert_eq!(states(&listed(&server, &database)), ["signing", "waiting"]);

        assert_eq!(server.stop().await, Some(0));
        server.restart();
        let client = server.client();
        let set = client.get("/.well-known/jwks.json").await.is(200).json();
        let published: Vec<_> = set["keys"].as_array().unwrap().iter().map(|key| key["kid"].clone()).collect();
        for key in &after {
            assert!(published.contains(&key["kid"]), "{published:?}");
        }
        let request = client.request(reqwest::Method::GET, "/auth/me").bearer_auth(&token);
        crate::harness::Answer::read(request).await.is(200);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_secret_is_listed_and_cannot_be_rotated() {
    for database in Database::all().await {
        let server = Launch::production("").start(&database).await;
        let keys = listed(&server, &database);
        assert_eq!(states(&keys), ["signing"]);
        assert_eq!((&keys[0]["algorithm"], keys[0].get("kid")), (&Value::from("HS256"), None));
        let done = gatewright(server.folder(), &["key", "list", "--database", &database.url()], "");
        assert!(done.status == 0 && done.out.starts_with("auth.jwt_secret  HS256  signs since "), "{done:?}");
        let refused = gatewright(server.folder(), &["key", "rotate", "--database", &database.url()], "");
        assert!(refused.status != 0 && refused.out.is_empty() && !refused.err.is_empty(), "{refused:?}");
        assert_eq!(states(&listed(&server, &database)), ["signing"]);
    }
}
