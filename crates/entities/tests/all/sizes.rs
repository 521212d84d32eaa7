//! Answers above the maximum size, and values at the limits of their types.

use gatewright_base::Budget;
use gatewright_entities::operations::{Batch, Call, Error};
use gatewright_entities::{Action, Entity, Field};
use serde_json::{Value, json};

use super::support::{World, anonymous, worlds, worlds_with};

/// The maximum size of an answer.
const MOST: usize = 8 * 1024 * 1024;
const MEGABYTE: usize = 1024 * 1024;

fn long_body() -> Field {
    Field::text("body").max(10_000_000)
}

async fn with_papers(count: usize, size: usize) -> Vec<World> {
    let entities = [
        Entity::new("papers").public().field(Field::int("number")).field(long_body()).cursor_fields(["number"]),
        Entity::new("marks").public().field(Field::relation("paper", "papers")),
    ];
    let worlds = worlds(entities).await;
    for world in &worlds {
        for number in 0..count {
            let made = world.post(&anonymous(), "/papers", json!({"number": number, "body": "x".repeat(size)})).await;
            if number == 0 {
                for _ in 0..20 {
                    world.post(&anonymous(), "/marks", json!({"paper": made.id()})).await.data();
                }
            }
        }
    }
    worlds
}

#[tokio::test]
async fn a_page_by_cursor_ends_where_it_is_full_and_loses_nothing() {
    for world in with_papers(20, MEGABYTE - 1024).await {
        for direction in ["forward", "backward"] {
            let (mut seen, mut from, mut pages) = (Vec::new(), String::new(), 0);
            loop {
                let answer =
                    world.get(&anonymous(), &format!("/papers?limit=100&direction={direction}&cursor={from}")).await;
                assert!(answer.status.is_success() && answer.text.len() < MOST + 1024, "{}", answer.text.len());
                let page = answer.json();
                let mut numbers: Vec<u64> =
                    page["data"].as_array().unwrap().iter().map(|paper| paper["number"].as_u64().unwrap()).collect();
                assert!(numbers.is_sorted() && !numbers.is_empty());
                if direction == "backward" {
                    numbers.reverse();
                }
                seen.extend(numbers);
                pages += 1;
                match page["cursor"].as_str() {
                    Some(cursor) => cursor.clone_into(&mut from),
                    None => break,
                }
            }
            if direction == "backward" {
                seen.reverse();
            }
            assert_eq!(seen, (0..20).collect::<Vec<u64>>(), "{} {direction}", world.name());
            assert_eq!(pages, 3);
        }
    }
}

#[tokio::test]
async fn a_page_by_number_ends_where_it_is_full_and_a_cursor_continues_it() {
    for world in with_papers(20, MEGABYTE - 1024).await {
        for sort in ["", "&sort=-created_at", "&sort=-number,body"] {
            let first = world.get(&anonymous(), &format!("/papers?limit=20{sort}")).await;
            if sort.contains("body") {
                assert_eq!(first.status, 413, "the values sorted by are too long for a cursor");
                continue;
            }
            assert!(first.status.is_success() && first.text.len() < MOST + 1024, "{}", first.status);
            let mut page = first.json();
            assert_eq!((&page["total"], &page["page"], &page["hasMore"]), (&json!(20), &json!(1), &json!(true)));
            let numbers = |page: &Value| -> Vec<u64> {
                page["data"].as_array().unwrap().iter().map(|paper| paper["number"].as_u64().unwrap()).collect()
            };
            let mut seen = numbers(&page);
            while let Some(cursor) = page["cursor"].as_str() {
                page = world.get(&anonymous(), &format!("/papers?limit=20&cursor={cursor}{sort}")).await.json();
                seen.extend(numbers(&page));
            }
            let mut expected: Vec<u64> = (0..20).collect();
            if !sort.is_empty() {
                expected.sort_by_key(|number| std::cmp::Reverse(*number));
            }
            // All were made at the same time: equal records come in id order.
            if sort == "&sort=-created_at" {
                expected.reverse();
            }
            assert_eq!(seen, expected, "{} {sort}", world.name());
        }
        for query in ["limit=8", "limit=20&fields=number", "limit=8&page=3"] {
            let page = world.get(&anonymous(), &format!("/papers?{query}")).await.json();
            assert!(page.get("cursor").is_none(), "{query}: nothing ended early");
        }
        // A large record that many refer to is repeated in the answer.
        let mut seen = 0;
        let mut page = world.get(&anonymous(), "/marks?include=paper&limit=20").await.json();
        loop {
            seen += page["data"].as_array().unwrap().len();
            let Some(cursor) = page["cursor"].as_str() else { break };
            let next = world.get(&anonymous(), &format!("/marks?include=paper&limit=20&cursor={cursor}")).await;
            assert!(next.status.is_success() && next.text.len() < MOST + MEGABYTE, "{}", next.status);
            page = next.json();
        }
        assert_eq!(seen, 20, "{}", world.name());
    }
}

