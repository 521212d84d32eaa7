//! Lists: pages, order, and invalid parameters.

use gatewright_entities::{Entity, Field};
use serde_json::{Value, json};

use super::support::{World, anonymous, encoded, user, worlds};

fn items() -> Entity {
    Entity::new("items")
        .public()
        .max_list_limit(40)
        .field(Field::string("name"))
        .field(Field::int("rank"))
        .field(Field::decimal("price"))
        .field(Field::boolean("live"))
        .field(Field::date("day"))
        .field(Field::timestamp("seen_at"))
        .field(Field::json("meta"))
        .field(Field::string("secret").hidden().default("x"))
}

async fn names(world: &World, query: &str) -> Vec<String> {
    let list = world.get(&anonymous(), &format!("/items{query}")).await.data();
    list.as_array().unwrap().iter().map(|item| item["name"].as_str().unwrap().to_owned()).collect()
}

#[tokio::test]
async fn pages_follow_the_order_of_creation_and_have_their_number() {
    for world in worlds([items()]).await {
        let empty = world.get(&anonymous(), "/items").await;
        assert_eq!(empty.json(), json!({"data": [], "total": 0, "page": 1, "limit": 25, "hasMore": false}));
        let beyond = world.get(&anonymous(), "/items?page=7").await.json();
        assert_eq!(beyond, json!({"data": [], "total": 0, "page": 7, "limit": 25, "hasMore": false}));
        for number in 0..60 {
            world.post(&anonymous(), "/items", json!({"name": format!("{number:02}")})).await.data();
        }
        let cases: [(&str, std::ops::Range<u32>, u32, u32, bool); 9] = [
            ("", 0..25, 1, 25, true),
            ("?page=2", 25..50, 2, 25, true),
            ("?page=3", 50..60, 3, 25, false),
            ("?page=4", 0..0, 4, 25, false),
            ("?page=4294967295&limit=40", 0..0, 4_294_967_295, 40, false),
            ("?limit=20&page=3", 40..60, 3, 20, false),
            ("?limit=1", 0..1, 1, 1, true),
            ("?limit=1000000", 0..40, 1, 40, true),
            ("?limit=99999999999999999999999999", 0..40, 1, 40, true),
        ];
        for (query, range, page, limit, more) in cases {
            let expected: Vec<String> = range.map(|number| format!("{number:02}")).collect();
            assert_eq!(names(&world, query).await, expected, "{query}");
            let mut list = world.get(&anonymous(), &format!("/items{query}")).await.json();
            list.as_object_mut().unwrap().remove("data");
            assert_eq!(list, json!({"total": 60, "page": page, "limit": limit, "hasMore": more}), "{query}");
        }
    }
}

