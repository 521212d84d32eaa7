//! API tokens and service accounts: the operator's commands, and the access that the tokens give in the running server.

use reqwest::Method;
use serde_json::{Value, json};

use crate::harness::{Answer, Database, Launch, Server, gatewright};

/// Runs a command against the server's database. Returns standard output without the last line break.
fn run(server: &Server, database: &Database, words: &[&str]) -> String {
    let finished = gatewright(server.folder(), &[words, &["--database", &database.url()]].concat(), "");
    assert_eq!(finished.status, 0, "{words:?}: {finished:?}");
    finished.out.trim_end_matches('\n').to_owned()
}

/// The same for a command that fails. Returns standard error.
fn fail(server: &Server, database: &Database, words: &[&str], status: i32) -> String {
    let finished = gatewright(server.folder(), &[words, &["--database", &database.url()]].concat(), "");
    assert_eq!((finished.status, finished.out.as_str()), (status, ""), "{words:?}: {finished:?}");
    finished.err
}

async fn with_token(server: &Server, method: Method, path: &str, token: &str, body: Option<&Value>) -> Answer {
    let request = server.client().request(method, path).header("authorization", format!("Bearer {token}"));
    Answer::read(match body {
        Some(body) => request.json(body),
        None => request,
    })
    .await
}

