//! Keys and indexes over several fields.

use std::collections::BTreeMap;
use std::sync::Arc;

use gatewright_base::Ambient;
use gatewright_db::Db;
use gatewright_db::testing::{TestDb, engines};
use gatewright_entities::schema::{self, Changes, SchemaError, Users};
use gatewright_entities::{Declarations, Entities, Entity, Field, Unique};
use http::Method;
use serde_json::{Value, json};

use super::support::{Answer, World, user, worlds};

fn tickets(name: &str) -> Entity {
    Entity::new(name)
        .field(Field::string("slug"))
        .field(Field::string("desk"))
        .field(Field::int("number"))
        .field(Field::decimal("code"))
        .field(Field::string("secret").hidden())
        .field(Field::string("title").unique())
        .soft_delete()
        .unique(["number", "desk"])
        .unique(Unique::of(["slug"]).ignore_case())
        .unique(["code", "secret"])
}

fn errors(answer: &Answer) -> Vec<(String, String)> {
    assert_eq!(answer.status, 409, "{}", answer.text);
    let errors = answer.json()["errors"].as_array().cloned().unwrap_or_default();
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    errors.iter().map(|error| (text(&error["field"]), text(&error["code"]))).collect()
}

fn expected(fields: &[(&str, &str)]) -> Vec<(String, String)> {
    fields.iter().map(|(field, code)| ((*field).to_owned(), (*code).to_owned())).collect()
}

async fn send(world: &World, method: Method, path: &str, body: Value) -> Answer {
    world.ask(&user("ann"), method, path).tenant("acme").json(body).send().await
}

