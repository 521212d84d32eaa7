//! The operators of lists, `$append` and `$remove`.

use futures_util::future::join_all;
use gatewright_entities::{Action, Entity, Field, Kind};
use http::{Method, StatusCode};
use serde_json::json;

use super::lists::{post, posts};
use super::support::{anonymous, service, user, worlds};

#[tokio::test]
async fn a_change_appends_and_removes_items() {
    for mut world in worlds([posts()]).await {
        let path = post(&world, json!({"title": "a", "tags": ["a"], "ranks": [1]})).await;
        world.event().await;
        for (method, body, expected) in [
            (Method::PATCH, json!({"tags": {"$append": ["b", "c"]}}), json!([["a", "b", "c"], [1], [], []])),
            (Method::PUT, json!({"tags": {"$remove": ["a", "x"]}}), json!([["b", "c"], [1], [], []])),
            (Method::PATCH, json!({"ranks": {"$append": [1.0, 2]}}), json!([["b", "c"], [1, 1, 2], [], []])),
            (Method::PATCH, json!({"ranks": {"$remove": [1]}}), json!([["b", "c"], [2], [], []])),
            (Method::PATCH, json!({"weights": {"$append": [0.5, 2.0]}}), json!([["b", "c"], [2], [0.5, 2], []])),
            (Method::PATCH, json!({"weights": {"$remove": [2]}}), json!([["b", "c"], [2], [0.5], []])),
            (Method::PATCH, json!({"prices": {"$append": ["1.50", "é"]}}), json!(null)),
            (
                Method::PATCH,
                json!({"prices": {"$append": ["1.50", "2"]}}),
                json!([["b", "c"], [2], [0.5], ["1.5", "2"]]),
            ),
            (Method::PATCH, json!({"prices": {"$remove": [1.5]}}), json!([["b", "c"], [2], [0.5], ["2"]])),
            (Method::PATCH, json!({"tags": {"$append": []}, "title": "b"}), json!([["b", "c"], [2], [0.5], ["2"]])),
            (Method::PATCH, json!({"tags": {"$append": ["é\"\n"]}}), json!([["b", "c", "é\"\n"], [2], [0.5], ["2"]])),
            (Method::PATCH, json!({"tags": {"$remove": ["é\"\n", "b"]}}), json!([["c"], [2], [0.5], ["2"]])),
            (Method::PATCH, json!({"fixed": {"$append": ["y"]}, "n": 1}), json!([["c"], [2], [0.5], ["2"]])),
        ] {
            let changed = world.ask(&anonymous(), method, &path).json(&body).send().await;
            if expected.is_null() {
                assert_eq!(changed.status, 422, "{} {body}", world.name());
                assert!(changed.text.contains("at prices.$append[1]"), "{}", changed.text);
                continue;
            }
            let record = changed.data();
            let lists = json!([record["tags"], record["ranks"], record["weights"], record["prices"]]);
            assert_eq!(lists, expected, "{} {body}", world.name());
            assert_eq!(record["fixed"], json!(["x"]));
            let (kind, _, event) = world.event().await;
            assert_eq!((&*kind, &event), ("entity.updated", &record), "{body}");
        }
    }
}

#[tokio::test]
async fn the_list_after_the_change_must_fit() {
    for mut world in worlds([posts()]).await {
        let path = post(&world, json!({"title": "a", "tags": ["a", "b", "c"], "ranks": [1, 2, 3]})).await;
        world.event().await;
        let before = world.get(&anonymous(), &path).await.data();
        for (body, faults) in [
            (json!({"tags": {"$append": ["d", "e"]}}), json!({"tags": "max"})),
            (json!({"ranks": {"$append": [4]}}), json!({"ranks": "max"})),
            (json!({"tags": {"$append": ["a"]}}), json!({"tags": "duplicate"})),
            (json!({"tags": {"$append": ["c"]}}), json!({"tags": "duplicate"})),
            (
                json!({"tags": {"$append": ["a"]}, "ranks": {"$append": [1]}}),
                json!({"tags": "duplicate", "ranks": "max"}),
            ),
            (json!({"tags": {"$append": [1]}}), json!({"tags": "type"})),
            (json!({"tags": {"$append": "d"}}), json!({"tags": "type"})),
            (json!({"tags": {"$append": null}}), json!({"tags": "type"})),
            (json!({"tags": {"$append": ["d"], "$remove": ["a"]}}), json!({"tags": "type"})),
            (json!({"tags": {"$add": 1}}), json!({"tags": "type"})),
            (json!({"states": {"$append": ["gone"]}}), json!({"states": "enum"})),
        ] {
            let refused = world.patch(&anonymous(), &path, &body).await;
            assert_eq!(refused.status, 422, "{} {body}", world.name());
            assert_eq!(json!(refused.faults()), faults, "{} {body}", world.name());
        }
        assert_eq!(world.get(&anonymous(), &path).await.data(), before);
        world.no_more_events().await;
    }
}

