//! Tables of an earlier program: integers in place of booleans, and no record of migration steps.

use gatewright_db::legacy::{Booleans, migrate, pending};
use gatewright_db::testing::{TestDb, engines};
use gatewright_db::{MigrateError, Step, schema};

const STEPS: &[Step] = &[
    Step {
        version: 1,
        name: "things",
        sql: "CREATE TABLE things (id {text} PRIMARY KEY, ok {bool} NOT NULL, odd {bool} NOT NULL);
              CREATE TABLE parts (id {text} PRIMARY KEY, thing_id {text} REFERENCES things (id) ON DELETE CASCADE)",
    },
    Step { version: 2, name: "owners", sql: "CREATE TABLE owners (id {text} PRIMARY KEY, ok {bool} NOT NULL)" },
    Step { version: 3, name: "sizes", sql: "ALTER TABLE things ADD COLUMN size {int}" },
];
const BOOLEANS: &[Booleans] =
    &[Booleans { table: "things", columns: &["ok", "odd", "gone"] }, Booleans { table: "owners", columns: &["ok"] }];

/// What an earlier program made and filled.
async fn legacy(engine: &TestDb) {
    for sql in [
        "CREATE TABLE things (id TEXT PRIMARY KEY, ok INTEGER NOT NULL DEFAULT 1, odd SMALLINT DEFAULT 0 CHECK (odd IN (0, 1)))",
        "CREATE TABLE parts (id TEXT PRIMARY KEY, thing_id TEXT REFERENCES things (id) ON DELETE CASCADE)",
        "CREATE TABLE owners (id TEXT PRIMARY KEY, ok INTEGER NOT NULL)",
        "INSERT INTO things (id, ok, odd) VALUES ('a', 0, 1)",
        "INSERT INTO things (id, ok, odd) VALUES ('b', 1, NULL)",
        "INSERT INTO things (id) VALUES ('c')",
        "INSERT INTO parts (id, thing_id) VALUES ('p', 'a')",
    ] {
        engine.db.execute(sql, vec![]).await.unwrap();
    }
}

async fn rows(engine: &TestDb) -> Vec<(String, bool, bool)> {
    let rows = engine.db.query("SELECT id, ok, odd FROM things ORDER BY id", vec![]).await.unwrap();
    let read = |row: &gatewright_db::Row| (row.get("id").unwrap(), row.get("ok").unwrap(), row.get("odd").unwrap());
    rows.iter().map(read).collect()
}

#[tokio::test]
async fn integers_become_booleans_with_their_values_and_defaults() {
    for engine in engines().await {
        legacy(&engine).await;
        let db = &engine.db;
        let planned = pending(db, "demo", STEPS, BOOLEANS).await.unwrap();
        assert_eq!(planned.len(), 4, "{}: three columns and the third step: {planned:?}", engine.name);
        assert_eq!(pending(db, "demo", STEPS, BOOLEANS).await.unwrap(), planned, "a plan changes nothing");
        assert_eq!(planned[3].matches("INSERT INTO gatewright_migrations").count(), 3, "{planned:?}");
        assert_eq!(migrate(db, "demo", STEPS, BOOLEANS).await.unwrap(), 6, "three columns, two adopted steps, one new");
        assert!(pending(db, "demo", STEPS, BOOLEANS).await.unwrap().is_empty(), "{}", engine.name);
        assert_eq!(migrate(db, "demo", STEPS, BOOLEANS).await.unwrap(), 0, "{}", engine.name);

        let shape = schema::describe(db, "things").await.unwrap().unwrap();
        for name in ["ok", "odd"] {
            let column = shape.column(name).unwrap();
            assert_eq!((column.type_name.as_str(), column.nullable), ("BOOLEAN", false), "{} {name}", engine.name);
        }
        assert!(shape.column("size").is_some(), "{}: later steps follow", engine.name);
        db.execute("INSERT INTO things (id) VALUES ('d')", vec![]).await.unwrap();
        let expected = [("a", false, true), ("b", true, false), ("c", true, false), ("d", true, false)];
        assert_eq!(rows(&engine).await, expected.map(|(id, ok, odd)| (id.to_owned(), ok, odd)), "{}", engine.name);
        // References to the table are kept.
        db.execute("DELETE FROM things WHERE id = 'a'", vec![]).await.unwrap();
        assert!(db.query("SELECT id FROM parts", vec![]).await.unwrap().is_empty(), "{}", engine.name);
    }
}

#[tokio::test]
async fn fresh_and_current_databases_are_left_to_the_migration_steps() {
    for engine in engines().await {
        let db = &engine.db;
        assert_eq!(pending(db, "demo", STEPS, BOOLEANS).await.unwrap().len(), 3);
        assert_eq!(migrate(db, "demo", STEPS, BOOLEANS).await.unwrap(), 3);
        assert_eq!(migrate(db, "demo", STEPS, BOOLEANS).await.unwrap(), 0, "{}", engine.name);
        assert_eq!(migrate(db, "none", &[], &[]).await.unwrap(), 0);
    }
}

#[tokio::test]
async fn a_table_that_lacks_a_column_is_not_taken_over() {
    for engine in engines().await {
        engine.db.execute("CREATE TABLE things (id TEXT PRIMARY KEY, ok INTEGER)", vec![]).await.unwrap();
        let refused = migrate(&engine.db, "demo", STEPS, BOOLEANS).await;
        let Err(MigrateError::Foreign { table, column }) = refused else { panic!("{}: {refused:?}", engine.name) };
        assert_eq!((table.as_str(), column.as_str()), ("things", "odd"));
        assert_eq!(schema::describe(&engine.db, "parts").await.unwrap(), None);
    }
}
