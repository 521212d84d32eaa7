use gatewright::config::Loader;

use super::{SECRET, problems, read, read_for_production, variables};

#[test]
fn outside_dev_mode_a_signing_secret_of_32_bytes_is_required() {
    for (auth, complaint) in [
        ("", "auth.jwt_secret: is required outside dev mode"),
        ("jwt_secret = \"\"", "auth.jwt_secret: is required outside dev mode"),
        (
            "jwt_secret = \"0123456789abcdef0123456789abcde\"",
            "auth.jwt_secret: must be at least 32 bytes outside dev mode, has 31",
        ),
        ("jwt_secret = \"0123456789abcdef0123456789abcdef\"", ""),
        ("enabled = false", ""),
    ] {
        let found = problems(read_for_production(&format!("[auth]\n{auth}\n")));
        assert_eq!(found.is_empty(), complaint.is_empty(), "for {auth}: {found}");
        assert!(found.contains(complaint), "for {auth}: {found}");
        assert_eq!(problems(read(&format!("[auth]\n{auth}\n"))), "", "dev mode takes {auth}");
    }
}

#[test]
fn previous_secrets_without_a_current_one_are_refused_in_dev_mode_too() {
    let text = format!("[auth]\njwt_previous_secrets = [\"{SECRET}\"]\n");
    for found in [problems(read(&text)), problems(read_for_production(&text))] {
        assert!(found.starts_with("f.toml:2:24: auth.jwt_previous_secrets: previous secrets without"), "{found}");
    }
}

#[test]
fn an_empty_previous_secret_would_let_anybody_sign() {
    let text = format!("[auth]\njwt_secret = \"{SECRET}\"\njwt_previous_secrets = [\"{SECRET}\", \"\"]\n");
    let expected = "f.toml:3:61: auth.jwt_previous_secrets[1]: must not be empty: anybody could sign with it";
    assert_eq!(problems(read(&text)), expected);
}

#[test]
fn sessions_only_in_memory_must_be_accepted_outside_dev_mode() {
    let text =
        |more: &str| format!("[database]\nurl = \"sqlite::memory:\"\n[auth]\njwt_secret = \"{SECRET}\"\n{more}\n");
    assert!(problems(read_for_production(&text(""))).contains("f.toml:2:7: database.url: sessions"));
    assert_eq!(problems(read_for_production(&text("allow_in_memory_stores = true"))), "");
    assert_eq!(problems(read(&text(""))), "");
}

#[test]
fn a_secret_appears_in_no_debug_text_and_in_no_problem() {
    const CANARY: &str = "canary-7f3a-canary-7f3a-canary-7f3a";
    let text = format!(
        "[auth]\njwt_secret = \"{CANARY}\"\njwt_previous_secrets = [\"{CANARY}\"]\n[database]\nurl = \"postgres://u:{CANARY}@h/d\"\ndirect_url = \"postgres://u:{CANARY}@h/d\"\n"
    );
    let config = read_for_production(&text).unwrap();
    assert!(!format!("{config:?}").contains("canary"));
    assert_eq!(config.auth.jwt_secret.expose(), CANARY);

    for wrong in [
        format!("[auth]\njwt_secret = [\"{CANARY}\"]"),
        format!("[auth]\njwt_secret = \"{CANARY}"),
        format!("[auth]\njwt_secret = {CANARY}"),
        format!("[auth]\njwt_secret = \"{}\"", &CANARY[..20]),
        format!("[auth]\njwt_previous_secrets = [\"{}\"]", &CANARY[..20]),
        format!("[database]\nurl = \"mysql://u:{CANARY}@h/d\""),
        format!("[csrf]\nsecret = \"{}\"", &CANARY[..20]),
        format!("[auth.oauth]\nstate_secret = {{ a = \"{CANARY}\" }}"),
        format!("[email]\nsmtp_url = \"x://u:{CANARY}@h\"\nfrom = \"a@b\""),
        format!("[events]\nfanout = \"redis\"\nfanout_url = \"redis://:{CANARY}@h\""),
    ] {
        let found = problems(read_for_production(&wrong));
        assert!(!found.is_empty() && !found.contains("canary"), "{found}");
    }
    let environment =
        variables([("GATEWRIGHT__AUTH__JWT_SECRET", "canary-short"), ("GATEWRIGHT__DATABASE__URL", "canary")]);
    let found = problems(Loader::empty().environment(environment).load());
    assert!(found.contains("GATEWRIGHT__AUTH__JWT_SECRET: auth.jwt_secret: must be at least"), "{found}");
    assert!(!found.contains("canary"), "{found}");
}
