//! Numbers that the server gives.

use gatewright_base::Ambient;
use gatewright_db::testing::{TestDb, engines};
use gatewright_entities::schema::{self, Users};
use gatewright_entities::{Declarations, Entities, Entity, Field, Unique};
use http::Method;
use serde_json::{Value, json};

use super::support::{World, anonymous, logged, user, worlds};

fn tickets(name: &str) -> Entity {
    Entity::new(name)
        .field(Field::string("desk"))
        .field(Field::boolean("urgent"))
        .field(Field::int("number").sequence(["desk", "urgent"]))
        .field(Field::int("all").sequence(Vec::<String>::new()))
        .field(Field::string("title").unique())
        .soft_delete()
        .unique(["desk", "urgent", "number"])
}

async fn make(world: &World, path: &str, body: Value) -> Value {
    world.ask(&user("ann"), Method::POST, path).tenant("acme").json(body).send().await.data()
}

#[tokio::test]
async fn records_are_numbered_within_their_scope_and_clients_set_no_number() {
    for world in worlds([tickets("tickets"), tickets("cases").multi_tenant()]).await {
        world.join("acme", &user("ann")).await;
        world.join("other", &user("ann")).await;
        for path in ["/tickets", "/cases"] {
            let name = world.name();
            for (body, number, all) in [
                (json!({ "desk": "a", "urgent": true }), 1, 1),
                (json!({ "desk": "a", "urgent": false }), 1, 2),
                (json!({ "desk": "a", "urgent": true, "number": 77, "all": 5 }), 2, 3),
                (json!({ "desk": "b\"é\n", "urgent": true }), 1, 4),
                // An absent value is a value of its own.
                (json!({ "desk": "a" }), 1, 5),
                (json!({}), 1, 6),
                (json!({ "desk": "a" }), 2, 7),
                (json!({ "desk": "b\"é\n", "urgent": true }), 2, 8),
            ] {
                let made = make(&world, path, body.clone()).await;
                assert_eq!((&made["number"], &made["all"]), (&json!(number), &json!(all)), "{name} {path} {body}");
            }
            // A number is never given twice, also after a deletion; a refused create uses none up on SQLite.
            let last = make(&world, path, json!({ "desk": "c", "title": "one" })).await;
            let gone = format!("{path}/{}", last["id"].as_str().unwrap());
            world.ask(&user("ann"), Method::DELETE, &gone).tenant("acme").send().await;
            world.db().execute(format!("DELETE FROM {} WHERE desk = 'c'", &path[1..]), vec![]).await.unwrap();
            let next = make(&world, path, json!({ "desk": "c", "title": "two" })).await;
            assert_eq!(next["number"], 2, "{name}");
            let body = json!({ "desk": "c", "title": "two" });
            let refused = world.ask(&user("ann"), Method::POST, path).tenant("acme").json(body).send().await;
            assert_eq!(refused.status, 409, "{}", refused.text);
            let after = make(&world, path, json!({ "desk": "c" })).await["number"].as_i64().unwrap();
            assert!(after == 3 || after == 4 && name != "sqlite", "{name}: {after}");
            // Another scope gives another number, and the same one keeps it.
            let of_next = format!("{path}/{}", next["id"].as_str().unwrap());
            for (body, number) in [
                (json!({ "title": "three", "desk": "c", "number": 9 }), 2),
                (json!({ "desk": "a" }), 3),
                (json!({ "desk": "a", "urgent": true }), 3),
                (json!({ "desk": "new" }), 1),
            ] {
                let changed = world.ask(&user("ann"), Method::PATCH, &of_next).tenant("acme").json(&body).send().await;
                assert_eq!(changed.data()["number"], number, "{name} {path} {body}");
            }
            // In a batch, one after the other.
            let items = json!({ "items": [{ "desk": "x" }, { "desk": "x" }, { "desk": "x" }] });
            let batch = world.ask(&user("ann"), Method::POST, &format!("{path}/_batch")).tenant("acme").json(items);
            let numbers: Vec<Value> = batch.send().await.json()["results"]
                .as_array()
                .unwrap()
                .iter()
                .map(|result| result["data"]["number"].clone())
                .collect();
            assert_eq!(numbers, [1, 2, 3], "{name}");
            let other = world.ask(&user("ann"), Method::POST, path).tenant("other").json(json!({ "desk": "x" }));
            assert_eq!(other.send().await.data()["number"], if path == "/cases" { 1 } else { 4 }, "{name} {path}");
        }
    }
}

#[tokio::test]
async fn twenty_callers_get_twenty_numbers() {
    for world in worlds([tickets("tickets")]).await {
        let creates = (0..20).map(|_| make(&world, "/tickets", json!({ "desk": "d", "urgent": true })));
        let made = futures_util::future::join_all(creates).await;
        for field in ["number", "all"] {
            let mut numbers: Vec<i64> = made.iter().map(|record| record[field].as_i64().unwrap()).collect();
            numbers.sort_unstable();
            assert_eq!(numbers, (1..=20).collect::<Vec<_>>(), "{} {field}", world.name());
        }
    }
}

