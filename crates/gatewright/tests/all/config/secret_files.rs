//! Secrets that are in files or credentials.

use std::fs;
use std::path::Path;

use gatewright::Config;
use gatewright::config::{Loader, Setting};

use super::{SECRET, problems, variables};

const CANARY: &str = "canary-7f3a-canary-7f3a-canary-7f3a";

/// A configuration file in a folder.
fn file(folder: &Path, text: &str) -> Loader {
    let path = folder.join("gatewright.toml");
    fs::write(&path, text).unwrap();
    Loader::file(&path).unwrap()
}

fn written(folder: &Path, name: &str, content: impl AsRef<[u8]>) -> String {
    let path = folder.join(name);
    fs::write(&path, content).unwrap();
    path.to_str().unwrap().to_owned()
}

#[test]
fn a_secret_is_read_from_a_file_a_credential_or_the_file_of_a_variable() {
    let folder = tempfile::tempdir().unwrap();
    for (content, secret) in [
        (SECRET.to_owned(), SECRET.to_owned()),
        (format!("{SECRET}\n"), SECRET.to_owned()),
        (format!("{SECRET}\r\n"), SECRET.to_owned()),
        (format!("{SECRET}\n\n"), format!("{SECRET}\n")),
        (format!(" {SECRET} "), format!(" {SECRET} ")),
    ] {
        let path = written(folder.path(), "jwt", content);
        for text in [&*path, "jwt", "./jwt"] {
            // A path in the file is relative to the folder of the file.
            let loader = file(folder.path(), &format!("[auth]\njwt_secret = {{ file = \"{text}\" }}\n"));
            assert_eq!(loader.load().unwrap().auth.jwt_secret.expose(), secret);
        }
        let loader = file(folder.path(), "[auth]\njwt_secret = { credential = \"jwt\" }\n");
        let environment = variables([("CREDENTIALS_DIRECTORY", folder.path().to_str().unwrap())]);
        assert_eq!(loader.environment(environment).load().unwrap().auth.jwt_secret.expose(), secret);
        for name in ["GATEWRIGHT__AUTH__JWT_SECRET_FILE", "GATEWRIGHT__AUTH__JWT_SECRET__FILE"] {
            let loader = Loader::empty().environment(variables([(name, &*path)]));
            assert_eq!(loader.load().unwrap().auth.jwt_secret.expose(), secret, "{name}");
        }
    }
}

#[test]
fn a_variable_with_a_file_replaces_what_the_file_says() {
    let folder = tempfile::tempdir().unwrap();
    let path = written(folder.path(), "jwt", CANARY);
    for text in [
        format!("\"{SECRET}\""),
        "{ file = \"absent\" }".to_owned(),
        // Not readable here, and not read.
        "{ credential = \"jwt\" }".to_owned(),
    ] {
        let loader = || file(folder.path(), &format!("[auth]\njwt_secret = {text}\n"));
        for (name, value) in [("GATEWRIGHT__AUTH__JWT_SECRET_FILE", &*path), ("GATEWRIGHT__AUTH__JWT_SECRET", CANARY)] {
            let config = loader().environment(variables([(name, value)])).load().unwrap();
            assert_eq!(config.auth.jwt_secret.expose(), CANARY, "{text} {name}");
        }
    }
    let both = variables([("GATEWRIGHT__AUTH__JWT_SECRET_FILE", &*path), ("GATEWRIGHT__AUTH__JWT_SECRET", CANARY)]);
    let found = problems(Loader::empty().environment(both).load());
    assert!(found.contains("GATEWRIGHT__AUTH__JWT_SECRET is set too: set only one"), "{found}");
}

