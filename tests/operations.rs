//! Backup, restore, promotion to Postgres, and checks of a deployment from outside.

use std::fs;

use gatewright_servers::{Folder, Opening, TlsProxy};
use reqwest::Method;
use serde_json::{Value, json};

use crate::harness::{Answer, Client, Database, Launch, Receiver, Server, Stream, gatewright};
use crate::outbox::{self, until};

const PROJECT: &str = r#"
[server]
dev_mode = true
[auth]
jwt_secret = "a secret for tests alone, long enough"
[outbox]
enabled = true
[[entity]]
name = "topics"
public = true
[[entity.field]]
name = "name"
type = "string"
unique = true
[[entity]]
name = "posts"
owner_field = "user_id"
soft_delete = true
[[entity.field]]
name = "title"
type = "string"
[[entity.field]]
name = "topic"
type = "relation"
to = "topics"
[[entity.field]]
name = "price"
type = "decimal"
[[entity.field]]
name = "meta"
type = "json"
[[entity.field]]
name = "tags"
type = "list"
of = "string"
max_items = 20
[[entity.field]]
name = "weights"
type = "list"
of = "float"
[[entity.field]]
name = "day"
type = "date"
"#;

const ADA: &str = "ada@example.com";

/// Creates a project with an account, records, some of them in the trash, and an API token, which is returned.
async fn filled(server: &Server, database: &str) -> String {
    let ada = server.client();
    ada.register(ADA).await.is(200);
    ada.log_in(ADA).await.is(200);
    let topic = ada.post("/topics", &json!({ "name": "Ä" })).await.is(201).json()["data"]["id"].clone();
    for number in 0..120 {
        let post = json!({ "title": format!("post {number}"), "topic": topic, "price": format!("{number}.5"),
                           "meta": { "b": number, "a": [1.5, null] }, "tags": ["é", format!("tag {number}")], "weights": [1e300, 0.1, number], "day": "2024-02-29" });
        ada.post("/posts", &post).await.is(201);
    }
    let gone = ada.get("/posts?title=post 7").await.is(200).json()["data"][0]["id"].as_str().unwrap().to_owned();
    Answer::read(ada.request(Method::DELETE, &format!("/posts/{gone}"))).await.is(204);
    let words =
        ["token", "issue", "--user", ADA, "--name", "t", "--scopes", "*:*", "--unverified", "--database", database];
    gatewright(server.folder(), &words, "").out.trim().to_owned()
}

