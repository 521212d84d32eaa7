//! Batches of an entity with hooks: the hooks run for each item in order, in one transaction.

use async_trait::async_trait;
use gatewright_base::Ambient;
use gatewright_db::testing::engines;
use gatewright_db::{Tx, params};
use gatewright_entities::hooks::{Change, ChangeHook, EntityHooks, Values, Writing};
use gatewright_entities::operations::Error;
use gatewright_entities::schema::Users;
use gatewright_entities::{Entities, Entity, Field, Record};
use gatewright_events::Bus;
use gatewright_events::outbox::{Outbox, OutboxOptions};
use gatewright_http::Problem;
use http::Method;
use serde_json::{Value, json};

use super::support::{Answer, World, anonymous, event_receiver};

/// Records where it is called and how many posts the transaction sees, and refuses records that say so.
struct Desk;

/// Writes a line for every change, as an audit log would, and refuses records that say so.
struct Ledger;

async fn note(tx: &Tx, place: &str, title: &str) -> Result<(), Error> {
    let seen: i64 = tx.query_opt("SELECT COUNT(*) AS n FROM posts", vec![]).await?.map_or(Ok(0), |row| row.get("n"))?;
    let line = format!("{place} {title} of {seen}");
    tx.execute("INSERT INTO ledger (line) VALUES (?1)", params![line]).await?;
    match title.strip_suffix(place) {
        Some("refuse ") => Err(Problem::forbidden("not at this desk").into()),
        Some("reject ") => Err(Error::Rejected("not today".to_owned())),
        Some("fail ") => Err(Error::hook("canary-77")),
        _ => Ok(()),
    }
}

fn title(record: &Record) -> String {
    let record: Value = serde_json::from_slice(record.json()).unwrap();
    record["title"].as_str().unwrap_or_default().to_owned()
}

fn given(values: &Values) -> String {
    values.get("title").and_then(|title| title.as_str().map(str::to_owned)).unwrap_or_default()
}

#[async_trait]
impl EntityHooks for Desk {
    async fn before_create(&self, writing: Writing<'_>, values: &mut Values) -> Result<(), Error> {
        let title = given(values);
        note(writing.tx, "before create", &title).await?;
        if title == "too long" {
            values.set("slug", "x".repeat(21))
        } else {
            values.set("slug", title.len().to_string())
        }
    }

    async fn after_create(&self, writing: Writing<'_>, record: &Record) -> Result<(), Error> {
        note(writing.tx, "after create", &title(record)).await
    }

    async fn before_update(&self, writing: Writing<'_>, _: &Record, values: &mut Values) -> Result<(), Error> {
        note(writing.tx, "before update", &given(values)).await
    }

    async fn after_update(&self, writing: Writing<'_>, record: &Record) -> Result<(), Error> {
        note(writing.tx, "after update", &title(record)).await
    }

    async fn before_delete(&self, writing: Writing<'_>, record: &Record) -> Result<(), Error> {
        note(writing.tx, "before delete", &title(record)).await
    }

    async fn after_delete(&self, writing: Writing<'_>, record: &Record) -> Result<(), Error> {
        note(writing.tx, "after delete", &title(record)).await
    }
}

#[async_trait]
impl ChangeHook for Ledger {
    async fn written(&self, tx: &Tx, change: &Change) -> Result<(), Error> {
        note(tx, change.kind.as_str(), &title(&change.record)).await
    }
}

/// Posts with hooks, a ledger, an outbox and a bus, on every engine.
async fn worlds() -> Vec<World> {
    let posts =
        Entity::new("posts").public().field(Field::string("title").unique()).field(Field::string("slug").max(20));
    let mut worlds = Vec::new();
    for test_db in engines().await {
        test_db.db.execute("CREATE TABLE ledger (line TEXT)", vec![]).await.unwrap();
        let (ambient, clock) = Ambient::manual("2026-01-02T03:04:05.000006Z".parse().unwrap(), 7);
        let outbox = Outbox::open(test_db.db.clone(), ambient.clone(), OutboxOptions::default()).await.unwrap();
        let bus = Bus::new(&ambient);
        let entities = Entities::builder(test_db.db.clone(), ambient)
            .users(Users::Elsewhere)
            .bus(bus.clone())
            .outbox(outbox)
            .change_hook(Ledger)
            .entity_hooks("posts", Desk)
            .declare(posts.clone());
        let (entities, events) = (entities.build().await.unwrap(), event_receiver(&bus));
        worlds.push(World { router: entities.router(), entities, bus, events, clock, test_db });
    }
    worlds
}

async fn batch(world: &World, method: &Method, body: &Value) -> Answer {
    world.ask(&anonymous(), method.clone(), "/posts/_batch").json(body).send().await
}

