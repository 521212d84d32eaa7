//! Accounts: the operator's commands beside a running server, and data that must not be in the log.

use std::{env, process::Command};

use reqwest::Method;
use serde_json::{Value, json};

use crate::harness::{Answer, Database, Launch, PASSWORD, Server, Stream, gatewright};
use crate::outbox::until;

#[tokio::test(flavor = "multi_thread")]
async fn the_operator_s_changes_apply_at_once_in_the_running_server() {
    for database in Database::all().await {
        let server = Launch::dev().start(&database).await;
        let url = database.url();
        let run = |words: &[&str], input: &str| {
            let finished = gatewright(server.folder(), &[words, &["--database", &url]].concat(), input);
            assert_eq!(finished.status, 0, "{words:?}: {finished:?}");
            finished.out
        };
        let with_password = format!("{PASSWORD}\n");
        run(&["user", "create", "Grace@Example.com", "--roles", "user", "--password-stdin"], &with_password);
        let grace = server.client();
        let signed_in = grace.log_in("grace@example.com").await.is(200).json();
        assert_eq!(signed_in["user"]["roles"], json!(["user"]));

        let topic = json!({ "name": "Rust" });
        grace.post("/topics", &topic).await.is(403);
        run(&["user", "set-roles", "grace@example.com", "user,editor"], "");
        grace.post("/topics", &topic).await.is(201);
        assert_eq!(grace.get("/auth/me").await.is(200).json()["user"]["roles"], json!(["user", "editor"]));
        server.client().get("/topics").await.is(200); // everybody may read topics

        let list: Value = serde_json::from_str(&run(&["user", "list", "--json"], "")).unwrap();
        assert_eq!(list["total"], 1);
        assert_eq!(list["items"][0]["email"], "grace@example.com");
        let grace_listed = &list["items"][0];
        assert_eq!(grace_listed.as_object().unwrap().len(), 9, "{list}");
        for (key, value) in [
            ("emailVerified", json!(false)),
            ("secondFactor", json!(false)),
            ("disabledAt", Value::Null),
            ("tenants", json!([])),
        ] {
            assert_eq!(grace_listed[key], value, "{key}: {list}");
        }
        let created = grace_listed["createdAt"].as_str().unwrap();
        assert!(grace_listed["lastSignInAt"].as_str().unwrap() > created, "{list}");

        let bearer = format!("Bearer {}", signed_in["token"].as_str().unwrap());
        let by_token = || Answer::read(server.client().request(Method::GET, "/posts").header("authorization", &bearer));
        by_token().await.is(200);
        run(&["user", "logout", "grace@example.com"], "");
        grace.get("/auth/me").await.is(401);
        by_token().await.is(401);

        run(&["user", "set-password", "grace@example.com", "--password-stdin"], "another horse battery\n");
        grace.log_in("grace@example.com").await.is(401);
        let other = json!({ "email": "grace@example.com", "password": "another horse battery" });
        grace.post("/auth/login", &other).await.is(200);

        let missing = ["user", "set-roles", "nobody@example.com", "user", "--database", &url];
        let missing = gatewright(server.folder(), &missing, "");
        assert_eq!(missing.status, 1);
        assert!(missing.err.contains("nobody@example.com"), "{missing:?}");
        let taken = ["user", "create", "grace@example.com", "--password-stdin", "--database", &url];
        let taken = gatewright(server.folder(), &taken, &with_password);
        assert_eq!(taken.status, 1);
        assert!(taken.err.contains("grace@example.com"), "{taken:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_operator_removes_a_lost_second_factor() {
    for database in Database::all().await {
        let server = Launch::dev().start(&database).await;
        let ada = server.client();
        ada.register("ada@example.com").await.is(200);
        ada.log_in("ada@example.com").await.is(200);
        let begun = ada.post("/auth/2fa/enroll", &json!({})).await.is(200).json();
        let Some(code) = authenticator_code(begun["secret"].as_str().unwrap()) else { return };
        ada.post("/auth/2fa/verify", &json!({ "code": code })).await.is(200);
        let again = server.client();
        assert_eq!(again.log_in("ada@example.com").await.is(200).json()["two_factor_required"], true);
        again.get("/posts").await.is(403);

        let url = database.url();
        let run = |email: &str| gatewright(server.folder(), &["user", "disable-2fa", email, "--database", &url], "");
        let removed = run("Ada@Example.com");
        assert!(removed.status == 0 && removed.out.contains("ada@example.com"), "{removed:?}");
        assert!(again.log_in("ada@example.com").await.is(200).json()["token"].is_string());
        let none = run("ada@example.com");
        assert!(none.status == 0 && none.out.contains("no second factor"), "{none:?}");
        let missing = run("nobody@example.com");
        assert!(missing.status == 1 && missing.err.contains("nobody@example.com"), "{missing:?}");
    }
}

/// The commands that name an account by its address. Those that give the account something refuse one that a stranger may
/// have registered, unless the operator insists; those that take something away or only read do not.
const GIVING: [(&str, &[&str]); 4] = [
    ("user set-roles", &["user", "set-roles", "ada@example.com", "user,editor"]),
    ("user set-password", &["user", "set-password", "ada@example.com", "--password-stdin"]),
    ("tenant add-member", &["tenant", "add-member", "acme", "ada@example.com"]),
    ("token issue", &["token", "issue", "--user", "ada@example.com", "--name", "x", "--scopes", "*:*"]),
];
const OTHERS: [&str; 11] = [
    // They have no account before, or its owner accepts.
    "user create",
    "user invite",
    "user disable-2fa",
    "user logout",
    "user disable",
    "user enable",
    "user delete",
    "tenant remove-member",
    "client connections",
    "client disconnect",
    "explain",
];

#[test]
fn every_command_that_names_an_account_is_in_the_table() {
    let reference = include_str!("../docs/command-line.md");
    let usages =
        reference.lines().filter_map(|line| line.strip_prefix("`gatewright ")).filter(|line| line.contains("EMAIL"));
    let mut known: Vec<&str> = GIVING.iter().map(|(name, _)| *name).chain(OTHERS).collect();
    for usage in usages {
        let position = known.iter().position(|name| usage.starts_with(&format!("{name} ")));
        known.swap_remove(position.unwrap_or_else(|| panic!("is {usage} a command that gives an account something?")));
    }
    assert!(known.is_empty(), "{known:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn no_command_gives_an_account_that_nobody_has_proven_anything_unless_the_operator_insists() {
    let configuration = "[[entity]]\nname = \"notes\"\nmulti_tenant = true\n";
    for database in Database::all().await {
        let server = Launch::configured(configuration).start(&database).await;
        let url = database.url();
        let run = |words: &[&str]| {
            let words = [words, &["--database", &url]].concat();
            gatewright(server.folder(), &words, "another horse battery\n")
        };
        let stranger = server.client();
        stranger.register("ada@example.com").await.is(200);
        stranger.log_in("ada@example.com").await.is(200);
        let body = json!({ "name": "mine", "scopes": ["*:*"], "password": PASSWORD });
        let token = stranger.post("/auth/tokens", &body).await.is(200).json()["token"].as_str().unwrap().to_owned();
        let by_token = async || {
            let request = server.client().request(Method::GET, "/notes");
            Answer::read(request.header("authorization", format!("Bearer {token}"))).await.status
        };
        let before = by_token().await;
        for (name, words) in GIVING.iter().filter(|(name, _)| *name != "user set-password") {
            refused(&run(words), name);
            let insisted = run(&[words, &["--unverified"][..]].concat());
            assert_eq!(insisted.status, 0, "{name}: {insisted:?}");
        }
        run(&["user", "set-roles", "ada@example.com", "user"]);
        let (name, words) = GIVING[1];
        refused(&run(words), name);
        stranger.get("/auth/me").await.is(200);
        let claimed = run(&[words, &["--unverified"][..]].concat());
        assert!(claimed.status == 0 && claimed.out.contains("API tokens"), "{claimed:?}");
        stranger.get("/auth/me").await.is(401);
        assert_ne!(by_token().await, before);
        // From now on only the operator has put credentials on it.
        assert_eq!(run(GIVING[0].1).status, 0);
        let created = run(&["user", "create", "grace@example.com", "--password-stdin"]);
        assert_eq!(created.status, 0, "{created:?}");
        assert_eq!(run(&["user", "set-roles", "grace@example.com", "user,editor"]).status, 0);
    }
}

fn refused(finished: &crate::harness::Finished, name: &str) {
    assert_eq!(finished.status, 1, "{name}: {finished:?}");
    for words in ["nobody has confirmed the address ada@example.com", "--unverified"] {
        assert!(finished.err.contains(words), "{name}: {finished:?}");
    }
}

/// The current code of an authenticator app, computed by `oathtool`. `None` without that program;
/// `cargo xtask test` requires it.
pub(crate) fn authenticator_code(secret: &str) -> Option<String> {
    let program = env::var_os("GATEWRIGHT_TEST_OATHTOOL").unwrap_or_else(|| "oathtool".into());
    match Command::new(program).args(["--totp", "-b", secret]).output() {
        Ok(output) => Some(String::from_utf8_lossy(&output.stdout).trim().to_owned()),
        Err(_) => {
            assert!(env::var_os("GATEWRIGHT_TEST_REQUIRED").is_none(), "`oathtool` is missing");
            None
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stream_is_cut_within_a_heartbeat_of_the_logout() {
    let blog = include_str!("../examples/blog.toml");
    for database in Database::all().await {
        let server = Launch::configured(&format!("{blog}\n[events]\nheartbeat_seconds = 1\n")).start(&database).await;
        let (ada, other) = (server.client(), server.client());
        ada.register("ada@example.com").await.is(200);
        ada.log_in("ada@example.com").await.is(200);
        other.log_in("ada@example.com").await.is(200);
        let mut stream = ada.listen("posts").await;
        ada.post("/auth/logout", &json!({})).await.is(204);
        other.post("/posts", &json!({ "title": "after" })).await.is(201);
        // Events from before the cut may still arrive. Then the stream ends, well within the reader's timeout of 20
        // seconds.
        while stream.next().await.is_some() {}
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn no_credential_reaches_the_log_at_any_level() {
    for database in Database::all().await {
        let server = Launch::dev().env("RUST_LOG", "trace").start(&database).await;
        let ada = server.client();
        let registered = ada.register("ada@example.com").await.is(200).json();
        let signed_in = ada.log_in("ada@example.com").await.is(200);
        let cookie = signed_in.header("set-cookie").split([';', '=']).nth(1).unwrap().to_owned();
        let token = signed_in.json()["token"].as_str().unwrap().to_owned();
        let bearer = format!("Bearer {token}");
        let by_token = server.client().request(Method::GET, "/posts").header("authorization", &bearer);
        Answer::read(by_token).await.is(200);
        ada.post("/auth/login", &json!({ "email": "ada@example.com", "password": "canary-wrong-password" }))
            .await
            .is(401);
        let form = server.client().request(Method::POST, "/auth/login");
        let form = form.form(&[("email", "ada@example.com"), ("password", PASSWORD)]);
        Answer::read(form).await.is(303);
        ada.post("/posts", &json!({ "title": "x" })).await.is(201);
        ada.post("/auth/logout", &json!({})).await.is(204);

        let log = logged(&server);
        for canary in [
            PASSWORD,
            "canary-wrong-password",
            &cookie,
            &token,
            registered["token"].as_str().unwrap(),
            "$2b$",
            "$argon2id$v=",
        ] {
            assert!(canary.len() > 3 && !log.contains(canary), "{canary} is in the log");
        }
    }
}

/// No log contains what a user typed or what identifies them, and neither does a stream that resumes after the
/// deletion.
#[tokio::test(flavor = "multi_thread")]
async fn a_deleted_account_leaves_no_personal_data_in_the_log_or_on_a_stream() {
    let configuration = "[roles]\nuser = [\"posts:all\"]\n[auth]\non_account_delete = \"delete\"\n[[entity]]\nname = \"posts\"\n\
                         owner_field = \"user_id\"\ncross_owner_read = \"posts:all\"\n\
                         [[entity.field]]\nname = \"title\"\ntype = \"string\"\n";
    for database in Database::all().await {
        let server = Launch::configured(configuration).env("RUST_LOG", "debug").start(&database).await;
        let (ann, email) = (server.client(), "canary-ann@example.com");
        ann.register(email).await.is(200);
        ann.post("/auth/login", &json!({ "email": email, "password": "not the password" })).await.is(401);
        let login = json!({ "email": email, "password": PASSWORD });
        let agent = ann.request(Method::POST, "/auth/login").header("user-agent", "canary-browser").json(&login);
        Answer::read(agent).await.is(200);
        let before = ann.get("/posts").await.is(200);
        let cursor = before.header("event-cursor").to_owned();
        ann.post("/posts", &json!({ "title": "canary-title" })).await.is(201);
        for (path, body) in [
            ("/auth/tokens", json!({ "name": "canary-token", "scopes": ["posts:read"] })),
            ("/auth/forgot-password", json!({ "email": email })),
            ("/auth/magic-link/send", json!({ "email": email })),
            ("/auth/send-verification", json!({})),
            ("/auth/change-email", json!({ "email": "canary-new@example.com", "password": PASSWORD })),
            ("/auth/delete-account", json!({ "password": PASSWORD })),
        ] {
            let answer = ann.post(path, &body).await;
            assert!(answer.status.is_success(), "{path}: {}", answer.text);
        }
        let bob = server.client();
        bob.register("bob@example.com").await.is(200);
        bob.log_in("bob@example.com").await.is(200);
        bob.post("/posts", &json!({ "title": "the last one" })).await.is(201);
        // The data is removed in the background.
        until("her post is gone", async || bob.get("/posts").await.is(200).json()["total"] == 1).await;
        let resumed = bob.stream("/posts/_events").header("last-event-id", &cursor).send().await.unwrap();
        let mut stream = Stream::new(resumed);
        loop {
            let event = stream.next().await.expect("the stream lives").data.to_string();
            assert!(!event.contains("canary"), "{event}");
            if event.contains("the last one") {
                break;
            }
        }
        let log = logged(&server);
        let told: Vec<_> = log.lines().filter(|line| line.contains("canary")).collect();
        assert!(told.is_empty(), "{told:#?}");
    }
}

/// The log. At this level it has enough lines to contain secrets by mistake.
fn logged(server: &Server) -> String {
    let log = server.log();
    assert!(log.lines().count() > 5, "nothing was logged: {log}");
    log
}
