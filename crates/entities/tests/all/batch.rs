//! `/{table}/_batch`: all or nothing.

use std::cmp::Ordering;

use gatewright_base::JsonCase;
use gatewright_entities::{Action, Entity, Field, OnDelete};
use http::Method;
use serde_json::{Value, json};

use super::support::{Answer, World, anonymous, service, user, user_with, worlds, worlds_with};

fn posts() -> Entity {
    Entity::new("posts")
        .public()
        .field(Field::string("title").required().unique().max(20))
        .field(Field::int("views").default(0))
        .field(Field::string("secret").hidden().default("canary"))
}

async fn batch(world: &World, method: Method, body: Value) -> Answer {
    world.ask(&anonymous(), method, "/posts/_batch").json(body).send().await
}

async fn made(world: &World, titles: &[&str]) -> Vec<String> {
    let items: Vec<Value> = titles.iter().map(|title| json!({"title": title})).collect();
    let answer = batch(world, Method::POST, json!({"items": items})).await;
    assert_eq!(answer.status, 200, "{} {}", world.name(), answer.text);
    let results = answer.json()["results"].clone();
    results.as_array().unwrap().iter().map(|result| result["data"]["id"].as_str().unwrap().to_owned()).collect()
}

#[tokio::test]
async fn a_batch_creates_updates_and_deletes_in_order_and_reports_each() {
    for mut world in worlds([posts()]).await {
        let ids = made(&world, &["a", "b", "c"]).await;
        assert!(ids.is_sorted(), "in the order of creation");
        let changed = json!({"items": [{"id": ids[2], "views": 3}, {"id": ids[0], "title": "A"}, {"id": ids[1]}]});
        let changed = batch(&world, Method::PATCH, changed).await;
        assert_eq!((changed.status.as_u16(), &changed.json()["committed"]), (200, &json!(true)));
        let results = changed.json()["results"].clone();
        assert_eq!((&results[0]["index"], &results[0]["data"]["views"]), (&json!(0), &json!(3)));
        assert_eq!((&results[1]["index"], &results[1]["data"]["title"]), (&json!(1), &json!("A")));
        assert_eq!(results[2]["data"], world.get(&anonymous(), &format!("/posts/{}", ids[1])).await.data());
        assert!(!changed.text.contains("canary"));
        let gone = batch(&world, Method::DELETE, json!({"ids": [ids[1], ids[0]]})).await;
        let expected = json!({"committed": true, "results": [
            {"index": 0, "data": {"id": ids[1]}},
            {"index": 1, "data": {"id": ids[0]}},
        ]});
        assert_eq!((gone.status.as_u16(), gone.json()), (200, expected));
        assert_eq!(world.rows("posts").await, 1);
        let mut told = Vec::new();
        for _ in 0..7 {
            let (kind, _, record) = world.event().await;
            told.push(format!("{kind} {}", record["title"].as_str().unwrap()));
        }
        let expected = [
            "entity.created a",
            "entity.created b",
            "entity.created c",
            "entity.updated c",
            "entity.updated A",
            "entity.deleted b",
            "entity.deleted A",
        ];
        assert_eq!(told, expected);
        world.no_more_events().await;
    }
}

