//! A program's own writes together with entity writes.

use gatewright_entities::operations::{Error, Transaction};
use gatewright_entities::{Call, Entity, Field};
use serde_json::json;

use super::support::{World, anonymous, tenant_id, user, worlds, worlds_with};

async fn ready() -> Vec<World> {
    let posts = Entity::new("posts").owner("user_id").field(Field::string("title").unique());
    let worlds = worlds([posts]).await;
    for world in &worlds {
        world.db().execute("CREATE TABLE counters (n INTEGER)", vec![]).await.unwrap();
    }
    worlds
}

#[tokio::test]
async fn a_transaction_commits_and_emits_its_events_together() {
    for mut world in ready().await {
        let call = Call::from(user("ann"));
        let done = world.entities.transaction(async move |transaction: &Transaction<'_>| {
            transaction.sql().execute("INSERT INTO counters (n) VALUES (1)", vec![]).await?;
            let first = transaction.table("posts")?.create(&call, br#"{"title":"first"}"#).await?;
            let second = transaction.table("posts")?.create(&call, br#"{"title":"second"}"#).await?;
            transaction.table("posts")?.update(&call, first.id(), br#"{"title":"changed"}"#).await?;
            // It sees what it wrote.
            let seen = transaction.table("posts")?.get(&call, first.id()).await?;
            transaction.table("posts")?.delete(&call, second.id()).await?;
            Ok(seen)
        });
        let seen: serde_json::Value = serde_json::from_slice(done.await.unwrap().json()).unwrap();
        assert_eq!(seen["title"], "changed");
        assert_eq!((world.rows("counters").await, world.rows("posts").await), (1, 1));
        for expected in ["created", "created", "updated", "deleted"] {
            assert_eq!(world.event().await.0, format!("entity.{expected}"));
        }
        world.no_more_events().await;
    }
}

#[tokio::test]
async fn after_an_error_nothing_is_written_and_no_event_emitted() {
    for mut world in ready().await {
        let kept = world.post(&user("ann"), "/posts", json!({"title": "taken"})).await;
        world.event().await;
        for (caller, body) in [
            (user("ann"), r#"{"title":"taken"}"#),
            (user("ann"), r#"{"title":1}"#),
            (user("ann"), r#"{"titel":"x"}"#),
            (anonymous(), r#"{"title":"x"}"#),
        ] {
            let failed = world.entities.transaction(async move |transaction: &Transaction<'_>| {
                transaction.sql().execute("INSERT INTO counters (n) VALUES (1)", vec![]).await?;
                transaction.table("posts")?.create(&Call::from(user("ben")), br#"{"title":"before"}"#).await?;
                transaction.table("posts")?.create(&Call::from(&caller), body.as_bytes()).await
            });
            assert!(failed.await.is_err(), "{body}");
        }
        // A record of another owner is not accessible here either.
        let id = kept.id();
        let others = world.entities.transaction(async move |transaction: &Transaction<'_>| {
            transaction.table("posts")?.delete(&Call::from(user("ben")), &id).await
        });
        assert!(matches!(others.await, Err(Error::NotFound)));
        assert_eq!((world.rows("counters").await, world.rows("posts").await), (0, 1));
        world.no_more_events().await;
    }
}

#[tokio::test]
async fn members_of_a_tenant_write_in_transactions_and_strangers_do_not() {
    let posts = Entity::new("posts").multi_tenant().field(Field::string("title"));
    for mut world in worlds([posts]).await {
        world.join("acme", &user("ann")).await;
        for (caller, succeeds) in [("ann", true), ("ben", false)] {
            let call = Call::from(user(caller)).in_tenant(tenant_id("acme"));
            let done = world.entities.transaction(async move |transaction: &Transaction<'_>| {
                let made = transaction.table("posts")?.create(&call, br#"{"title":"x"}"#).await?;
                transaction.table("posts")?.get(&call, made.id()).await
            });
            let done = done.await;
            assert_eq!(done.is_ok(), succeeds, "{} {caller}: {done:?}", world.name());
            assert!(succeeds || matches!(done, Err(Error::Refused(_))), "{done:?}");
        }
        assert_eq!((world.rows("posts").await, world.event().await.1), (1, "posts".to_owned()));
        world.no_more_events().await;
    }
}

/// The engine reports a foreign key violation without its name; the caller gets the field, whatever the write is part of.
#[tokio::test]
async fn a_relation_to_a_missing_record_is_reported_in_transactions_batches_and_hooks() {
    struct Idle;
    impl gatewright_entities::hooks::EntityHooks for Idle {}

    let topics = Entity::new("topics").public();
    let posts = |name: &str| {
        Entity::new(name).public().field(Field::relation("topic", "topics")).field(Field::relation("author", "users"))
    };
    let entities = [topics, posts("posts"), posts("hooked")];
    for mut world in worlds_with(entities, |builder| builder.entity_hooks("hooked", Idle)).await {
        for table in ["posts", "hooked"] {
            let there = world.post(&anonymous(), &format!("/{table}"), "{}").await;
            world.event().await;
            let lost = json!({"topic": "nosuch", "author": "ann"});
            let made = world.post(&anonymous(), &format!("/{table}"), &lost).await;
            let changed = world.patch(&anonymous(), there.header("location"), &lost).await;
            for single in [made, changed] {
                assert_eq!(
                    (single.status.as_u16(), single.faults()),
                    (422, [("topic".into(), "relation".into())].into())
                );
            }
            let batch = json!({"items": [{"author": "ann"}, lost]});
            let batch = world.post(&anonymous(), &format!("/{table}/_batch"), batch).await;
            let error = batch.json()["results"][1]["error"].clone();
            assert_eq!(
                (batch.status.as_u16(), &error["status"]),
                (422, &json!(422)),
                "{} {}",
                world.name(),
                batch.text
            );
            assert_eq!((error["errors"].as_array().unwrap().len(), &error["errors"][0]["field"]), (1, &json!("topic")));

            let done = world.entities.transaction(async move |transaction: &Transaction<'_>| {
                transaction.table(table)?.create(&Call::default(), br#"{"topic":"nosuch"}"#).await
            });
            assert!(matches!(done.await, Err(Error::Body(_))), "{} {table}", world.name());
            assert_eq!(world.rows(table).await, 1);
        }
        world.no_more_events().await;
    }
}