#[tokio::test]
async fn totals_are_counted_as_requested() {
    let mine = Entity::new("mine").owner("owner_id").field(Field::string("name"));
    let sums = Entity::new("sums").public().field(Field::int("total"));
    for world in worlds([items(), mine, sums]).await {
        let place = async |query: &str| {
            let mut list = world.get(&anonymous(), &format!("/items?{query}")).await.json();
            list.as_object_mut().unwrap().remove("data");
            list
        };
        let batch: Vec<Value> = (0..100).map(|number| json!({"name": number.to_string()})).collect();
        world.post(&anonymous(), "/items/_batch", json!({"items": batch[..60].to_vec()})).await;
        for (query, expected) in [
            ("total=exact", json!({"total": 60, "page": 1, "limit": 25, "hasMore": true})),
            ("total=estimate", json!({"total": 60, "page": 1, "limit": 25, "hasMore": true})),
            ("total=none", json!({"page": 1, "limit": 25, "hasMore": true})),
            ("total=none&page=3", json!({"page": 3, "limit": 25, "hasMore": false})),
            ("total=none&limit=20&page=3", json!({"page": 3, "limit": 20, "hasMore": false})),
            ("total=none&page=9", json!({"page": 9, "limit": 25, "hasMore": false})),
            ("total=estimate&page=9", json!({"total": 60, "page": 9, "limit": 25, "hasMore": false})),
        ] {
            assert_eq!(place(query).await, expected, "{} {query}", world.name());
        }
        for _ in 0..10 {
            world.post(&anonymous(), "/items/_batch", json!({"items": batch})).await;
        }
        for (query, expected) in [
            ("total=exact&limit=1", json!({"total": 1060, "page": 1, "limit": 1, "hasMore": true})),
            (
                "total=estimate&limit=1",
                json!({"total": 1000, "totalIsEstimate": true, "page": 1, "limit": 1, "hasMore": true}),
            ),
            // As many as were counted.
            (
                "total=estimate&limit=1&page=1020",
                json!({"total": 1021, "totalIsEstimate": true, "page": 1020, "limit": 1, "hasMore": true}),
            ),
            // Beyond the end, no more than was counted.
            (
                "total=estimate&limit=1&page=5000",
                json!({"total": 1000, "totalIsEstimate": true, "page": 5000, "limit": 1, "hasMore": false}),
            ),
            ("total=estimate&limit=40&page=27", json!({"total": 1060, "page": 27, "limit": 40, "hasMore": false})),
            ("total=estimate&name=7", json!({"total": 11, "page": 1, "limit": 25, "hasMore": false})),
        ] {
            assert_eq!(place(query).await, expected, "{} {query}", world.name());
        }
        // Only the caller's own records are counted.
        let (ann, ben) = (user("ann"), user("ben"));
        world.post(&ann, "/mine", json!({"name": "a"})).await.data();
        assert_eq!(world.get(&ben, "/mine?total=estimate&limit=1&page=2").await.json()["total"], 0);
        for bad in ["total=some", "total=", "total=none&total=none", "total=none&cursor=", "total=none&group=name"] {
            assert_eq!(world.get(&anonymous(), &format!("/items?{bad}")).await.status, 400, "{bad}");
        }
        // A field of this name comes first.
        for sum in [5, 6, 6] {
            world.post(&anonymous(), "/sums", json!({"total": sum})).await.data();
        }
        assert_eq!(world.get(&anonymous(), "/sums?total=6").await.json()["total"], 2);
        assert_eq!(world.get(&anonymous(), "/sums?total=none").await.status, 400);
        assert_eq!(world.get(&anonymous(), "/sums?total=6&cursor=").await.data().as_array().unwrap().len(), 2);
    }
}

#[tokio::test]
async fn every_sort_is_the_same_on_both_engines() {
    for world in worlds([items()]).await {
        let made: [Value; 5] = [
            json!({"name": "a", "rank": 2, "price": "10", "live": true, "day": "2024-01-02", "seenAt": "2024-01-01T00:00:00+02:00"}),
            json!({"name": "B", "rank": -1, "price": "9.5", "live": false, "day": "2023-12-31", "seenAt": "2024-01-01T00:00:00Z"}),
            json!({"name": "é", "rank": 2, "price": "-100", "live": true, "day": "2024-01-01", "seenAt": "1999-01-01T00:00:00Z"}),
            json!({"name": "c"}),
            json!({"name": "d", "rank": 10, "price": "0.25", "live": false, "day": "1999-01-01", "seenAt": "2030-01-01T00:00:00Z"}),
        ];
        for item in made {
            world.post(&anonymous(), "/items", item).await.data();
        }
        for (sort, expected) in [
            ("name", "B a c d é"),
            ("-name", "é d c a B"),
            ("rank", "B a é d c"),
            ("-rank", "c d a é B"),
            ("rank,-name", "B é a d c"),
            ("price", "é d B a c"),
            ("-price", "c a B d é"),
            ("live,name", "B d a é c"),
            ("day", "d B é a c"),
            ("seenAt", "é a B d c"),
            ("seen_at", "é a B d c"),
            ("-seen_at", "c d B a é"),
            ("createdAt", "a B é c d"),
            ("-id", "d c é B a"),
        ] {
            let names = names(&world, &format!("?sort={sort}")).await.join(" ");
            assert_eq!(names, expected, "{} sort={sort}", world.name());
        }
    }
}

#[tokio::test]
async fn equal_records_are_spread_over_pages_without_loss_or_repeat() {
    for world in worlds([items()]).await {
        for number in 0..50 {
            world
                .post(&anonymous(), "/items", json!({"name": format!("{number:02}"), "rank": number % 2}))
                .await
                .data();
        }
        let mut seen = Vec::new();
        for page in 1..=8 {
            seen.extend(names(&world, &format!("?sort=-rank&limit=7&page={page}")).await);
        }
        let odd = (0..50).filter(|number| number % 2 == 1);
        let even = (0..50).filter(|number| number % 2 == 0);
        let expected: Vec<String> = odd.chain(even).map(|number| format!("{number:02}")).collect();
        assert_eq!(seen, expected, "{}", world.name());
    }
}