#[tokio::test]
async fn text_has_a_default_length_limit_and_longer_stored_values_stay() {
    let notes = Entity::new("notes")
        .public()
        .field(Field::string("title"))
        .field(Field::text("body"))
        .field(Field::string("long").max(5_000))
        .field(Field::int("rank"));
    for world in worlds([notes]).await {
        for (field, most) in [("title", 1_000), ("body", 262_144), ("long", 5_000)] {
            let fits = world.post(&anonymous(), "/notes", json!({field: "é".repeat(most)})).await;
            assert_eq!(fits.status, 201, "{} {field}", world.name());
            let refused = world.post(&anonymous(), "/notes", json!({field: "é".repeat(most + 1)})).await;
            assert_eq!((refused.status.as_u16(), &*refused.faults()[field]), (422, "max"), "{field}");
        }
        let path = world.post(&anonymous(), "/notes", json!({"title": "x"})).await.header("location").to_owned();
        let sql = "UPDATE notes SET title = ?1, body = ?2";
        world.db().execute(sql, gatewright_db::params!["x".repeat(2_000), "y".repeat(300_000)]).await.unwrap();
        let changed = world.patch(&anonymous(), &path, json!({"rank": 7})).await.data();
        assert_eq!((&changed["rank"], changed["title"].as_str().unwrap().len()), (&json!(7), 2_000));
        assert_eq!(world.get(&anonymous(), &path).await.data(), changed, "{}", world.name());
        assert_eq!(world.patch(&anonymous(), &path, json!({"title": "x".repeat(2_000)})).await.status, 422);
    }
}

#[tokio::test]
async fn a_record_that_is_larger_than_an_answer_is_still_answered() {
    for world in worlds([Entity::new("papers").public().field(long_body())]).await {
        for number in 0..3 {
            let id = world.post(&anonymous(), "/papers", "{}").await.id();
            let sql = "UPDATE papers SET body = ?1 WHERE id = ?2";
            let body = number.to_string().repeat(MOST + 10);
            world.db().execute(sql, gatewright_db::params![body, &id]).await.unwrap();
        }
        let (mut from, mut pages) = (String::new(), 0);
        loop {
            let page = world.get(&anonymous(), &format!("/papers?cursor={from}")).await.json();
            assert_eq!(page["data"].as_array().unwrap().len(), 1);
            pages += 1;
            match page["cursor"].as_str() {
                Some(cursor) => cursor.clone_into(&mut from),
                None => break,
            }
        }
        assert_eq!(pages, 3, "{}", world.name());
    }
}

#[tokio::test]
async fn numbers_at_their_ends_come_back_sort_filter_and_page_exactly() {
    let ledger = Entity::new("ledger")
        .public()
        .field(Field::int("units"))
        .field(Field::decimal("amount"))
        .cursor_fields(["amount", "units"]);
    let digits = "99999999999999999999999999999999999999";
    let small = "0.00000000000000000000000000000000000001";
    for world in worlds([ledger]).await {
        // In the order of their amounts.
        let rows = [
            (i64::MIN, format!("-{digits}")),
            (-1, "-0.1".to_owned()),
            (0, "0".to_owned()),
            (9_007_199_254_740_993, small.to_owned()),
            (i64::MAX - 1, "0.3".to_owned()),
            (i64::MAX, digits.to_owned()),
        ];
        for (units, amount) in rows.iter().rev() {
            let body = format!("{{\"units\":{units},\"amount\":\"{amount}\"}}");
            let made = world.post(&anonymous(), "/ledger", body).await;
            assert!(made.text.contains(&format!("\"units\":{units},\"amount\":\"{amount}\"")), "{}", made.text);
        }
        let amounts = |list: &Value| -> Vec<String> {
            list.as_array().unwrap().iter().map(|row| row["amount"].as_str().unwrap().to_owned()).collect()
        };
        let expected: Vec<String> = rows.iter().map(|(_, amount)| amount.clone()).collect();
        assert_eq!(amounts(&world.get(&anonymous(), "/ledger?sort=amount").await.data()), expected);
        assert_eq!(amounts(&world.get(&anonymous(), "/ledger?sort=units").await.data()), expected);
        assert_eq!(amounts(&world.get(&anonymous(), "/ledger?cursor=").await.data()), expected);
        let mut paged = Vec::new();
        let mut from = String::new();
        loop {
            let page = world.get(&anonymous(), &format!("/ledger?limit=1&cursor={from}")).await.json();
            paged.extend(amounts(&page["data"]));
            match page["cursor"].as_str() {
                Some(cursor) => cursor.clone_into(&mut from),
                None => break,
            }
        }
        assert_eq!(paged, expected, "{}", world.name());
        for (query, count) in [
            ("units=9223372036854775807", 1),
            ("units_gt=9223372036854775806", 1),
            ("units_lte=-9223372036854775808", 1),
            ("units=9007199254740992", 0),
            ("units=9007199254740993", 1),
            ("units_in=9223372036854775807,-9223372036854775808", 2),
            (&format!("amount={digits}"), 1),
            (&format!("amount={digits}.0"), 1),
            (&format!("amount_lt=-{}", &digits[1..]), 1),
            (&format!("amount_gt=0&amount_lte={small}"), 1),
            ("amount=0.30", 1),
            ("amount=3e-1", 1),
            ("amount_gte=0.3", 2),
        ] {
            let list = world.get(&anonymous(), &format!("/ledger?{query}")).await.data();
            assert_eq!(list.as_array().unwrap().len(), count, "{} {query}", world.name());
        }
        for query in
            ["units=9223372036854775808", "units=1.5", &format!("amount={digits}9"), "amount=NaN", "amount=1,5"]
        {
            assert_eq!(world.get(&anonymous(), &format!("/ledger?{query}")).await.status, 400, "{query}");
        }
    }
}

