//! `cursor=`: pages that begin at a position instead of a number.

use std::collections::BTreeSet;

use gatewright_base::Secret;
use gatewright_entities::{Entity, Field, ListQuery};
use proptest::strategy::{Strategy, ValueTree};
use proptest::test_runner::TestRunner;
use serde_json::{Value, json};

use super::support::{Answer, World, anonymous, user, worlds, worlds_with};

fn items() -> Entity {
    Entity::new("items")
        .public()
        .max_list_limit(40)
        .field(Field::string("name"))
        .field(Field::int("rank"))
        .field(Field::string("secret").hidden().default("canary"))
}

async fn page(world: &World, query: &str) -> Answer {
    let answer = world.get(&anonymous(), &format!("/items?{query}")).await;
    assert_eq!(answer.status, 200, "{} {query}: {}", world.name(), answer.text);
    answer
}

fn names(answer: &Answer) -> Vec<String> {
    let text = |item: &Value| item["name"].as_str().unwrap().to_owned();
    answer.data().as_array().unwrap().iter().map(text).collect()
}

fn cursor(answer: &Answer) -> String {
    answer.json()["cursor"].as_str().unwrap().to_owned()
}

/// All pages from one end to the other, each in its own order.
async fn walk(world: &World, query: &str) -> Vec<Vec<String>> {
    let (mut pages, mut from) = (Vec::new(), String::new());
    loop {
        let answer = page(world, &format!("{query}&cursor={from}")).await;
        pages.push(names(&answer));
        assert_eq!(answer.json()["hasMore"], json!(!answer.json()["cursor"].is_null()));
        if answer.json()["cursor"].is_null() {
            return pages;
        }
        from = cursor(&answer);
    }
}

#[tokio::test]
async fn an_empty_cursor_starts_and_the_last_page_has_none() {
    for world in worlds([items()]).await {
        let empty = page(&world, "cursor=").await;
        assert_eq!(empty.json(), json!({"data": [], "cursor": null, "hasMore": false}));
        for number in 0..7 {
            world.post(&anonymous(), "/items", json!({"name": number.to_string()})).await.data();
        }
        let pages = walk(&world, "limit=3").await;
        assert_eq!(pages, [vec!["0", "1", "2"], vec!["3", "4", "5"], vec!["6"]]);
        assert_eq!(walk(&world, "limit=7").await.len(), 1, "a full last page is the last");
        let keys = page(&world, "cursor=&limit=3").await.json();
        let keys: Vec<&String> = keys.as_object().unwrap().keys().collect();
        assert_eq!(keys, ["data", "cursor", "hasMore"]);
    }
}

#[tokio::test]
async fn a_backward_page_is_the_one_before_the_cursor_in_the_same_order() {
    for world in worlds([items()]).await {
        for number in 0..7 {
            world.post(&anonymous(), "/items", json!({"name": number.to_string()})).await.data();
        }
        let first = page(&world, "limit=3&cursor=").await;
        let second = page(&world, &format!("limit=3&cursor={}", cursor(&first))).await;
        let back = |from: String| format!("limit=3&direction=backward&cursor={from}");
        assert_eq!(names(&page(&world, &back(cursor(&first))).await), names(&first));
        let before = page(&world, &back(cursor(&second))).await;
        assert_eq!(names(&before), names(&second));
        assert_eq!(names(&page(&world, &back(cursor(&before))).await), names(&first));
        // And forward again from where a backward page began.
        let again = page(&world, &format!("limit=3&direction=forward&cursor={}", cursor(&before))).await;
        assert_eq!(names(&again), names(&second));
        let pages = walk(&world, "limit=3&direction=backward").await;
        assert_eq!(pages, [vec!["4", "5", "6"], vec!["1", "2", "3"], vec!["0"]]);
    }
}

