//! Callers take turns at the writer and, on Postgres, at the connections for single reads.

use async_trait::async_trait;
use gatewright_base::Identity;
use gatewright_db::testing::engines;
use gatewright_db::{Engine, Error as DatabaseError, Tx, params};
use gatewright_entities::hooks::{Change, ChangeHook};
use gatewright_entities::operations::{Call, Error};
use gatewright_entities::{Action, Entities, Entity, Field, RecordQuery};

use super::support::{World, logged, user, worlds, worlds_with};

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

/// Ann reads one record many times at once, as a record or in a view. Ben reads another one, and at most half of hers go before his.
async fn many_reads_of_one_record(world: &World, table: &'static str, id: &str) {
    const READS: usize = 64;
    let (ann, ben) = (Call::from(user("ann")), Call::from(user("ben")));
    let others = world.entities.table("posts").unwrap();
    let small = others.create(&ben, r#"{"title":"small"}"#.as_bytes()).await.unwrap();
    let read = async |entities: &Entities, call: &Call, table: &str, id: &str, number: usize| {
        let table = entities.table(table).unwrap();
        if number.is_multiple_of(2) {
            return table.get(call, id).await.map(|record| record.json().len());
        }
        let query = RecordQuery::new().fields(["id"]);
        table.view(call, id, &query).await.map(|viewed| viewed.json.len())
    };
    let many: Vec<_> = (0..READS)
        .map(|number| {
            let (entities, ann, id) = (world.entities.clone(), ann.clone(), id.to_owned());
            tokio::spawn(async move { read(&entities, &ann, table, &id, number).await })
        })
        .collect();
    // All of them are sent, or wait for their turn.
    tokio::time::sleep(std::time::Duration::from_millis(5)).await;
    for number in 0..4 {
        read(&world.entities, &ben, "posts", small.id(), number).await.unwrap();
    }
    let ended = many.iter().filter(|read| read.is_finished()).count();
    assert!(ended < READS / 2, "{table}: {ended} of {READS} went before");
    for read in many {
        // A caller who waits too long for their own reads gets an error.
        let ended = read.await.unwrap();
        assert!(matches!(ended, Ok(1..) | Err(Error::Database(DatabaseError::Busy))), "{table}: {ended:?}");
    }
}

#[tokio::test]
async fn reads_of_a_large_record_do_not_delay_another_account() {
    let body = Field::text("body").max(2_000_000);
    let posts = Entity::new("posts").field(Field::string("title"));
    for world in worlds([posts, Entity::new("notes").field(body)]).await {
        if world.db().engine() == Engine::Postgres {
            let note = serde_json::json!({"body": "x".repeat(1_350_000)});
            let table = world.entities.table("notes").unwrap();
            let note = table.create(&Call::from(user("ann")), note.to_string().as_bytes()).await.unwrap();
            many_reads_of_one_record(&world, "notes", note.id()).await;
        }
    }
}

#[tokio::test]
async fn reads_under_a_slow_rule_do_not_delay_another_account() {
    let entities = [
        Entity::new("posts").field(Field::string("title")),
        Entity::new("tasks").field(Field::string("title")).rule(Action::Read, "members(task).name ~ 'ann'"),
        Entity::new("members").field(Field::string("name")).field(Field::relation("task", "tasks")),
    ];
    for world in worlds(entities).await {
        if world.db().engine() == Engine::Postgres {
            let table = world.entities.table("tasks").unwrap();
            let task = table.create(&Call::from(user("ann")), r#"{"title":"slow"}"#.as_bytes()).await.unwrap();
            let members = "INSERT INTO members (id, name, task, created_at, updated_at)
                           SELECT 'member' || n, CASE WHEN n = 100000 THEN 'ann' ELSE 'ben' END, ?1, now(), now()
                           FROM generate_series(1, 100000) AS n";
            world.db().execute(members, params![task.id()]).await.unwrap();
            many_reads_of_one_record(&world, "tasks", task.id()).await;
        }
    }
}

#[tokio::test]
async fn a_caller_who_writes_much_per_request_does_not_crowd_out_others() {
    const MANY: usize = 40;
    const FEW: usize = 20;
    for engine in engines().await {
        let notes = Entity::new("notes").field(Field::int("n")).field(Field::text("body").max(4_000_000));
        let (world, _following) = logged(engine, [notes]).await;
        let (ann, bob) = (Call::from(user("ann")), Call::from(user("bob")));
        let table = world.entities.table("notes").unwrap();
        let large = serde_json::json!({ "n": 0, "body": "x".repeat(3_000_000) }).to_string();
        let note = table.create(&ann, large.as_bytes()).await.unwrap();
        table.create(&bob, r#"{"n":0}"#.as_bytes()).await.unwrap();
        let many = (1..=MANY).map(|n| {
            let (entities, ann, id) = (world.entities.clone(), ann.clone(), note.id().to_owned());
            tokio::spawn(async move {
                let table = entities.table("notes").unwrap();
                table.update(&ann, &id, format!(r#"{{"n":{n}}}"#).as_bytes(), None).await.map(|_| ())
            })
        });
        let many: Vec<_> = many.collect();
        for _ in 0..3 {
            tokio::task::yield_now().await;
        }
        for n in 0..FEW {
            table.create(&bob, format!(r#"{{"n":{n}}}"#).as_bytes()).await.unwrap();
        }
        let ended = many.iter().filter(|write| write.is_finished()).count();
        assert!(ended < FEW / 2, "{}: {ended} large writes went before {FEW} small ones", world.name());
        many.iter().for_each(tokio::task::JoinHandle::abort);
    }
}