#[tokio::test]
async fn the_first_failure_rolls_back_everything_and_emits_no_event() {
    for mut world in worlds([posts()]).await {
        let ids = made(&world, &["a", "b"]).await;
        for _ in 0..2 {
            world.event().await;
        }
        let long = "x".repeat(21);
        for (method, body, status, index, code) in [
            // An earlier item that fails in the database is reported before a later invalid one.
            (Method::POST, json!({"items": [{"title": "c"}, {"title": "a"}, {"title": long}, {}]}), 409, 1, "conflict"),
            (Method::POST, json!({"items": [{"title": "c"}, {"title": "c"}]}), 409, 1, "conflict"),
            (
                Method::POST,
                json!({"items": [{"title": "c"}, {"title": long}, {"title": "a"}]}),
                422,
                1,
                "validation_failed",
            ),
            (Method::POST, json!({"items": [{}, {"title": "c"}]}), 422, 0, "validation_failed"),
            (
                Method::POST,
                json!({"items": [{"title": "c"}, {"titel": "d", "title": "e"}]}),
                422,
                1,
                "validation_failed",
            ),
            (Method::POST, json!({"items": [{"title": "c"}, 7]}), 400, 1, "bad_request"),
            (Method::POST, json!({"items": [{"title": "c"}, null]}), 400, 1, "bad_request"),
            (
                Method::PATCH,
                json!({"items": [{"id": ids[0], "views": 1}, {"id": "nope", "views": 1}]}),
                404,
                1,
                "not_found",
            ),
            (Method::PATCH, json!({"items": [{"id": ids[0], "views": 1}, {"views": 1}]}), 422, 1, "validation_failed"),
            (Method::PATCH, json!({"items": [{"id": ids[0], "views": 1}, {"id": 7}]}), 422, 1, "validation_failed"),
            (
                Method::PATCH,
                json!({"items": [{"id": ids[0], "views": 1}, {"id": ids[1], "title": "a"}]}),
                409,
                1,
                "conflict",
            ),
            (Method::DELETE, json!({"ids": [ids[0], ids[0]]}), 404, 1, "not_found"),
            (Method::DELETE, json!({"ids": [ids[0], "nope", ids[1]]}), 404, 1, "not_found"),
            (Method::DELETE, json!({"ids": [ids[0], 7]}), 422, 1, "validation_failed"),
        ] {
            let count = body.as_object().unwrap().values().next().unwrap().as_array().unwrap().len();
            let answer = batch(&world, method.clone(), body.clone()).await;
            let json = answer.json();
            assert_eq!(
                (answer.status.as_u16(), &json["committed"]),
                (status, &json!(false)),
                "{body}: {}",
                answer.text
            );
            let results = json["results"].as_array().unwrap();
            assert_eq!(results.len(), count, "{body}");
            for (number, result) in results.iter().enumerate() {
                assert_eq!(result["index"], number);
                match number.cmp(&index) {
                    Ordering::Less => assert_eq!(result, &json!({"index": number, "rolledBack": true}), "{body}"),
                    Ordering::Greater => assert_eq!(result, &json!({"index": number, "skipped": true}), "{body}"),
                    Ordering::Equal => {
                        let error = &result["error"];
                        assert_eq!((&error["code"], &error["status"]), (&json!(code), &json!(status)));
                        assert!(error["detail"].is_string());
                    }
                }
            }
            let list = world.get(&anonymous(), "/posts?sort=title&fields=title,views").await.data();
            assert_eq!(
                list,
                json!([{"title": "a", "views": 0}, {"title": "b", "views": 0}]),
                "{} {body}",
                world.name()
            );
        }
        world.no_more_events().await;
    }
}

