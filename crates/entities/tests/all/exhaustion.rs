//! Requests that are designed to cost much.

use std::num::NonZeroUsize;

use gatewright_entities::operations::Error;
use gatewright_entities::{Action, Call, Entity, Field, ListLimits, ListQuery, Surface};
use serde_json::{Value, json};

use super::support::{World, anonymous, user, worlds, worlds_with};

fn posts() -> Entity {
    Entity::new("posts").public().field(Field::string("title").max(1_000_000)).field(Field::int("views"))
}

/// A list by a tool: its parameters are not limited by the request line.
async fn list(world: &World, pairs: &[(String, String)]) -> Result<Value, Error> {
    let list = world.entities.table("posts").unwrap().list(&Call::from(anonymous()), &query(pairs)).await?;
    Ok(serde_json::from_slice(&list.to_json(world.entities.json_case())).unwrap())
}

fn query(pairs: &[(String, String)]) -> ListQuery {
    pairs.iter().map(|(name, value)| (name, value.as_str())).collect()
}

fn pair(name: &str, value: impl Into<String>) -> (String, String) {
    (name.to_owned(), value.into())
}

#[tokio::test]
async fn comparisons_are_accepted_up_to_the_limit() {
    for world in worlds([posts()]).await {
        world.post(&anonymous(), "/posts", json!({"title": "x", "views": 7})).await.data();
        let numbers = |count: u32| (0..count).map(|number| number.to_string()).collect::<Vec<_>>().join(",");
        let terms = |full: usize, last: u32| {
            let full = vec![format!("views in [{}]", numbers(1000)); full];
            [full, vec![format!("views in [{}]", numbers(last))]].concat().join(" && ")
        };
        let most = list(&world, &[pair("filter", terms(9, 1000))]).await.unwrap();
        assert_eq!(most["total"], 1, "{}", world.name());
        for pairs in [
            vec![pair("filter", terms(10, 1))],
            vec![pair("filter", terms(63, 1000))],
            vec![pair("filter", terms(9, 1000)), pair("title", "x")],
            vec![pair("filter", terms(4, 1000)), pair("views_in", numbers(1000)), pair("filter", terms(9, 1000))],
        ] {
            let refused = list(&world, &pairs).await.unwrap_err();
            assert!(matches!(refused, Error::Query(_)), "{} {refused}", world.name());
        }
        // Statements of any length, which are not cached, answer like short ones.
        for count in [1, 100, 999] {
            let found = list(&world, &[pair("views_in", numbers(count))]).await.unwrap();
            assert_eq!(found["total"], u32::from(count > 7), "{}", world.name());
        }
    }
}

/// If each name were compared with each other, this would take minutes.
#[tokio::test]
async fn each_of_a_hundred_thousand_names_is_checked_once() {
    for world in worlds([posts()]).await {
        let mut pairs: Vec<_> = (0..200_000).map(|number| pair(&format!("n{number}"), "x")).collect();
        let refused = list(&world, &pairs).await.unwrap_err().to_string();
        assert!(refused.starts_with("there is no parameter \"n0\""), "{refused}");
        pairs.push(pair("n199999", "x"));
        let refused = list(&world, &pairs).await.unwrap_err().to_string();
        assert_eq!(refused, "the parameter \"n199999\" is given more than once");
    }
}

/// Long and deep expressions are refused at the limit.
#[tokio::test]
async fn long_and_deep_expressions_are_refused() {
    for world in worlds([posts()]).await {
        for filter in [
            "(".repeat(1_000_000),
            "!".repeat(1_000_000),
            format!("views in [{}]", "1,".repeat(500_000)),
            vec!["views = 1"; 100_000].join("||"),
            format!("title = '{}", "x".repeat(1_000_000)),
            "n".repeat(1_000_000),
        ] {
            let refused = list(&world, &[pair("filter", filter)]).await.unwrap_err().to_string();
            assert!(refused.starts_with("filter: ") && refused.len() < 300, "{refused}");
        }
        for (name, value) in [
            ("sort", vec!["title"; 100_000].join(",")),
            ("include", vec!["title"; 100_000].join(",")),
            ("views_in", vec!["1"; 100_000].join(",")),
            ("q", "x".repeat(1_000_000)),
            ("cursor", "A".repeat(1_000_000)),
            ("limit", "x".repeat(1_000_000)),
        ] {
            let refused = list(&world, &[pair(name, value)]).await.unwrap_err().to_string();
            assert!(refused.len() < 300, "{refused}");
        }
    }
}