#[tokio::test]
async fn inserts_and_deletes_between_pages_neither_repeat_nor_lose_records() {
    for world in worlds([items()]).await {
        let mut ids = Vec::new();
        for number in 0..20 {
            ids.push(world.post(&anonymous(), "/items", json!({"name": format!("{number:02}")})).await.id());
        }
        let (mut seen, mut from, mut made) = (Vec::new(), String::new(), 20);
        loop {
            let answer = page(&world, &format!("limit=3&cursor={from}")).await;
            seen.extend(names(&answer));
            if answer.json()["cursor"].is_null() {
                break;
            }
            from = cursor(&answer);
            // A shown record is deleted, and with it the record at the cursor; another one is added at the end.
            let gone = seen.len() - 1;
            if gone < 20 {
                world.delete(&anonymous(), &format!("/items/{}", ids[gone])).await;
            }
            if made < 24 {
                world.post(&anonymous(), "/items", json!({"name": format!("{made:02}")})).await.data();
                made += 1;
            }
        }
        let expected: Vec<String> = (0..24).map(|number| format!("{number:02}")).collect();
        assert_eq!(seen, expected, "{}", world.name());
    }
}

/// Random values with nulls and repeats, in pages of random sizes, against a sort of the same data.
#[tokio::test]
async fn pages_by_any_cursor_key_agree_with_a_sort() {
    let things = |fields: &[&str]| {
        items()
            .field(Field::decimal("price"))
            .field(Field::float("weight"))
            .field(Field::boolean("live"))
            .field(Field::date("day"))
            .field(Field::timestamp("seen_at"))
            .field(Field::uuid("ref"))
            .cursor_fields(fields.iter().copied())
    };
    let mut runner = TestRunner::deterministic();
    let numbers = proptest::collection::vec(0..5_usize, 9);
    for key in [
        &["rank"][..],
        &["rank", "name"],
        &["price", "id"],
        &["weight", "live"],
        &["day", "seen_at"],
        &["ref", "rank"],
        &["created_at"],
        &["live", "updated_at", "name", "id"],
    ] {
        for world in worlds([things(key)]).await {
            for number in 0..30 {
                let pick = numbers.new_tree(&mut runner).unwrap().current();
                let one_of = |index: usize, values: [Value; 4]| values.get(pick[index]).cloned().unwrap_or(Value::Null);
                let item = json!({
                    "name": format!("{number:02}"),
                    "rank": one_of(0, [json!(i64::MIN), json!(-1), json!(7), json!(i64::MAX)]),
                    "price": one_of(1, [json!("9"), json!("10"), json!("-100.5"), json!("99999999999999999999.5")]),
                    "weight": one_of(2, [json!(0.1), json!(-5e-324), json!(1e300), json!(0.1 + 0.2)]),
                    "live": one_of(3, [json!(true), json!(false), json!(true), json!(false)]),
                    "day": one_of(4, [json!("1999-12-31"), json!("2024-02-29"), json!("0001-01-01"), json!("9999-12-30")]),
                    "seenAt": one_of(5, [json!("2024-01-01T00:00:00.000001Z"), json!("2024-01-01T02:00:00+02:00"), json!("1960-01-01T00:00:00Z"), json!("2030-01-01T00:00:00Z")]),
                    "ref": one_of(6, [json!("018f0000-0000-7000-8000-000000000001"), json!("018f0000-0000-7000-8000-00000000000a"), json!("ffffffff-0000-7000-8000-000000000001"), json!("00000000-0000-4000-8000-000000000001")]),
                });
                world.clock.advance(jiff::SignedDuration::from_micros(i64::try_from(pick[7]).unwrap() - 2));
                world.post(&anonymous(), "/items", item).await.data();
            }
            let sort = key.iter().filter(|name| **name != "id").copied().collect::<Vec<_>>().join(",");
            let sorted = names(&page(&world, &format!("limit=40&sort={sort}")).await);
            for limit in [1, 4, 7, 30] {
                let forward = walk(&world, &format!("limit={limit}")).await.concat();
                assert_eq!(forward, sorted, "{} {key:?} by {limit}", world.name());
                let mut backward = walk(&world, &format!("limit={limit}&direction=backward")).await;
                backward.reverse();
                assert_eq!(backward.concat(), sorted, "{} {key:?} back by {limit}", world.name());
            }
            for first in [0, 1] {
                let signed = key.iter().filter(|name| **name != "id").enumerate();
                let signed = signed
                    .map(|(place, name)| if place % 2 == first { format!("-{name}") } else { (*name).to_owned() });
                let sort = signed.collect::<Vec<_>>().join(",");
                let sorted = names(&page(&world, &format!("limit=40&sort={sort}")).await);
                for limit in [1, 7] {
                    let forward = walk(&world, &format!("limit={limit}&sort={sort}")).await.concat();
                    assert_eq!(forward, sorted, "{} {sort} by {limit}", world.name());
                    let mut backward = walk(&world, &format!("limit={limit}&sort={sort}&direction=backward")).await;
                    backward.reverse();
                    assert_eq!(backward.concat(), sorted, "{} {sort} back by {limit}", world.name());
                }
            }
            let filtered = walk(&world, "limit=2&rank_gte=-1").await.concat();
            let whole = names(&page(&world, &format!("limit=40&rank_gte=-1&sort={sort}")).await);
            assert_eq!(filtered, whole, "{} {key:?} with a filter", world.name());
        }
    }
}

