//! Requests made to cost much more than they look like.

use gatewright_entities::operations::Error;
use gatewright_entities::{Call, Entity, Field, Surface};
use serde_json::{Value, json};

use super::support::{World, nobody, worlds};

fn posts() -> Entity {
    Entity::new("posts").public().field(Field::string("title")).field(Field::int("views"))
}

/// A list as tools ask for it: no line of a request bounds its parameters.
async fn list(world: &World, pairs: &[(String, String)]) -> Result<Value, Error> {
    let plan = world.entities.plan("posts").unwrap();
    let list = world.entities.operations().list(plan, &Call::from(nobody()), pairs).await?;
    Ok(serde_json::from_slice(&list.to_json(world.entities.json_case())).unwrap())
}

fn pair(name: &str, value: impl Into<String>) -> (String, String) {
    (name.to_owned(), value.into())
}

#[tokio::test]
async fn as_many_values_as_are_allowed_are_compared_and_more_are_refused() {
    for world in worlds([posts()]).await {
        world.post(&nobody(), "/posts", json!({"title": "x", "views": 7})).await.data();
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
        // Statements of every length, of which none is kept, answer like short ones.
        for count in [1, 100, 999] {
            let found = list(&world, &[pair("views_in", numbers(count))]).await.unwrap();
            assert_eq!(found["total"], u32::from(count > 7), "{}", world.name());
        }
    }
}

/// Were each name held against each other, this would take minutes.
#[tokio::test]
async fn a_hundred_thousand_names_are_looked_at_once_each() {
    for world in worlds([posts()]).await {
        let mut pairs: Vec<_> = (0..200_000).map(|number| pair(&format!("n{number}"), "x")).collect();
        let refused = list(&world, &pairs).await.unwrap_err().to_string();
        assert!(refused.starts_with("there is no parameter \"n0\""), "{refused}");
        pairs.push(pair("n199999", "x"));
        let refused = list(&world, &pairs).await.unwrap_err().to_string();
        assert_eq!(refused, "the parameter \"n199999\" is given more than once");
    }
}

/// What is long and deep is refused where it begins to be too much.
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

/// What tools answer is built as values twice over: a page of eight megabytes would take hundreds.
#[tokio::test]
async fn tools_are_answered_with_less() {
    for world in worlds([posts()]).await {
        for _ in 0..3 {
            world.post(&nobody(), "/posts", json!({"title": "x".repeat(500_000)})).await.data();
        }
        let plan = world.entities.plan("posts").unwrap();
        let call = |surface| Call::from(nobody()).through(surface);
        let list = async |surface, pairs: &[(String, String)]| {
            world.entities.operations().list(plan, &call(surface), pairs).await
        };
        assert!(list(Surface::Rest, &[]).await.unwrap().json.len() > 1_500_000);
        assert!(matches!(list(Surface::Tools, &[]).await, Err(Error::TooLarge)), "{}", world.name());
        let page = list(Surface::Tools, &[pair("cursor", "")]).await.unwrap();
        assert!(page.has_more && page.json.len() < 1024 * 1024, "{}", page.json.len());
    }
}

#[tokio::test]
async fn a_batch_of_nonsense_is_answered_in_bounded_words() {
    for world in worlds([posts()]).await {
        let nonsense: serde_json::Map<_, _> = (0..50_000).map(|number| (format!("n{number}"), json!(1))).collect();
        let refused = world.post(&nobody(), "/posts/_batch", Value::Object(nonsense)).await;
        assert_eq!(refused.status, 422);
        assert!(refused.text.len() < 20_000, "{}: {}", world.name(), refused.text.len());
    }
}