/// The data that clients see: every record, and the trash.
async fn seen(client: &Client) -> Value {
    client.log_in(ADA).await.is(200);
    let mut seen = Vec::new();
    for path in ["/topics?limit=100", "/posts?limit=100", "/posts?limit=100&page=2", "/posts?trashed=only"] {
        seen.push(client.get(&format!("{path}&sort=id")).await.is(200).json()["data"].clone());
    }
    Value::Array(seen)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_backup_of_a_running_server_is_restored_over_later_changes() {
    let mut server = Launch::configured(PROJECT).start(&Database::Sqlite).await;
    let token = filled(&server, "sqlite://gatewright.db").await;
    let before = seen(&server.client()).await;
    let run = |server: &Server, words: &[&str]| gatewright(server.folder(), words, "");
    let made = run(&server, &["backup", "b.db"]);
    assert_eq!(made.status, 0, "{made:?}");
    let again = run(&server, &["backup", "b.db"]);
    assert!(again.status == 1 && again.err.contains("b.db exists"), "{again:?}");

    // A restore undoes later writes. A stream position of then is unknown afterwards, and never matches another event.
    let ada = server.client();
    ada.log_in(ADA).await.is(200);
    for number in 0..5 {
        ada.post("/topics", &json!({ "name": format!("later {number}") })).await.is(201);
    }
    let cursor = ada.get("/topics").await.is(200).header("event-cursor").to_owned();
    let refused = run(&server, &["restore", "b.db", "--replace"]);
    assert!(refused.status == 1 && refused.err.contains("another server"), "{refused:?}");
    server.stop().await;
    let refused = run(&server, &["restore", "b.db"]);
    assert!(refused.status == 1 && refused.err.contains("--replace"), "{refused:?}");
    let restored = run(&server, &["restore", "b.db", "--replace"]);
    assert_eq!(restored.status, 0, "{restored:?}");
    assert!(restored.out.contains("gatewright.db.before-restore-1"), "{restored:?}");
    server.restart();
    assert_eq!(seen(&server.client()).await, before);
    let me = server.client().request(Method::GET, "/posts?limit=1").bearer_auth(&token);
    Answer::read(me).await.is(200);
    for number in 0..10 {
        server.client().post("/topics", &json!({ "name": format!("new {number}") })).await.is(201);
    }
    let mut stream = resumed(&server.client(), &cursor).await;
    assert_eq!(stream.next().await.unwrap().kind, "gap");

    // The former database is complete.
    server.stop().await;
    let kept = run(&server, &["user", "list", "--database", "sqlite://gatewright.db.before-restore-1"]);
    assert!(kept.out.contains(ADA), "{kept:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn deliveries_that_were_pending_in_a_backup_are_made_again_after_a_restore() {
    let (receiver, url) = Receiver::start().await;
    receiver.lock().takes_bad = true;
    receiver.lock().stalls = true;
    let mut server = outbox::launch(&url).start(&Database::Sqlite).await;
    let settled = async |server: &Server, expected: Value| {
        let stats = outbox::command(server, &Database::Sqlite, &["stats", "--json"]);
        stats["consumers"] == expected
    };
    server.client().post("/posts", &json!({ "title": "kept" })).await.is(201);
    until("one is under way", async || receiver.lock().stalled.len() == 1).await;
    until("the other is made", async || {
        settled(&server, json!({ "bad": { "dispatched": 1 }, "good": { "pending": 1 } })).await
    })
    .await;
    assert_eq!(gatewright(server.folder(), &["backup", "b.db"], "").status, 0);

    receiver.lock().stalls = false;
    let both = json!({ "bad": { "dispatched": 2 }, "good": { "dispatched": 2 } });
    server.client().post("/posts", &json!({ "title": "later" })).await.is(201);
    until("both are made", async || settled(&server, both.clone()).await).await;
    server.stop().await;
    receiver.lock().stalls = true;
    let restored = gatewright(server.folder(), &["restore", "b.db", "--replace"], "");
    assert_eq!(restored.status, 0, "{restored:?}");
    server.restart();
    assert_eq!(server.client().get("/posts").await.is(200).json()["total"], 1);
    until("it is made again", async || receiver.lock().stalled.len() >= 2).await;
    let stalled = receiver.lock().stalled.clone();
    assert_eq!(stalled[0], stalled[1], "receivers know it by its id");
    receiver.lock().stalls = false;
    let one = json!({ "bad": { "dispatched": 1 }, "good": { "dispatched": 1 } });
    until("it is settled", async || settled(&server, one.clone()).await).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_promoted_project_has_the_same_data_and_its_streams_resume() {
    let Some(postgres) = Database::postgres().await else { return };
    let mut server = Launch::configured(PROJECT).start(&Database::Sqlite).await;
    let token = filled(&server, "sqlite://gatewright.db").await;
    let before = seen(&server.client()).await;
    let cursor = server.client().get("/topics").await.is(200).header("event-cursor").to_owned();
    let missed = server.client().post("/topics", &json!({ "name": "missed" })).await.is(201).json();
    let (folder, url) = (server.folder().to_owned(), postgres.url());
    let promote = |more: &[&str]| gatewright(&folder, &[&["promote", "--to", &url], more].concat(), "");
    let refused = promote(&[]);
    assert!(refused.status == 1 && refused.err.contains("another server"), "{refused:?}");
    server.stop().await;
    let file = fs::read(folder.join("gatewright.db")).unwrap();
    let promoted = promote(&[]);
    assert_eq!(promoted.status, 0, "{promoted:?}");
    for words in ["posts", "users", "api_tokens", "event_outbox", "counts and checksums are equal"] {
        assert!(promoted.out.contains(words), "{words}: {promoted:?}");
    }
    assert_eq!(fs::read(folder.join("gatewright.db")).unwrap(), file, "the source is as it was");
    let leftovers = fs::read_dir(&folder).unwrap().filter(|entry| entry.as_ref().unwrap().path().is_dir()).count();
    assert_eq!(leftovers, 0, "no copy is left");
    let again = promote(&[]);
    assert!(again.status == 1 && again.err.contains("the target is not empty"), "{again:?}");

    let promoted = Launch::configured(PROJECT).start(&postgres).await;
    let client = promoted.client();
    let mut stream = resumed(&client, &cursor).await;
    let event = stream.next().await.unwrap();
    assert_eq!((&*event.kind, &event.data["data"]["record"]["id"]), ("entity.created", &missed["data"]["id"]));
    let new = client.post("/topics", &json!({ "name": "new" })).await.is(201).json();
    assert_eq!(stream.next().await.unwrap().data["data"]["record"]["id"], new["data"]["id"]);
    for id in [&missed["data"]["id"], &new["data"]["id"]] {
        Answer::read(client.request(Method::DELETE, &format!("/topics/{}", id.as_str().unwrap()))).await.is(204);
    }
    assert_eq!(seen(&client).await, before);
    Answer::read(client.request(Method::GET, "/posts?limit=1").bearer_auth(&token)).await.is(200);
    let twice = client.post("/topics", &json!({ "name": "Ä" })).await;
    assert_eq!(twice.status, 409, "unique holds");
}

/// The topics' stream from a position.
async fn resumed(client: &Client, cursor: &str) -> Stream {
    let response = client.request(Method::GET, &format!("/topics/_events?since={cursor}")).send().await.unwrap();
    Stream::new(response)
}

#[tokio::test(flavor = "multi_thread")]
async fn promotion_leaves_out_undeclared_data_only_on_request() {
    let Some(postgres) = Database::postgres().await else { return };
    let mut server = Launch::configured(PROJECT).start(&Database::Sqlite).await;
    filled(&server, "sqlite://gatewright.db").await;
    server.stop().await;
    let folder = server.folder().to_owned();
    let shorter = PROJECT.split("[[entity]]\nname = \"posts\"").next().unwrap();
    fs::write(folder.join("gatewright.toml"), shorter.replace("[outbox]\nenabled = true\n", "")).unwrap();
    let url = postgres.url();
    let promote = |more: &[&str]| gatewright(&folder, &[&["promote", "--to", &url], more].concat(), "");
    let refused = promote(&[]);
    assert!(refused.status == 1 && refused.err.contains("the table posts (120 rows)"), "{refused:?}");
    // The outbox is off, and its rows are copied anyway.
    assert!(!refused.err.contains("event_outbox"), "{refused:?}");
    let promoted = promote(&["--leave", "posts"]);
    assert!(promoted.status == 0 && promoted.out.contains("event_outbox"), "{promoted:?}");
}

#[test]
fn backup_and_restore_of_postgres_are_refused_with_its_own_tools() {
    let folder = Folder::create("operations").unwrap();
    let url = ["--database", "postgres://ada:canary@127.0.0.1:1/x"];
    for words in [&["backup", "b.db"][..], &["restore", "b.db"]] {
        let refused = gatewright(folder.path(), &[words, &url].concat(), "");
        assert!(refused.status == 1 && refused.err.contains("pg_"), "{refused:?}");
        assert!(!refused.err.contains("canary"), "{refused:?}");
    }
    let refused = gatewright(folder.path(), &["promote", "--to", "postgres://ada:7/canary@h/x"], "");
    assert!(refused.status == 1 && !refused.err.contains("canary"), "{refused:?}");
}

#[test]
fn completions_and_manual_pages_name_the_commands() {
    let folder = Folder::create("operations").unwrap();
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let script = gatewright(folder.path(), &["completions", shell], "");
        assert_eq!(script.status, 0, "{script:?}");
        for word in ["service-account", "promote", "--replace"] {
            assert!(script.out.contains(word) || script.out.contains(&word.replace("--", "")), "{shell}: {word}");
        }
    }
    assert_eq!(gatewright(folder.path(), &["completions", "cmd"], "").status, 2);
    let page = gatewright(folder.path(), &["man"], "");
    assert!(page.out.contains(".TH") && page.out.contains("promote"), "{page:?}");
    let pages = gatewright(folder.path(), &["man", "pages"], "");
    assert_eq!(pages.status, 0, "{pages:?}");
    for page in ["gatewright.1", "gatewright-backup.1", "gatewright-user-create.1"] {
        assert!(folder.path().join("pages").join(page).is_file(), "{page}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_doctor_reports_dev_mode_and_a_missing_server() {
    let server = Launch::configured(PROJECT).start(&Database::Sqlite).await;
    let url = format!("http://{}", server.address());
    let examined = gatewright(server.folder(), &["doctor", &url], "");
    assert_eq!(examined.status, 1, "{examined:?}");
    for line in [
        "ok       /healthz answers",
        "ok       /readyz: the database answers",
        "ok       it runs version",
        "problem  dev mode is on",
        "ok       pages of other origins may not read answers",
        "ok       /topics/_events streams",
    ] {
        assert!(examined.out.contains(line), "{line}: {examined:?}");
    }
    assert!(examined.out.ends_with("1 problem, 0 warnings\n"), "{examined:?}");

    let production = Launch::production("").start(&Database::Sqlite).await;
    let url = format!("http://{}", production.address());
    let examined = gatewright(production.folder(), &["doctor", &url], "");
    assert_eq!(examined.status, 0, "{examined:?}");

    let unreachable = gatewright(server.folder(), &["doctor", "http://127.0.0.1:1"], "");
    assert!(
        unreachable.status == 1 && unreachable.out.contains("problem  no answer from http://127.0.0.1:1"),
        "{unreachable:?}"
    );
    for wrong in ["example.com", "ftp://example.com", "https://ada:canary@example.com"] {
        let refused = gatewright(server.folder(), &["doctor", wrong], "");
        assert!(refused.status == 1 && !refused.err.contains("canary"), "{refused:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_doctor_reports_a_database_in_another_encoding() {
    let server = Launch::production("").start(&Database::Sqlite).await;
    let url = format!("http://{}", server.address());
    let doctor = |database: &str| gatewright(server.folder(), &["doctor", &url, "--database", database], "");
    let own = doctor("sqlite://gatewright.db");
    assert!(own.status == 0 && own.out.contains("ok       the database can be opened"), "{own:?}");
    let missing = doctor("sqlite://nowhere.db");
    assert!(missing.status == 1 && missing.out.contains("problem  there is no SQLite file"), "{missing:?}");
    assert!(!server.folder().join("nowhere.db").exists());
    let Some(latin) = Database::postgres_in("LATIN1").await else { return };
    let examined = doctor(&latin.url());
    assert_eq!(examined.status, 1, "{examined:?}");
    for words in ["problem  the database ", "the encoding LATIN1, and UTF8 is required"] {
        assert!(examined.out.contains(words), "{words}: {examined:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_access_log_has_numbers_the_account_and_the_network_of_the_client() {
    let launch = Launch::production("").env("RUST_LOG", "info,gatewright::access=debug");
    let server = launch.start(&Database::Sqlite).await;
    let client = server.client();
    let account = json!({ "email": "ada@example.com", "password": "correct horse battery" });
    let registered = client.post("/auth/register", &account).await.is(200).json();
    let (id, token) = (&registered["user"]["id"], registered["token"].as_str().unwrap());
    let me = client.request(Method::GET, "/auth/me?secret=canary").header("authorization", format!("Bearer {token}"));
    Answer::read(me.header("x-request-id", "known-caller-1")).await.is(200);
    Answer::read(client.request(Method::GET, "/auth/me").header("x-request-id", "nobody-1")).await.is(401);
    let line = async |id: &str| {
        let found = || {
            server
                .log()
                .lines()
                .find(|line| line.contains(id) && line.contains("gatewright::access"))
                .map(str::to_owned)
        };
        until("the request is logged", async || found().is_some()).await;
        serde_json::from_str::<Value>(&found().unwrap()).unwrap()
    };
    let known = line("known-caller-1").await;
    let expected = json!({
        "method": "GET", "route": "/auth/me", "status": 200, "requestId": "known-caller-1", "account": id,
        "addressClass": "127.0.0.0/24",
    });
    for (name, value) in expected.as_object().unwrap() {
        assert_eq!(&known[name], value, "{name}: {known}");
    }
    assert!(known["ms"].as_f64().is_some_and(|ms| ms > 0.0), "{known}");
    let nobody = line("nobody-1").await;
    assert_eq!((&nobody["status"], nobody.get("account")), (&json!(401), None), "{nobody}");
    let log = server.log();
    assert!(!log.contains("canary") && !log.contains("Some("), "{log}");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_doctor_trusts_a_certificate_authority_that_it_is_given() {
    let server = Launch::production("").start(&Database::Sqlite).await;
    let proxy = TlsProxy::start(server.address().to_string(), Opening::Tls).await.unwrap();
    let url = format!("https://localhost:{}", proxy.port);
    let (ca, empty) = (server.folder().join("ca.pem"), server.folder().join("empty.pem"));
    fs::write(&ca, &proxy.certificate).unwrap();
    fs::write(&empty, "").unwrap();
    let doctor = async |words: &[&str]| {
        let (folder, words) =
            (server.folder().to_owned(), words.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>());
        let run = move || gatewright(&folder, &words.iter().map(String::as_str).collect::<Vec<_>>(), "");
        tokio::task::spawn_blocking(run).await.unwrap()
    };
    let unknown = doctor(&["doctor", &url]).await;
    assert!(unknown.status == 1 && unknown.out.contains("problem  no answer from"), "{unknown:?}");
    let known = doctor(&["doctor", &url, "--ca", ca.to_str().unwrap()]).await;
    assert!(known.status == 0 && known.out.contains("ok       the address is https"), "{known:?}");
    for (file, words) in
        [(empty.to_str().unwrap(), "has no certificate"), ("missing.pem", "cannot read the certificates")]
    {
        let refused = doctor(&["doctor", &url, "--ca", file]).await;
        assert!(refused.status == 1 && refused.err.contains(words), "{refused:?}");
    }
}

#[test]
fn the_image_and_the_unit_run_the_server_without_privileges() {
    let read = |path: &str| fs::read_to_string(format!("{}/../{path}", env!("CARGO_MANIFEST_DIR"))).unwrap();
    let (image, unit, workspace) = (read("Dockerfile"), read("packaging/gatewright.service"), read("Cargo.toml"));
    let version = workspace.lines().find_map(|line| line.strip_prefix("rust-version = \"")?.strip_suffix('"')).unwrap();
    assert!(image.contains(&format!("FROM rust:{version}-")), "the image is built with another compiler");
    for line in ["USER 65532:65532", "VOLUME /data", "ENTRYPOINT [\"/usr/bin/gatewright\"]"] {
        assert!(image.lines().any(|found| found == line), "{line}");
    }
    for line in
        ["User=gatewright", "NoNewPrivileges=yes", "CapabilityBoundingSet=", "ProtectSystem=strict", "ProtectHome=yes"]
    {
        assert!(unit.lines().any(|found| found == line), "{line}");
    }
    // Every command that the image and the unit run exists.
    let folder = Folder::create("operations").unwrap();
    for words in [&["serve", "--help"], &["check", "--help"], &["init", "--help"]] {
        assert_eq!(gatewright(folder.path(), words, "").status, 0, "{words:?}");
    }
}

/// SIGHUP comes from tools that rotate logs, SIGUSR1 and SIGUSR2 from tools that expect a daemon to know them.
#[tokio::test]
async fn signals_that_do_not_stop_leave_requests_and_streams_alone() {
    let mut server = Launch::configured(PROJECT).start(&Database::Sqlite).await;
    let client = server.client();
    for name in ["HUP", "USR1", "USR2"] {
        for _ in 0..5 {
            server.signal(name);
            client.get("/healthz").await.is(200);
        }
        until("the log names the signal", async || server.log().contains(&format!("SIG{name}"))).await;
    }
    assert_eq!(server.stop().await, Some(0));
}