/// A caller cannot grow a record without end, though each body is small.
#[tokio::test]
async fn appending_stops_at_the_limit_of_bytes() {
    let notes = Entity::new("notes").public().field(Field::list("lines", Kind::String).max_items(10_000));
    for world in worlds([notes]).await {
        let path = world.post(&anonymous(), "/notes", "{}").await.header("location").to_owned();
        let lines = vec!["x".repeat(1_000); 400];
        let append = async || world.patch(&anonymous(), &path, json!({"lines": {"$append": lines}})).await;
        assert_eq!([append().await.status, append().await.status], [StatusCode::OK; 2], "{}", world.name());
        let refused = append().await;
        assert_eq!(json!(refused.faults()), json!({"lines": "max"}), "{}", world.name());
        assert_eq!(world.get(&anonymous(), &path).await.data()["lines"].as_array().unwrap().len(), 800);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn twenty_parallel_appends_keep_all_items() {
    let ruled =
        Entity::new("ruled").field(Field::list("ranks", Kind::Int)).rule(Action::Update, "length(ranks) < 1000");
    let plain = Entity::new("plain").public().field(Field::list("ranks", Kind::Int));
    for world in worlds([plain, ruled]).await {
        for (path, caller) in [("/plain", anonymous()), ("/ruled", user("ann"))] {
            let made = world.post(&caller, path, "{}").await;
            let record = format!("{path}/{}", made.id());
            let append = async |number: usize| {
                let answer = if number.is_multiple_of(2) {
                    world.patch(&caller, &record, json!({"ranks": {"$append": [number]}})).await
                } else {
                    let items = json!({"items": [{"id": made.id(), "ranks": {"$append": [number]}}]});
                    world.ask(&caller, Method::PATCH, &format!("{path}/_batch")).json(items).send().await
                };
                answer.status.as_u16()
            };
            assert_eq!(join_all((0..20).map(append)).await, [200; 20], "{} {path}", world.name());
            let mut ranks: Vec<i64> =
                serde_json::from_value(world.get(&caller, &record).await.data()["ranks"].clone()).unwrap();
            ranks.sort_unstable();
            assert_eq!(ranks, (0..20).collect::<Vec<_>>(), "{} {path}", world.name());
        }
    }
}

/// What results from an operator is not what was sent: a writer without the right to read does not get it back.
#[tokio::test]
async fn a_writer_who_may_not_read_does_not_learn_the_items() {
    let secret = Entity::new("secrets").field(Field::list("tags", Kind::String)).field(Field::string("title"));
    for world in worlds([secret]).await {
        let made = world.post(&user("ann"), "/secrets", json!({"tags": ["canary"], "title": "a"})).await;
        let writer = service("writer", &["secrets:write"]);
        for body in [json!({"tags": {"$append": []}}), json!({"tags": {"$remove": ["x"]}, "title": "b"})] {
            let shown = world.patch(&writer, made.header("location"), body).await;
            assert!(shown.status.is_success() && !shown.text.contains("canary"), "{}: {}", world.name(), shown.text);
        }
    }
}

#[tokio::test]
async fn batches_and_upserts_take_operators_of_lists() {
    let posts = posts().unique(["title"]);
    for world in worlds([posts]).await {
        let path = "/posts?on_conflict=title";
        let first = world.post(&anonymous(), path, json!({"title": "a", "tags": {"$append": ["a"]}})).await;
        let second = world.post(&anonymous(), path, json!({"title": "a", "tags": {"$append": ["b"]}})).await;
        assert_eq!((first.data()["tags"].clone(), second.data()["tags"].clone()), (json!(["a"]), json!(["a", "b"])));
        let id = first.id();
        let mixed = json!({"operations": [
            {"op": "update", "entity": "posts", "id": id, "data": {"tags": {"$remove": ["a"]}}},
            {"op": "update", "entity": "posts", "id": id, "data": {"tags": {"$append": ["c"]}}},
        ]});
        let mixed = world.post(&anonymous(), "/_batch", mixed).await;
        assert_eq!(mixed.status, 200, "{}: {}", world.name(), mixed.text);
        assert_eq!(world.get(&anonymous(), &format!("/posts/{id}")).await.data()["tags"], json!(["b", "c"]));
        let items =
            json!({"items": [{"id": id, "tags": {"$append": ["d"]}}, {"id": id, "tags": {"$append": ["e", "f"]}}]});
        let refused = world.ask(&anonymous(), Method::PATCH, "/posts/_batch").json(items).send().await;
        assert_eq!(refused.status, 422, "{}: {}", world.name(), refused.text);
        assert_eq!(world.get(&anonymous(), &format!("/posts/{id}")).await.data()["tags"], json!(["b", "c"]));
    }
}
