use std::fs;
use std::path::Path;

use super::harness::{Ended, run};

const SECRET: &str = "0123456789abcdef0123456789abcdef";

fn declare(folder: &Path, entity: &str) {
    let text = format!("[auth]\njwt_secret = \"{SECRET}\"\n[database]\nurl = \"sqlite://app.db\"\n{entity}");
    fs::write(folder.join("gatewright.toml"), text).unwrap();
}

fn status(ended: Ended, status: i32) -> Ended {
    assert_eq!(ended.status, status, "{ended:?}");
    ended
}

const POSTS: &str = "[[entity]]\nname = \"posts\"\n[[entity.field]]\nname = \"title\"\ntype = \"string\"\n";

#[test]
fn a_plan_prints_everything_changes_nothing_and_makes_no_file() {
    let folder = tempfile::tempdir().unwrap();
    declare(folder.path(), POSTS);
    let plan = status(run(folder.path(), &["migrate", "--plan"], ""), 3);
    for table in ["CREATE TABLE users", "CREATE TABLE \"posts\""] {
        assert!(plan.out.contains(table), "{plan:?}");
    }
    assert!(!folder.path().join("app.db").exists(), "a plan makes no database");
    run(folder.path(), &["migrate"], "").succeeded();
    let plan = status(run(folder.path(), &["migrate", "--plan"], ""), 0);
    assert_eq!(plan.out, "-- the database is up to date\n");

    declare(folder.path(), &format!("{POSTS}[[entity.field]]\nname = \"body\"\ntype = \"text\"\n"));
    for _ in 0..2 {
        let plan = status(run(folder.path(), &["migrate", "--plan"], ""), 3);
        assert!(plan.out.contains("ALTER TABLE \"posts\" ADD COLUMN \"body\""), "{plan:?}");
    }
}

#[test]
fn a_declared_rename_keeps_the_data_and_a_destructive_change_prints_its_sql() {
    let folder = tempfile::tempdir().unwrap();
    declare(folder.path(), POSTS);
    run(folder.path(), &["migrate"], "").succeeded();
    declare(
        folder.path(),
        "[[entity]]\nname = \"articles\"\nrenamed_from = \"posts\"\n\
         [[entity.field]]\nname = \"headline\"\ntype = \"string\"\nrenamed_from = \"title\"\n",
    );
    let plan = status(run(folder.path(), &["migrate", "--plan"], ""), 3);
    assert_eq!(
        plan.out,
        "ALTER TABLE \"posts\" RENAME TO \"articles\";\nALTER TABLE \"articles\" RENAME COLUMN \"title\" TO \"headline\";\n\
         -- nothing was changed; `gatewright migrate` does it\n"
    );
    run(folder.path(), &["migrate"], "").succeeded();
    status(run(folder.path(), &["migrate", "--plan"], ""), 0);

    declare(folder.path(), "[[entity]]\nname = \"articles\"\n[[entity.field]]\nname = \"headline\"\ntype = \"int\"\n");
    for words in [&["migrate"][..], &["migrate", "--plan"]] {
        run(folder.path(), words, "").failed_saying(&["\"articles\"", "\"headline\"", "to do it, run: "]);
    }
}

#[test]
fn a_server_that_makes_no_tables_names_the_command_that_does() {
    let folder = tempfile::tempdir().unwrap();
    let tables = "create_tables = false\n";
    declare(folder.path(), &format!("{tables}{POSTS}"));
    run(folder.path(), &["serve", "--listen", "127.0.0.1:0"], "").failed_saying(&["`gatewright migrate`"]);
    run(folder.path(), &["migrate"], "").succeeded();
    let more = format!("{tables}{POSTS}[[entity.field]]\nname = \"body\"\ntype = \"text\"\n");
    declare(folder.path(), &more);
    run(folder.path(), &["serve", "--listen", "127.0.0.1:0"], "").failed_saying(&["`gatewright migrate`"]);
}
