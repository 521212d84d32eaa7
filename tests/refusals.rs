//! A server that cannot start prints one clear message to standard error, and exits with 1. Bad usage exits with 2.

use std::{
    fs,
    net::TcpListener,
    os::unix::{fs::PermissionsExt, process::CommandExt},
    process::{Command, Output},
    time::{Duration, Instant},
};

use gatewright_servers::{Folder, is_superuser};

use crate::harness::{Finished, binary, gatewright};

const NOWHERE: &str = "postgres://gatewright:hunter2hunter2@127.0.0.1:1/none";

#[test]
fn a_mistake_in_the_configuration_is_reported_with_its_position() {
    for (text, place, words) in [
        ("[server]\nlistn = \"127.0.0.1:0\"\n", ":2:", &["listn", "listen"][..]),
        ("[sever]\nlisten = \"127.0.0.1:0\"\n", ":1:", &["sever", "server"]),
        ("[server]\nlisten = 5\n", ":2:", &["listen"]),
        ("[server]\nrequest_timeout_seconds = \"soon\"\n", ":2:", &["request_timeout_seconds"]),
        ("[server]\ntrusted_proxies = [\"nowhere\"]\n", ":2:", &["trusted_proxies"]),
        ("[server\n", ":1:", &[]),
        ("[server]\njson_case = \"kebab\"\n", ":2:", &["kebab", "camel", "snake"]),
        ("[auth]\nplugins = [\"cor\"]\n", ":2:", &["cor", "core"]),
        ("[[entity]]\nname = \"posts\"\nowner_feild = \"user_id\"\n", ":3:", &["owner_feild", "owner_field"]),
        ("[[entity]]\nname = \"Posts\"\n", ":2:", &["Posts"]),
        ("[[entity]]\nname = \"auth\"\n", ":2:", &["auth"]),
        ("[[entity]]\nname = \"a\"\n[[entity]]\nname = \"a\"\n", ":4:", &["a"]),
        ("[[entity]]\nname = \"a\"\n[[entity.field]]\nname = \"b\"\ntype = \"strin\"\n", ":5:", &["strin", "string"]),
        (
            "[[entity]]\nname = \"a\"\n[[entity.field]]\nname = \"b\"\ntype = \"int\"\ndefault = \"x\"\n",
            ":6:",
            &["default"],
        ),
        ("[[entity]]\nname = \"a\"\n[[entity.field]]\nname = \"b\"\ntype = \"relation\"\nto = \"c\"\n", ":6:", &["c"]),
    ] {
        let folder = Folder::create("refusal").unwrap();
        fs::write(folder.path().join("gatewright.toml"), text).unwrap();
        for command in [&["serve", "--dev", "--listen", "127.0.0.1:0"][..], &["check"]] {
            let finished = gatewright(folder.path(), command, "");
            assert_eq!(finished.status, 1, "{text}\n{finished:?}");
            let said = format!("{}{}", finished.out, finished.err);
            assert!(said.contains(&format!("gatewright.toml{place}")), "{text}\n{said}");
            for word in words {
                assert!(said.contains(word), "{word} is missing\n{text}\n{said}");
            }
        }
        assert!(!folder.path().join("gatewright.db").exists(), "a database was made all the same");
    }
}

#[test]
fn a_setting_from_the_environment_is_checked_and_named_too() {
    let folder = Folder::create("refusal").unwrap();
    let output = Command::new(binary())
        .args(["serve", "--dev"])
        .env("GATEWRIGHT__SERVER__LISTN", "127.0.0.1:0")
        .current_dir(folder.path())
        .output()
        .unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains("GATEWRIGHT__SERVER__LISTN") && said.contains("GATEWRIGHT__SERVER__LISTEN)"), "{said}");
}

#[test]
fn production_does_not_start_without_a_secret() {
    let folder = Folder::create("refusal").unwrap();
    refused(&gatewright(folder.path(), &["serve", "--listen", "127.0.0.1:0"], ""), &["jwt_secret"]);
    let file = folder.path().join("gatewright.toml");
    fs::write(&file, "[auth]\njwt_secret = \"short\"\n").unwrap();
    let finished = gatewright(folder.path(), &["serve", "--listen", "127.0.0.1:0"], "");
    refused(&finished, &["jwt_secret", "32"]);
    let previous_only = format!("[auth]\njwt_previous_secrets = [\"{}\"]\n", "p".repeat(40));
    fs::write(&file, previous_only).unwrap();
    let finished = gatewright(folder.path(), &["serve", "--listen", "127.0.0.1:0"], "");
    refused(&finished, &["jwt_secret"]);
    assert!(!format!("{finished:?}").contains("pppp"), "a secret was printed: {finished:?}");
}

