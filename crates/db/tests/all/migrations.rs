use gatewright_db::testing::engines;
use gatewright_db::{Db, MigrateError, Options, Step, migrate, migrations_table, pending, schema};

const ONE: Step = Step {
    version: 1,
    name: "parents",
    sql: "CREATE TABLE parents (id {text} PRIMARY KEY, born {time} NOT NULL, ok {bool} NOT NULL DEFAULT TRUE);
          CREATE UNIQUE INDEX parents_born ON parents (born)",
};
const TWO: Step = Step {
    version: 2,
    name: "children",
    sql: "CREATE TABLE children (id {text} PRIMARY KEY, parent_id {text} REFERENCES parents (id) ON DELETE CASCADE, n {int})",
};
const EDITED: Step = Step { version: 1, name: "parents", sql: "CREATE TABLE parents (id {text} PRIMARY KEY)" };

#[tokio::test]
async fn steps_run_once_and_in_order() {
    for engine in engines().await {
        let db = &engine.db;
        assert_eq!(pending(db, "demo", &[ONE, TWO]).await.unwrap().len(), 2);
        assert_eq!(migrate(db, "demo", &[ONE]).await.unwrap(), 1);
        assert_eq!(pending(db, "demo", &[ONE, TWO]).await.unwrap().len(), 1);
        assert_eq!(migrate(db, "demo", &[ONE, TWO]).await.unwrap(), 1);
        assert_eq!(migrate(db, "demo", &[ONE, TWO]).await.unwrap(), 0);
        assert_eq!(migrate(db, "other", &[]).await.unwrap(), 0);
        let edited = migrate(db, "demo", &[EDITED, TWO]).await;
        assert!(matches!(edited, Err(MigrateError::Changed { version: 1, .. })), "{}", engine.name);
        let newer = migrate(db, "demo", &[ONE]).await;
        assert!(matches!(newer, Err(MigrateError::Newer { found: 2, known: 1, .. })), "{}", engine.name);
    }
}

#[tokio::test]
async fn printed_steps_run_by_hand_count_as_done() {
    for engine in engines().await {
        let db = &engine.db;
        migrate(db, "it's", &[ONE]).await.unwrap();
        let printed = pending(db, "it's", &[ONE, TWO]).await.unwrap();
        for statement in [vec![migrations_table(db.engine())], printed].concat().iter().flat_map(|sql| sql.split(";\n"))
        {
            db.execute(statement.to_owned(), vec![]).await.unwrap();
        }
        assert!(pending(db, "it's", &[ONE, TWO]).await.unwrap().is_empty(), "{}", engine.name);
        assert_eq!(migrate(db, "it's", &[ONE, TWO]).await.unwrap(), 0, "{}", engine.name);
    }
}

#[tokio::test]
async fn a_failed_step_is_rolled_back() {
    const BROKEN: Step =
        Step { version: 1, name: "broken", sql: "CREATE TABLE half (a {int}); CREATE TABLE half (a {int})" };
    for engine in engines().await {
        assert!(migrate(&engine.db, "demo", &[BROKEN]).await.is_err());
        assert_eq!(schema::describe(&engine.db, "half").await.unwrap(), None, "{}", engine.name);
        assert_eq!(migrate(&engine.db, "demo", &[ONE]).await.unwrap(), 1);
    }
}

#[tokio::test]
async fn replicas_that_start_together_apply_each_step_once() {
    for engine in engines().await {
        let starts: Vec<_> = (0..6)
            .map(|_| {
                let url = engine.url.clone();
                tokio::spawn(async move {
                    let options = Options { max_connections: 2.try_into().unwrap(), ..Options::default() };
                    let db = Db::open(&url, options).await.unwrap();
                    migrate(&db, "demo", &[ONE, TWO]).await.unwrap()
                })
            })
            .collect();
        let mut applied = 0;
        for start in starts {
            applied += start.await.unwrap();
        }
        assert_eq!(applied, 2, "{}", engine.name);
    }
}

#[tokio::test]
async fn a_table_is_described_as_it_is() {
    for engine in engines().await {
        migrate(&engine.db, "demo", &[ONE, TWO]).await.unwrap();
        assert_eq!(schema::describe(&engine.db, "nothing").await.unwrap(), None);
        let parents = schema::describe(&engine.db, "parents").await.unwrap().unwrap();
        let columns: Vec<_> =
            parents.columns.iter().map(|c| (c.name.as_str(), c.nullable, c.has_default, c.primary_key)).collect();
        assert_eq!(
            columns,
            [("id", false, false, true), ("born", false, false, false), ("ok", false, true, false)],
            "{}",
            engine.name
        );
        assert_eq!(parents.indexes.len(), 1);
        assert!(parents.indexes[0].unique && parents.indexes[0].columns == ["born"]);
        let children = schema::describe(&engine.db, "children").await.unwrap().unwrap();
        assert!(children.column("parent_id").unwrap().nullable);
        let key = &children.foreign_keys[0];
        assert_eq!(
            (key.column.as_str(), key.table.as_str(), key.on_delete.as_str()),
            ("parent_id", "parents", "CASCADE")
        );
    }
}
