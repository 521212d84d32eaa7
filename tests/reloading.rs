//! The server reads its configuration again, and what it does not take over.

use std::{fs, path::Path, process::Command};

use gatewright_servers::Folder;
use serde_json::{Value, json};

use crate::harness::{Database, Finished, Launch, PASSWORD, Server, gatewright};
use crate::outbox::until;

const PROJECT: &str = r#"
bcrypt_cost = 4
[[entity]]
name = "notes"
access = { read = "notes:read", create = "notes:create" }
[[entity.field]]
name = "title"
type = "string"
"#;

fn append(server: &Server, text: &str) {
    let path = server.folder().join("gatewright.toml");
    fs::write(&path, fs::read_to_string(&path).unwrap() + text).unwrap();
}

/// A running server on each engine. It is found by its file.
async fn servers(file: &Path) -> Vec<(Server, Database)> {
    let mut servers = Vec::new();
    for (number, database) in Database::all().await.into_iter().enumerate() {
        let file = file.join(format!("pid-{number}"));
        let launch = Launch::production(PROJECT).env("GATEWRIGHT__SERVER__PID_FILE", file.to_str().unwrap());
        servers.push((launch.start(&database).await, database));
    }
    servers
}

fn reload(server: &Server, database: &Database, file: &Path) -> Finished {
    // The command reads the same configuration as the server.
    let file = format!("GATEWRIGHT__SERVER__PID_FILE={}", file.display());
    let mut command = crate::harness::clean(Command::new("env"));
    command.arg(file).arg(crate::harness::binary()).args(["reload", "--database", &database.url()]);
    command.current_dir(server.folder());
    tokio::task::block_in_place(|| crate::harness::finish(command, ""))
}

