//! Events that are staged with their writes.

use async_trait::async_trait;
use gatewright_base::Ambient;
use gatewright_db::testing::engines;
use gatewright_db::{Db, Row};
use gatewright_entities::hooks::{Change, ChangeHook};
use gatewright_entities::operations::Error;
use gatewright_entities::{Entities, Entity, Field, OnDelete};
use gatewright_events::Bus;
use gatewright_events::outbox::{Outbox, OutboxOptions};
use http::StatusCode;
use serde_json::{Value, json};
use tokio::sync::mpsc;

use super::support::{World, anonymous};

/// Refuses titles that say so, after the event was staged.
struct Refusing;

#[async_trait]
impl ChangeHook for Refusing {
    async fn written(&self, _: &gatewright_db::Tx, change: &Change) -> Result<(), Error> {
        let refused = String::from_utf8_lossy(change.record.json()).contains("refuse me");
        if refused { Err(Error::Rejected("not today".to_owned())) } else { Ok(()) }
    }
}

async fn worlds() -> Vec<World> {
    let mut worlds = Vec::new();
    for test_db in engines().await {
        let (ambient, clock) = Ambient::manual("2026-01-02T03:04:05.000006Z".parse().unwrap(), 7);
        let outbox = Outbox::open(test_db.db.clone(), ambient.clone(), OutboxOptions::default()).await.unwrap();
        let bus = Bus::new(&ambient);
        let entities = Entities::builder(test_db.db.clone(), ambient)
            .outbox(outbox)
            .change_hook(Refusing)
            .users(gatewright_entities::schema::Users::Elsewhere)
            .declare(Entity::new("albums").public().field(Field::string("title").unique()))
            .declare(
                Entity::new("photos").public().field(Field::relation("album", "albums").on_delete(OnDelete::Cascade)),
            )
            .build()
            .await
            .unwrap();
        let (_, events) = mpsc::unbounded_channel();
        worlds.push(World { router: entities.router(), entities, bus, events, clock, test_db });
    }
    worlds
}

/// Type and payload of each row, oldest first.
async fn staged(db: &Db) -> Vec<(String, Value)> {
    let rows = db.query("SELECT type, payload FROM event_outbox ORDER BY type, payload", vec![]).await.unwrap();
    let read = |row: &Row| {
        let payload: String = row.get("payload").unwrap();
        (row.get("type").unwrap(), serde_json::from_str(&payload).unwrap())
    };
    rows.iter().map(read).collect()
}

#[tokio::test]
async fn every_write_stages_its_event_and_cascades_stage_theirs() {
    for world in worlds().await {
        let album = world.post(&anonymous(), "/albums", json!({"title": "a"})).await;
        let changed = world.patch(&anonymous(), album.header("location"), json!({"title": "b"})).await;
        let photo = world.post(&anonymous(), "/photos", json!({"album": album.id()})).await;
        assert_eq!(world.delete(&anonymous(), album.header("location")).await.status, 204);
        let event = |kind: &str, entity: &str, record: Value| {
            (format!("entity.{kind}"), json!({"entity": entity, "table": entity, "record": record}))
        };
        let expected = [
            event("created", "albums", album.data()),
            event("created", "photos", photo.data()),
            event("deleted", "albums", changed.data()),
            event("deleted", "photos", photo.data()),
            event("updated", "albums", changed.data()),
        ];
        assert_eq!(staged(world.db()).await, expected, "{}", world.name());
    }
}

#[tokio::test]
async fn a_failed_write_stages_nothing() {
    for world in worlds().await {
        world.post(&anonymous(), "/albums", json!({"title": "a"})).await.data();
        for title in ["a", "refuse me"] {
            let refused = world.post(&anonymous(), "/albums", json!({ "title": title })).await;
            assert!(matches!(refused.status, StatusCode::CONFLICT | StatusCode::UNPROCESSABLE_ENTITY));
        }
        assert_eq!(staged(world.db()).await.len(), 1, "{}", world.name());
    }
}
