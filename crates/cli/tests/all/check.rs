use std::fs;

use super::harness::{end, program, run};

const SECRET: &str = "canary-7f3a-canary-7f3a-canary-7f3a";
/// Without it, each check outside dev mode warns that nothing is mailed.
const EMAIL: &str = "[email]\nsmtp_url = \"smtps://mail.example.com\"\nfrom = \"app@example.com\"\n";

#[test]
fn a_valid_configuration_is_reported_as_fine() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("other.toml"), format!("[auth]\njwt_secret = \"{SECRET}\"\n{EMAIL}")).unwrap();
    let ended = run(folder.path(), &["check", "--config", "other.toml"], "").succeeded();
    assert_eq!(ended.out, "other.toml is fine: 0 entities\n");
    assert_eq!(ended.err, "");
    assert!(!folder.path().join("gatewright.db").exists(), "checking makes no database");
}

#[test]
fn every_problem_is_a_line_with_its_position_and_no_secret() {
    let folder = tempfile::tempdir().unwrap();
    let text = format!("[server]\nlistn = 1\n[auth]\njwt_secret = [\"{SECRET}\"]\n[email]\nfrom = 5\n");
    fs::write(folder.path().join("gatewright.toml"), text).unwrap();
    let ended = run(folder.path(), &["check"], "");
    ended.failed_saying(&["gatewright.toml:2:1: ", "gatewright.toml:4:14: ", "gatewright.toml:6:8: "]);
    assert!(!ended.err.contains("canary"), "{ended:?}");
}

#[test]
fn a_doubtful_setting_causes_a_warning_and_passes() {
    let folder = tempfile::tempdir().unwrap();
    let text = format!("[server]\npublic_url = \"http://example.com\"\n[auth]\njwt_secret = \"{SECRET}\"\n{EMAIL}");
    fs::write(folder.path().join("gatewright.toml"), text).unwrap();
    let ended = run(folder.path(), &["check"], "").succeeded();
    assert!(ended.out.starts_with("warning: gatewright.toml:2:14: server.public_url: is plain http"), "{ended:?}");
}

#[test]
fn open_entities_cause_a_warning() {
    let folder = tempfile::tempdir().unwrap();
    let entities = "[[entity]]\nname = \"open\"\npublic = true\n[[entity]]\nname = \"shared\"\n\
                    [[entity]]\nname = \"owned\"\nowner_field = \"user_id\"\n\
                    [[entity]]\nname = \"ruled\"\naccess = { read = \"public\" }\n\
                    [[entity]]\nname = \"apart\"\nmulti_tenant = true\n";
    fs::write(folder.path().join("gatewright.toml"), format!("[auth]\njwt_secret = \"{SECRET}\"\n{EMAIL}{entities}"))
        .unwrap();
    let ended = run(folder.path(), &["check"], "").succeeded();
    let warnings: Vec<&str> = ended.out.lines().filter(|line| line.starts_with("warning: ")).collect();
    assert_eq!(warnings.len(), 2, "{ended:?}");
    assert!(
        warnings[0].starts_with("warning: gatewright.toml:8:10: entity[0].public: opens every operation"),
        "{ended:?}"
    );
    assert!(warnings[0].ends_with(" (entity \"open\")"), "{ended:?}");
    assert!(
        warnings[1].starts_with("warning: gatewright.toml:9:1: entity[1]: has no `owner_field`, `access` or `rules`"),
        "{ended:?}"
    );
}

fn warnings(text: &str, words: &[&str]) -> Vec<String> {
    let folder = tempfile::tempdir().unwrap();
    let text = text.replacen("[auth]\n", &format!("[auth]\njwt_secret = \"{SECRET}\"\n"), 1);
    fs::write(folder.path().join("gatewright.toml"), text).unwrap();
    let ended = run(folder.path(), &[&["check"], words].concat(), "").succeeded();
    let placed = ended.out.lines().filter_map(|line| line.strip_prefix("warning: gatewright.toml:"));
    let warnings = placed.map(|line| line.split_once(": ").unwrap().1.to_owned());
    warnings.filter(|warning| !warning.starts_with("email: ")).collect()
}

#[test]
fn a_server_that_cannot_mail_a_password_reset_causes_a_warning() {
    let folder = tempfile::tempdir().unwrap();
    let warned = |text: &str, words: &[&str]| {
        let text = format!("[auth]\njwt_secret = \"{SECRET}\"\n{text}");
        fs::write(folder.path().join("gatewright.toml"), text).unwrap();
        let ended = run(folder.path(), &[&["check"], words].concat(), "").succeeded();
        let line = ended.out.lines().find(|line| line.contains("nobody can reset a forgotten password"));
        line.map(|line| assert!(line.starts_with("warning: gatewright.toml:1:1: email: is missing"), "{line}"))
            .is_some()
    };
    assert!(warned("", &[]));
    assert!(!warned("", &["--dev"]), "its mails are at /dev/mail");
    assert!(!warned(EMAIL, &[]));
    assert!(!warned("plugins = [\"core\"]\n", &[]), "no password is reset");
    assert!(!warned("plugins = [\"magic_link\", \"password_reset\", \"passkeys\"]\n", &[]), "there are no passwords");
}