#[tokio::test]
async fn no_two_records_share_the_values_of_a_key() {
    let (taken, unique) = ("taken", "unique");
    for world in worlds([tickets("tickets"), tickets("cases").multi_tenant()]).await {
        world.join("acme", &user("ann")).await;
        world.join("other", &user("ann")).await;
        for path in ["/tickets", "/cases"] {
            let first = json!({ "desk": "a", "number": 1, "slug": "Straße ΣΑΣ", "code": "1.0", "title": "t" });
            let first = send(&world, Method::POST, path, first).await.id();
            let second = send(&world, Method::POST, path, json!({ "desk": "a", "number": 2, "slug": "b" })).await.id();
            let sql = format!("UPDATE {} SET secret = 's' WHERE id = '{first}'", &path[1..]);
            world.db().execute(sql, vec![]).await.unwrap();
            for (body, fields) in [
                (json!({ "desk": "a", "number": 1 }), vec![("desk", taken), ("number", taken)]),
                (json!({ "slug": "sTRASSE σας" }), vec![]),
                (json!({ "slug": "sTRAßE σας" }), vec![("slug", taken)]),
                (
                    json!({ "number": 2, "desk": "a", "slug": "straße σασ", "title": "t" }),
                    vec![("slug", taken), ("desk", taken), ("number", taken), ("title", unique)],
                ),
                // Null differs from null, and a key needs all of its values.
                (json!({ "number": 1 }), vec![]),
                (json!({ "number": 1 }), vec![]),
                (json!({ "number": 1, "desk": "A" }), vec![]),
                (json!({ "code": "1.0" }), vec![]),
            ] {
                let case = format!("{} {path} {body}", world.name());
                let made = send(&world, Method::POST, path, body.clone()).await;
                if fields.is_empty() {
                    assert_eq!(made.status, 201, "{case}: {}", made.text);
                    world
                        .ask(&user("ann"), Method::DELETE, &format!("{path}/{}", made.id()))
                        .tenant("acme")
                        .send()
                        .await;
                    continue;
                }
                assert_eq!(errors(&made), expected(&fields), "{case}");
                let batch = send(&world, Method::POST, &format!("{path}/_batch"), json!({ "items": [body] })).await;
                assert_eq!(
                    batch.json()["results"][0]["error"]["errors"],
                    made.json()["errors"],
                    "{case}: {}",
                    batch.text
                );
            }
            let of_second = format!("{path}/{second}");
            for (body, fields) in [
                // The other value is that of the record.
                (json!({ "number": 1 }), vec![("desk", taken), ("number", taken)]),
                (json!({ "slug": "STRAßE σας", "number": 2 }), vec![("slug", taken)]),
                // Its own values are its own, in any case.
                (json!({ "slug": "B", "number": 2, "desk": "a" }), vec![]),
            ] {
                let changed = send(&world, Method::PATCH, &of_second, body.clone()).await;
                if fields.is_empty() {
                    assert_eq!(changed.status, 200, "{}", changed.text);
                } else {
                    assert_eq!(errors(&changed), expected(&fields), "{} {body}", world.name());
                }
            }
            // After a change the old text is free and the new one is not.
            assert_eq!(send(&world, Method::PATCH, &of_second, json!({ "slug": "Ж" })).await.status, 200);
            let free = send(&world, Method::POST, path, json!({ "slug": "b" })).await;
            assert_eq!(free.status, 201, "{}", free.text);
            assert_eq!(
                errors(&send(&world, Method::POST, path, json!({ "slug": "ж" })).await),
                expected(&[("slug", taken)])
            );
            // What is in the trash is free, and not when it comes back.
            world.ask(&user("ann"), Method::DELETE, &of_second).tenant("acme").send().await;
            let again = send(&world, Method::POST, path, json!({ "slug": "ж", "desk": "a", "number": 2 })).await;
            assert_eq!(again.status, 201, "{}", again.text);
            let restored = send(&world, Method::POST, &format!("{of_second}/_restore"), json!({})).await;
            assert_eq!(errors(&restored), expected(&[("slug", taken), ("desk", taken), ("number", taken)]));
            let elsewhere = world.ask(&user("ann"), Method::POST, path).tenant("other");
            let elsewhere = elsewhere.json(json!({ "slug": "ж", "desk": "a", "number": 2 })).send().await;
            assert_eq!(elsewhere.status, if path == "/cases" { 201 } else { 409 }, "{}", elsewhere.text);
        }
        // A refusal names no hidden field, and nothing where all of the key is hidden.
        let sql = "UPDATE tickets SET secret = 's', code = NULL WHERE slug = 'ж' OR slug = 'b'";
        world.db().execute(sql, vec![]).await.unwrap();
        let id = world.get(&user("ann"), "/tickets?filter=slug%20%3D%20%27b%27").await.data()[0]["id"].clone();
        let refused =
            send(&world, Method::PATCH, &format!("/tickets/{}", id.as_str().unwrap()), json!({ "code": 1 })).await;
        assert_eq!(errors(&refused), expected(&[("code", taken)]), "{}", world.name());
    }
}

#[tokio::test]
async fn of_20_callers_with_one_key_one_wins() {
    for world in worlds([tickets("tickets")]).await {
        for body in [json!({ "desk": "d", "number": 7 }), json!({ "slug": "Äpfel" })] {
            let world = &world;
            let creates = (0..20).map(|number| {
                let mut body = body.clone();
                if number % 2 == 1 && body["slug"] != Value::Null {
                    body["slug"] = json!("äPFEL");
                }
                async move { world.post(&user("ann"), "/tickets", &body).await.status.as_u16() }
            });
            let mut counts = BTreeMap::new();
            for status in futures_util::future::join_all(creates).await {
                *counts.entry(status).or_insert(0) += 1;
            }
            assert_eq!(counts, BTreeMap::from([(201, 1), (409, 19)]), "{} {body}", world.name());
        }
    }
}

async fn planned(db: &Db, entity: &Entity) -> Result<Changes, SchemaError> {
    let declared = Declarations::check(std::slice::from_ref(entity)).unwrap();
    schema::plan(db, &declared, &Users::Elsewhere).await
}

async fn started(db: &Db, entity: &Entity) -> Entities {
    let builder = Entities::builder(db.clone(), Ambient::system()).users(Users::Elsewhere);
    builder.declare(entity.clone()).build().await.unwrap()
}

