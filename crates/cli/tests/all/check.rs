use std::fs;

use super::harness::{end, program, run};

const SECRET: &str = "canary-7f3a-canary-7f3a-canary-7f3a";

#[test]
fn a_configuration_that_is_fine_is_said_to_be() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("other.toml"), format!("[auth]\njwt_secret = \"{SECRET}\"\n")).unwrap();
    let ended = run(folder.path(), &["check", "--config", "other.toml"], "").succeeded();
    assert_eq!(ended.out, "other.toml is fine: 0 entities\n");
    assert_eq!(ended.err, "");
    assert!(!folder.path().join("gatewright.db").exists(), "checking makes no database");
}

#[test]
fn every_problem_is_a_line_with_its_place_and_no_secret() {
    let folder = tempfile::tempdir().unwrap();
    let text = format!("[server]\nlistn = 1\n[auth]\njwt_secret = [\"{SECRET}\"]\n[email]\nfrom = 5\n");
    fs::write(folder.path().join("gatewright.toml"), text).unwrap();
    let ended = run(folder.path(), &["check"], "");
    ended.failed_saying(&["gatewright.toml:2:1: ", "gatewright.toml:4:14: ", "gatewright.toml:6:8: "]);
    assert!(!ended.err.contains("canary"), "{ended:?}");
}

#[test]
fn a_doubtful_setting_is_warned_of_and_passes() {
    let folder = tempfile::tempdir().unwrap();
    let text = format!("[server]\npublic_url = \"http://example.com\"\n[auth]\njwt_secret = \"{SECRET}\"\n");
    fs::write(folder.path().join("gatewright.toml"), text).unwrap();
    let ended = run(folder.path(), &["check"], "").succeeded();
    assert!(ended.out.starts_with("warning: server.public_url: is plain http"), "{ended:?}");
}

#[test]
fn entities_that_are_more_open_than_most_are_warned_of() {
    let folder = tempfile::tempdir().unwrap();
    let entities = "[[entity]]\nname = \"open\"\npublic = true\n[[entity]]\nname = \"shared\"\n\
                    [[entity]]\nname = \"owned\"\nowner_field = \"user_id\"\n\
                    [[entity]]\nname = \"ruled\"\naccess = { read = \"public\" }\n\
                    [[entity]]\nname = \"apart\"\nmulti_tenant = true\n";
    fs::write(folder.path().join("gatewright.toml"), format!("[auth]\njwt_secret = \"{SECRET}\"\n{entities}")).unwrap();
    let ended = run(folder.path(), &["check"], "").succeeded();
    let warnings: Vec<&str> = ended.out.lines().filter(|line| line.starts_with("warning: ")).collect();
    assert_eq!(warnings.len(), 2, "{ended:?}");
    assert!(warnings[0].starts_with("warning: entity[0].public: opens every operation"), "{ended:?}");
    assert!(warnings[1].starts_with("warning: entity[1]: has no `owner_field`, `access` or `rules`"), "{ended:?}");
}

#[test]
fn the_environment_alone_can_be_a_configuration() {
    let folder = tempfile::tempdir().unwrap();
    let ended = end(program(folder.path()).arg("check").env("GATEWRIGHT__AUTH__JWT_SECRET", SECRET), "");
    assert_eq!(ended.succeeded().out, "the configuration is fine: 0 entities\n");
    let ended = end(program(folder.path()).arg("check").env("GATEWRIGHT__AUTH__JWT_SECRET", "canary"), "");
    ended.failed_saying(&["GATEWRIGHT__AUTH__JWT_SECRET", "32 bytes"]);
    assert!(!ended.err.contains("canary"), "{ended:?}");
}

#[test]
fn commands_that_do_not_exist_are_bad_usage() {
    let folder = tempfile::tempdir().unwrap();
    for words in [&["teapot"][..], &["user", "brew"], &["outbox", "brew"], &["secret", "brew"], &["check", "--brew"]] {
        assert_eq!(run(folder.path(), words, "").status, 2, "{words:?}");
    }
}
