//! Renames that an entity declares.

use gatewright_db::testing::{TestDb, engines};
use gatewright_entities::{Declarations, Entity, Field, OnDelete};
use serde_json::json;

use super::schema::{apply, plan, write};
use super::support::make_users;

#[tokio::test]
async fn a_declared_rename_keeps_rows_rules_and_relations() {
    let before = [
        Entity::new("posts")
            .public()
            .field(Field::string("title").unique())
            .field(Field::string("kind").index())
            .field(Field::relation("parent", "posts")),
        Entity::new("likes").public().field(Field::relation("post", "posts").on_delete(OnDelete::Cascade)),
    ];
    let after = [
        Entity::new("articles")
            .renamed_from("posts")
            .public()
            .field(Field::string("headline").unique().renamed_from("title"))
            .field(Field::string("kind").index())
            .field(Field::relation("under", "articles").renamed_from("parent")),
        Entity::new("likes")
            .public()
            .field(Field::relation("article", "articles").on_delete(OnDelete::Cascade).renamed_from("post")),
    ];
    for TestDb { db, name, .. } in &engines().await {
        make_users(db).await;
        apply(db, &before).await.unwrap();
        write(db, before[0].clone().field(Field::string("unused")), json!({"title": "kept"})).await;
        let planned = plan(db, &after).await.unwrap();
        let sql = planned.to_string();
        for statement in [
            "ALTER TABLE \"posts\" RENAME TO \"articles\"",
            "ALTER TABLE \"articles\" RENAME COLUMN \"title\" TO \"headline\"",
            "ALTER TABLE \"likes\" RENAME COLUMN \"post\" TO \"article\"",
        ] {
            assert!(sql.contains(statement), "{name}: {sql}");
        }
        assert_eq!(apply(db, &after).await.unwrap().statements, planned.statements, "{name}");
        assert_eq!(plan(db, &after).await.unwrap().statements, Vec::<String>::new(), "{name}: once is enough");
        let row = db.query_opt("SELECT headline FROM articles", vec![]).await.unwrap().unwrap();
        assert_eq!(row.get::<String>("headline").unwrap(), "kept");
        let twice = "INSERT INTO articles (id, headline, created_at, updated_at) SELECT 'x', headline, created_at, updated_at FROM articles";
        assert!(db.execute(twice, vec![]).await.is_err(), "{name}: unique still holds");
        let orphan = "INSERT INTO likes (id, article, created_at, updated_at) SELECT 'x', 'nosuch', created_at, updated_at FROM articles";
        assert!(db.execute(orphan, vec![]).await.is_err(), "{name}: the relation still holds");
    }
}

#[tokio::test]
async fn old_names_that_are_in_use_are_refused() {
    let posts = || Entity::new("posts").field(Field::string("a"));
    for (entities, words) in [
        (vec![posts().renamed_from("users")], "is reserved for the service"),
        (vec![posts().renamed_from("posts")], "there is a table \"posts\" now"),
        (vec![posts().renamed_from("x; DROP TABLE users")], "is not a valid name"),
        (vec![posts(), Entity::new("notes").renamed_from("posts")], "there is a table \"posts\" now"),
        (vec![posts().renamed_from("old"), Entity::new("notes").renamed_from("old")], "can have been \"old\""),
        (vec![posts().field(Field::string("b").renamed_from("a"))], "there is a field \"a\" now"),
        (vec![posts().field(Field::string("b").renamed_from("id"))], "cannot be declared"),
        (
            vec![posts().field(Field::string("b").renamed_from("x")).field(Field::string("c").renamed_from("x"))],
            "only one field can have been",
        ),
    ] {
        let error = Declarations::check(&entities).unwrap_err().to_string();
        assert!(error.contains(words), "{error}");
    }
}
