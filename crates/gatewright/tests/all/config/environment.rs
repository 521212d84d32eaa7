use gatewright::config::Loader;

use super::{SECRET, problems, variables};

#[test]
fn the_environment_overrides_the_file_and_flags_override_both() {
    let file = format!("[server]\nlisten = \"127.0.0.1:1\"\nmax_body_bytes = 1\n[auth]\njwt_secret = \"{SECRET}\"\n");
    let environment = variables([
        ("GATEWRIGHT__SERVER__LISTEN", "127.0.0.1:2"),
        ("GATEWRIGHT__SERVER__MAX_BODY_BYTES", "2"),
        ("GATEWRIGHT__AUTH__DEFAULT_ROLES", "[\"a\",\"b\"]"),
        ("GATEWRIGHT__AUTH__LIMITS__LOGIN__TRUST_FORWARDED_FOR", "true"),
        ("GATEWRIGHT__DATABASE__URL", "sqlite://two.db"),
        ("GATEWRIGHT__ROLES__EDITOR", "[\"*\"]"),
        ("PATH", "/bin"),
        ("GATEWRIGHT_OTHER", "left alone"),
    ]);
    let config = Loader::text("f.toml", file).environment(environment).listen("127.0.0.1:3").load().unwrap();
    assert_eq!(config.server.address().port(), 3);
    assert_eq!(config.server.max_body_bytes, 2);
    assert_eq!(config.auth.default_roles.iter().collect::<Vec<_>>(), ["a", "b"]);
    assert!(config.auth.limits.login.trust_forwarded_for);
    assert_eq!(config.database.url.expose(), "sqlite://two.db");
    assert!(config.roles.contains_key("editor"));
    assert!(!config.server.dev_mode);
}

#[test]
fn a_text_setting_accepts_a_variable_that_looks_like_a_number_or_boolean() {
    for text in ["12345678901234567890123456789012", "1234", "true", "1.5", "2024-01-01", "plain", "\"quoted\""] {
        let environment = variables([("GATEWRIGHT__AUTH__JWT_SECRET", text)]);
        let config = Loader::empty().environment(environment).dev_mode().load().unwrap();
        assert_eq!(config.auth.jwt_secret.expose(), text.trim_matches('"'));
    }
}

#[test]
fn an_unknown_or_misshapen_variable_is_refused_by_its_own_name() {
    for (name, text, expected) in [
        (
            "GATEWRIGHT__AUTH__JWT_SECRT",
            "x",
            "environment variable GATEWRIGHT__AUTH__JWT_SECRT: unknown key `auth.jwt_secrt`; did you mean `auth.jwt_secret` (GATEWRIGHT__AUTH__JWT_SECRET)?",
        ),
        (
            "GATEWRIGHT__ATUH__JWT_SECRET",
            "x",
            "environment variable GATEWRIGHT__ATUH__JWT_SECRET: unknown key `atuh`; did you mean `auth` (GATEWRIGHT__AUTH)?",
        ),
        (
            "GATEWRIGHT__",
            "x",
            "environment variable GATEWRIGHT__: expected a name such as GATEWRIGHT__AUTH__JWT_SECRET",
        ),
        (
            "GATEWRIGHT__SERVER__LISTEN__PORT",
            "1",
            "environment variable GATEWRIGHT__SERVER__LISTEN__PORT: `server.listen` is not a section, so nothing can be set inside it",
        ),
        (
            "GATEWRIGHT__SERVER__DEV_MODE",
            "yes",
            "environment variable GATEWRIGHT__SERVER__DEV_MODE: server.dev_mode: expected true or false, got text",
        ),
        (
            "GATEWRIGHT__SERVER",
            "5",
            "environment variable GATEWRIGHT__SERVER: server: expected a section, headed [server], got a whole number",
        ),
    ] {
        let loader = Loader::text("f.toml", "[server]\nlisten = \"127.0.0.1:1\"\n[auth]\nenabled = false");
        assert_eq!(problems(loader.environment(variables([(name, text)])).load()), expected);
    }
}

#[test]
fn a_section_in_a_variable_is_merged_into_the_file() {
    let environment = variables([("GATEWRIGHT__AUTH__LIMITS__LOGIN", "{ max_attempts = 3 }")]);
    let file = "[auth.limits.login]\nmax_attempts = 5\nwindow_seconds = 7\n";
    let config = Loader::text("f.toml", file).environment(environment).dev_mode().load().unwrap();
    assert_eq!(config.auth.limits.login.policy.max_attempts(), 3);
    assert_eq!(config.auth.limits.login.policy.window().as_secs(), 7);
}

#[test]
fn a_bad_flag_is_named() {
    let found = problems(Loader::empty().dev_mode().listen("nowhere").load());
    assert!(found.starts_with("--listen: server.listen: expected an IP address"), "{found}");
    let found = problems(Loader::empty().dev_mode().database("mysql://h").load());
    assert_eq!(found, "--database: database.url: must start with sqlite:// or postgres://");
}

#[test]
fn a_mistake_in_the_file_is_found_although_something_overrides_it() {
    let environment = variables([("GATEWRIGHT__SERVER__DEV_MODE", "true")]);
    let file = "[server]\nlisten = 5\ndev_mode = \"no\"\n";
    let found = problems(Loader::text("f.toml", file).environment(environment).listen("127.0.0.1:3").load());
    let lines: Vec<&str> = found.lines().map(|line| line.split(": expected").next().unwrap()).collect();
    assert_eq!(lines, ["f.toml:2:10: server.listen", "f.toml:3:12: server.dev_mode"]);
}