#[tokio::test]
async fn invalid_parameters_are_named() {
    for world in worlds([items()]).await {
        for (query, detail) in [
            ("page=0", "page is a whole number from 1"),
            ("page=-1", "page is a whole number from 1"),
            ("page=", "page is a whole number from 1"),
            ("page=1.5", "page is a whole number from 1"),
            ("page=%2B1", "page is a whole number from 1"),
            ("limit=0", "limit is a whole number from 1"),
            ("limit=ten", "limit is a whole number from 1"),
            ("limit=1&limit=2", "the parameter \"limit\" is given more than once"),
            ("limt=1", "there is no parameter \"limt\"; did you mean \"limit\"?"),
            ("zebra=1", "there is no parameter \"zebra\""),
            ("sort=nmae", "there is no field \"nmae\" to sort by; did you mean \"name\"?"),
            ("sort=seenat", "there is no field \"seenat\" to sort by; did you mean \"seenAt\"?"),
            ("sort=secret", "there is no field \"secret\" to sort by"),
            ("sort=zebra", "there is no field \"zebra\" to sort by"),
            ("nmae_like=1", "there is no parameter \"nmae_like\"; did you mean \"name_like\"?"),
            ("sort=name,name", "sort names \"name\" twice"),
            ("sort=meta", "a list cannot be sorted by \"meta\": JSON has no order"),
        ] {
            let answer = world.get(&anonymous(), &format!("/items?{query}")).await;
            answer.is_refused(400, detail);
            assert_eq!(answer.json()["code"], "bad_request");
        }
    }
}

#[tokio::test]
async fn lists_of_owners_are_counted_apart() {
    for world in worlds([Entity::new("notes").owner("user_id").field(Field::string("text"))]).await {
        for number in 0..30 {
            let owner = user(if number % 3 == 0 { "ann" } else { "ben" });
            world.post(&owner, "/notes", json!({"text": number.to_string()})).await.data();
        }
        for (owner, total) in [("ann", 10), ("ben", 20), ("eve", 0)] {
            let list = world.get(&user(owner), "/notes?limit=5").await.json();
            assert_eq!((&list["total"], &list["hasMore"]), (&json!(total), &json!(total > 5)), "{owner}");
            let full = world.get(&user(owner), "/notes?limit=100").await.json();
            assert_eq!(full["data"].as_array().unwrap().len(), total);
            assert_eq!(full["total"], total);
        }
    }
}

#[tokio::test]
async fn misspelled_names_get_a_suggestion() {
    let posts =
        Entity::new("posts").public().field(Field::int("priority")).field(Field::relation("topic_id", "topics"));
    for world in worlds([posts, Entity::new("topics").public().field(Field::string("name"))]).await {
        for (query, meant) in [
            ("prority=3", "priority"),
            ("prority_gte=3", "priority_gte"),
            ("include=topic", "topicId"),
            ("sort=prority", "priority"),
        ] {
            let refused = world.get(&anonymous(), &format!("/posts?{query}")).await;
            assert_eq!(refused.status, 400, "{query}");
            let detail = refused.json()["detail"].as_str().unwrap().to_owned();
            assert!(detail.contains(&format!("did you mean \"{meant}\"?")), "{}: {detail}", world.name());
        }
        for (filter, said) in [
            ("priority == 3", "use = to compare, found \"==\" at 1:10"),
            ("priority = [1]", "a list goes with in: \"priority\" in [1, 2] at 1:12"),
            ("priority in 5", "\"priority\" in takes a list, such as [1, 2] at 1:13"),
        ] {
            let refused = world.get(&anonymous(), &format!("/posts?filter={}", encoded(filter))).await;
            refused.is_refused(400, &format!("filter: {said}"));
        }
    }
}

#[tokio::test]
async fn empty_parameters_are_ignored() {
    let things = items().search_fields(["name"]);
    for world in worlds([things, Entity::new("plain").public().field(Field::int("rank"))]).await {
        let made = world.post(&anonymous(), "/items", json!({"name": "x"})).await;
        let plain = world.get(&anonymous(), "/items").await.json();
        let all = "filter=&sort=&fields=&include=&q=";
        assert_eq!(world.get(&anonymous(), &format!("/items?{all}")).await.json(), plain, "{}", world.name());
        assert_eq!(world.get(&anonymous(), &format!("/plain?{all}")).await.status, 200);
        let path = made.header("location");
        assert_eq!(world.get(&anonymous(), &format!("{path}?fields=&include=")).await.data(), made.data());
    }
}
