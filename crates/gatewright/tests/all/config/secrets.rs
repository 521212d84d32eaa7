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

/// Whoever mounts secrets as files may write the path instead of the content.
#[test]
fn the_path_of_a_file_is_refused_wherever_a_secret_is_read() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("a-secret-file-with-a-long-name-0123456789");
    std::fs::write(&file, SECRET).unwrap();
    let path = file.to_str().unwrap();
    let absent = folder.path().join("no-file-with-a-long-name-0123456789");
    let provider = "client_id = \"a\"\nclient_secret = ";
    let webhook = "[outbox]\nenabled = true\n[[outbox.consumer]]\nname = \"a\"\nevent = \"a.b\"\nurl = \"https://a\"\n";
    let doors = [
        ("auth.jwt_secret", "[auth]\njwt_secret = ".to_owned(), ""),
        ("auth.jwt_previous_secrets[0]", format!("[auth]\njwt_secret = \"{SECRET}\"\njwt_previous_secrets = ["), "]"),
        ("csrf.secret", "[csrf]\nsecret = ".to_owned(), ""),
        ("csrf.previous_secrets[0]", format!("[csrf]\nsecret = \"{SECRET}\"\nprevious_secrets = ["), "]"),
        ("auth.oauth.state_secret", "[auth.oauth]\nstate_secret = ".to_owned(), ""),
        (
            "auth.oauth.state_previous_secrets[0]",
            format!("[auth.oauth]\nstate_secret = \"{SECRET}\"\nstate_previous_secrets = ["),
            "]",
        ),
        ("auth.keys.secret", "[auth.keys]\nsecret = ".to_owned(), ""),
        ("auth.keys.previous_secrets[0]", "[auth.keys]\nprevious_secrets = [".to_owned(), "]"),
        ("auth.oauth.token_encryption_key", "[auth.oauth]\ntoken_encryption_key = ".to_owned(), ""),
        (
            "auth.oauth.token_previous_encryption_keys[0]",
            format!("[auth.oauth]\ntoken_encryption_key = \"{SECRET}\"\ntoken_previous_encryption_keys = ["),
            "]",
        ),
        ("auth.oauth.google.client_secret", format!("[auth.oauth.google]\n{provider}"), ""),
        ("auth.oauth.github.client_secret", format!("[auth.oauth.github]\n{provider}"), ""),
        ("auth.oauth.discord.client_secret", format!("[auth.oauth.discord]\n{provider}"), ""),
        ("auth.oauth.facebook.client_secret", format!("[auth.oauth.facebook]\n{provider}"), ""),
        ("auth.oauth.gitlab.client_secret", format!("[auth.oauth.gitlab]\n{provider}"), ""),
        ("auth.oauth.linkedin.client_secret", format!("[auth.oauth.linkedin]\n{provider}"), ""),
        ("auth.oauth.microsoft.client_secret", format!("[auth.oauth.microsoft]\n{provider}"), ""),
        ("auth.oauth.slack.client_secret", format!("[auth.oauth.slack]\n{provider}"), ""),
        ("auth.oauth.spotify.client_secret", format!("[auth.oauth.spotify]\n{provider}"), ""),
        ("auth.oauth.twitch.client_secret", format!("[auth.oauth.twitch]\n{provider}"), ""),
        ("auth.oauth.x.client_secret", format!("[auth.oauth.x]\n{provider}"), ""),
        ("auth.oauth.apple.private_key", "[auth.oauth.apple]\nclient_id = \"a\"\nprivate_key = ".to_owned(), ""),
        ("auth.oauth.oauth2[0].client_secret", format!("[[auth.oauth.oauth2]]\nname = \"x\"\n{provider}"), ""),
        (
            "auth.oauth.oidc[0].client_secret",
            format!("[[auth.oauth.oidc]]\nname = \"x\"\nissuer = \"https://a.example\"\n{provider}"),
            "",
        ),
        ("email.smtp_url", "[email]\nfrom = \"a@example.com\"\nsmtp_url = ".to_owned(), ""),
        (
            "job[0].secret",
            "[[job]]\nname = \"a\"\nschedule = \"0 3 * * *\"\nurl = \"https://a\"\nsecret = ".to_owned(),
            "",
        ),
        (
            "hook[0].secret",
            "[[hook]]\nentity = \"a\"\non = [\"before_create\"]\nurl = \"https://a\"\nsecret = ".to_owned(),
            "",
        ),
        ("outbox.consumer[0].secret", format!("{webhook}secret = "), ""),
        (
            "storage.s3.secret_access_key",
            "[storage.s3]\nbucket = \"a\"\naccess_key_id = \"a\"\nsecret_access_key = ".to_owned(),
            "",
        ),
    ];
    for (key, before, after) in &doors {
        for text in [path.to_owned(), format!(" {path}\n")] {
            let written = format!("{before}{}{after}\n", serde_json::Value::from(text));
            for found in [problems(read(&written)), problems(read_for_production(&written))] {
                assert!(found.contains(&format!("{key}: is the path of a file")), "{key}: {found}");
                assert!(!found.contains("a-secret-file"), "{found}");
            }
        }
        let written = format!("{before}{}{after}\n", serde_json::Value::from(absent.to_str().unwrap()));
        assert!(!problems(read(&written)).contains("path of a file"), "{key}");
    }
    let environment = variables([("GATEWRIGHT__AUTH__JWT_SECRET", path)]);
    let found = problems(Loader::empty().environment(environment).load());
    assert!(found.contains("GATEWRIGHT__AUTH__JWT_SECRET: auth.jwt_secret: is the path of a file"), "{found}");
    // Every setting that the reference calls a secret is a row.
    for setting in gatewright::Config::settings() {
        let key = format!("{}.{}", setting.section, setting.key);
        let is_row = doors.iter().any(|(door, ..)| door.replace("[0]", "") == key);
        // URLs are no paths; the other secret of a consumer is read like the first.
        let is_alike = key.ends_with("_url") || key == "database.url" || key == "outbox.consumer.previous_secret";
        // The words of `token_auth` are no secrets.
        let is_secret = setting.kind.contains("secret") && !setting.kind.contains("client_secret_");
        assert!(is_row || is_alike || !is_secret, "{key} is no row");
    }
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
        "[auth]\njwt_secret = \"{CANARY}\"\njwt_previous_secrets = [\"{CANARY}\"]\n[auth.keys]\nsecret = \"{CANARY}\"\nprevious_secrets = [\"{CANARY}\"]\n[database]\nurl = \"postgres://u:{CANARY}@h/d\"\ndirect_url = \"postgres://u:{CANARY}@h/d\"\n"
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
