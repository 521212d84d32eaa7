//! The packaged server in its sandbox: the Debian package under the unit that it installs, and the image.

use std::fs;

use base64::{Engine, prelude::BASE64_STANDARD};
use reqwest::Method;
use serde_json::json;

use crate::harness::{Answer, Database, PASSWORD, Receiver, Sandbox, Stream};
use crate::outbox::until;

const OPERATOR: &str = "operator@example.com";
/// The line of the unit without which threads may not lower their priority.
const PRIORITY: &str = "SystemCallFilter=setpriority\n";

/// Settings of the operator, in the file of variables that the unit reads.
fn configure(sandbox: &Sandbox, file: &str, database: &Database, more: &[(&str, &str)]) {
    let url = database.url();
    let own = [
        ("SERVER__LISTEN", "127.0.0.1:0"),
        ("DATABASE__URL", &url),
        ("AUTH__BCRYPT_COST", "4"),
        ("ADMIN__ENABLED", "true"),
        ("ADMIN__REQUIRE_TWO_FACTOR", "false"),
    ];
    let lines = own.iter().chain(more).map(|(key, value)| format!("GATEWRIGHT__{key}={value}\n"));
    fs::write(sandbox.path(file), lines.collect::<String>()).unwrap();
}

/// The declarations of [`use_everything`], which the configuration gets in addition.
fn declarations(webhook: &str) -> String {
    format!(
        "\n[outbox]\nenabled = true\nallow_private_networks = true\npoll_interval_ms = 100\n\
         [[outbox.consumer]]\nname = \"good\"\nevent = \"entity.created\"\nurl = \"{webhook}/good\"\n\
         secret = \"whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw\"\nentities = [\"memos\"]\n\
         [[entity]]\nname = \"memos\"\nowner_field = \"user_id\"\nsearch_fields = [\"text\"]\n\
         [[entity.field]]\nname = \"text\"\ntype = \"text\"\n"
    )
}

/// A receiver whose address has a name, which the server must resolve.
async fn receiver() -> (Receiver, String) {
    let (receiver, url) = Receiver::start().await;
    (receiver, url.replace("127.0.0.1", "localhost"))
}

/// Starts the server as the package does, and uses what needs the system: passwords, streams, connections to others,
/// files, processes.
async fn use_everything(sandbox: &Sandbox, configuration: &[&str], database: &Database, receiver: &Receiver) {
    let command = |words: &[&str], input: &str| {
        let words = [&["--", "/usr/bin/gatewright"], words, configuration].concat();
        let finished = tokio::task::block_in_place(|| sandbox.run(&words, input));
        assert_eq!(finished.status, 0, "{words:?}: {finished:?}");
        finished.out
    };
    command(&["check"], "");
    let mut server = sandbox.launch().start(database).await;
    let with_password = format!("{PASSWORD}\n");
    command(&["user", "create", OPERATOR, "--roles", "user,admin", "--password-stdin"], &with_password);

    // The cookie is for HTTPS alone, so a client without it sends it by hand.
    let client = server.client();
    client.register("ada@example.com").await.is(200);
    client.log_in("nobody@example.com").await.is(401);
    let signed_in = client.log_in(OPERATOR).await.is(200);
    let cookie = signed_in.header("set-cookie").split(';').next().unwrap().to_owned();
    let request = |method, path: &str| client.request(method, path).header("cookie", &cookie);

    let response = client.stream("/memos/_events").header("cookie", &cookie).send().await.unwrap();
    let mut stream = Stream::new(response);
    let memo = request(Method::POST, "/memos").json(&json!({ "text": "a memo in the sandbox" }));
    let memo = Answer::read(memo).await.is(201).json()["data"]["id"].clone();
    let event = stream.next().await.unwrap();
    assert_eq!((&*event.kind, &event.data["data"]["record"]["id"]), ("entity.created", &memo));
    let found = Answer::read(request(Method::GET, "/memos?q=sandbox&sort=-text")).await.is(200).json();
    assert_eq!(found["data"][0]["id"], memo);
    until("the webhook arrives", async || receiver.records("/good").contains(memo.as_str().unwrap())).await;

    let (download, expected) =
        (request(Method::GET, "/admin/api/backup"), u16::from(database.is_postgres()) * 209 + 200);
    let answer = download.send().await.unwrap();
    assert_eq!(answer.status(), expected);
    if !database.is_postgres() {
        assert!(answer.bytes().await.unwrap().starts_with(b"SQLite format 3\0"));
        command(&["backup", "sunday.db"], "");
        assert!(fs::read(sandbox.state().join("sunday.db")).unwrap().starts_with(b"SQLite format 3\0"));
        fs::remove_file(sandbox.state().join("sunday.db")).unwrap();
    }
    assert_eq!(server.stop().await, Some(0), "{}", server.log());

    // Again, with what the first run has left.
    server.restart();
    server.client().log_in(OPERATOR).await.is(200);
    assert_eq!(server.stop().await, Some(0), "{}", server.log());
    let notes = server.log().matches("refuses threads a lower priority").count();
    assert_eq!(notes, if sandbox.unit().contains("@resources") && !sandbox.unit().contains(PRIORITY) { 2 } else { 0 });
}

