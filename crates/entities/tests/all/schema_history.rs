//! A configuration from before a rename, and replicas that run the old and the new one side by side.

use std::sync::Arc;
use std::time::Duration;

use gatewright_base::{Ambient, Identity};
use gatewright_db::testing::{TestDb, engines};
use gatewright_db::{Db, Engine, Options, Tx};
use gatewright_entities::operations::Error;
use gatewright_entities::schema::{self, Changes, SchemaError, Users};
use gatewright_entities::{Declarations, Entities, Entity, Field, Record, Tables};
use gatewright_http::Problem;
use serde_json::json;
use tokio::sync::Notify;
use tokio::task::JoinHandle;

fn old() -> Entity {
    Entity::new("posts").public().field(Field::string("title"))
}

fn renamed_field() -> Entity {
    Entity::new("posts").public().field(Field::string("headline").renamed_from("title"))
}

fn renamed_table() -> Entity {
    Entity::new("articles").renamed_from("posts").public().field(Field::string("title"))
}

async fn apply(db: &Db, entity: Entity) -> Result<Changes, SchemaError> {
    schema::apply(db, &Declarations::check(&[entity]).unwrap(), &Users::default()).await
}

async fn build(db: &Db, entity: Entity) -> Entities {
    Entities::builder(db.clone(), Ambient::system()).declare(entity).build().await.unwrap()
}

async fn create(entities: &Entities, body: serde_json::Value) -> bool {
    try_to_create(entities, body).await.is_ok()
}

async fn try_to_create(entities: &Entities, body: serde_json::Value) -> Result<Record, Error> {
    let call = Identity::Anonymous.into();
    entities.tables().next().unwrap().create(&call, body).await
}

async fn texts(db: &Db, table: &str, column: &str) -> Vec<Option<String>> {
    let sql = format!("SELECT \"{table}\".\"{column}\" AS value FROM \"{table}\" ORDER BY id");
    db.query(sql, vec![]).await.unwrap().iter().map(|row| row.get("value").unwrap()).collect()
}

#[tokio::test]
async fn a_configuration_from_before_a_rename_is_refused_with_the_steps_to_go_back() {
    for (new, back, table, column) in [
        (
            renamed_field(),
            Entity::new("posts").public().field(Field::string("title").renamed_from("headline")),
            "posts",
            "headline",
        ),
        (renamed_table(), old().renamed_from("articles"), "articles", "title"),
    ] {
        for TestDb { db, name, .. } in &engines().await {
            assert!(create(&build(db, old()).await, json!({"title": "kept"})).await);
            apply(db, new.clone()).await.unwrap();
            for start in [Tables::Create, Tables::Check] {
                let built = Entities::builder(db.clone(), Ambient::system()).tables(start).declare(old()).build().await;
                let error = built.unwrap_err().to_string();
                for words in ["a newer configuration renamed this", "to go back, add renamed_from = \""] {
                    assert!(error.contains(words), "{name}: {error}");
                }
            }
            assert_eq!(texts(db, table, column).await, [Some("kept".to_owned())], "{name}");
            // The new configuration starts as before, with and without the old name in it.
            apply(db, new.clone()).await.unwrap();

            apply(db, back.clone()).await.unwrap();
            assert_eq!(texts(db, "posts", "title").await, [Some("kept".to_owned())], "{name}");
            apply(db, old()).await.unwrap();
            // And forward again.
            apply(db, new.clone()).await.unwrap();
            assert_eq!(texts(db, table, column).await, [Some("kept".to_owned())], "{name}");
            assert!(apply(db, old()).await.is_err(), "{name}");
        }
    }
}

#[tokio::test]
async fn a_rename_is_remembered_through_further_renames() {
    let third =
        || Entity::new("essays").renamed_from("articles").public().field(Field::string("head").renamed_from("title"));
    for TestDb { db, name, .. } in &engines().await {
        for entity in [old(), renamed_table(), third()] {
            apply(db, entity).await.unwrap();
        }
        for older in [old(), Entity::new("articles").public().field(Field::string("title"))] {
            let error = apply(db, older).await.unwrap_err().to_string();
            assert!(error.contains("renamed this table to \"essays\""), "{name}: {error}");
        }
        let half = Entity::new("essays").public().field(Field::string("title"));
        let error = apply(db, half).await.unwrap_err().to_string();
        assert!(error.contains("renamed this column to \"head\""), "{name}: {error}");
    }
}