#[test]
fn previous_secrets_are_one_file_or_several() {
    let folder = tempfile::tempdir().unwrap();
    let (one, two) = (written(folder.path(), "one", "1".repeat(32)), written(folder.path(), "two", "2".repeat(32)));
    let of = |config: Config| -> Vec<char> {
        config.auth.jwt_previous_secrets.iter().filter_map(|secret| secret.expose().chars().next()).collect()
    };
    let current = format!("jwt_secret = \"{SECRET}\"\n");
    let text = format!(
        "[auth]\n{current}jwt_previous_secrets = [{{ file = \"one\" }}, \"{}\", {{ file = \"two\" }}]\n",
        "3".repeat(32)
    );
    assert_eq!(of(file(folder.path(), &text).load().unwrap()), ['1', '3', '2']);
    for (value, expected) in [(one.clone(), vec!['1']), (format!("[\"{two}\", \"{one}\"]"), vec!['2', '1'])] {
        let environment = variables([("GATEWRIGHT__AUTH__JWT_PREVIOUS_SECRETS_FILE", &*value)]);
        let loader = file(folder.path(), &format!("[auth]\n{current}")).environment(environment);
        assert_eq!(of(loader.load().unwrap()), expected);
    }
}

/// Every setting that the reference calls a secret takes a file, in the configuration and by a variable.
#[test]
fn every_secret_takes_a_file() {
    let folder = tempfile::tempdir().unwrap();
    let path = written(folder.path(), "secret", "");
    let secrets: Vec<Setting> = Config::settings().into_iter().filter(Setting::is_secret).collect();
    assert!(secrets.len() > 25, "{secrets:?}");
    for Setting { section, key, .. } in &secrets {
        let variable = format!("GATEWRIGHT__{}__{}_FILE", section.replace('.', "__"), key).to_ascii_uppercase();
        let in_list =
            ["outbox.consumer", "auth.oauth.oidc", "auth.oauth.oauth2", "hook", "job"].contains(&section.as_str());
        let found = problems(Loader::empty().environment(variables([(&*variable, &*path)])).dev_mode().load());
        let expected = format!("environment variable {variable}: {section}.{key}");
        // A list of sections is one variable.
        assert!(in_list || (found.contains(&expected) && found.contains("the file is empty")), "{variable}: {found}");
        let (open, close) = if in_list { ("[[", "]]") } else { ("[", "]") };
        let list = key.ends_with('s') && !key.ends_with("address");
        for value in ["{ file = \"secret\" }", "{ credential = \"secret\" }"] {
            let value = if list { format!("[{value}]") } else { value.to_owned() };
            let found =
                problems(file(folder.path(), &format!("{open}{section}{close}\n{key} = {value}\n")).dev_mode().load());
            let place = if in_list { format!("{section}[0].{key}") } else { format!("{section}.{key}") };
            let is_told = found.contains("the file is empty") || found.contains("CREDENTIALS_DIRECTORY is not set");
            assert!(found.contains(&place) && is_told, "{place}: {found}");
        }
        let clash =
            Config::settings().iter().any(|other| other.section == *section && other.key == format!("{key}_file"));
        assert!(!clash, "{key}_file would be the file of {key}");
    }
}