#[test]
fn without_a_file_dev_checks_the_example_and_a_note_says_what_is_missing() {
    let folder = tempfile::tempdir().unwrap();
    let ended = run(folder.path(), &["check", "--dev"], "").succeeded();
    assert!(ended.out.contains("examples/blog.toml is fine: ") && !ended.out.contains(": 0 entities"), "{ended:?}");
    assert_eq!(ended.err, "");
    // As in a container, whose environment has the configuration.
    let ended = end(program(folder.path()).arg("check").env("GATEWRIGHT__AUTH__JWT_SECRET", SECRET), "").succeeded();
    assert!(!ended.err.contains("note:"), "{ended:?}");
    for words in [&["openapi"][..], &["explain", "--anonymous", "read", "posts"]] {
        let ended = run(folder.path(), words, "");
        assert!(ended.err.starts_with("note: there is no gatewright.toml in this folder"), "{ended:?}");
    }
}

#[test]
fn the_document_of_dev_mode_is_that_of_a_server_in_dev_mode() {
    let folder = tempfile::tempdir().unwrap();
    let document = run(folder.path(), &["openapi", "--dev"], "").succeeded().out;
    assert!(document.contains("\"/posts\"") && document.contains("\"/admin/api/me\""));
    assert!(!run(folder.path(), &["openapi"], "").succeeded().out.contains("/admin/api"));
}

#[test]
fn a_configuration_without_a_sign_in_method_causes_a_warning() {
    for (text, words) in [
        ("[auth]\nplugins = []\n", &[][..]),
        ("[auth]\nplugins = []\n", &["--dev"]),
        ("[auth]\nplugins = [\"tokens\", \"two_factor\"]\n", &[]),
        ("[auth]\nplugins = [\"magic_link\"]\n", &[]),
        ("[auth]\nplugins = [\"oauth\"]\n", &[]),
    ] {
        let warnings = warnings(text, words);
        assert_eq!(warnings.len(), 1, "{text} {warnings:?}");
        assert!(warnings[0].starts_with("auth.plugins: leaves no way to sign in. "), "{warnings:?}");
        assert_eq!(warnings[0].contains("API tokens"), text.contains("tokens"), "{warnings:?}");
    }
    for (text, words) in [
        ("[auth]\nplugins = [\"core\"]\n", &[][..]),
        ("[auth]\nplugins = [\"magic_link\"]\n", &["--dev"]),
        (
            "[auth]\nplugins = [\"magic_link\"]\n[email]\nsmtp_url = \"smtp://127.0.0.1\"\nfrom = \"a@example.com\"\n",
            &[],
        ),
        ("[auth]\nenabled = false\nplugins = []\n", &[]),
    ] {
        assert_eq!(warnings(text, words), Vec::<String>::new(), "{text}");
    }
}

#[test]
fn a_permission_that_no_role_has_causes_a_warning() {
    let text = "[auth]\n[roles]\neditor = [\"posts:write\", \"notes:*\"]\n[[entity]]\nname = \"posts\"\nowner_field = \"o\"\n\
                cross_owner_read = \"posts:audit\"\naccess = { read = \"notes:read\", create = \"posts:wrte\", delete = \"posts:write\" }\n";
    let warned = warnings(text, &[]);
    assert_eq!(
        warned,
        [
            "entity[0].cross_owner_read: no role in [roles] has the permission \"posts:audit\": nobody can do this (entity \
             \"posts\")",
            "entity[0].access.create: no role in [roles] has the permission \"posts:wrte\": nobody can do this; did you mean \
             \"posts:write\"? (entity \"posts\")",
        ]
    );
    let tenants = "[tenancy.roles]\nclerk = [\"posts:audit\", \"posts:wrte\"]\n";
    assert_eq!(warnings(&format!("{text}{tenants}"), &[]).len(), 2, "its records belong to no tenant");
    let apart = text.replace("name = \"posts\"", "name = \"posts\"\nmulti_tenant = true");
    assert_eq!(warnings(&format!("{apart}{tenants}"), &[]), Vec::<String>::new());
    assert!(warnings(&text.replace("[\"posts:write\", ", "[\"*\", \"x:y\", "), &[]).is_empty());
}

#[test]
fn an_event_type_that_is_never_emitted_causes_a_warning() {
    let text = "[auth]\n[outbox]\nenabled = true\n[[outbox.consumer]]\nname = \"crm\"\nevent = \"entity.craeted\"\n\
                url = \"https://example.com/\"\nsecret = \"whsec_AAAAAAAAAAAAAAAAAAAAAA\"\n";
    let warned = warnings(text, &[]);
    assert_eq!(warned.len(), 1, "{warned:?}");
    for word in
        ["outbox.consumer[0].event: ", "\"entity.craeted\"", "did you mean \"entity.created\"?", "(consumer \"crm\")"]
    {
        assert!(warned[0].contains(word), "{warned:?}");
    }
    assert!(warnings(&text.replace("craeted", "created"), &[]).is_empty());
}