#[tokio::test]
async fn an_old_name_is_free_for_a_new_field_beside_the_renamed_one_or_once_the_rename_is_forgotten() {
    for TestDb { db, name, .. } in &engines().await {
        apply(db, old()).await.unwrap();
        apply(db, renamed_field()).await.unwrap();
        let error = apply(db, old()).await.unwrap_err();
        let beside = old().field(Field::string("headline"));
        apply(db, beside).await.unwrap_or_else(|error| panic!("{name}: {error}"));
        db.execute("ALTER TABLE posts DROP COLUMN title", vec![]).await.unwrap();

        let SchemaError::Refused(refusals) = error else { panic!("{error}") };
        db.execute(refusals[0].sql[0].clone(), vec![]).await.unwrap();
        apply(db, old()).await.unwrap_or_else(|error| panic!("{name}: {error}"));
    }
}

/// Opens the database as another replica would.
async fn replica(test: &TestDb) -> Db {
    Db::open(&test.url, Options::default()).await.unwrap()
}

#[tokio::test]
async fn a_replica_from_before_a_rename_fails_to_write_and_loses_nothing() {
    for test in &engines().await {
        let before = build(&test.db, old()).await;
        assert!(create(&before, json!({"title": "first"})).await);
        let after = build(&replica(test).await, renamed_field()).await;
        let refused = Problem::from(try_to_create(&before, json!({"title": "nowhere"})).await.unwrap_err());
        assert_eq!((refused.status().as_u16(), refused.code()), (503, "schema_changed"), "{}", test.name);
        assert!(create(&after, json!({"headline": "second"})).await);
        let kept = ["first", "second"].map(|text| Some(text.to_owned()));
        assert_eq!(texts(&test.db, "posts", "headline").await, kept, "{}", test.name);
    }
}

/// The procedure of the handbook without a failed request: add, copy, drop.
#[tokio::test]
async fn a_rename_in_three_steps_serves_from_old_and_new_replicas_throughout() {
    let both = || old().field(Field::string("headline"));
    let new = || Entity::new("posts").public().field(Field::string("headline"));
    for test in &engines().await {
        let (db, name) = (&test.db, test.name);
        let first = build(db, old()).await;
        assert!(create(&first, json!({"title": "a"})).await);
        let second = build(&replica(test).await, both()).await;
        assert!(create(&first, json!({"title": "b"})).await, "{name}: the old replica writes beside the new field");
        assert!(create(&second, json!({"title": "c", "headline": "c"})).await);
        let copy = "UPDATE \"posts\" SET \"headline\" = \"posts\".\"title\" WHERE \"posts\".\"headline\" IS NULL";
        db.execute(copy, vec![]).await.unwrap();
        let third = build(&replica(test).await, new()).await;
        assert!(create(&second, json!({"title": "d", "headline": "d"})).await, "{name}: the column stays");
        assert!(create(&third, json!({"headline": "e"})).await);
        let kept = ["a", "b", "c", "d", "e"].map(|text| Some(text.to_owned()));
        assert_eq!(texts(db, "posts", "headline").await, kept, "{name}");
    }
}

/// A dump, or any other transaction that has read a table and stays open.
struct Holder {
    task: JoinHandle<Result<(), gatewright_db::Error>>,
    end: Arc<Notify>,
}

impl Holder {
    async fn of_posts(db: Db) -> Self {
        let (holds, end) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
        let (told, ends) = (holds.clone(), end.clone());
        let task = tokio::spawn(async move {
            db.write(async move |tx: &Tx| {
                tx.query("SELECT id FROM posts", vec![]).await?;
                told.notify_one();
                ends.notified().await;
                Ok(())
            })
            .await
        });
        holds.notified().await;
        Self { task, end }
    }
}

#[tokio::test]
async fn a_schema_change_yields_to_a_long_transaction_and_does_not_block_others() {
    for test in &engines().await {
        if test.db.engine() == Engine::Sqlite {
            // Readers delay no writer there.
            continue;
        }
        let before = build(&test.db, old()).await;
        assert!(create(&before, json!({"title": "a"})).await);
        let holder = Holder::of_posts(replica(test).await).await;
        let db = replica(test).await;
        let change = tokio::spawn(async move { apply(&db, old().field(Field::string("added"))).await });
        for round in 0..4 {
            // Each may wait behind one try, and none waits for the holder, which waits for the end of this test.
            let passed = tokio::time::timeout(Duration::from_mins(1), create(&before, json!({"title": "b"}))).await;
            assert_eq!(passed, Ok(true), "write {round}");
            tokio::time::sleep(Duration::from_millis(500)).await;
        }
        assert!(!change.is_finished());
        holder.end.notify_one();
        holder.task.await.unwrap().unwrap();
        assert_eq!(change.await.unwrap().unwrap().statements.len(), 1);
        assert!(create(&before, json!({"title": "c"})).await);
    }
}