#[test]
fn a_missing_configuration_file_is_named() {
    let folder = Folder::create("refusal").unwrap();
    for command in ["serve", "check", "migrate"] {
        refused(&gatewright(folder.path(), &[command, "--config", "absent.toml"], ""), &["absent.toml"]);
    }
}

#[test]
fn an_unreachable_database_is_reported_soon_without_its_password() {
    let folder = Folder::create("refusal").unwrap();
    let started = Instant::now();
    for words in [&["serve", "--dev", "--listen", "127.0.0.1:0"][..], &["user", "list"], &["migrate"]] {
        let finished = gatewright(folder.path(), &[words, &["--database", NOWHERE]].concat(), "");
        refused(&finished, &["127.0.0.1"]);
        assert!(!format!("{finished:?}").contains("hunter2"), "{finished:?}");
    }
    assert!(started.elapsed() < Duration::from_mins(1), "took {:?}", started.elapsed());
    for url in ["mysql://localhost/x", "nonsense", ""] {
        let words = ["serve", "--dev", "--listen", "127.0.0.1:0", "--database", url];
        refused(&gatewright(folder.path(), &words, ""), &["sqlite://", "postgres://"]);
    }
}

#[test]
fn a_port_in_use_is_named() {
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let folder = Folder::create("refusal").unwrap();
    refused(&gatewright(folder.path(), &["serve", "--dev", "--listen", &address], ""), &[&address, "in use"]);
}

#[test]
fn a_folder_that_cannot_be_written_is_named() {
    let folder = Folder::create("refusal").unwrap();
    fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755)).unwrap();
    // A copy of the binary: another user may not reach the folder that it was built in.
    let program = folder.path().join("gatewright");
    fs::copy(binary(), &program).unwrap();
    let closed = folder.path().join("closed");
    fs::create_dir(&closed).unwrap();
    fs::set_permissions(&closed, fs::Permissions::from_mode(0o555)).unwrap();
    for words in [&["serve", "--dev", "--listen", "127.0.0.1:0"][..], &["migrate"], &["init"]] {
        let mut command = Command::new(&program);
        command.args(words).current_dir(&closed);
        if is_superuser() {
            command.uid(65534).gid(65534); // root may write anywhere, the user nobody may not
        }
        let finished = finished(command.output().unwrap());
        let file = if words == ["init"] { "gatewright.toml" } else { "gatewright.db" };
        refused(&finished, &[file]);
    }
    let absent = ["serve", "--dev", "--listen", "127.0.0.1:0", "--database", "sqlite://absent/folder/x.db"];
    refused(&gatewright(folder.path(), &absent, ""), &["absent/folder/x.db"]);
}

#[test]
fn a_file_that_is_not_a_database_is_named() {
    let folder = Folder::create("refusal").unwrap();
    fs::write(folder.path().join("gatewright.db"), "this is a letter, not a database; ".repeat(100)).unwrap();
    refused(&gatewright(folder.path(), &["serve", "--dev", "--listen", "127.0.0.1:0"], ""), &["gatewright.db"]);
}

#[test]
fn bad_usage_is_status_2() {
    let folder = Folder::create("refusal").unwrap();
    for words in [
        &["frobnicate"][..],
        &["serve", "--nonsense"],
        &["serve", "--listen"],
        &["serve", "--listen", "here", "--dev"],
        &["user"],
        &["user", "create"],
        &["user", "list", "--limit", "many"],
        &[],
    ] {
        let finished = gatewright(folder.path(), words, "");
        assert_eq!(finished.status, 2, "{words:?}: {finished:?}");
        assert!(!finished.err.is_empty(), "{words:?}: {finished:?}");
    }
}

/// Checks that it failed with status 1, and that standard error has this text, in a message for people.
#[track_caller]
fn refused(finished: &Finished, words: &[&str]) {
    assert_eq!(finished.status, 1, "{finished:?}");
    for word in words {
        assert!(finished.err.contains(word), "`{word}` is missing: {finished:?}");
    }
    for noise in ["panicked", "RUST_BACKTRACE", "Os {", "Error("] {
        assert!(!finished.err.contains(noise), "{finished:?}");
    }
    assert!(!finished.out.contains("listening"), "{finished:?}");
}

fn finished(output: Output) -> Finished {
    Finished {
        status: output.status.code().unwrap(),
        out: String::from_utf8(output.stdout).unwrap(),
        err: String::from_utf8(output.stderr).unwrap(),
    }
}
