//! A host's own writes beside entity writes.

use gatewright_entities::operations::{Error, Transaction};
use gatewright_entities::{Call, Entity, Field};
use serde_json::json;

use super::support::{World, nobody, user, worlds};

async fn ready() -> Vec<World> {
    let posts = Entity::new("posts").owner("user_id").field(Field::string("title").unique());
    let worlds = worlds([posts]).await;
    for world in &worlds {
        world.db().execute("CREATE TABLE counters (n INTEGER)", vec![]).await.unwrap();
    }
    worlds
}

#[tokio::test]
async fn all_of_it_becomes_durable_and_is_told_together() {
    for mut world in ready().await {
        let (posts, call) = (world.entities.plan("posts").unwrap().clone(), Call::from(user("ann")));
        let done = world.entities.transaction(async move |transaction: &Transaction<'_>| {
            transaction.sql().execute("INSERT INTO counters (n) VALUES (1)", vec![]).await?;
            let first = transaction.create(&posts, &call, br#"{"title":"first"}"#).await?;
            let second = transaction.create(&posts, &call, br#"{"title":"second"}"#).await?;
            transaction.update(&posts, &call, first.id(), br#"{"title":"changed"}"#).await?;
            // It sees what it wrote.
            let seen = transaction.get(&posts, &call, first.id()).await?;
            transaction.delete(&posts, &call, second.id()).await?;
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
async fn after_an_error_nothing_is_written_and_nothing_told() {
    for mut world in ready().await {
        let kept = world.post(&user("ann"), "/posts", json!({"title": "taken"})).await;
        world.event().await;
        for (caller, body) in [
            (user("ann"), r#"{"title":"taken"}"#),
            (user("ann"), r#"{"title":1}"#),
            (user("ann"), r#"{"titel":"x"}"#),
            (nobody(), r#"{"title":"x"}"#),
        ] {
            let posts = world.entities.plan("posts").unwrap().clone();
            let failed = world.entities.transaction(async move |transaction: &Transaction<'_>| {
                transaction.sql().execute("INSERT INTO counters (n) VALUES (1)", vec![]).await?;
                transaction.create(&posts, &Call::from(user("ben")), br#"{"title":"before"}"#).await?;
                transaction.create(&posts, &Call::from(&caller), body.as_bytes()).await
            });
            assert!(failed.await.is_err(), "{body}");
        }
        // Another's record is out of reach here too.
        let (posts, id) = (world.entities.plan("posts").unwrap().clone(), kept.id());
        let others = world.entities.transaction(async move |transaction: &Transaction<'_>| {
            transaction.delete(&posts, &Call::from(user("ben")), &id).await
        });
        assert!(matches!(others.await, Err(Error::NotFound)));
        assert_eq!((world.rows("counters").await, world.rows("posts").await), (0, 1));
        world.no_more_events().await;
    }
}