#[tokio::test]
async fn a_cursor_of_another_list_is_refused() {
    let other = Entity::new("others").public().field(Field::string("name"));
    for world in worlds([items(), other]).await {
        for number in 0..3 {
            world.post(&anonymous(), "/items", json!({"name": number.to_string()})).await.data();
            world.post(&anonymous(), "/others", json!({"name": number.to_string()})).await.data();
        }
        let good = cursor(&page(&world, "limit=1&cursor=").await);
        let foreign =
            world.get(&anonymous(), "/others?limit=1&cursor=").await.json()["cursor"].as_str().unwrap().to_owned();
        let mut changed = good.clone();
        let flipped = if changed.ends_with('A') { "B" } else { "A" };
        changed.replace_range(changed.len() - 1.., flipped);
        // The same position, written without the key.
        let forged = "AAAAAAAAAAAAAAAAAAAAAFt0cnVlLCIwIl0";
        for bad in [&*foreign, &changed, forged, "x", "%27%20OR%201=1--", &good[1..], &"A".repeat(4_000)] {
            let answer = world.get(&anonymous(), &format!("/items?cursor={bad}")).await;
            assert_eq!(answer.status, 400, "{bad}: {}", answer.text);
            assert!(answer.text.contains("invalid cursor for this list"), "{}", answer.text);
        }
        for (query, detail) in [
            ("cursor=&sort=nmae", "there is no field \"nmae\" to sort by; did you mean \"name\"?"),
            ("cursor=&page=2", "a cursor and a page's number exclude each other"),
            ("cursor=&direction=up", "direction is forward or backward"),
            ("direction=backward", "direction goes with cursor; an empty cursor starts at the end"),
            ("cursor=&cursor=", "the parameter \"cursor\" is given more than once"),
            ("cursr=", "there is no parameter \"cursr\"; did you mean \"cursor\"?"),
        ] {
            world.get(&anonymous(), &format!("/items?{query}")).await.is_refused(400, detail);
        }
    }
}

#[tokio::test]
async fn replicas_with_one_secret_accept_each_others_cursors() {
    let secret =
        |text: &'static str| move |builder: gatewright_entities::Builder| builder.secret(&Secret::new(text.repeat(32)));
    for world in worlds_with([items()], secret("a")).await {
        for number in 0..3 {
            world.post(&anonymous(), "/items", json!({"name": number.to_string()})).await.data();
        }
        let first = cursor(&page(&world, "limit=1&cursor=").await);
        for (key, status) in [("a", 200), ("b", 400)] {
            let builder =
                gatewright_entities::Entities::builder(world.db().clone(), gatewright_base::Ambient::system());
            let replica = secret(key)(builder).declare(items()).build().await.unwrap();
            let items = replica.table("items").unwrap();
            let list = items.list(&anonymous().into(), &ListQuery::new().after(&first)).await;
            assert_eq!(list.is_ok(), status == 200, "{key}");
        }
    }
}