#[test]
fn what_cannot_be_a_secret_is_refused_by_its_key_and_never_shown() {
    let folder = tempfile::tempdir().unwrap();
    let told = |value: &str| {
        let found = problems(file(folder.path(), &format!("[auth]\njwt_secret = {value}\n")).load());
        assert!(found.contains("gatewright.toml:2:14: auth.jwt_secret: "), "{found}");
        assert!(!found.contains("canary") && !found.contains("7f3a"), "{found}");
        found
    };
    written(folder.path(), "canary-empty", "");
    written(folder.path(), "canary-line", "\n");
    written(folder.path(), "canary-large", CANARY.repeat(4096));
    written(folder.path(), "canary-bytes", [b'c', 0xff, b'a']);
    written(folder.path(), "canary-short", "canary");
    fs::create_dir(folder.path().join("canary-folder")).unwrap();
    for (value, expected) in [
        ("{ file = \"canary-empty\" }", "the file is empty"),
        ("{ file = \"canary-line\" }", "the file is empty"),
        ("{ file = \"\" }", "the path of the file is empty"),
        ("{ file = \"canary-absent\" }", "the file does not exist"),
        // Somebody wrote the secret where the path belongs.
        ("{ file = \"canary-7f3a-canary-7f3a-canary-7f3a\" }", "the file does not exist"),
        ("{ file = \"canary-folder\" }", "is a directory, not a file"),
        ("{ file = \"canary-large\" }", "the file is larger than 64 KiB"),
        ("{ file = \"canary-bytes\" }", "the file is not UTF-8 text"),
        ("{ file = \"canary-short\" }", "must be at least 32 bytes outside dev mode, has 6"),
        ("{ file = \"/dev/zero\" }", "is not a regular file"),
        ("{ credential = \"canary\" }", "CREDENTIALS_DIRECTORY is not set"),
        ("{ credential = \"../canary\" }", "the name of a credential has no slash"),
        ("{ credential = \"..\" }", "the name of a credential has no slash"),
        ("{ credential = \"\" }", "the name of a credential has no slash"),
        ("{ file = \"canary\", credential = \"canary\" }", "expected text, { file ="),
        ("{ path = \"canary\" }", "expected text, { file ="),
        ("{}", "expected text, { file ="),
    ] {
        let found = told(value);
        assert!(found.contains(expected), "{value}: {found}");
    }
    let found = problems(file(folder.path(), "[auth]\njwt_secret = { file = [\"canary\"] }\n").load());
    assert!(found.contains("auth.jwt_secret: expected text, got a list"), "{found}");
}

/// Opening a pipe would wait for somebody who writes to it.
#[cfg(unix)]
#[test]
fn a_pipe_is_refused_without_waiting() {
    let folder = tempfile::tempdir().unwrap();
    let pipe = folder.path().join("pipe");
    assert!(std::process::Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    let found = problems(file(folder.path(), "[auth]\njwt_secret = { file = \"pipe\" }\n").load());
    assert!(found.contains("is not a regular file"), "{found}");
}

#[cfg(unix)]
#[test]
fn a_file_that_every_user_can_read_is_a_warning_without_its_content() {
    use std::os::unix::fs::PermissionsExt;
    let folder = tempfile::tempdir().unwrap();
    let path = written(folder.path(), "jwt", CANARY);
    let loader = file(folder.path(), "[auth]\njwt_secret = { file = \"jwt\" }\n");
    for (mode, warnings) in [(0o600, 0), (0o640, 0), (0o644, 1), (0o604, 1)] {
        fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
        let told = loader.warnings();
        assert_eq!(told.len(), warnings, "{mode:o}: {told:?}");
        assert!(told.iter().all(|told| told.contains("auth.jwt_secret: every user") && !told.contains("canary")));
    }
}

#[test]
fn a_path_in_the_home_directory_is_no_secret() {
    let home = tempfile::tempdir().unwrap();
    written(home.path(), "a-secret-file-with-a-long-name-0123456789", SECRET);
    let text = "[auth]\njwt_secret = \"~/a-secret-file-with-a-long-name-0123456789\"\n";
    let environment = variables([("HOME", home.path().to_str().unwrap())]);
    let found = problems(Loader::text("f.toml", text).environment(environment).load());
    assert!(found.contains("auth.jwt_secret: is the path of a file"), "{found}");
    assert!(!found.contains("a-secret-file"), "{found}");
    assert_eq!(problems(Loader::text("f.toml", text).load()), "", "without such a file it is a text");
}

#[test]
fn documents_need_no_file() {
    let text = "[auth]\njwt_secret = { credential = \"jwt\" }\njwt_previous_secrets = [{ file = \"absent\" }]\n\
                [database]\nurl = { file = \"absent\" }\n[email]\nfrom = \"a@example.com\"\nsmtp_url = { file = \"absent\" }\n\
                [outbox]\nenabled = true\n[[outbox.consumer]]\nname = \"a\"\nevent = \"entity.created\"\n\
                url = \"https://example.com\"\nsecret = { file = \"absent\" }\n";
    assert_eq!(problems(Loader::text("f.toml", text).for_documents().load()), "");
    let found = problems(Loader::text("f.toml", text).for_management().load());
    assert_eq!(found.lines().count(), 5, "{found}");
}