#[tokio::test(flavor = "multi_thread")]
async fn the_installed_unit_signs_in_streams_and_backs_up_in_its_sandbox() {
    let Some(sandbox) = Sandbox::installed() else { return };
    let packaged = fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../packaging/gatewright.service")).unwrap();
    assert_eq!(sandbox.unit(), packaged);
    let (receiver, url) = receiver().await;
    let file = sandbox.path("/etc/gatewright/gatewright.toml");
    let text = fs::read_to_string(&file).unwrap() + &declarations(&url);
    fs::write(file, text).unwrap();
    // An older unit refuses lower priorities. The server tolerates that.
    for unit in [packaged.clone(), packaged.replace(PRIORITY, "")] {
        sandbox.use_unit(&unit);
        for database in Database::all().await {
            configure(&sandbox, "/etc/gatewright/environment", &database, &[]);
            let checked = tokio::task::block_in_place(|| sandbox.run(&["ExecStartPre"], ""));
            assert_eq!(checked.status, 0, "{checked:?}");
            use_everything(&sandbox, &["--config", "/etc/gatewright/gatewright.toml"], &database, &receiver).await;
        }
        for entry in fs::read_dir(sandbox.state()).unwrap() {
            fs::remove_file(entry.unwrap().path()).unwrap();
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_image_signs_in_streams_and_backs_up_with_a_read_only_root() {
    let Some(sandbox) = Sandbox::image() else { return };
    let (receiver, url) = receiver().await;
    fs::write(sandbox.state().join("gatewright.toml"), declarations(&url)).unwrap();
    let secret = BASE64_STANDARD.encode([7; 32]);
    for database in Database::all().await {
        let more = [("AUTH__JWT_SECRET", &*secret), ("SERVER__PUBLIC_URL", "https://example.com")];
        configure(&sandbox, "/etc/environment", &database, &more);
        use_everything(&sandbox, &[], &database, &receiver).await;
    }
}

/// Without it, the tests above could pass in a sandbox that refuses nothing.
#[test]
fn the_sandbox_refuses_what_its_unit_refuses() {
    let Some(sandbox) = Sandbox::installed() else { return };
    let shell = |script: &str| sandbox.run(&["--", "/bin/sh", "-c", script], "");
    for (script, refusal) in [
        ("touch /etc/mark", "Read-only file system"),
        ("touch /usr/bin/mark", "Read-only file system"),
        ("ls /home", "Permission denied"),
        ("ls /proc/1", "No such file"),
        ("ls /dev/kmsg", "No such file"),
        ("unshare --user true", "Operation not permitted"),
        ("cat /etc/shadow", "Permission denied"),
        ("chmod u+s /tmp/a", "Operation not permitted"),
        ("chrt --fifo 1 true", "Operation not permitted"),
        ("perl -e 'socket(my $s, 16, 3, 0) or die \"$!\\n\"'", "Address family not supported"),
        ("perl -e 'syscall(165, 0, 0, 0, 0, 0) == 0 or die \"$!\\n\"'", "Operation not permitted"),
    ] {
        let refused = shell(&format!("touch /tmp/a; {script}"));
        assert!(refused.status != 0 && refused.err.contains(refusal), "{script}: {refused:?}");
    }
    let allowed =
        shell("touch /tmp/mark /var/lib/gatewright/mark && nice -n 5 id -un && grep CapBnd /proc/self/status");
    assert_eq!(allowed.out, "gatewright\nCapBnd:\t0000000000000000\n", "{allowed:?}");

    // What made the server die at the first sign-in: a refused call without an error number.
    let unit = sandbox.unit();
    for (changed, status) in [(unit.replace(PRIORITY, ""), 0), (unit.replace("SystemCallErrorNumber=EPERM\n", ""), 0)] {
        assert_ne!(changed, unit);
        sandbox.use_unit(&changed);
        assert_eq!(shell("nice -n 5 true").status, status, "{changed}");
    }
    sandbox.use_unit(&unit.replace(PRIORITY, "").replace("SystemCallErrorNumber=EPERM\n", ""));
    assert_eq!(shell("nice -n 5 true; exit $?").status, 128 + 31, "SIGSYS");
}

#[test]
fn the_package_starts_nothing_and_its_purge_keeps_the_database() {
    let Some(sandbox) = Sandbox::installed() else { return };
    let enabled = || sandbox.path("/etc/systemd/system/multi-user.target.wants/gatewright.service");
    let on_the_machine = |words: &[&str]| {
        let finished = sandbox.on_the_machine(words);
        assert_eq!(finished.status, 0, "{words:?}: {finished:?}");
        finished.out
    };
    assert!(fs::symlink_metadata(enabled()).is_err(), "the administrator enables it");
    let owner = on_the_machine(&["stat", "-c", "%U:%G %a", "/etc/gatewright", "/etc/gatewright/gatewright.toml"]);
    assert_eq!(owner, "root:gatewright 750\nroot:gatewright 640\n");
    for file in ["/usr/share/man/man1/gatewright-serve.1.gz", "/usr/share/bash-completion/completions/gatewright"] {
        assert!(sandbox.path(file).exists(), "{file}");
    }

    // An upgrade keeps the configuration, and that the service is enabled.
    let configuration = sandbox.path("/etc/gatewright/gatewright.toml");
    let written = fs::read_to_string(&configuration).unwrap();
    on_the_machine(&["systemctl", "enable", "gatewright.service"]);
    on_the_machine(&["dpkg", "--install", "/srv/gatewright.deb"]);
    assert_eq!(fs::read_to_string(&configuration).unwrap(), written);
    assert!(fs::symlink_metadata(enabled()).is_ok());

    fs::create_dir_all(sandbox.path("/var/lib/gatewright")).unwrap();
    fs::write(sandbox.path("/var/lib/gatewright/gatewright.db"), "rows").unwrap();
    on_the_machine(&["dpkg", "--purge", "gatewright"]);
    assert!(fs::symlink_metadata(enabled()).is_err());
    assert!(!sandbox.path("/etc/gatewright").exists());
    assert_eq!(fs::read_to_string(sandbox.path("/var/lib/gatewright/gatewright.db")).unwrap(), "rows");
}