async fn lines(world: &World) -> Vec<String> {
    let rows = world.db().query("SELECT line FROM ledger", vec![]).await.unwrap();
    rows.iter().map(|row| row.get("line").unwrap()).collect()
}

fn ids(answer: &Answer) -> Vec<String> {
    let results = answer.json()["results"].as_array().unwrap_or_else(|| panic!("{}", answer.text)).clone();
    results.iter().map(|result| result["data"]["id"].as_str().unwrap().to_owned()).collect()
}

#[tokio::test]
async fn hooks_run_for_each_item_in_its_turn_inside_the_one_transaction() {
    for mut world in worlds().await {
        let made = batch(&world, &Method::POST, &json!({"items": [{"title": "a"}, {"title": "bb"}]})).await;
        let ids = ids(&made);
        assert_eq!(made.json()["results"][1]["data"]["slug"], "2", "what a hook sets is in the answer");
        let changes = json!({"items": [{"id": ids[1], "title": "c"}, {"id": ids[0], "title": "d"}]});
        assert_eq!(batch(&world, &Method::PATCH, &changes).await.status, 200);
        assert_eq!(batch(&world, &Method::DELETE, &json!({"ids": [ids[0], ids[1]]})).await.status, 200);
        let expected = [
            "before create a of 0",
            "after create a of 1",
            "entity.created a of 1",
            "before create bb of 1",
            "after create bb of 2",
            "entity.created bb of 2",
            "before update c of 2",
            "after update c of 2",
            "entity.updated c of 2",
            "before update d of 2",
            "after update d of 2",
            "entity.updated d of 2",
            "before delete d of 2",
            "after delete d of 1",
            "entity.deleted d of 1",
            "before delete c of 1",
            "after delete c of 0",
            "entity.deleted c of 0",
        ];
        assert_eq!(lines(&world).await, expected, "{}", world.name());
        assert_eq!(world.rows("event_outbox").await, 6);
        for (kind, title) in [
            ("created", "a"),
            ("created", "bb"),
            ("updated", "c"),
            ("updated", "d"),
            ("deleted", "d"),
            ("deleted", "c"),
        ] {
            let (told, _, record) = world.event().await;
            assert_eq!((told, &record["title"]), (format!("entity.{kind}"), &json!(title)));
        }
        world.no_more_events().await;
    }
}

#[tokio::test]
async fn an_error_of_any_hook_rolls_back_the_whole_batch() {
    for mut world in worlds().await {
        // Records with titles that the deletion hooks refuse exist beforehand.
        let at_deletion = ["refuse before delete", "reject after delete", "refuse entity.deleted"];
        let items: Vec<Value> = ["stays"].iter().chain(&at_deletion).map(|title| json!({"title": title})).collect();
        let there = ids(&batch(&world, &Method::POST, &json!({"items": items})).await);
        for _ in 0..there.len() {
            world.event().await;
        }
        let state = async |world: &World| {
            let list = world.get(&anonymous(), "/posts").await.data();
            (list, lines(world).await, world.rows("event_outbox").await)
        };
        let before = state(&world).await;
        let mut cases = Vec::new();
        for (title, status) in [
            ("refuse before create", 403),
            ("reject after create", 422),
            ("fail after create", 500),
            ("fail entity.created", 500),
            ("too long", 422),
        ] {
            let items = json!({"items": [{"title": "first"}, {"title": title}, {"title": "third"}]});
            cases.push((Method::POST, items, status));
        }
        for (title, status) in
            [("refuse before update", 403), ("reject after update", 422), ("fail entity.updated", 500)]
        {
            let first = json!({"id": there[1], "title": "first"});
            let items = json!({"items": [first, {"id": there[0], "title": title}, {"id": there[2], "title": "third"}]});
            cases.push((Method::PATCH, items, status));
        }
        for (place, status) in [403, 422, 403].into_iter().enumerate() {
            cases.push((Method::DELETE, json!({"ids": [there[0], there[place + 1], "never tried"]}), status));
        }
        for (method, body, status) in cases {
            let answer = batch(&world, &method, &body).await;
            assert_eq!(answer.status, status, "{} {body}: {}", world.name(), answer.text);
            assert!(!answer.text.contains("canary"), "{}", answer.text);
            let results = answer.json()["results"].clone();
            assert_eq!(answer.json()["committed"], false);
            assert_eq!(results[0], json!({"index": 0, "rolledBack": true}), "{body}");
            assert_eq!((&results[1]["index"], &results[1]["error"]["status"]), (&json!(1), &json!(status)), "{body}");
            assert_eq!(results[2], json!({"index": 2, "skipped": true}), "{body}");
            assert_eq!(state(&world).await, before, "{} {body}", world.name());
        }
        world.no_more_events().await;
    }
}