#[tokio::test]
async fn json_is_returned_as_sent_and_filtered_only_by_absence() {
    for world in worlds([Entity::new("things").public().field(Field::json("meta"))]).await {
        for meta in [
            json!({"a": {"b": [1, null, "é\u{1f4a9}\""]}, "": []}),
            json!([]),
            json!("text"),
            json!(false),
            json!(9_007_199_254_740_993_i64),
            json!({"deep": [[[[[["x"]]]]]]}),
        ] {
            let made = world.post(&anonymous(), "/things", json!({"meta": meta})).await;
            assert_eq!(made.data()["meta"], meta, "{}", world.name());
            assert_eq!(world.get(&anonymous(), made.header("location")).await.data()["meta"], meta);
            let shown = world.get(&anonymous(), &format!("{}?fields=meta", made.header("location"))).await.data();
            assert_eq!(shown, json!({"meta": meta}));
        }
        world.post(&anonymous(), "/things", json!({"meta": null})).await.data();
        for (query, total) in [("meta_null=true", 1), ("meta_null=false", 6)] {
            assert_eq!(world.get(&anonymous(), &format!("/things?{query}")).await.json()["total"], total, "{query}");
        }
        for query in ["meta=x", "meta_like=x", "meta_gt=1", "meta_in=1", "sort=meta"] {
            assert_eq!(world.get(&anonymous(), &format!("/things?{query}")).await.status, 400, "{query}");
        }
    }
}

/// Everything that a write may be, on a record that is there.
async fn every_write(world: &World, id: &str) -> Vec<(&'static str, Result<(), Error>)> {
    let (table, call) = (|| world.entities.table("papers").unwrap(), Call::default());
    let number = br#"{"number":1}"#;
    let items = format!(r#"{{"items":[{{"id":"{id}","number":2}}]}}"#);
    let batch = match table().batch(&call, Action::Update, items.as_bytes()).await {
        Ok(Batch::Committed(_)) => Ok(()),
        Ok(Batch::Failed { error, .. }) | Err(error) => Err(error),
    };
    let body = json!({ "number": 3, "body": "x".repeat(MEGABYTE) }).to_string();
    vec![
        ("update", table().update(&call, id, number.as_slice(), None).await.map(|_| ())),
        ("batch", batch),
        ("create", table().create(&call, body.as_bytes()).await.map(|_| ())),
        ("delete", table().delete(&call, id, None).await.map(|_| ())),
        ("restore", table().restore(&call, id).await.map(|_| ())),
    ]
}

#[tokio::test]
async fn a_write_that_returns_a_large_record_needs_room_for_it_before_it_is_read() {
    let papers = Entity::new("papers").public().soft_delete().field(Field::int("number")).field(long_body());
    let budget = Budget::new(8 * MEGABYTE);
    for world in worlds_with([papers], |builder| builder.budget(budget.clone())).await {
        let body = json!({ "number": 0, "body": "x".repeat(MEGABYTE) }).to_string();
        let made = world.entities.table("papers").unwrap().create(&Call::default(), body.as_bytes()).await.unwrap();
        let mut others = budget.lease(None);
        others.grow(7 * MEGABYTE).unwrap();
        for (way, ended) in every_write(&world, made.id()).await {
            let is_refused = matches!(ended, Err(Error::OverBudget(_))) || (way == "restore" && ended.is_ok());
            assert!(is_refused, "{}: {way}: {ended:?}", world.name());
        }
        let now = world.entities.table("papers").unwrap().get(&Call::default(), made.id()).await.unwrap();
        assert_eq!(now.json(), made.json(), "nothing was changed");
        // A small record needs none.
        world.entities.table("papers").unwrap().create(&Call::default(), br#"{"number":9}"#.as_slice()).await.unwrap();
        drop(others);
        for (way, ended) in every_write(&world, made.id()).await {
            ended.unwrap_or_else(|error| panic!("{}: {way}: {error}", world.name()));
        }
        assert_eq!(budget.used(), 0, "{}", world.name());
    }
}