#[tokio::test]
async fn a_sequence_that_comes_later_numbers_the_records_in_the_order_of_their_ids() {
    let before = Entity::new("pages").public().field(Field::string("site")).field(Field::boolean("draft"));
    let after = before.clone().field(Field::int("n").sequence(["site", "draft"]));
    let renamed = Entity::new("sheets")
        .renamed_from("pages")
        .public()
        .field(Field::string("place").renamed_from("site"))
        .field(Field::boolean("draft"))
        .field(Field::int("number").renamed_from("n").sequence(["place", "draft"]))
        .unique(Unique::of(["place", "draft", "number"]).ignore_case());
    for TestDb { db, name, .. } in &engines().await {
        let start = async |entity: &Entity| {
            let builder = Entities::builder(db.clone(), Ambient::system()).users(Users::Elsewhere);
            builder.declare(entity.clone()).build().await.unwrap()
        };
        let make = async |entities: &Entities, body: Value| {
            let table = entities.tables().next().unwrap();
            let made = table.create(&anonymous().into(), body.to_string().as_bytes()).await.unwrap();
            serde_json::from_slice::<Value>(made.json()).unwrap()
        };
        let planned = async |entity: &Entity| {
            let declared = Declarations::check(std::slice::from_ref(entity)).unwrap();
            schema::plan(db, &declared, &Users::Elsewhere).await.unwrap()
        };
        let old = start(&before).await;
        for body in [json!({ "site": "a" }), json!({ "site": "b", "draft": true }), json!({ "site": "a" }), json!({})] {
            make(&old, body).await;
        }
        let plan = planned(&after).await;
        assert!(
            plan.notes.iter().any(|note| note.contains("numbered in the order of their ids")),
            "{name}: {:?}",
            plan.notes
        );
        let entities = start(&after).await;
        let numbers = db.query("SELECT n FROM pages ORDER BY id", vec![]).await.unwrap();
        let numbers: Vec<i64> = numbers.iter().map(|row| row.get("n").unwrap()).collect();
        assert_eq!(numbers, [1, 1, 2, 1], "{name}");
        assert_eq!(make(&entities, json!({ "site": "a" })).await["n"], 3, "{name}");
        assert_eq!(make(&entities, json!({ "site": "b", "draft": true })).await["n"], 2, "{name}");
        assert_eq!(make(&entities, json!({ "site": "b" })).await["n"], 1, "{name}");
        let settled = planned(&after).await;
        assert_eq!((settled.statements, settled.notes), (vec![], vec![]), "{name}");
        // A new name continues.
        let entities = start(&renamed).await;
        assert_eq!(make(&entities, json!({ "place": "a" })).await["number"], 4, "{name}");
        let settled = planned(&renamed).await;
        assert_eq!((settled.statements, settled.notes), (vec![], vec![]), "{name}");
    }
}

#[test]
fn mistakes_in_sequences_are_named() {
    for (field, message) in [
        (Field::string("n").sequence(["a"]), "sequence has no meaning for the type string"),
        (Field::int("n").sequence(["b"]), "there is no field \"b\""),
        (Field::int("n").sequence(["n"]), "a sequence does not count within itself"),
        (Field::int("n").sequence(["a", "a"]), "sequence names \"a\" twice"),
        (Field::int("n").sequence(["price"]), "\"price\" is of the type decimal, within which nothing is counted"),
        (Field::int("n").sequence(["a"]).default(1), "the server numbers this field"),
        (Field::int("n").sequence(["a"]).required(), "a numbered field need not be required"),
    ] {
        let entity = Entity::new("posts").field(Field::string("a")).field(Field::decimal("price")).field(field);
        let found = Declarations::check(&[entity]).unwrap_err().to_string();
        assert!(found.contains(message), "{message:?} is not in {found:?}");
    }
}

/// With an event log, a create, its number and its event are one statement on Postgres.
#[tokio::test]
async fn the_log_has_the_record_with_its_number() {
    let tickets = Entity::new("tickets")
        .public()
        .field(Field::string("before"))
        .field(Field::int("number").sequence(["urgent", "desk", "due"]))
        .field(Field::boolean("urgent"))
        .field(Field::string("desk"))
        .field(Field::date("due"))
        .field(Field::int("after"))
        .unique(Unique::of(["before", "number"]).ignore_case());
    let secret = Entity::new("secrets").public().field(Field::int("number").sequence(Vec::<String>::new()).hidden());
    for test_db in engines().await {
        let (mut world, following) = logged(test_db, [tickets.clone(), secret.clone()]).await;
        let texts = ["1111111111111111111", "\"number\":2222222222222222222", "é\\", "", "{\"number\":1}"];
        for (index, text) in texts.iter().enumerate() {
            let body = json!({ "before": text, "urgent": true, "desk": "a'\"é", "due": "2026-01-02", "after": index });
            let made = world.post(&anonymous(), "/tickets", body).await.data();
            assert_eq!((&made["number"], &made["before"]), (&json!(index + 1), &json!(text)), "{}", world.name());
            let (kind, _, told) = world.event().await;
            assert_eq!((&*kind, &told), ("entity.created", &made));
            let row = world.db().query("SELECT record FROM event_log ORDER BY position DESC LIMIT 1", vec![]).await;
            let logged: Value = serde_json::from_str(&row.unwrap()[0].get::<String>("record").unwrap()).unwrap();
            assert_eq!(logged, made, "{}", world.name());
            let path = format!("/tickets/{}", made["id"].as_str().unwrap());
            assert_eq!(world.get(&anonymous(), &path).await.data(), made);
        }
        let absent = world.post(&anonymous(), "/tickets", json!({ "urgent": true })).await.data();
        assert_eq!(absent["number"], 1, "{}", world.name());
        assert!(world.post(&anonymous(), "/secrets", json!({})).await.data().get("number").is_none());
        // A value that is taken; the refused create logs nothing.
        world.db().execute("UPDATE tickets SET number = 6 WHERE \"after\" = 0", vec![]).await.unwrap();
        let body = json!({ "before": texts[0], "urgent": true, "desk": "a'\"é", "due": "2026-01-02" });
        let refused = world.post(&anonymous(), "/tickets", body).await;
        assert_eq!((refused.status.as_u16(), refused.faults()["number"].as_str()), (409, "taken"), "{}", refused.text);
        assert_eq!(world.rows("event_log").await, 7, "{}", world.name());
        drop(following);
    }
}