#[test]
fn a_check_for_dev_mode_allows_what_dev_mode_allows() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("gatewright.toml"), "[[entity]]\nname = \"a\"\npublic = true\n").unwrap();
    run(folder.path(), &["check"], "").failed_saying(&["auth.jwt_secret"]);
    assert!(
        run(folder.path(), &["check", "--dev"], "").succeeded().out.ends_with("gatewright.toml is fine: 1 entity\n")
    );
    for (setting, named) in
        [("listen = \"0.0.0.0:80\"", "0.0.0.0:80"), ("public_url = \"https://app.example.com\"", "app.example.com")]
    {
        fs::write(folder.path().join("gatewright.toml"), format!("[server]\n{setting}\n")).unwrap();
        for words in [&["check", "--dev"], &["serve", "--dev"]] {
            run(folder.path(), words, "").failed_saying(&["server.dev_mode", named, "--allow-public-dev"]);
        }
        let insists = format!("[server]\nallow_public_dev_mode = true\n{setting}\n");
        fs::write(folder.path().join("gatewright.toml"), insists).unwrap();
        let ended = run(folder.path(), &["check", "--dev"], "");
        assert!(ended.out.contains("warning: ") && ended.out.contains("server.allow_public_dev_mode"), "{ended:?}");
    }
}

#[test]
fn a_variable_with_one_underscore_causes_a_warning() {
    let folder = tempfile::tempdir().unwrap();
    let mut command = program(folder.path());
    command.args(["check", "--dev"]).env("GATEWRIGHT_AUTH_JWT_SECRET", "canary");
    let ended = end(&mut command, "").succeeded();
    let words = ["GATEWRIGHT_AUTH_JWT_SECRET is ignored", "GATEWRIGHT__AUTH__JWT_SECRET"];
    assert!(words.iter().all(|word| ended.out.contains(word)) && !ended.out.contains("canary"), "{ended:?}");
    let mut command = program(folder.path());
    command.args(["migrate", "--plan"]).env("GATEWRIGHT_AUTH_JWT_SECRET", "canary");
    let ended = end(&mut command, "");
    assert!(words.iter().all(|word| ended.err.contains(word)), "{ended:?}");
}

#[test]
fn the_environment_alone_can_be_a_configuration() {
    let folder = tempfile::tempdir().unwrap();
    let ended = end(program(folder.path()).arg("check").env("GATEWRIGHT__AUTH__JWT_SECRET", SECRET), "");
    assert!(ended.succeeded().out.ends_with("the configuration is fine: 0 entities\n"));
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

#[test]
fn a_database_is_relative_to_the_file_that_names_it() {
    let folder = tempfile::tempdir().unwrap();
    let project = folder.path().join("project");
    std::fs::create_dir(&project).unwrap();
    let file = project.join("gatewright.toml");
    std::fs::write(&file, "[database]\nurl = \"sqlite://desk.db\"\n").unwrap();
    let (beside, here) = (project.join("desk.db"), folder.path().join("desk.db"));
    for config in ["project/gatewright.toml", file.to_str().unwrap()] {
        let migrated = run(folder.path(), &["migrate", "--config", config], "").succeeded();
        assert!(beside.exists() && !here.exists() && !migrated.err.contains("warning"), "{migrated:?}");
    }
    // Where both exist, that of the file is used, and the other one is named.
    run(folder.path(), &["migrate", "--database", "sqlite://desk.db"], "").succeeded();
    assert!(here.exists(), "a flag is relative to the current folder");
    let list = &["user", "list", "--config", "project/gatewright.toml"];
    let listed = run(folder.path(), list, "").succeeded();
    for words in ["warning", "project/desk.db is used", "the other one is not used"] {
        assert!(listed.err.contains(words), "{words}: {listed:?}");
    }
    // An upgrade does not begin with an empty database.
    std::fs::remove_file(&beside).unwrap();
    let listed = run(folder.path(), list, "").succeeded();
    assert!(listed.err.contains("desk.db is used: move it there") && !beside.exists(), "{listed:?}");
    // In the folder itself, and by a variable, nothing changes.
    std::fs::rename(&here, &beside).unwrap();
    assert_eq!(run(&project, &["user", "list"], "").succeeded().err, "");
    let variable =
        program(folder.path()).args(list).env("GATEWRIGHT__DATABASE__URL", "sqlite://other.db").output().unwrap();
    let told = String::from_utf8(variable.stderr).unwrap();
    assert!(!variable.status.success() && told.contains("other.db") && !told.contains("project/other.db"), "{told}");
}
