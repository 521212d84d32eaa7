//! Hooks in the write's own transaction.

use async_trait::async_trait;
use gatewright_db::{Tx, params};
use gatewright_entities::hooks::{Change, ChangeHook};
use gatewright_entities::operations::Error;
use gatewright_entities::{Entity, Field, OnDelete};
use serde_json::json;

use super::support::{World, anonymous, worlds_with};

/// Writes a line for every change, and refuses titles that say so.
struct Ledger;

#[async_trait]
impl ChangeHook for Ledger {
    async fn written(&self, tx: &Tx, change: &Change) -> Result<(), Error> {
        let record = String::from_utf8(change.record.json().to_vec()).unwrap();
        let line = format!("{} {}", change.kind, change.plan.name());
        tx.execute("INSERT INTO ledger (line) VALUES (?1)", params![line]).await?;
        if record.contains("refuse me") {
            return Err(Error::Rejected("not today".to_owned()));
        }
        Ok(())
    }
}

fn entities() -> [Entity; 2] {
    [
        Entity::new("albums").public().field(Field::string("title").unique()),
        Entity::new("photos").public().field(Field::relation("album", "albums").on_delete(OnDelete::Cascade)),
    ]
}

async fn worlds() -> Vec<World> {
    let worlds = worlds_with(entities(), |builder| builder.change_hook(Ledger)).await;
    for world in &worlds {
        world.db().execute("CREATE TABLE ledger (line TEXT)", vec![]).await.unwrap();
    }
    worlds
}

async fn lines(world: &World) -> Vec<String> {
    let rows = world.db().query("SELECT line FROM ledger ORDER BY line", vec![]).await.unwrap();
    rows.iter().map(|row| row.get("line").unwrap()).collect()
}

#[tokio::test]
async fn every_write_carries_its_hooks_in_its_transaction() {
    for mut world in worlds().await {
        let album = world.post(&anonymous(), "/albums", json!({"title": "a"})).await;
        world.patch(&anonymous(), album.header("location"), json!({"title": "b"})).await.data();
        world.post(&anonymous(), "/photos", json!({"album": album.id()})).await.data();
        assert_eq!(world.delete(&anonymous(), album.header("location")).await.status, 204);
        assert_eq!(
            lines(&world).await,
            [
                "entity.created albums",
                "entity.created photos",
                "entity.deleted albums",
                "entity.deleted photos",
                "entity.updated albums",
            ]
        );
        for expected in ["entity.created", "entity.updated", "entity.created", "entity.deleted", "entity.deleted"] {
            assert_eq!(world.event().await.0, expected);
        }
        world.no_more_events().await;
    }
}

#[tokio::test]
async fn a_hook_that_refuses_leaves_no_row_line_or_event() {
    for mut world in worlds().await {
        let album = world.post(&anonymous(), "/albums", json!({"title": "a"})).await;
        world.event().await;
        let before = lines(&world).await;
        for refused in [
            world.post(&anonymous(), "/albums", json!({"title": "refuse me"})).await,
            world.patch(&anonymous(), album.header("location"), json!({"title": "refuse me"})).await,
        ] {
            refused.is_refused(422, "not today");
        }
        let taken = world.post(&anonymous(), "/albums", json!({"title": "a"})).await;
        assert_eq!((taken.status.as_u16(), &*taken.faults()["title"]), (409, "unique"));
        assert_eq!(lines(&world).await, before);
        assert_eq!(world.rows("albums").await, 1);
        assert_eq!(world.get(&anonymous(), album.header("location")).await.data(), album.data());
        world.no_more_events().await;
    }
}