fn pages() -> Entity {
    Entity::new("pages").public().field(Field::string("slug")).field(Field::string("site"))
}

async fn page(entities: &Entities, slug: &str) -> Result<(), gatewright_entities::operations::Error> {
    let body = json!({ "slug": slug, "site": "s" }).to_string();
    let table = entities.tables().next().unwrap();
    table.create(&super::support::anonymous().into(), body.as_bytes()).await.map(drop)
}

#[tokio::test]
async fn a_key_is_added_to_a_table_unless_records_share_values() {
    let after = pages().unique(Unique::of(["site", "slug"]).ignore_case());
    for TestDb { db, name, .. } in &engines().await {
        let before = started(db, &pages()).await;
        for slug in ["One", "oNE", "two", "Ж", "ж", "ж"] {
            page(&before, slug).await.unwrap();
        }
        let SchemaError::Refused(refusals) = planned(db, &after).await.unwrap_err() else { panic!("not refused") };
        assert_eq!(refusals.len(), 1, "{refusals:?}");
        assert!(refusals[0].reason.contains("2 such values"), "{name}: {}", refusals[0].reason);
        let [query] = &*refusals[0].sql else { panic!("{refusals:?}") };
        let shared = db.query(query.clone(), vec![]).await.unwrap();
        assert_eq!(shared.len(), 2, "{name}: the query lists what is shared");
        db.execute("DELETE FROM pages WHERE slug IN ('oNE', 'ж')", vec![]).await.unwrap();
        let after = started(db, &after).await;
        // The records that were there before are compared too.
        assert!(page(&after, "ONE").await.is_err() && page(&after, "ж").await.is_err(), "{name}");
        assert!(page(&after, "three").await.is_ok(), "{name}");
    }
}

#[tokio::test]
async fn a_key_that_goes_is_refused_and_an_index_that_goes_stays() {
    let full = pages().unique(["site", "slug"]).index(["site", "-created_at"]).index(["slug"]);
    for TestDb { db, name, .. } in &engines().await {
        let _entities = started(db, &full).await;
        let settled = planned(db, &full).await.unwrap();
        assert_eq!((settled.statements, settled.notes), (vec![], vec![]), "{name}");
        let without = planned(db, &pages().unique(["site", "slug"])).await.unwrap();
        assert_eq!(without.statements, Vec::<String>::new(), "{name}");
        let kept: Vec<bool> = ["pages.site.-created_at.ordered", "pages.slug.ordered"]
            .map(|index| without.notes.iter().any(|note| note.contains(&format!("keeps its index \"{index}\""))))
            .into();
        assert_eq!(kept, [true, true], "{name}: {:?}", without.notes);
        let refused = planned(db, &pages()).await.unwrap_err().to_string();
        assert!(refused.contains("the fields site, slug together are no longer unique"), "{name}: {refused}");
        assert!(refused.contains("DROP INDEX \"pages.site.slug.unique\""), "{name}: {refused}");
        // Another direction is another index.
        let turned = planned(db, &pages().unique(["site", "slug"]).index(["-site", "created_at"])).await.unwrap();
        assert_eq!(
            turned.statements,
            ["CREATE INDEX \"pages.-site.created_at.ordered\" ON \"pages\" (\"site\" DESC, \"created_at\", \"id\")"],
            "{name}"
        );
    }
}