async fn read(server: &Server, path: &str, token: &str) -> u16 {
    with_token(server, Method::GET, path, token, None).await.status.as_u16()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_service_account_works_by_its_token_within_scopes_and_roles() {
    for database in Database::all().await {
        let server = Launch::dev().start(&database).await;
        run(&server, &database, &["service-account", "create", "CI robot", "--roles", "editor"]);
        let scopes = "topics:read,topics:write";
        let issue = ["token", "issue", "--service", "CI robot", "--name", "deploys", "--scopes", scopes];
        let token = run(&server, &database, &issue);
        assert!(token.starts_with("svc_") && token.len() == 44 && !token.contains('\n'), "alone on stdout: {token}");

        let topic = json!({ "name": "Rust" });
        with_token(&server, Method::POST, "/topics", &token, Some(&topic)).await.is(201);
        assert_eq!(read(&server, "/topics", &token).await, 200);
        assert_eq!(read(&server, "/posts", &token).await, 403, "the blanket guard stands");
        assert_eq!(read(&server, "/auth/tokens", &token).await, 401);
        assert_eq!(read(&server, "/auth/me", &token).await, 401);
        let blind = run(&server, &database, &["token", "issue", "--service", "CI robot", "--name", "nothing"]);
        assert_eq!(read(&server, "/topics", &blind).await, 403, "an empty list covers nothing");

        let listed: Value = serde_json::from_str(&run(&server, &database, &["token", "list", "--json"])).unwrap();
        assert_eq!(listed["total"], 2);
        let item = listed["items"].as_array().unwrap().iter().find(|item| item["name"] == "deploys").unwrap();
        assert_eq!(item["prefix"], token[..12]);
        assert_eq!((&item["ownerKind"], &item["owner"]), (&json!("service"), &json!("CI robot")));
        let text = run(&server, &database, &["token", "list"]);
        assert!(text.contains("service CI robot") && !text.contains(&token[12..]), "{text}");

        run(&server, &database, &["service-account", "disable", "CI robot"]);
        assert_eq!(read(&server, "/posts", &token).await, 401, "at once");
        let accounts = run(&server, &database, &["service-account", "list", "--json"]);
        let accounts: Value = serde_json::from_str(&accounts).unwrap();
        assert_eq!(accounts["items"][0]["disabled"], true, "{accounts}");
        run(&server, &database, &["service-account", "enable", "CI robot"]);
        assert_eq!(read(&server, "/posts", &token).await, 403);

        run(&server, &database, &["token", "revoke", item["id"].as_str().unwrap()]);
        assert_eq!(read(&server, "/posts", &token).await, 401);
        let again = fail(&server, &database, &["token", "revoke", item["id"].as_str().unwrap()], 1);
        assert!(again.contains("gatewright token list"), "{again}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_users_token_acts_as_its_owner_and_survives_a_logout() {
    for database in Database::all().await {
        let server = Launch::dev().start(&database).await;
        let ada = server.client();
        ada.register("ada@example.com").await.is(200);
        ada.log_in("ada@example.com").await.is(200);
        let asked = json!({ "name": "laptop", "scopes": ["posts:*"], "ttl_seconds": 3600 });
        let own = ada.post("/auth/tokens", &asked).await.is(200).json();
        let issue = [
            "token",
            "issue",
            "--user",
            "Ada@Example.com",
            "--name",
            "by the operator",
            "--scopes",
            "*:*",
            "--unverified",
        ];
        let given = run(&server, &database, &issue);
        let post = json!({ "title": "By token" });
        let own = own["token"].as_str().unwrap();
        let made = with_token(&server, Method::POST, "/posts", own, Some(&post)).await.is(201).json();
        let path = format!("/posts/{}", made["data"]["id"].as_str().unwrap());
        ada.get(&path).await.is(200);
        assert_eq!(read(&server, &path, &given).await, 200);
        let listed = ada.get("/auth/tokens").await.is(200).json();
        assert_eq!(listed["tokens"].as_array().unwrap().len(), 2);
        assert_ne!(listed["tokens"][1]["lastUsedAt"], Value::Null, "{listed}");

        run(&server, &database, &["user", "logout", "ada@example.com"]);
        ada.get("/auth/me").await.is(401);
        assert_eq!(read(&server, &path, own).await, 200, "API tokens live on");
        let text = run(&server, &database, &["token", "list"]);
        assert!(text.contains("user ada@example.com"), "{text}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_refused_command_names_the_next_step() {
    for database in Database::all().await {
        let server = Launch::dev().start(&database).await;
        run(&server, &database, &["service-account", "create", "robot"]);
        for (words, status, said) in [
            (&["token", "issue", "--name", "x"][..], 2, "--user"),
            (&["token", "issue", "--name", "x", "--user", "a@example.com", "--service", "robot"], 2, "--service"),
            (&["token", "issue", "--service", "robot"], 2, "--name"),
            (&["token", "issue", "--user", "a@example.com", "--name", "x"], 1, "gatewright user list"),
            (&["token", "issue", "--service", "nobody", "--name", "x"], 1, "gatewright service-account list"),
            (&["token", "issue", "--service", "robot", "--name", "x", "--scopes", "posts"], 1, "posts"),
            (&["token", "issue", "--service", "robot", "--name", "x", "--ttl=-1"], 1, "seconds"),
            (&["token", "revoke", "nothing"], 1, "gatewright token list"),
            (&["service-account", "create", "robot"], 1, "token issue --service"),
            (&["service-account", "disable", "nobody"], 1, "gatewright service-account list"),
        ] {
            let error = fail(&server, &database, words, status);
            assert!(error.contains(said), "{words:?}: {error}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stream_is_cut_within_a_heartbeat_of_the_token_s_end() {
    let blog = include_str!("../examples/blog.toml");
    for database in Database::all().await {
        let text = format!("{blog}\n[events]\nheartbeat_seconds = 1\n");
        let server = Launch::configured(&text).start(&database).await;
        let ada = server.client();
        ada.register("ada@example.com").await.is(200);
        run(&server, &database, &["service-account", "create", "robot"]);
        let issue = |owner: [&str; 2]| {
            let words = [
                "token",
                "issue",
                owner[0],
                owner[1],
                "--name",
                "stream",
                "--scopes",
                "topics:read,posts:read",
                "--unverified",
            ];
            run(&server, &database, &words)
        };
        let tokens = [issue(["--user", "ada@example.com"]), issue(["--service", "robot"])];
        let mut streams = Vec::new();
        // Everybody may read topics, even without a token. A stream with a revoked token ends anyway.
        for (token, table) in tokens.iter().flat_map(|token| [(token, "posts"), (token, "topics")]) {
            let request = server.client().request(Method::GET, &format!("/{table}/_events"));
            let response = request.header("authorization", format!("Bearer {token}")).send().await.unwrap();
            assert_eq!(response.status(), 200);
            streams.push(crate::harness::Stream::new(response));
        }
        let listed: Value = serde_json::from_str(&run(&server, &database, &["token", "list", "--json"])).unwrap();
        let of_ada = listed["items"].as_array().unwrap().iter().find(|item| item["ownerKind"] == "user").unwrap();
        run(&server, &database, &["token", "revoke", of_ada["id"].as_str().unwrap()]);
        run(&server, &database, &["service-account", "disable", "robot"]);
        // The streams end well within the reader's timeout of 20 seconds.
        for mut stream in streams {
            while stream.next().await.is_some() {}
        }
    }
}
