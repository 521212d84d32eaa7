use super::harness::run;

#[test]
fn accounts_are_made_listed_changed_and_never_shown_with_their_passwords() {
    let folder = tempfile::tempdir().unwrap();
    let user = |words: &[&str], input: &str| run(folder.path(), &[&["user"], words].concat(), input);
    let ended = user(&["create", " Ada@Example.com", "--password-stdin"], "correct horse battery\r\n").succeeded();
    assert!(ended.out.starts_with("created ada@example.com ("), "{ended:?}");
    user(&["create", "bob@example.com", "--roles", "user, editor", "--password-stdin"], "correct horse").succeeded();

    let listed = user(&["list", "--json"], "").succeeded();
    let list: serde_json::Value = serde_json::from_str(&listed.out).unwrap();
    assert_eq!(list["total"], 2);
    let pairs: Vec<_> = list["items"].as_array().unwrap().iter().map(|user| (&user["email"], &user["roles"])).collect();
    let expected = serde_json::json!([["ada@example.com", ["user"]], ["bob@example.com", ["user", "editor"]]]);
    assert_eq!(serde_json::to_value(pairs).unwrap(), expected);
    let second = user(&["list", "--json", "--limit", "1", "--offset", "1"], "").succeeded();
    assert!(second.out.contains("bob@") && !second.out.contains("ada@") && second.out.contains("\"total\":2"));
    let table = user(&["list"], "").succeeded().out;
    assert!(table.contains("ada@example.com  user\n") && table.ends_with("2 of 2\n"), "{table}");

    user(&["set-roles", "bob@example.com", ""], "").succeeded();
    assert!(user(&["list"], "").succeeded().out.contains("bob@example.com  no roles\n"));
    user(&["set-password", "bob@example.com", "--password-stdin"], "another horse\n").succeeded();
    user(&["logout", "BOB@example.com"], "").succeeded();
    user(&["disable", "BOB@example.com"], "").succeeded();
    assert!(user(&["list"], "").succeeded().out.contains("bob@example.com  no roles  disabled\n"));
    assert!(user(&["list", "--json"], "").succeeded().out.contains("\"disabled\":true"));
    user(&["enable", "bob@example.com"], "").succeeded();
    assert!(!user(&["list"], "").succeeded().out.contains("disabled"));
}

#[test]
fn failed_user_commands_name_the_next_step() {
    let folder = tempfile::tempdir().unwrap();
    let user = |words: &[&str], input: &str| run(folder.path(), &[&["user"], words].concat(), input);
    user(&["create", "ada@example.com", "--password-stdin"], "correct horse battery\n").succeeded();
    for (words, input, said) in [
        (
            &["create", "ada@example.com", "--password-stdin"][..],
            "correct horse\n",
            &["ada@example.com", "already", "set-password"][..],
        ),
        (&["create", "nonsense", "--password-stdin"], "correct horse\n", &["nonsense", "not a valid email"]),
        (&["create", "bob@example.com", "--password-stdin"], "short\n", &["at least 8 characters"]),
        (&["create", "bob@example.com", "--password-stdin"], "", &["standard input"]),
        (&["create", "bob@example.com"], "correct horse\n", &["--password-stdin"]),
        (&["set-roles", "nobody@example.com", "user"], "", &["nobody@example.com", "user list"]),
        (&["set-password", "nobody@example.com", "--password-stdin"], "correct horse\n", &["nobody@example.com"]),
        (&["logout", "nobody@example.com"], "", &["nobody@example.com"]),
    ] {
        let ended = user(words, input);
        ended.failed_saying(said);
        assert!(!ended.err.contains("correct horse"), "{ended:?}");
    }
    let disabled = "[auth]\nenabled = false\n";
    std::fs::write(folder.path().join("gatewright.toml"), disabled).unwrap();
    user(&["list"], "").failed_saying(&["auth.enabled"]);
}

