//! Events that are staged with their writes.

use async_trait::async_trait;
use gatewright_base::Ambient;
use gatewright_db::testing::engines;
use gatewright_db::{Db, Row};
use gatewright_entities::hooks::{Change, ChangeHook};
use gatewright_entities::operations::{Error, Transaction};
use gatewright_entities::{Call, Entities, Entity, Field, OnDelete};
use gatewright_events::Bus;
use gatewright_events::outbox::{Outbox, OutboxOptions};
use http::StatusCode;
use serde_json::{Value, json};
use tokio::sync::mpsc;

use super::support::{World, anonymous, user};

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
    worlds_with(&OutboxOptions::default()).await
}

async fn worlds_with(options: &OutboxOptions) -> Vec<World> {
    let mut worlds = Vec::new();
    for test_db in engines().await {
        let (ambient, clock) = Ambient::manual("2026-01-02T03:04:05.000006Z".parse().unwrap(), 7);
        let outbox = Outbox::open(test_db.db.clone(), ambient.clone(), options.clone()).await.unwrap();
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

#[tokio::test]
async fn while_the_outbox_is_full_every_write_is_503_and_changes_nothing() {
    // A row counts as 512 bytes and its payload.
    for world in worlds_with(&OutboxOptions { max_bytes: 2_400, ..OutboxOptions::default() }).await {
        let album = world.post(&anonymous(), "/albums", json!({ "title": "a" })).await;
        let refused = loop {
            let patched = world.patch(&anonymous(), album.header("location"), json!({ "title": "a" })).await;
            if patched.status != StatusCode::OK {
                break patched;
            }
        };
        assert_eq!((refused.status.as_u16(), &refused.json()["code"]), (503, &json!("outbox_full")));
        assert!(!refused.header("retry-after").is_empty());
        // Another caller may still write, until there is no room at all.
        let bobs =
            async |n: i64| world.post(&user("bob"), "/albums", json!({ "title": format!("bob {n}") })).await.status;
        let mut made = 0;
        while bobs(made).await == StatusCode::CREATED {
            made += 1;
        }
        assert!(made > 0, "{}", world.name());
        // The program itself too.
        let mut of_program = 0;
        let full = loop {
            let body = json!({ "title": format!("program {of_program}") }).to_string();
            let write = async move |transaction: &Transaction<'_>| {
                transaction.table("albums")?.create(&Call::from(anonymous()), body.as_bytes()).await
            };
            match world.entities.transaction(write).await {
                Ok(_) => of_program += 1,
                Err(error) => break error,
            }
            assert!(of_program < 20, "{}: nothing ends it", world.name());
        };
        assert!(matches!(full, Error::OutboxFull(_)), "{}: {full}", world.name());
        let before = (staged(world.db()).await.len(), world.rows("albums").await);
        for caller in [anonymous(), user("bob")] {
            for answer in [
                world.post(&caller, "/albums", json!({ "title": "longer than any other" })).await,
                world.patch(&caller, album.header("location"), json!({ "title": "longer than any other" })).await,
                world.delete(&caller, album.header("location")).await,
            ] {
                assert_eq!((answer.status.as_u16(), &answer.json()["code"]), (503, &json!("outbox_full")));
            }
        }
        let after = (staged(world.db()).await.len(), world.rows("albums").await);
        assert_eq!(after, before, "{}", world.name());
        let read = world.get(&anonymous(), album.header("location")).await;
        assert_eq!(read.data()["title"], "a", "{}", world.name());
    }
}

#[tokio::test]
async fn upserts_and_batches_over_several_entities_stage_each_write_once() {
    for world in worlds().await {
        let operations = json!({"operations": [
            {"op": "create", "entity": "albums", "data": {"title": "One"}, "as": "a"},
            {"op": "create", "entity": "photos", "data": {"album": {"$ref": "a"}}},
            {"op": "upsert", "entity": "albums", "on": ["title"], "data": {"title": "One"}},
        ]});
        assert_eq!(world.post(&anonymous(), "/_batch", &operations).await.status, StatusCode::OK, "{}", world.name());
        let upsert = "/albums?on_conflict=title";
        assert_eq!(world.post(&anonymous(), upsert, json!({"title": "Two"})).await.status, StatusCode::CREATED);
        assert_eq!(world.post(&anonymous(), upsert, json!({"title": "Two"})).await.status, StatusCode::OK);
        // Nothing of a batch that fails, and nothing of a record that is left as it is.
        assert_eq!(world.post(&anonymous(), "/_batch", &operations).await.status, StatusCode::CONFLICT);
        let ignored = world.post(&anonymous(), &format!("{upsert}&resolution=ignore"), json!({"title": "Two"})).await;
        assert_eq!(ignored.status, StatusCode::OK);
        let kinds: Vec<String> = staged(world.db()).await.into_iter().map(|(kind, _)| kind).collect();
        let expected = ["entity.created", "entity.created", "entity.created", "entity.updated", "entity.updated"];
        assert_eq!(kinds, expected, "{}", world.name());
    }
}