#[tokio::test]
async fn a_renamed_field_keeps_its_key() {
    let before = pages().unique(Unique::of(["slug"]).ignore_case()).unique(["site", "slug"]);
    let after = Entity::new("sheets")
        .renamed_from("pages")
        .public()
        .field(Field::string("name").renamed_from("slug"))
        .field(Field::string("site"))
        .unique(Unique::of(["name"]).ignore_case())
        .unique(["site", "name"]);
    for TestDb { db, name, .. } in &engines().await {
        page(&started(db, &before).await, "One").await.unwrap();
        let entities = Arc::new(started(db, &after).await);
        let again = entities.tables().next().unwrap();
        let taken = again.create(&super::support::anonymous().into(), br#"{"name":"oNE"}"#.as_slice()).await;
        assert!(taken.is_err(), "{name}");
        let settled = planned(db, &after).await.unwrap();
        assert_eq!((settled.statements, settled.notes), (vec![], vec![]), "{name}");
    }
}

#[test]
fn mistakes_in_keys_and_indexes_are_named() {
    let with = |entity: Entity| {
        let entity = entity.field(Field::json("doc")).field(Field::int("n")).field(Field::string("tenant_id"));
        Declarations::check(&[entity]).unwrap_err().to_string()
    };
    for (entity, message) in [
        (pages().unique(Vec::new()), "an entry of unique names 1 to 8 fields"),
        (pages().unique(["slgu"]), "unique: there is no field \"slgu\"; did you mean \"slug\"?"),
        (pages().unique(["slug", "slug"]), "an entry of unique names \"slug\" twice"),
        (pages().unique(["slug"]).unique(["slug"]), "unique names slug twice"),
        (pages().unique(["doc"]), "\"doc\" is JSON and has no order"),
        (pages().unique(["created_at"]), "there is no field \"created_at\""),
        (pages().unique(["tenant_id", "slug"]), "\"tenant_id\" is part of every key by itself"),
        (pages().unique(Unique::of(["n"]).ignore_case()), "ignore_case has no meaning for a key without a text"),
        (pages().field(Field::int("m").unique()).unique(["m"]), "\"m\" is unique already"),
        (pages().index(["slug", "id"]), "the id follows the columns of every index"),
        (pages().index(["-doc"]), "\"doc\" is JSON and has no order"),
        (pages().index(["--slug"]), "index: there is no field \"-slug\""),
    ] {
        let found = with(entity);
        assert!(found.contains(message), "{message:?} is not in {found:?}");
    }
}

#[tokio::test]
async fn an_upsert_by_a_key_finds_the_record_in_any_case() {
    let tickets = Entity::new("tickets")
        .field(Field::string("desk"))
        .field(Field::string("slug"))
        .field(Field::int("votes").default(0))
        .field(Field::int("number").sequence(["desk"]))
        .unique(Unique::of(["desk", "slug"]).ignore_case());
    for world in worlds([tickets]).await {
        let upsert = async |body: Value| world.post(&user("ann"), "/tickets?on_conflict=slug,desk", body).await;
        let first = upsert(json!({ "desk": "A", "slug": "ÄPFEL", "votes": { "$add": 2 } })).await;
        assert_eq!((first.status.as_u16(), &first.data()["votes"]), (201, &json!(2)), "{}", first.text);
        let second = upsert(json!({ "desk": "A", "slug": "äpfel", "votes": { "$add": 3 } })).await;
        assert_eq!((second.status.as_u16(), &second.data()["votes"]), (200, &json!(5)), "{}", second.text);
        assert_eq!((second.id(), &second.data()["slug"]), (first.id(), &json!("äpfel")));
        let other = upsert(json!({ "desk": "a", "slug": "ÄPFEL" })).await;
        assert_eq!((other.status.as_u16(), other.id() == first.id()), (200, true), "{}: {}", world.name(), other.text);
        // The change moved the record into another scope, where it is the first.
        let next = upsert(json!({ "desk": "a", "slug": "birne" })).await;
        assert_eq!((next.status.as_u16(), &next.data()["number"]), (201, &json!(2)), "{}: {}", world.name(), next.text);
        let incomplete = upsert(json!({ "desk": "a" })).await;
        assert_eq!(incomplete.status, 422, "{}", incomplete.text);
        let unknown = world.post(&user("ann"), "/tickets?on_conflict=slug", json!({ "slug": "x" })).await;
        assert_eq!(unknown.status, 400, "{}", unknown.text);
        let none = upsert(json!({ "desk": "a", "slug": null })).await;
        assert_eq!(none.status, 201, "null differs from null: {}", none.text);
    }
}