#[tokio::test(flavor = "multi_thread")]
async fn a_reload_changes_roles_limits_and_the_log_and_names_what_needs_a_restart() {
    let files = Folder::create("reloading").unwrap();
    for (number, (server, database)) in servers(files.path()).await.into_iter().enumerate() {
        let file = files.path().join(format!("pid-{number}"));
        let client = server.client();
        let registered = client.register("ada@example.com").await.is(200).json();
        let token = registered["token"].as_str().unwrap();
        let notes = async || {
            let request = client.request(reqwest::Method::GET, "/notes").header("x-request-id", "probe-1");
            crate::harness::Answer::read(request.bearer_auth(token)).await
        };
        notes().await.is(403);
        assert!(!server.log().contains("probe-1"), "the access log is off");
        let nothing = reload(&server, &database, &file);
        assert!(nothing.status == 0 && nothing.out.contains("no setting changed"), "{nothing:?}");

        append(
            &server,
            "[roles]\nuser = [\"notes:read\"]\n[log]\naccess = true\n[auth.limits.login_account]\nmax_attempts = 2\n\
             [events]\nmax_subscribers = 7\n",
        );
        let changed = reload(&server, &database, &file);
        assert_eq!(changed.status, 0, "{changed:?}");
        for applied in ["auth.limits.login_account.max_attempts", "log.access", "roles.user"] {
            assert!(changed.out.lines().next().unwrap().contains(applied), "{changed:?}");
        }
        assert!(changed.out.contains("needs a restart: events.max_subscribers\n"), "{changed:?}");
        notes().await.is(200);
        until("the access log is on", async || server.log().contains("probe-1")).await;
        let wrong = json!({ "email": "ada@example.com", "password": "not the password" });
        for status in [401, 401, 429] {
            client.post("/auth/login", &wrong).await.is(status);
        }
        // What needs a restart is named until there is one.
        let again = reload(&server, &database, &file);
        assert!(again.out.contains("no setting changed") && again.out.contains("events.max_subscribers"), "{again:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_invalid_configuration_changes_nothing_and_is_told_with_its_place() {
    let mut server = Launch::production(PROJECT).start(&Database::Sqlite).await;
    let database = Database::Sqlite;
    let client = server.client();
    let registered = client.register("ada@example.com").await.is(200).json();
    let token = registered["token"].as_str().unwrap().to_owned();
    let notes = async || {
        let request = client.request(reqwest::Method::GET, "/notes").bearer_auth(&token);
        crate::harness::Answer::read(request).await
    };
    let url = database.url();
    let reload = |server: &Server| {
        tokio::task::block_in_place(|| gatewright(server.folder(), &["reload", "--database", &url], ""))
    };
    append(&server, "[roles]\nuser = [\"notes:read\"]\n[email]\nfrom = \"canary\"\nsmtp_url = \"x://u:canary@h\"\n");
    let refused = reload(&server);
    assert!(refused.status == 1 && refused.err.contains("email.smtp_url"), "{refused:?}");
    notes().await.is(403);
    // The server itself refuses it too, if it gets the signal alone.
    server.signal("HUP");
    until("the log says so", async || server.log().contains("nothing has changed")).await;
    assert!(!server.log().contains("canary") && !refused.err.contains("u:canary"), "{}", server.log());
    notes().await.is(403);
    client.log_in("ada@example.com").await.is(200);
    let path = server.folder().join("gatewright.toml");
    let text = fs::read_to_string(&path).unwrap();
    fs::write(&path, text.split("[email]").next().unwrap()).unwrap();
    // Twenty signals at once are a few reloads, and the last one reads the newest file.
    for _ in 0..20 {
        server.signal("HUP");
    }
    until("the roles are those of the file", async || notes().await.status.as_u16() == 200).await;
    assert_eq!(server.stop().await, Some(0));
    let gone = reload(&server);
    assert!(gone.status == 1 && gone.err.contains("no server runs"), "{gone:?}");
}

/// After a crash, the number in the file may be that of another process, and somebody may write any number into it.
#[cfg(target_os = "linux")]
#[test]
fn no_process_is_signalled_but_the_one_that_holds_the_file() {
    let folder = Folder::create("reloading").unwrap();
    let file = folder.path().join("server.pid");
    let config = format!(
        "[server]\npid_file = \"{}\"\n[auth]\njwt_secret = \"a secret for tests alone, long enough\"\n",
        file.display()
    );
    fs::write(folder.path().join("gatewright.toml"), config).unwrap();
    // SIGHUP would end it.
    let mut other = Command::new("sleep").arg("60").spawn().unwrap();
    let reload = || gatewright(folder.path(), &["reload"], "");
    let absent = reload();
    assert!(absent.status == 1 && absent.err.contains("no server runs: there is no file"), "{absent:?}");
    fs::write(&file, other.id().to_string()).unwrap();
    let stale = reload();
    assert!(stale.status == 1 && stale.err.contains("nothing has locked"), "{stale:?}");
    let held = fs::File::open(&file).unwrap();
    held.lock().unwrap();
    let foreign = reload();
    assert!(foreign.status == 1 && foreign.err.contains("does not have it open"), "{foreign:?}");
    for nonsense in ["", "0", "-1", "4294967295", "1 2"] {
        fs::write(&file, nonsense).unwrap();
        assert_eq!(reload().status, 1, "{nonsense}");
    }
    assert!(other.try_wait().unwrap().is_none(), "the other process got no signal");
    let refused = gatewright(folder.path(), &["serve", "--listen", "127.0.0.1:0"], "");
    assert!(refused.status == 1 && refused.err.contains("another server"), "{refused:?}");
    other.kill().unwrap();
    other.wait().unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn no_line_of_the_access_log_can_be_forged() {
    for format in ["json", "text"] {
        let log = format!("[log]\naccess = true\nformat = \"{format}\"\n");
        let server = Launch::production(&format!("bcrypt_cost = 4\n{log}")).start(&Database::Sqlite).await;
        let client = server.client();
        let forged = "%0A%7B%22level%22%3A%22canary%22%7D";
        for path in
            [&*format!("/auth/{forged}"), "/x%22,%22status%22:canary", "/auth/me?token=canary", "/%1b[31mcanary"]
        {
            let request = client.request(reqwest::Method::GET, path);
            let request = request.header("x-request-id", "canary\",\"status\":200").header("user-agent", "canary");
            let request = request.header("x-forwarded-for", "canary").header("authorization", "Bearer canary");
            crate::harness::Answer::read(request).await;
        }
        client.post("/auth/login", &json!({ "email": "canary@example.com", "password": PASSWORD })).await.is(401);
        until("the last request is logged", async || server.log().contains("/auth/login")).await;
        let log = server.log();
        let lines: Vec<&str> = log.lines().filter(|line| line.contains("answered")).collect();
        assert_eq!(lines.len(), 5, "{log}");
        for line in lines {
            assert!(!line.contains("canary") && !line.contains('\u{1b}'), "{line}");
            if format == "json" {
                let line: Value = serde_json::from_str(line).unwrap();
                assert_eq!(line["addressClass"], "127.0.0.0/24", "{line}");
                assert!(line["requestId"].as_str().is_some_and(|id| id.len() == 36), "{line}");
            }
        }
    }
}
