//! Entities whose soft delete is switched on or off later.

use std::sync::Arc;

use gatewright_base::Ambient;
use gatewright_db::Db;
use gatewright_db::testing::{TestDb, engines};
use gatewright_entities::operations::{Call, Error};
use gatewright_entities::schema::{self, SchemaError, Users};
use gatewright_entities::tenancy::{self, SqlMemberships};
use gatewright_entities::{BuildError, Declarations, Entities, Entity, Field, Record};

use super::support::{tenant_id, user};

/// The SQL that a start would run.
async fn planned(db: &Db, entity: &Entity) -> Result<Vec<String>, SchemaError> {
    let declared = Declarations::check(std::slice::from_ref(entity)).unwrap();
    Ok(schema::plan(db, &declared, &Users::default()).await?.statements)
}

async fn start(db: &Db, entity: &Entity) -> Result<Entities, BuildError> {
    gatewright_db::migrate(db, tenancy::COMPONENT, tenancy::STEPS).await.unwrap();
    let memberships = SqlMemberships::new(db.clone(), Ambient::system());
    let _new = memberships.add(&tenant_id("acme"), &user("ann").principal().unwrap().subject).await.unwrap();
    let builder = Entities::builder(db.clone(), Ambient::system()).memberships(Arc::new(memberships));
    builder.declare(entity.clone()).build().await
}

async fn make(entities: &Entities, title: &str) -> Result<Record, Error> {
    let body = serde_json::json!({"title": title}).to_string();
    entities.tables().next().unwrap().create(&call(), body.as_bytes()).await
}

fn call() -> Call {
    Call::from(user("ann")).in_tenant(tenant_id("acme"))
}

fn posts() -> Entity {
    Entity::new("posts").field(Field::string("title").unique())
}

#[tokio::test]
async fn switching_soft_delete_on_frees_unique_values_of_later_deletions() {
    for (before, kind, columns) in
        [(posts(), "unique", "\"title\""), (posts().multi_tenant(), "tenant_unique", "\"tenant_id\", \"title\"")]
    {
        let after = before.clone().soft_delete();
        for TestDb { db, name, .. } in &engines().await {
            let old = start(db, &before).await.unwrap();
            let first = make(&old, "taken").await.unwrap();
            let plan = planned(db, &after).await.unwrap();
            assert!(plan[0].starts_with("ALTER TABLE \"posts\" ADD COLUMN \"deleted_at\""), "{name}: {plan:?}");
            assert_eq!(
                plan[1..],
                [
                    format!(
                        "CREATE UNIQUE INDEX \"posts.title.{kind}_live\" ON \"posts\" ({columns}) WHERE \"deleted_at\" IS NULL"
                    ),
                    format!("DROP INDEX \"posts.title.{kind}\""),
                ],
                "{name}"
            );
            let entities = start(db, &after).await.unwrap();
            assert_eq!(planned(db, &after).await.unwrap(), [""; 0], "{name}: once is enough");

            let table = entities.tables().next().unwrap();
            assert!(
                matches!(make(&entities, "taken").await, Err(Error::Taken(errors)) if errors[0].field == "title"),
                "{name}"
            );
            table.delete(&call(), first.id(), None).await.unwrap();
            let second = make(&entities, "taken").await.unwrap();
            assert!(matches!(table.restore(&call(), first.id()).await, Err(Error::Taken(_))), "{name}");
            table.delete(&call(), second.id(), None).await.unwrap();
            table.restore(&call(), first.id()).await.unwrap();
        }
    }
}

#[tokio::test]
async fn switching_soft_delete_off_is_refused_until_the_trash_is_empty() {
    let before = posts().soft_delete();
    for TestDb { db, name, .. } in &engines().await {
        let entities = start(db, &before).await.unwrap();
        let first = make(&entities, "taken").await.unwrap();
        entities.tables().next().unwrap().delete(&call(), first.id(), None).await.unwrap();
        make(&entities, "taken").await.unwrap();

        let refused = planned(db, &posts()).await.unwrap_err().to_string();
        for words in [
            "the field is unique now, and some rows share a value",
            "the field is unique among all records now, and its index still refuses repeats",
            "DROP INDEX \"posts.title.unique_live\"",
        ] {
            assert!(refused.contains(words), "{name}: {refused}");
        }
        assert!(start(db, &posts()).await.is_err());
        for sql in ["DELETE FROM posts WHERE deleted_at IS NOT NULL", "DROP INDEX \"posts.title.unique_live\""] {
            db.execute(sql, vec![]).await.unwrap();
        }
        let entities = start(db, &posts()).await.unwrap();
        assert!(matches!(make(&entities, "taken").await, Err(Error::Taken(_))), "{name}");
        assert!(make(&entities, "free").await.is_ok());
    }
}