/// Answers to tools are built as values twice: a page of eight megabytes would take hundreds.
#[tokio::test]
async fn answers_to_tools_have_a_lower_size_limit() {
    for world in worlds([posts()]).await {
        for _ in 0..3 {
            world.post(&anonymous(), "/posts", json!({"title": "x".repeat(500_000)})).await.data();
        }
        let posts = world.entities.table("posts").unwrap();
        let call = |surface| Call::from(anonymous()).through(surface);
        let list = async |surface, pairs: &[(String, String)]| posts.list(&call(surface), &query(pairs)).await;
        assert!(list(Surface::Rest, &[]).await.unwrap().json.len() > 1_500_000);
        for pairs in [vec![], vec![pair("cursor", "")]] {
            let page = list(Surface::Tools, &pairs).await.unwrap();
            assert!(page.has_more && page.json.len() < 1024 * 1024, "{} {}", world.name(), page.json.len());
        }
    }
}

#[tokio::test]
async fn the_errors_of_an_invalid_batch_are_limited_in_size() {
    for world in worlds([posts()]).await {
        let nonsense: serde_json::Map<_, _> = (0..50_000).map(|number| (format!("n{number}"), json!(1))).collect();
        let refused = world.post(&anonymous(), "/posts/_batch", Value::Object(nonsense)).await;
        assert_eq!(refused.status, 422);
        assert!(refused.text.len() < 20_000, "{}: {}", world.name(), refused.text.len());
        let many = world.post(&anonymous(), "/posts/_batch", json!({"items": vec![json!({}); 101]})).await;
        assert!(many.status == 422 && many.text.contains("must have at most 100 entries"), "{}", many.text);
    }
}

/// A filter that reads every text many times over, by one caller after the other.
#[tokio::test]
async fn others_are_answered_while_one_callers_heavy_lists_run() {
    let notes = Entity::new("notes").access(Action::Read, "public").field(Field::text("body").max(1_000_000));
    for world in worlds([notes]).await {
        let body = "é".repeat(500_000);
        let note = world.post(&user("ann"), "/notes", json!({"body": body})).await.id();
        let copy = "INSERT INTO notes (id, body, created_at, updated_at)
                    SELECT ?1, body, created_at, updated_at FROM notes WHERE id = ?2";
        for number in 0..20 {
            world.db().execute(copy, gatewright_db::params![format!("copy-{number}"), &note]).await.unwrap();
        }
        let filter = vec!["body ~ 'x'"; 64].join(" || ");
        let heavy: Vec<_> = (0..16)
            .map(|_| {
                let (entities, pairs) = (world.entities.clone(), vec![pair("filter", &filter), pair("fields", "id")]);
                tokio::spawn(async move {
                    let notes = entities.table("notes").unwrap();
                    notes.list(&Call::from(user("ben")), &query(&pairs)).await.map(|list| list.json)
                })
            })
            .collect();
        for _ in 0..5 {
            assert_eq!(world.get(&user("ann"), &format!("/notes/{note}")).await.status, 200, "{}", world.name());
            let list = world.get(&user("ann"), "/notes?fields=id&limit=3").await;
            assert_eq!(list.status, 200, "{} {}", world.name(), list.text);
        }
        let running = heavy.iter().filter(|list| !list.is_finished()).count();
        assert!(running > 8, "{}: {running} of 16 still run", world.name());
        heavy.iter().for_each(tokio::task::JoinHandle::abort);
    }
}

#[tokio::test]
async fn one_list_too_many_is_refused_with_retry_after() {
    let limits = ListLimits { per_caller: NonZeroUsize::MIN, per_address: NonZeroUsize::MIN };
    let notes = Entity::new("posts").access(Action::Read, "public").field(Field::text("body").max(1_000_000));
    for world in worlds_with([notes], |builder| builder.lists(limits)).await {
        world.post(&user("ann"), "/posts", json!({"body": "é".repeat(500_000)})).await.id();
        // A list that takes much longer than its first slice.
        let filter = vec!["body ~ 'x'"; 64].join(" || ");
        let pairs = [pair("filter", &filter), pair("fields", "id")];
        let (posts, call, query) = (world.entities.table("posts").unwrap(), Call::from(user("ann")), query(&pairs));
        let mut first = Box::pin(posts.list(&call, &query));
        let pending = std::future::poll_fn(|context| std::task::Poll::Ready(first.as_mut().poll(context).is_pending()));
        assert!(pending.await, "a read has to wait for its thread");
        let refused = world.get(&user("ann"), "/posts").await;
        assert_eq!((refused.status.as_u16(), &refused.json()["code"]), (429, &json!("too_many_lists")));
        assert_eq!(refused.header("retry-after"), "1");
        assert_eq!(world.get(&user("ben"), "/posts").await.status, 200, "others are not held to it");
        // It may find its records, or take too long on a loaded machine: its place is free afterwards.
        let _found_or_too_slow = first.await;
        assert_eq!(world.get(&user("ann"), "/posts").await.status, 200);
    }
}
