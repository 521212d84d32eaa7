//! Two servers on one database: those with different settings say so, and a secret is changed without a refused token.

use reqwest::Method;
use serde_json::json;

use crate::harness::{Answer, Client, Database, Launch, Server, gatewright};
use crate::outbox::until;

const WARNING: &str = "settings that must be equal";

fn configuration(secret: char, previous: &[char], more: &str) -> String {
    let text = |secret: &char| secret.to_string().repeat(40);
    let previous: Vec<_> = previous.iter().map(text).collect();
    format!(
        "[auth]\njwt_secret = \"{}\"\njwt_previous_secrets = {previous:?}\n\
         [[entity]]\nname = \"posts\"\npublic = true\n[[entity.field]]\nname = \"title\"\ntype = \"string\"\n{more}",
        text(&secret)
    )
}

async fn degraded(client: &Client) -> String {
    client.get("/readyz").await.is(200).json()["degraded"].to_string()
}

fn doctor(server: &Server, database: &Database) -> (Option<i32>, String) {
    let (address, url) = (format!("http://{}", server.address()), database.url());
    let examined = gatewright(server.folder(), &["doctor", &address, "--database", &url], "");
    (Some(examined.status), examined.out)
}

#[tokio::test(flavor = "multi_thread")]
async fn servers_with_different_settings_say_so_until_they_agree() {
    let Some(database) = Database::postgres().await else { return };
    let text = configuration('a', &[], "");
    let mut first = Launch::configured(&text).start(&database).await;
    assert_eq!(degraded(&first.client()).await, "[]");
    let (_, alone) = doctor(&first, &database);
    assert!(alone.contains("ok       no other server runs on the database"), "{alone}");

    let equal = Launch::configured(&text).start(&database).await;
    assert!(!equal.log().contains(WARNING), "{}", equal.log());
    let (_, two) = doctor(&first, &database);
    assert!(two.contains("ok       2 servers on the database have equal settings"), "{two}");
    drop(equal);

    let other = configuration('b', &[], "[events]\nreplay_seconds = 7\n[outbox]\nenabled = true\n");
    let mut second = Launch::configured(&other).start(&database).await;
    let log = second.log();
    let line = log.lines().find(|line| line.contains(WARNING)).unwrap_or_else(|| panic!("{log}"));
    for key in ["auth.jwt_secret", "events.replay_seconds", "outbox.enabled"] {
        assert!(line.contains(key), "{key}: {line}");
    }
    for absent in ["events.fanout", "rate_limit.store", "aaaa", "bbbb"] {
        assert!(!line.contains(absent), "{absent}: {line}");
    }
    assert_eq!(degraded(&second.client()).await, "[\"settings\"]");
    until("the first notices it", async || first.log().contains(WARNING)).await;
    assert_eq!(degraded(&first.client()).await, "[\"settings\"]");
    let (status, examined) = doctor(&first, &database);
    assert_eq!(status, Some(1));
    assert!(examined.contains("problem  /readyz: servers on the database differ in settings"), "{examined}");
    assert!(
        examined.contains("different values of auth.jwt_secret, events.replay_seconds, outbox.enabled:"),
        "{examined}"
    );
    // Nothing of it is public.
    assert!(!first.client().get("/readyz").await.text.contains("jwt_secret"));

    // A server that stops is no longer compared, and a setting that is changed everywhere is not reported.
    assert_eq!(first.stop().await, Some(0));
    until("the second is alone", async || degraded(&second.client()).await == "[]").await;
    assert!(second.log().contains("have equal settings again"));
    assert_eq!(second.stop().await, Some(0));
    let third = Launch::configured(&configuration('c', &[], "")).start(&database).await;
    assert!(!third.log().contains(WARNING), "{}", third.log());
}

/// A token, and the servers that it was issued by.
async fn token(client: &Client) -> String {
    client.log_in("ada@example.com").await.is(200).json()["token"].as_str().unwrap().to_owned()
}

async fn restart(server: &mut Server, text: &str) {
    assert_eq!(server.stop().await, Some(0));
    std::fs::write(server.folder().join("gatewright.toml"), text).unwrap();
    server.restart();
}

/// Every server accepts all of these tokens and those that every server issues now, and a cursor of every server.
async fn nothing_is_refused(servers: &[Server; 2], tokens: &mut Vec<String>, at: &str) {
    for server in servers {
        tokens.push(token(&server.client()).await);
    }
    for (place, server) in servers.iter().enumerate() {
        for (number, token) in tokens.iter().enumerate() {
            let me =
                server.client().request(Method::GET, "/auth/me").header("authorization", format!("Bearer {token}"));
            let answer = Answer::read(me).await;
            assert_eq!(answer.status, 200, "{at}: server {place} refuses token {number}: {}", answer.text);
        }
        let page = server.client().get("/posts?limit=1&cursor=").await.is(200).json();
        let cursor = page["cursor"].as_str().expect("there is a second page");
        for other in servers {
            other.client().get(&format!("/posts?limit=1&cursor={cursor}")).await.is(200);
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_secret_is_changed_on_two_servers_in_any_order_without_a_refused_token() {
    let Some(database) = Database::postgres().await else { return };
    let first = configuration('a', &[], "");
    let mut servers =
        [Launch::configured(&first).start(&database).await, Launch::configured(&first).start(&database).await];
    servers[0].client().register("ada@example.com").await.is(200);
    for title in ["one", "two"] {
        servers[0].client().post("/posts", &json!({ "title": title })).await.is(201);
    }
    let mut tokens = Vec::new();
    // Two rotations: in each step of the second one, the servers restart in the other order.
    for (old, new, order) in [('a', 'b', [0, 1]), ('b', 'c', [1, 0])] {
        nothing_is_refused(&servers, &mut tokens, "before").await;
        let steps = [
            ("accept the new one", configuration(old, &[new], "")),
            ("use the new one", configuration(new, &[old], "")),
            ("forget the old one", configuration(new, &[], "")),
        ];
        for (step, text) in &steps {
            if *step == "forget the old one" {
                // The tokens of the old secret have expired by then.
                tokens.clear();
            }
            for place in order {
                restart(&mut servers[place], text).await;
                nothing_is_refused(&servers, &mut tokens, &format!("{old} to {new}, {step}, server {place}")).await;
            }
        }
    }
    for server in &servers {
        assert!(!server.log().contains(WARNING), "{}", server.log());
    }
    // Without the first step, tokens are refused: the checks above see that.
    tokens.clear();
    tokens.push(token(&servers[0].client()).await);
    restart(&mut servers[1], &configuration('d', &['c'], "")).await;
    let refused = token(&servers[1].client()).await;
    let me = servers[0].client().request(Method::GET, "/auth/me").header("authorization", format!("Bearer {refused}"));
    Answer::read(me).await.is(401);
    assert!(servers[1].log().contains(WARNING));
}