#[test]
fn a_command_on_a_missing_database_file_fails_and_creates_none() {
    let folder = tempfile::tempdir().unwrap();
    let toml = "[outbox]\nenabled = true\n[authorization_server]\nenabled = true\n[[entity]]\nname = \"notes\"\nmulti_tenant = true\n";
    std::fs::write(folder.path().join("gatewright.toml"), toml).unwrap();
    let database = ["--database", "sqlite://typo.db"];
    let commands = "user list|user set-roles a@b.c user|user set-password a@b.c --password-stdin|user disable-2fa a@b.c|\
                    user logout a@b.c|user delete a@b.c --yes|tenant list|tenant add-member t a@b.c|tenant remove-member t a@b.c|\
                    service-account list|service-account disable x|service-account enable x|token issue --user a@b.c --name x|\
                    token list|token revoke x|client list|client remove x|outbox list|outbox deliveries x|outbox replay x|\
                    outbox stats";
    for command in commands.split('|') {
        let words: Vec<&str> = command.split_whitespace().chain(database).collect();
        let ended = run(folder.path(), &words, "correct horse battery\n");
        if command != "token revoke x" {
            ended.failed_saying(&["there is no SQLite file typo.db", "database.url", "gatewright migrate"]);
        }
        assert_eq!(ended.status, 1, "{command}");
        assert!(!folder.path().join("typo.db").exists(), "{command}");
    }
    let words: Vec<&str> = ["migrate", "--plan"].into_iter().chain(database).collect();
    assert_eq!(run(folder.path(), &words, "").status, 3);
    assert!(!folder.path().join("typo.db").exists(), "a plan");
    let words: Vec<&str> = ["user", "create", "a@b.example", "--password-stdin"].into_iter().chain(database).collect();
    let made = run(folder.path(), &words, "correct horse battery\n").succeeded();
    assert_eq!(made.err, "note: creating the SQLite file typo.db\n");
    for (email, password) in [("nonsense", "correct horse battery\n"), ("a@b.example", "")] {
        let words = ["user", "create", email, "--password-stdin", "--database", "sqlite://failed.db"];
        assert_eq!(run(folder.path(), &words, password).status, 1);
        assert!(!folder.path().join("failed.db").exists(), "{email}");
    }
    assert!(run(folder.path(), &words, "correct horse battery\n").err.starts_with("there is an account"));
}

#[test]
fn a_scope_of_no_entity_is_issued_with_a_warning() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("gatewright.toml"), "[[entity]]\nname = \"posts\"\n").unwrap();
    run(folder.path(), &["service-account", "create", "robot"], "").succeeded();
    let issue = |scopes: &str| {
        run(folder.path(), &["token", "issue", "--service", "robot", "--name", "x", "--scopes", scopes], "").succeeded()
    };
    let ended = issue("post:read,posts:read");
    assert!(ended.err.contains("\"post:read\" permits nothing; did you mean \"posts\"?"), "{ended:?}");
    assert!(ended.out.starts_with("svc_"), "{ended:?}");
    assert_eq!(issue("posts:*,*:read,admin:read,consumers:crm").err, "");
}

#[test]
fn an_administrator_in_dev_mode_is_pointed_to_the_console() {
    let folder = tempfile::tempdir().unwrap();
    let create = |email: &str, words: &[&str]| {
        let words = [&["user", "create", email, "--admin", "--password-stdin"], words].concat();
        run(folder.path(), &words, "correct horse battery\n").succeeded()
    };
    let ended = create("ada@example.com", &["--dev"]);
    assert!(ended.out.contains("the console is at ") && !ended.err.contains("warning"), "{ended:?}");
    let ended = create("bob@example.com", &[]);
    assert!(
        ended.err.contains("there is no gatewright.toml") && ended.err.contains("the console is disabled"),
        "{ended:?}"
    );
}

#[test]
fn counts_are_in_the_singular_if_they_are_one() {
    let folder = tempfile::tempdir().unwrap();
    let call = |words: &[&str]| run(folder.path(), words, "correct horse battery\n").succeeded().out;
    call(&["user", "create", "ada@example.com", "--password-stdin"]);
    call(&["token", "issue", "--user", "ada@example.com", "--name", "x"]);
    assert!(call(&["token", "list"]).ends_with("\n1 token\n"));
    call(&["token", "issue", "--user", "ada@example.com", "--name", "y"]);
    assert!(call(&["token", "list"]).ends_with("\n2 tokens\n"));
    call(&["service-account", "create", "robot"]);
    assert!(call(&["service-account", "list"]).ends_with("\n1 service account\n"));
    assert!(call(&["user", "logout", "ada@example.com"]).contains("signed out of 0 sessions;"));
}

