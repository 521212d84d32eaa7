use std::fs;
use std::path::Path;

use gatewright::db::{Db, Options};
use serde_json::{Value, json};

use super::harness::run;

const DECLARED: &str = "[auth]\nenabled = false\n[database]\nurl = \"sqlite://app.db\"\n[[entity]]\nname = \"notes\"\n\
    public = true\n[[entity.field]]\nname = \"meta\"\ntype = \"json\"\n[[entity.field]]\nname = \"rank\"\ntype = \"int\"\n";

/// Writes rows as another program would.
fn insert(folder: &Path, rows: &[(&str, &str, &str)]) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let url = format!("sqlite://{}", folder.join("app.db").display());
        let db = Db::open(&url, Options::default()).await.unwrap();
        for (id, meta, rank) in rows {
            let time = "'2026-01-02T03:04:05.000006Z'";
            let sql = format!(
                "INSERT INTO notes (id, meta, rank, created_at, updated_at) VALUES (?1, ?2, ?3, {time}, {time})"
            );
            let values = [id, meta, rank].map(|value| (*value).into()).to_vec();
            db.execute(sql, values).await.unwrap();
        }
        db.close().await;
    });
}

#[test]
fn values_that_the_configuration_does_not_describe_are_named() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    fs::write(folder.join("gatewright.toml"), DECLARED).unwrap();
    run(folder, &["verify"], "").failed_saying(&["app.db"]);
    assert!(!folder.join("app.db").exists(), "no database is created");
    run(folder, &["migrate"], "").succeeded();
    insert(folder, &[("a", "{\"n\":[0,1e+300]}", "3")]);
    assert_eq!(run(folder, &["verify"], "").succeeded().out, "1 record read, 0 values to correct\n");

    insert(folder, &[("b", "{\"n\":[0,-0]}", "many"), ("c\n[31m", "1.0", "4")]);
    let found = run(folder, &["verify"], "");
    assert_eq!(found.status, 1, "{found:?}");
    assert_eq!(
        found.out,
        "notes.meta of \"b\": holds JSON with a number that is not in canonical form at .n[1]\n\
         notes.rank of \"b\": holds text of another form where an integer belongs\n\
         notes.meta of \"c\\n[31m\": holds JSON with a number that is not in canonical form\n\
         3 records read, 3 values to correct\n"
    );
    let listed = run(folder, &["verify", "--json"], "");
    assert_eq!(listed.status, 1, "{listed:?}");
    let listed: Value = serde_json::from_str(&listed.out).unwrap();
    assert_eq!((&listed["total"], &listed["records"]), (&json!(3), &json!(3)));
    assert_eq!((&listed["items"][1]["column"], &listed["items"][1]["id"]), (&json!("rank"), &json!("b")));
}
