use super::harness::run;

const CONFIG: &str = "[[entity]]\nname = \"notes\"\nmulti_tenant = true\n";

fn folder() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("gatewright.toml"), CONFIG).unwrap();
    let create = ["user", "create", "ada@example.com", "--password-stdin"];
    run(folder.path(), &create, "correct horse battery\n").succeeded();
    folder
}

#[test]
fn members_are_added_listed_and_removed() {
    let folder = folder();
    let tenant = |words: &[&str]| run(folder.path(), &[&["tenant"], words].concat(), "");

    assert_eq!(tenant(&["list"]).succeeded().out, "0 members\n");
    let added = tenant(&["add-member", "acme", "Ada@Example.com"]).succeeded();
    assert!(added.out.contains("is a member of acme"), "{added:?}");
    assert!(tenant(&["add-member", "acme", "ada@example.com"]).succeeded().out.contains("already"));
    tenant(&["add-member", "other", "ada@example.com"]).succeeded();

    let listed: serde_json::Value = serde_json::from_str(&tenant(&["list", "--json"]).succeeded().out).unwrap();
    assert_eq!(listed["total"], 2);
    let first = &listed["items"][0];
    assert_eq!(
        (&first["tenant"], &first["kind"], &first["email"]),
        (&"acme".into(), &"user".into(), &"ada@example.com".into())
    );
    assert!(tenant(&["list", "other"]).succeeded().out.ends_with("ada@example.com\n1 member\n"));
    assert_eq!(first["roles"], serde_json::json!([]));
    tenant(&["add-member", "acme", "ada@example.com", "--roles", "owner,admin"]).succeeded();
    let listed: serde_json::Value = serde_json::from_str(&tenant(&["list", "acme", "--json"]).succeeded().out).unwrap();
    assert_eq!(listed["items"][0]["roles"], serde_json::json!(["owner", "admin"]));
    assert!(tenant(&["list", "acme"]).succeeded().out.contains("  owner,admin  ada@example.com\n"));

    tenant(&["remove-member", "acme", "ada@example.com"]).succeeded();
    assert_eq!(tenant(&["list", "acme"]).succeeded().out, "0 members\n");
}

#[test]
fn a_service_account_is_a_member_of_its_own() {
    let folder = folder();
    let command = |words: &[&str]| run(folder.path(), words, "");
    let tenant = |words: &[&str]| run(folder.path(), &[&["tenant"], words].concat(), "");
    command(&["service-account", "create", "deploy-bot"]).succeeded();
    let added = tenant(&["add-member", "acme", "--service", "deploy-bot"]).succeeded();
    assert_eq!(added.out, "deploy-bot is a member of acme\n");
    assert!(tenant(&["add-member", "acme", "--service", "deploy-bot"]).succeeded().out.contains("already"));
    tenant(&["add-member", "acme", "ada@example.com"]).succeeded();

    let listed: serde_json::Value = serde_json::from_str(&tenant(&["list", "--json"]).succeeded().out).unwrap();
    assert_eq!(listed["total"], 2);
    let of = |kind: &str| listed["items"].as_array().unwrap().iter().find(|item| item["kind"] == kind).unwrap().clone();
    assert_eq!((&of("service")["name"], of("service").get("email")), (&"deploy-bot".into(), None));
    assert_eq!((&of("user")["email"], of("user").get("name")), (&"ada@example.com".into(), None));
    assert!(tenant(&["list", "acme"]).succeeded().out.contains("deploy-bot\n"));

    tenant(&["remove-member", "acme", "--service", "deploy-bot"]).succeeded();
    tenant(&["remove-member", "acme", "--service", "deploy-bot"])
        .failed_saying(&["deploy-bot is not a member of acme"]);
    assert!(tenant(&["list", "acme"]).succeeded().out.ends_with("ada@example.com\n1 member\n"), "the user stays");
}

#[test]
fn failed_member_commands_name_the_next_step() {
    let folder = folder();
    let tenant = |words: &[&str]| run(folder.path(), &[&["tenant"], words].concat(), "");
    tenant(&["add-member", "acme", "nobody@example.com"]).failed_saying(&["nobody@example.com", "user list"]);
    tenant(&["remove-member", "acme", "ada@example.com"]).failed_saying(&["not a member of acme", "tenant list acme"]);
    for name in ["", "two words", "ünder", &"a".repeat(201)] {
        tenant(&["add-member", name, "ada@example.com"]).failed_saying(&["1 to 200 visible ASCII characters"]);
    }
    let list = "service-account list";
    tenant(&["add-member", "acme", "--service", "nobody"]).failed_saying(&["no service account nobody", list]);
    tenant(&["remove-member", "acme", "--service", "nobody"]).failed_saying(&["no service account nobody", list]);
    tenant(&["add-member", "acme", "deploy-bot"]).failed_saying(&["deploy-bot", "--service"]);
    run(folder.path(), &["migrate"], "").succeeded();
    let explain = |who: &str| run(folder.path(), &["explain", "--as", who, "read", "notes"], "");
    let ended = explain("ada@example.com");
    assert_eq!(ended.status, 1, "{ended:?}");
    assert!(ended.out.contains("a tenant is required; pass it with --tenant") && !ended.out.contains("x-tenant-id"));
    let ended = explain("nobody@example.com");
    assert!(ended.status == 2 && ended.err.contains("`gatewright user list`"), "{ended:?}");
    let help = tenant(&["add-member", "--help"]).out;
    assert!(help.contains("[OPTIONS] <TENANT> <EMAIL|--service <NAME>>"), "{help}");
    // Neither none nor two at once.
    for words in [&["acme"][..], &["acme", "ada@example.com", "--service", "deploy-bot"]] {
        for command in ["add-member", "remove-member"] {
            assert_eq!(tenant(&[&[command], words].concat()).status, 2, "{command} {words:?}");
        }
    }
    let fresh = format!("[database]\nurl = \"sqlite://fresh.db\"\ncreate_tables = false\n{CONFIG}");
    std::fs::write(folder.path().join("gatewright.toml"), fresh).unwrap();
    tenant(&["list"]).failed_saying(&["gatewright migrate"]);
    std::fs::write(folder.path().join("gatewright.toml"), "").unwrap();
    tenant(&["list"]).failed_saying(&["multi_tenant = true"]);
}