#[tokio::test]
async fn an_invalid_batch_body_is_refused_before_any_write() {
    for world in worlds([posts()]).await {
        let many =
            |count: usize| json!({"items": (0..count).map(|n| json!({"title": n.to_string()})).collect::<Vec<_>>()});
        for (method, body, status, field, code) in [
            (Method::POST, json!({}), 422, "items", "required"),
            (Method::POST, json!({"items": {}}), 422, "items", "type"),
            (Method::POST, json!({"items": null}), 422, "items", "type"),
            (Method::POST, json!({"items": [], "itmes": 1}), 422, "itmes", "unknown_field"),
            (Method::POST, json!({"ids": []}), 422, "ids", "unknown_field"),
            (Method::DELETE, json!({"items": [], "ids": []}), 422, "ids", "duplicate"),
            (Method::POST, many(101), 422, "items", "max"),
            (Method::DELETE, json!({"ids": vec!["x"; 101]}), 422, "ids", "max"),
        ] {
            let answer = batch(&world, method, body).await;
            assert_eq!(answer.status, status, "{}", answer.text);
            assert_eq!(answer.faults()[field], code);
        }
        for body in ["[]", "null", "{", "\"items\""] {
            let answer = world.ask(&anonymous(), Method::POST, "/posts/_batch").json(body).send().await;
            assert_eq!(answer.status, 400, "{body}");
        }
        let twice =
            world.ask(&anonymous(), Method::POST, "/posts/_batch").json(r#"{"items":[],"items":[]}"#).send().await;
        assert_eq!(twice.faults()["items"], "duplicate");
        let plain =
            world.ask(&anonymous(), Method::POST, "/posts/_batch").header("content-type", "text/plain").send().await;
        assert_eq!(plain.status, 415);
        let get = world.get(&anonymous(), "/posts/_batch").await;
        assert_eq!((get.status.as_u16(), get.header("allow")), (405, "POST,PATCH,DELETE"));
        assert_eq!(world.rows("posts").await, 0);
        for method in [Method::POST, Method::PATCH] {
            let nothing = batch(&world, method, json!({"items": []})).await;
            assert_eq!((nothing.status.as_u16(), nothing.json()), (200, json!({"committed": true, "results": []})));
        }
        assert_eq!(batch(&world, Method::POST, many(100)).await.status, 200);
        assert_eq!(world.rows("posts").await, 100);
    }
}

#[tokio::test]
async fn a_batch_obeys_the_rules_of_its_entity() {
    let posts = Entity::new("posts")
        .access(Action::Read, "posts:read")
        .access(Action::Create, "posts:write")
        .access(Action::Update, "posts:write")
        .access(Action::Delete, "posts:write")
        .field(Field::string("title"));
    let notes = Entity::new("notes").owner("user_id").field(Field::string("text"));
    for world in worlds([posts, notes]).await {
        let ask = async |caller: &gatewright_base::Identity, method: Method, table: &str, body: Value| {
            world.ask(caller, method, &format!("/{table}/_batch")).json(body).send().await
        };
        let one = || json!({"items": [{"id": "x", "title": "a"}]});
        for (method, body) in [(Method::POST, one()), (Method::PATCH, one()), (Method::DELETE, json!({"ids": ["x"]}))] {
            // The permission is checked before the body, and its failure belongs to no item.
            for body in [body, json!({"wrong": true})] {
                for (caller, status) in
                    [(anonymous(), 401), (user_with("ann", &["reader"]), 403), (service("bot", &["posts:read"]), 403)]
                {
                    let answer = ask(&caller, method.clone(), "posts", body.clone()).await;
                    assert_eq!(answer.status, status, "{method}: {}", answer.text);
                    assert!(answer.json().get("committed").is_none());
                }
            }
        }
        let mine = ask(&user("ann"), Method::POST, "notes", json!({"items": [{"text": "a"}, {"text": "b"}]})).await;
        let ids: Vec<Value> = [0, 1].iter().map(|i| mine.json()["results"][*i]["data"]["id"].clone()).collect();
        let theirs = ask(&user("ben"), Method::POST, "notes", json!({"items": [{"text": "c"}]})).await;
        let other = theirs.json()["results"][0]["data"]["id"].clone();
        let patch = json!({"items": [{"id": ids[0], "text": "mine"}, {"id": other, "text": "stolen"}]});
        for (method, body) in [(Method::PATCH, patch), (Method::DELETE, json!({"ids": [ids[0], other]}))] {
            let answer = ask(&user("ann"), method, "notes", body).await;
            assert_eq!((answer.status.as_u16(), &answer.json()["results"][1]["error"]["status"]), (404, &json!(404)));
        }
        for (owner, texts) in [("ann", json!([{"text": "a"}, {"text": "b"}])), ("ben", json!([{"text": "c"}]))] {
            assert_eq!(world.get(&user(owner), "/notes?fields=text").await.data(), texts, "{}", world.name());
        }
    }
}

#[tokio::test]
async fn one_of_parallel_batches_with_one_unique_value_succeeds_and_the_others_roll_back() {
    for mut world in worlds([posts()]).await {
        let tries = (0..20).map(|number| {
            let body = json!({"items": [{"title": format!("own {number}")}, {"title": "shared"}]});
            batch(&world, Method::POST, body)
        });
        let statuses: Vec<u16> =
            futures_util::future::join_all(tries).await.iter().map(|answer| answer.status.as_u16()).collect();
        assert_eq!(statuses.iter().filter(|status| **status == 200).count(), 1, "{statuses:?}");
        assert!(statuses.iter().all(|status| [200, 409].contains(status)), "{statuses:?}");
        assert_eq!(world.rows("posts").await, 2);
        for _ in 0..2 {
            assert_eq!(world.event().await.0, "entity.created");
        }
        world.no_more_events().await;
    }
}

#[tokio::test]
async fn cascades_and_the_trash_work_in_batches_too() {
    let albums = Entity::new("posts").public().field(Field::string("title"));
    let photos = Entity::new("photos").public().field(Field::relation("post", "posts").on_delete(OnDelete::Cascade));
    let pinned = Entity::new("pins").public().soft_delete().field(Field::relation("post", "posts"));
    for mut world in worlds([albums, photos, pinned]).await {
        let ids = made(&world, &["a", "b", "c"]).await;
        world.post(&anonymous(), "/photos", json!({"post": ids[0]})).await.data();
        let pin = world.post(&anonymous(), "/pins", json!({"post": ids[2]})).await.id();
        for _ in 0..5 {
            world.event().await;
        }
        let held = batch(&world, Method::DELETE, json!({"ids": ids})).await;
        assert_eq!((held.status.as_u16(), &held.json()["results"][2]["error"]["code"]), (409, &json!("conflict")));
        assert_eq!((world.rows("posts").await, world.rows("photos").await), (3, 1));
        let gone = batch(&world, Method::DELETE, json!({"ids": ids[..2]})).await;
        assert_eq!(gone.status, 200, "{}", gone.text);
        let tables: Vec<String> = [world.event().await.1, world.event().await.1, world.event().await.1].into();
        assert_eq!(tables, ["photos", "posts", "posts"]);
        let trashed = world.ask(&anonymous(), Method::DELETE, "/pins/_batch").json(json!({"ids": [pin]})).send().await;
        assert_eq!(trashed.status, 200, "{}", trashed.text);
        assert_eq!(world.get(&anonymous(), "/pins?trashed=only").await.json()["total"], 1);
        assert_eq!(world.event().await.0, "entity.deleted");
        world.no_more_events().await;
    }
}

#[tokio::test]
async fn keys_of_results_follow_the_case_that_is_configured() {
    for world in worlds_with([posts()], |builder| builder.json_case(JsonCase::Snake)).await {
        let answer = batch(&world, Method::POST, json!({"items": [{"title": "a"}, {}]})).await;
        assert_eq!(answer.json()["results"][0], json!({"index": 0, "rolled_back": true}));
    }
}
