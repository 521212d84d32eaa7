//! Hostile text in the parameters of a list: it is treated as data or refused, and never run.

use gatewright_entities::{Entity, Field};
use proptest::strategy::{Strategy, ValueTree};
use proptest::test_runner::TestRunner;
use serde_json::json;

use super::support::{World, anonymous, query, worlds};

/// Text that ends strings, statements, lines, patterns, paths and numbers.
const HOSTILE: [&str; 22] = [
    "'",
    "''",
    "\"",
    "`",
    "\\",
    "%",
    "_",
    "--",
    "/*",
    ";",
    "1' OR '1'='1",
    "1; DROP TABLE posts; --",
    "' UNION SELECT id, password_hash FROM users --",
    "\") OR 1=1 --",
    "$1",
    "?1",
    "\u{0}",
    "\u{feff}\u{202e}",
    "a\r\nX-Injected: 1",
    "../../etc/passwd",
    "{\"$gt\":\"\"}",
    "999999999999999999999999999999999999999999",
];

/// Every parameter that a list has, and a field by each suffix.
const PARAMETERS: [&str; 25] = [
    "page",
    "limit",
    "sort",
    "cursor",
    "direction",
    "total",
    "fields",
    "include",
    "q",
    "filter",
    "trashed",
    "title",
    "title_gt",
    "title_gte",
    "title_lt",
    "title_lte",
    "title_ne",
    "title_like",
    "title_in",
    "title_null",
    "views",
    "views_in",
    "topic",
    "created_at_gte",
    "id",
];

fn entities() -> [Entity; 2] {
    [
        Entity::new("posts")
            .public()
            .soft_delete()
            .field(Field::string("title"))
            .field(Field::int("views"))
            .field(Field::relation("topic", "topics"))
            .field(Field::string("secret").hidden().default("canary"))
            .search_fields(["title"]),
        Entity::new("topics").public(),
    ]
}

async fn ask(world: &World, name: &str, value: &str) {
    let query = query(name, value);
    for path in [format!("/posts?{query}"), format!("/posts?cursor=&{query}"), format!("/posts/nope?{query}")] {
        let answer = world.get(&anonymous(), &path).await;
        let status = answer.status.as_u16();
        assert!([200, 400, 404].contains(&status), "{} {path}: {status} {}", world.name(), answer.text);
        assert!(!answer.text.contains("canary"), "{path}: {}", answer.text);
        for word in ["SELECT", "sqlite", "postgres", "syntax error"] {
            let echoed = value.contains(word) || name.contains(word);
            assert!(echoed || !answer.text.contains(word), "{path}: {}", answer.text);
        }
        assert!(!answer.headers.contains_key("x-injected"));
    }
}

async fn unharmed(world: &World, title: &str) {
    assert_eq!(world.rows("posts").await, 1, "{}", world.name());
    let list = world.get(&anonymous(), "/posts").await.json();
    assert_eq!((&list["total"], &list["data"][0]["title"]), (&json!(1), &json!(title)));
}

#[tokio::test]
async fn every_parameter_treats_hostile_text_as_text() {
    for world in worlds(entities()).await {
        world.post(&anonymous(), "/posts", json!({"title": "kept"})).await.data();
        for text in HOSTILE {
            for name in PARAMETERS {
                ask(&world, name, text).await;
            }
            ask(&world, text, "x").await;
            ask(&world, "filter", &format!("title = '{text}'")).await;
            ask(&world, "filter", &format!("{text} = 'x'")).await;
        }
        unharmed(&world, "kept").await;
    }
}

#[tokio::test]
async fn every_comparison_finds_text_exactly_as_written() {
    for world in worlds(entities()).await {
        for text in HOSTILE.iter().filter(|text| !text.contains('\0')) {
            world.post(&anonymous(), "/posts", json!({"title": text})).await.data();
        }
        for text in HOSTILE.iter().filter(|text| !text.contains('\0')) {
            let quoted = format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\""));
            let mut ways = vec![
                ("title", (*text).to_owned()),
                ("filter", format!("title = {quoted}")),
                ("filter", format!("title in [{quoted}]")),
            ];
            if !text.contains(',') {
                ways.push(("title_in", (*text).to_owned()));
            }
            for (name, value) in ways {
                let query = query(name, &value);
                let answer = world.get(&anonymous(), &format!("/posts?{query}")).await;
                assert_eq!((answer.status.as_u16(), &answer.json()["total"]), (200, &json!(1)), "{name}={value}");
                assert_eq!(answer.data()[0]["title"], **text);
            }
        }
    }
}

#[tokio::test]
async fn no_combination_of_parameters_makes_a_list_fail() {
    let mut runner = TestRunner::deterministic();
    let names = proptest::sample::select(PARAMETERS.to_vec());
    let values = proptest::prop_oneof![
        proptest::sample::select(HOSTILE.to_vec()).prop_map(str::to_owned),
        proptest::sample::select(vec![
            "",
            "1",
            "title",
            "-title",
            "id,title",
            "topic",
            "forward",
            "backward",
            "with",
            "only",
            "true",
            "null",
            "title = 'a'",
            "!(views > 3)",
            "2026-01-01",
        ])
        .prop_map(str::to_owned),
        "\\PC{0,12}",
    ];
    let pairs = proptest::collection::vec((names, values), 1..6);
    for world in worlds(entities()).await {
        world.post(&anonymous(), "/posts", json!({"title": "kept"})).await.data();
        for _ in 0..200 {
            let pairs = pairs.new_tree(&mut runner).unwrap().current();
            let query = form_urlencoded::Serializer::new(String::new()).extend_pairs(&pairs).finish();
            let answer = world.get(&anonymous(), &format!("/posts?{query}")).await;
            assert!([200, 400].contains(&answer.status.as_u16()), "{pairs:?}: {} {}", answer.status, answer.text);
            assert!(!answer.text.contains("canary"));
        }
        unharmed(&world, "kept").await;
    }
}