#[test]
fn a_role_that_permits_nothing_is_assigned_with_a_warning() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("gatewright.toml"), "[roles]\neditor = [\"posts:write\"]\n").unwrap();
    let call = |words: &[&str]| run(folder.path(), words, "correct horse battery\n").succeeded();
    call(&["migrate"]);
    let warning = "warning: no role \"edtor\" is in [roles], so it permits nothing; did you mean \"editor\"?\n";
    for words in [
        &["user", "create", "ada@example.com", "--roles", "user,edtor", "--password-stdin"][..],
        &["user", "set-roles", "ada@example.com", "edtor"],
        &["service-account", "create", "robot", "--roles", "edtor"],
    ] {
        let ended = call(words);
        assert_eq!(ended.err, warning, "{words:?}");
        assert!(!ended.out.contains("warning"), "{ended:?}");
    }
    let listed = call(&["user", "list", "--json"]);
    assert!(listed.out.contains("[\"edtor\"]"), "{listed:?}");
    assert_eq!(call(&["user", "set-roles", "ada@example.com", "user,editor"]).err, "");
}

#[test]
fn an_invitation_prints_its_link_only_in_dev_mode_and_needs_a_mailer_otherwise() {
    let folder = tempfile::tempdir().unwrap();
    let user = |words: &[&str]| run(folder.path(), &[&["user"], words].concat(), "correct horse battery\n");
    user(&["create", "ada@example.com", "--password-stdin"]).succeeded();
    user(&["invite", "grace@example.com"]).failed_saying(&["no mailer configured", "[email]", "server.dev_mode"]);
    std::fs::write(
        folder.path().join("gatewright.toml"),
        "[server]\ndev_mode = true\n[auth]\nregistration = \"invite\"\n",
    )
    .unwrap();
    let invited = user(&["invite", " Grace@Example.com", "--roles", "user,editor"]).succeeded();
    let link = invited.out.lines().find(|line| line.contains("/register?invite=")).expect("the link is printed");
    assert!(link.starts_with("http://127.0.0.1:") && link.len() > 60, "{invited:?}");
    assert!(invited.out.contains("until "), "{invited:?}");
    // An address with an account is invited too: it accepts after signing in.
    let known = user(&["invite", "ada@example.com"]).succeeded();
    assert_ne!(known.out.lines().last(), Some(link));
    let welcomed = user(&["invite", "linus@example.com", "--next", "/welcome?a=b"]).succeeded();
    assert!(welcomed.out.trim_end().ends_with("&next=%2Fwelcome%3Fa%3Db") && welcomed.err.is_empty(), "{welcomed:?}");
    let elsewhere = user(&["invite", "linus@example.com", "--next", "https://evil.example/"]).succeeded();
    assert!(!elsewhere.out.contains("next=") && elsewhere.err.contains("--next is not allowed"), "{elsewhere:?}");
    for (words, said) in [
        (&["invite", "nonsense"][..], &["nonsense", "not a valid email"][..]),
        (&["invite", "grace@example.com", "--tenant", "a b"], &["a tenant's name", "visible ASCII"]),
    ] {
        user(words).failed_saying(said);
    }
}

#[test]
fn deleting_an_account_deletes_or_keeps_its_records_as_configured() {
    for (policy, said) in [("keep", "its records stay, without an owner"), ("delete", "its records are deleted")] {
        let folder = tempfile::tempdir().unwrap();
        let toml = format!(
            "[auth]\non_account_delete = \"{policy}\"\n[[entity]]\nname = \"notes\"\nowner_field = \"user_id\"\n\
             [[entity.field]]\nname = \"text\"\ntype = \"string\"\n"
        );
        std::fs::write(folder.path().join("gatewright.toml"), toml).unwrap();
        let user = |words: &[&str]| run(folder.path(), &[&["user"], words].concat(), "correct horse battery\n");
        user(&["create", "ada@example.com", "--password-stdin"]).succeeded();
        user(&["delete", "ada@example.com"]).failed_saying(&["--yes"]);
        let deleted = user(&["delete", "ada@example.com", "--yes"]).succeeded();
        assert!(deleted.out.starts_with("deleted ada@example.com (") && deleted.out.contains(said), "{deleted:?}");
        user(&["delete", "ada@example.com", "--yes"]).failed_saying(&["there is no account ada@example.com"]);
        user(&["create", "ada@example.com", "--password-stdin"]).succeeded();
    }
}