#[tokio::test]
async fn a_cursor_reveals_nothing_hidden_and_grants_no_access() {
    let notes = Entity::new("notes").owner("user_id").field(Field::string("text")).cursor_fields(["text"]);
    for world in worlds([notes, items()]).await {
        for number in 0..6 {
            let owner = user(if number % 2 == 0 { "ann" } else { "ben" });
            world.post(&owner, "/notes", json!({"text": format!("{number} of {}", number % 2)})).await.data();
        }
        let first = world.get(&user("ann"), "/notes?limit=1&cursor=").await;
        let from = cursor(&first);
        let of_ben = world.get(&user("ben"), &format!("/notes?cursor={from}")).await;
        let owners: BTreeSet<String> = of_ben
            .data()
            .as_array()
            .unwrap()
            .iter()
            .map(|note| note["text"].as_str().unwrap()[2..].to_owned())
            .collect();
        assert_eq!(owners, BTreeSet::from(["of 1".to_owned()]));
        assert_eq!(world.get(&anonymous(), &format!("/notes?cursor={from}")).await.status, 401);
        for number in 0..3 {
            world.post(&anonymous(), "/items", json!({"name": number.to_string()})).await.data();
        }
        let from = cursor(&page(&world, "limit=1&cursor=").await);
        let raw = base64::Engine::decode(&base64::engine::general_purpose::URL_SAFE_NO_PAD, &from).unwrap();
        assert!(!String::from_utf8_lossy(&raw).contains("canary"));
    }
}

#[tokio::test]
async fn a_cursor_is_valid_for_the_sort_that_it_was_made_with() {
    for world in worlds([items()]).await {
        for number in 0..4 {
            world.post(&anonymous(), "/items", json!({"name": number.to_string(), "rank": number / 2})).await.data();
        }
        let made = cursor(&page(&world, "limit=1&sort=-rank&cursor=").await);
        let next = page(&world, &format!("limit=2&sort=-rank&cursor={made}")).await;
        assert_eq!(names(&next), ["3", "0"], "{}", world.name());
        for other in ["", "&sort=rank", "&sort=-rank,name", "&sort=-name"] {
            let answer = world.get(&anonymous(), &format!("/items?cursor={made}{other}")).await;
            assert_eq!(answer.status, 400, "{other}");
            assert!(answer.text.contains("keep the sort"), "{}", answer.text);
        }
    }
}

/// A page in the middle of a hundred thousand records reads its own records and not those before it.
#[tokio::test]
async fn pages_by_a_chosen_sort_follow_the_index() {
    let things = items().field(Field::int("size").index()).field(Field::timestamp("seen_at").index());
    for world in worlds([things]).await.into_iter().filter(|world| world.name() == "sqlite") {
        for (statement, index) in [
            (r#""size" IS NOT NULL ORDER BY "size" DESC, "id""#, "size"),
            (r#""size" = 7 AND "id" > 'x' ORDER BY "id""#, "size"),
            (r#""size" < 7 ORDER BY "size" DESC, "id""#, "size"),
            (r#""size" IS NULL ORDER BY "id""#, "size"),
            (r#""seen_at" > 'x' ORDER BY "seen_at", "id" DESC"#, "seen_at"),
        ] {
            let plan = format!("EXPLAIN QUERY PLAN SELECT name FROM items WHERE {statement} LIMIT 26");
            let rows = world.db().query(plan, vec![]).await.unwrap();
            let steps: Vec<String> = rows.iter().map(|row| row.get("detail").unwrap()).collect();
            assert!(steps[0].contains(" USING INDEX ") && steps[0].contains(index), "{statement}: {steps:?}");
        }
    }
}
