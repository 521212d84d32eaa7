//! Values that say how to change what is stored.

use futures_util::future::join_all;
use gatewright_entities::{Action, Entity, Field};
use http::Method;
use serde_json::{Value, json};

use super::support::{anonymous, service, user, worlds};

fn posts() -> Entity {
    Entity::new("posts")
        .public()
        .field(Field::string("title").required())
        .field(Field::int("votes").min(-5).max(100))
        .field(Field::float("score"))
        .field(Field::decimal("price").required().default("0"))
        .field(Field::json("meta"))
        .field(Field::int("fixed").read_only().default(1))
}

#[tokio::test]
async fn a_change_adds_to_numbers() {
    for mut world in worlds([posts()]).await {
        let made = world.post(&anonymous(), "/posts", json!({"title": "a"})).await;
        let path = made.header("location");
        world.event().await;
        let first = json!({"votes": {"$add": 3}, "score": {"$add": 0.5}, "price": {"$add": "0.1"}, "title": "b"});
        for (method, body, expected) in [
            (Method::PATCH, first, json!([3, 0.5, "0.1", "b"])),
            (Method::PUT, json!({"votes": {"$add": -8}, "price": {"$add": "0.2"}}), json!([-5, 0.5, "0.3", "b"])),
            (Method::PATCH, json!({"votes": null}), json!([null, 0.5, "0.3", "b"])),
            (Method::PATCH, json!({"votes": {"$add": 7}}), json!([7, 0.5, "0.3", "b"])),
            // A read-only field stays as it is, whatever is sent for it.
            (Method::PATCH, json!({"fixed": {"$add": 7}, "votes": {"$add": 0}}), json!([7, 0.5, "0.3", "b"])),
        ] {
            let changed = world.ask(&anonymous(), method, path).json(&body).send().await;
            let record = changed.data();
            let found = json!([record["votes"], record["score"], record["price"], record["title"]]);
            assert_eq!(found, expected, "{} {body}", world.name());
            let (kind, _, event) = world.event().await;
            assert_eq!((&*kind, &event), ("entity.updated", &record), "{body}");
        }
        // JSON fields have no operators: the object is their value.
        let meta = world.patch(&anonymous(), path, json!({"meta": {"$add": 1}})).await.data();
        assert_eq!((&meta["meta"], &meta["fixed"]), (&json!({"$add": 1}), &json!(1)));
    }
}

#[tokio::test]
async fn the_value_after_the_change_must_fit() {
    for mut world in worlds([posts()]).await {
        let made = world.post(&anonymous(), "/posts", json!({"title": "a", "votes": 98, "score": 1.5e308})).await;
        let path = made.header("location");
        world.event().await;
        for (body, faults) in [
            (json!({"votes": {"$add": 3}}), json!({"votes": "max"})),
            (json!({"votes": {"$add": -104}}), json!({"votes": "min"})),
            (json!({"votes": {"$add": 3}, "score": {"$add": 1e308}}), json!({"votes": "max", "score": "max"})),
            (json!({"votes": {"$add": 1.5}}), json!({"votes": "type"})),
            (json!({"votes": {"$add": 1, "$append": [1]}}), json!({"votes": "type"})),
            (json!({"votes": {"$append": [1]}}), json!({"votes": "type"})),
            (json!({"votes": {}}), json!({"votes": "type"})),
            (json!({"title": {"$append": ["x"]}}), json!({"title": "type"})),
            (json!({"votes": {"$add": 1}, "title": 7}), json!({"title": "type"})),
        ] {
            let refused = world.patch(&anonymous(), path, &body).await;
            assert_eq!(refused.status, 422, "{} {body}", world.name());
            assert_eq!(json!(refused.faults()), faults, "{} {body}", world.name());
        }
        let created = world.post(&anonymous(), "/posts", json!({"title": "a", "votes": {"$add": 1}})).await;
        assert_eq!(json!(created.faults()), json!({"votes": "type"}), "{}", world.name());
        assert_eq!(world.get(&anonymous(), path).await.data(), made.data());
        world.no_more_events().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn twenty_parallel_additions_add_twenty() {
    let ruled = Entity::new("ruled").field(Field::int("votes")).rule(Action::Update, "votes < 1000");
    for world in worlds([posts(), ruled]).await {
        for (path, caller) in [("/posts", anonymous()), ("/ruled", user("ann"))] {
            let body = if path == "/posts" { json!({"title": "a"}) } else { json!({"votes": 0}) };
            let made = world.post(&caller, path, body).await;
            let record = format!("{path}/{}", made.id());
            let add = async |number: usize| {
                let answer = if number.is_multiple_of(2) {
                    world.patch(&caller, &record, json!({"votes": {"$add": 1}})).await
                } else {
                    let items = json!({"items": [{"id": made.id(), "votes": {"$add": 1}}]});
                    world.ask(&caller, Method::PATCH, &format!("{path}/_batch")).json(items).send().await
                };
                answer.status.as_u16()
            };
            assert_eq!(join_all((0..20).map(add)).await, [200; 20], "{} {path}", world.name());
            assert_eq!(world.get(&caller, &record).await.data()["votes"], 20, "{} {path}", world.name());
        }
    }
}

/// A rule holds before and after the change, with the sum.
#[tokio::test]
async fn a_rule_judges_the_sum_and_a_tag_the_record_before() {
    let ruled = Entity::new("ruled").field(Field::int("votes").default(0)).rule(Action::Update, "votes <= 10");
    for world in worlds([ruled]).await {
        let made = world.post(&user("ann"), "/ruled", "{}").await;
        let path = made.header("location");
        let add = async |more: i64, tag: &str| {
            let ask = world.ask(&user("ann"), Method::PATCH, path).json(json!({"votes": {"$add": more}}));
            ask.header("if-match", tag).send().await
        };
        let changed = add(10, made.header("etag")).await;
        assert_eq!(changed.data()["votes"], 10);
        assert_eq!(add(1, "*").await.status, 403, "{}", world.name());
        assert_eq!(add(-1, made.header("etag")).await.status, 412, "{}", world.name());
        assert_eq!(add(-1, changed.header("etag")).await.data()["votes"], 9);
    }
}

/// What results from an operator or a merge is not what was sent: a writer without the right to read does not get it back.
#[tokio::test]
async fn a_writer_who_may_not_read_does_not_learn_what_results() {
    let secret =
        Entity::new("secrets").field(Field::int("votes")).field(Field::json("meta")).field(Field::string("title"));
    for world in worlds([secret]).await {
        let ann = user("ann");
        let made = world.post(&ann, "/secrets", json!({"votes": 41, "meta": {"canary": 1}, "title": "a"})).await;
        let path = made.header("location");
        let writer = service("writer", &["secrets:write"]);
        let body = json!({"votes": {"$add": 0}, "title": "b"});
        let keys = |record: &Value| record.as_object().unwrap().keys().cloned().collect::<Vec<_>>();
        let shown = world.patch(&writer, path, body).await.data();
        assert_eq!(keys(&shown), ["id", "title", "createdAt", "updatedAt"], "{}", world.name());
        let merged = world.ask(&writer, Method::PATCH, path).merge_patch(json!({"meta": {}})).send().await;
        assert!(!merged.text.contains("canary"), "{}: {}", world.name(), merged.text);
    }
}
