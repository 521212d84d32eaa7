//! Callers take turns at the writer.

use async_trait::async_trait;
use gatewright_base::Identity;
use gatewright_db::{Error as DatabaseError, Tx};
use gatewright_entities::hooks::{Change, ChangeHook};
use gatewright_entities::operations::{Call, Error};
use gatewright_entities::{Action, Entities, Entity, Field};

use super::support::{user, worlds_with};

/// Takes some milliseconds of the transaction, if the record says so.
struct Slow;

#[async_trait]
impl ChangeHook for Slow {
    async fn written(&self, tx: &Tx, change: &Change) -> Result<(), Error> {
        if change.record.json().windows(4).any(|word| word == b"slow") {
            let many =
                "WITH RECURSIVE n (x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n WHERE x < 50000) SELECT x FROM n";
            tx.query(many, vec![]).await?;
        }
        Ok(())
    }
}

/// Ways to write for a long time.
#[derive(Debug, Clone, Copy)]
enum Way {
    Create,
    Batch,
    Update,
    Delete,
    Restore,
}

const WAYS: [Way; 5] = [Way::Create, Way::Batch, Way::Update, Way::Delete, Way::Restore];

async fn write(entities: Entities, caller: Identity, way: Way, id: String) -> Result<(), Error> {
    let (table, call) = (entities.table("notes").unwrap(), Call::from(caller));
    match way {
        Way::Create => table.create(&call, r#"{"title":"slow"}"#.as_bytes()).await.map(|_| ()),
        Way::Batch => {
            table.batch(&call, Action::Create, r#"{"items":[{"title":"slow"}]}"#.as_bytes()).await.map(|_| ())
        }
        Way::Update => table.update(&call, &id, r#"{"title":"slow too"}"#.as_bytes(), None).await.map(|_| ()),
        Way::Delete => table.delete(&call, &id, None).await.map(|_| ()),
        Way::Restore => {
            table.restore(&call, &id).await?;
            Ok(())
        }
    }
}

#[tokio::test]
async fn slow_writes_of_one_account_do_not_delay_another_account() {
    const WRITES: usize = 16;
    let notes = Entity::new("notes").owner("user_id").soft_delete().field(Field::string("title"));
    for world in worlds_with([notes], |builder| builder.change_hook(Slow)).await {
        let (entities, ann, bob) = (&world.entities, user("ann"), user("bob"));
        for way in WAYS {
            let mut slow = Vec::new();
            for _ in 0..WRITES {
                let (table, call) = (entities.table("notes").unwrap(), Call::from(ann.clone()));
                let note = table.create(&call, r#"{"title":"slow"}"#.as_bytes()).await.unwrap();
                if let Way::Restore = way {
                    table.delete(&call, note.id(), None).await.unwrap();
                }
                slow.push(note.id().to_owned());
            }
            let slow = slow.into_iter().map(|id| tokio::spawn(write(entities.clone(), ann.clone(), way, id)));
            let slow: Vec<_> = slow.collect();
            // All of them are running or queued.
            for _ in 0..3 {
                tokio::task::yield_now().await;
            }
            let table = entities.table("notes").unwrap();
            table.create(&Call::from(bob.clone()), r#"{"title":"quick"}"#.as_bytes()).await.unwrap();
            let ended = slow.iter().filter(|write| write.is_finished()).count();
            assert!(ended < WRITES / 2, "{}: {way:?}: {ended} of {WRITES} went before", world.name());
            for write in slow {
                // A caller who waits too long for their own writes gets an error.
                let ended = write.await.unwrap();
                assert!(matches!(ended, Ok(()) | Err(Error::Database(DatabaseError::Busy))), "{ended:?}");
            }
        }
    }
}
