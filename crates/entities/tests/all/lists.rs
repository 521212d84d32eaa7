//! Fields of the type `list`.

use gatewright_db::params;
use gatewright_entities::{Action, Entity, Field, Kind, RecordCheck};
use http::{Method, StatusCode};
use serde_json::{Value, json};

use super::schema;
use super::support::{Stream, World, anonymous, encoded, user, user_with, worlds};

pub(super) fn posts() -> Entity {
    Entity::new("posts")
        .public()
        .field(Field::string("title"))
        .field(Field::int("n"))
        .field(Field::list("tags", Kind::String).max_items(4).unique_items())
        .field(Field::list("ranks", Kind::Int).max_items(3))
        .field(Field::list("weights", Kind::Float))
        .field(Field::list("prices", Kind::Decimal))
        .field(Field::list("states", Kind::Enum).values(["draft", "done"]).default(json!(["draft"])))
        .field(Field::list("days", Kind::Date))
        .field(Field::list("times", Kind::Timestamp))
        .field(Field::list("marks", Kind::Uuid))
        .field(Field::list("fixed", Kind::String).read_only().default(json!(["x"])))
}

pub(super) async fn post(world: &World, body: Value) -> String {
    let answer = world.post(&anonymous(), "/posts", &body).await;
    assert_eq!(answer.status, StatusCode::CREATED, "{}: {body}: {}", world.name(), answer.text);
    answer.header("location").to_owned()
}

/// The titles of the records that a filter finds.
async fn found(world: &World, filter: &str) -> Vec<String> {
    let answer = world.get(&anonymous(), &format!("/posts?limit=100&sort=title&filter={}", encoded(filter))).await;
    assert_eq!(answer.status, StatusCode::OK, "{}: {filter}: {}", world.name(), answer.text);
    let titles = answer.data();
    titles.as_array().unwrap().iter().map(|record| record["title"].as_str().unwrap().to_owned()).collect()
}

#[tokio::test]
async fn a_list_is_an_array_on_the_wire_and_empty_where_it_is_not_named() {
    for mut world in worlds([posts()]).await {
        let path = post(&world, json!({"title": "a"})).await;
        let (_, _, event) = world.event().await;
        let made = world.get(&anonymous(), &path).await.data();
        assert_eq!(made, event, "{}", world.name());
        let lists = |record: &Value| {
            json!([
                record["tags"],
                record["ranks"],
                record["weights"],
                record["prices"],
                record["states"],
                record["days"],
                record["times"],
                record["marks"],
                record["fixed"]
            ])
        };
        assert_eq!(lists(&made), json!([[], [], [], [], ["draft"], [], [], [], ["x"]]), "{}", world.name());
        let body = json!({
            "tags": ["b", "a\"é\\\n"], "ranks": [i64::MAX, 1.0, 1], "weights": [0.1, 1e300, 5e-324, 2],
            "prices": ["1.50", 0.1], "states": [], "days": ["2024-02-29"], "times": ["2026-01-02T03:04:05+02:00"],
            "marks": ["0191D2B3-0000-7000-8000-00000000000A"], "fixed": ["y"],
        });
        let changed = world.patch(&anonymous(), &path, &body).await;
        let expected = json!([
            ["b", "a\"é\\\n"],
            [i64::MAX, 1, 1],
            [0.1, 1e300, 5e-324, 2],
            ["1.5", "0.1"],
            [],
            ["2024-02-29"],
            ["2026-01-02T01:04:05.000000Z"],
            ["0191d2b3-0000-7000-8000-00000000000a"],
            ["x"]
        ]);
        assert_eq!(lists(&changed.data()), expected, "{}", world.name());
        let (_, _, event) = world.event().await;
        let read = world.get(&anonymous(), &path).await;
        assert_eq!((changed.data(), read.data()), (event.clone(), event), "{}", world.name());
        assert_eq!(changed.header("etag"), read.header("etag"), "{}", world.name());
        // What was read can be sent back, and changes nothing.
        let again = world.ask(&anonymous(), Method::PUT, &path).json(read.data()).send().await;
        assert_eq!(lists(&again.data()), expected, "{}", world.name());
    }
}

#[tokio::test]
async fn an_item_that_does_not_fit_is_named_by_its_index() {
    for mut world in worlds([posts()]).await {
        let path = post(&world, json!({"title": "a", "tags": ["a"]})).await;
        world.event().await;
        let before = world.get(&anonymous(), &path).await.data();
        for (field, value, code, message) in [
            ("tags", json!(null), "type", "must be an array of string values"),
            ("tags", json!("a"), "type", "must be an array of string values"),
            ("tags", json!({"0": "a"}), "type", "takes a value, or one operator of $append, $remove"),
            ("tags", json!(["a", null]), "type", "must not be null, at tags[1]"),
            ("tags", json!(["a", "b", 7]), "type", "must be text, at tags[2]"),
            ("tags", json!(["a", "b\u{0}"]), "characters", "must not have the character U+0000, at tags[1]"),
            ("tags", json!(["a", "b", "a"]), "duplicate", "must not have an item twice, at tags[2]"),
            ("tags", json!(["a", "b", "c", "d", "e"]), "max", "must have at most 4 items"),
            ("tags", json!(["x".repeat(1001)]), "max", "must have at most 1000 characters, at tags[0]"),
            ("ranks", json!([1, 1.5]), "type", "at ranks[1]"),
            ("ranks", json!([[1]]), "type", "at ranks[0]"),
            ("weights", json!([1, "1"]), "type", "must be a number, at weights[1]"),
            ("prices", json!(["1,5"]), "type", "must be a decimal number, as a string or a number, at prices[0]"),
            ("states", json!(["done", "gone"]), "enum", "must be one of draft, done, at states[1]"),
            ("days", json!(["2023-02-29"]), "type", "at days[0]"),
            ("times", json!(["2026-01-02"]), "type", "at times[0]"),
            ("marks", json!(["x"]), "type", "must be a UUID with hyphens, at marks[0]"),
        ] {
            for (method, path) in [(Method::PATCH, path.as_str()), (Method::POST, "/posts")] {
                let refused = world.ask(&anonymous(), method.clone(), path).json(json!({field: value})).send().await;
                assert_eq!(refused.status, 422, "{} {field} {value}", world.name());
                let error = refused.json()["errors"][0].clone();
                let expected = if method == Method::POST && value.is_object() { "type" } else { code };
                assert_eq!((&error["field"], &error["code"]), (&json!(field), &json!(expected)), "{value}");
                let said = error["message"].as_str().unwrap();
                assert!(method == Method::POST && value.is_object() || said.ends_with(message), "{value}: {said}");
            }
        }
        // Null is refused in a merge patch too, where it removes members of JSON.
        let merge = world.ask(&anonymous(), Method::PATCH, &path).merge_patch(json!({"tags": null})).send().await;
        assert_eq!(json!(merge.faults()), json!({"tags": "type"}), "{}", world.name());
        assert_eq!(world.get(&anonymous(), &path).await.data(), before, "{}", world.name());
        world.no_more_events().await;
    }
}

const RECORDS: [&str; 5] = ["a", "b", "c", "d", "e"];

async fn fill(world: &World) {
    for body in [
        json!({"title": "a", "n": 1, "tags": ["red", "ann"], "ranks": [1, 2, 2], "weights": [0.1, 2.0], "prices": ["1.50"]}),
        json!({"title": "b", "n": 2, "tags": ["Red"], "ranks": [2, 9_007_199_254_740_993_i64], "weights": [1e300],
            "states": ["done", "draft"]}),
        json!({"title": "c", "n": 4, "tags": [], "ranks": [], "prices": [], "states": []}),
        json!({"title": "d", "n": 8, "tags": ["c"], "days": ["2024-02-29"], "times": ["2026-01-02T03:04:05Z"],
            "marks": ["0191d2b3-0000-7000-8000-00000000000a"]}),
        json!({"title": "e", "n": 16, "tags": ["red", "b", "c", "it's"], "prices": ["10", "9.5"]}),
    ] {
        post(world, body).await;
    }
}

#[tokio::test]
async fn filters_find_items_empty_lists_and_lengths() {
    for world in worlds([posts()]).await {
        fill(&world).await;
        for (filter, expected) in [
            ("tags has 'red'", &["a", "e"][..]),
            ("!(tags has 'red')", &["b", "c", "d"]),
            ("tags has 'it\\'s'", &["e"]),
            ("tags has 'r'", &[]),
            ("tags has title", &["d"][..0]),
            ("tags has @me", &[]),
            ("tags = []", &["c"]),
            ("tags != []", &["a", "b", "d", "e"]),
            ("tags = null", &[]),
            ("tags != null", &RECORDS),
            ("length(tags) > 1", &["a", "e"]),
            ("length(tags) = 0", &["c"]),
            ("length(tags) in [1, 4]", &["b", "d", "e"]),
            ("length(tags) = length(ranks)", &["c"]),
            ("length(tags) >= n", &["a"]),
            ("ranks has 2", &["a", "b"]),
            ("ranks has '2'", &["a", "b"]),
            ("ranks has 9007199254740993", &["b"]),
            ("ranks has 9007199254740992", &[]),
            ("weights has 2", &["a"]),
            ("weights has 0.1 || weights has 1e300", &["a", "b"]),
            ("prices has 1.5", &["a"]),
            ("prices has '10.00'", &["e"]),
            ("states has 'draft'", &["a", "b", "d", "e"]),
            ("days has '2024-02-29'", &["d"]),
            ("times has '2026-01-02T04:04:05+01:00'", &["d"]),
            ("marks has '0191D2B3-0000-7000-8000-00000000000A'", &["d"]),
            ("tags has 'red' && length(prices) = 2", &["e"]),
            ("tags != [] && !(ranks has 2)", &["d", "e"]),
        ] {
            assert_eq!(found(&world, filter).await, expected, "{}: {filter}", world.name());
        }
    }
}

#[tokio::test]
async fn what_a_list_cannot_be_compared_with_is_said() {
    const OF_LISTS: &str = "\"tags\" takes has for one of its items, = [] and != []; length() gives how many there are";
    for world in worlds([posts()]).await {
        for (query, message) in [
            ("filter=tags = 'a'", OF_LISTS),
            ("filter=tags > 'a'", OF_LISTS),
            ("filter=tags in ['a']", OF_LISTS),
            ("filter=length(tags) > 1 && tags = 'a'", OF_LISTS),
            ("filter=length(tags) > 1 && tags < 'a'", OF_LISTS),
            ("tags=a", OF_LISTS),
            ("tags_gt=a", OF_LISTS),
            ("filter=tags ~ 'a'", "\"tags\" is not text; ~ needs text"),
            ("filter=tags = ['a']", "a list goes with in"),
            ("filter=title = []", "\"title\" takes a text"),
            ("filter=n = []", "\"n\" takes a whole number"),
            ("filter=title has 'a'", "has takes an array on its left"),
            ("filter=ranks has 'x'", "\"ranks\" takes a whole number"),
            ("filter=ranks has @me", "\"ranks\" has takes a value on its right"),
            ("filter=states has 'gone'", "\"states\" takes one of draft, done"),
            ("filter=tags has null", "\"tags\" takes a text"),
            ("filter=tags has true", "\"tags\" takes a text"),
            ("filter=tags has []", "a list goes with in"),
            ("filter=tags = ranks", "are not of one type"),
            ("filter=length(n) > 1", "\"n\" has no length: length() takes a text or a list"),
            ("filter=tags.a = 'a'", "\"tags\" is neither a relation nor a json field"),
            ("sort=tags", "a list cannot be sorted by \"tags\": a list has no order"),
            ("sort=-title,tags", "a list cannot be sorted by \"tags\": a list has no order"),
            ("sum=ranks", "sum takes numbers; \"ranks\" is none"),
            ("max=tags", "max takes numbers, text and times; \"tags\" is none"),
            ("group=tags,ranks", "group takes at most one list"),
        ] {
            let (name, value) = query.split_once('=').unwrap();
            let answer = world.get(&anonymous(), &format!("/posts?{name}={}", encoded(value))).await;
            assert_eq!(answer.status, 400, "{} {query}: {}", world.name(), answer.text);
            let detail = answer.json()["detail"].as_str().unwrap().to_owned();
            assert!(detail.contains(message), "{query}: {detail}");
        }
    }
}

#[tokio::test]
async fn groups_by_a_list_count_a_record_once_for_each_of_its_items() {
    for world in worlds([posts()]).await {
        fill(&world).await;
        for (query, expected) in [
            (
                "group=tags&sum=n",
                json!([
                    {"tags": "Red", "count": 1, "sum": {"n": 2}}, {"tags": "ann", "count": 1, "sum": {"n": 1}},
                    {"tags": "b", "count": 1, "sum": {"n": 16}}, {"tags": "c", "count": 2, "sum": {"n": 24}},
                    {"tags": "it's", "count": 1, "sum": {"n": 16}}, {"tags": "red", "count": 2, "sum": {"n": 17}},
                    {"tags": null, "count": 1, "sum": {"n": 4}},
                ]),
            ),
            (
                // The item 2 is twice in one record.
                "group=ranks&filter=title in ['a', 'b', 'c']",
                json!([{"ranks": 1, "count": 1}, {"ranks": 2, "count": 2}, {"ranks": 9_007_199_254_740_993_i64, "count": 1},
                    {"ranks": null, "count": 1}]),
            ),
            (
                "group=prices",
                json!([{"prices": "1.5", "count": 1}, {"prices": "9.5", "count": 1}, {"prices": "10", "count": 1},
                    {"prices": null, "count": 3}]),
            ),
            (
                "group=weights&filter=weights != []",
                json!([{"weights": 0.1, "count": 1}, {"weights": 2.0, "count": 1}, {"weights": 1e300, "count": 1}]),
            ),
            ("group=times&filter=length(times) > 0", json!([{"times": "2026-01-02T03:04:05.000000Z", "count": 1}])),
            ("group=days,n&filter=days != []", json!([{"days": "2024-02-29", "n": 8, "count": 1}])),
        ] {
            let (group, filter) = query.split_once("&filter=").unwrap_or((query, "n > 0"));
            let answer = world.get(&anonymous(), &format!("/posts?{group}&filter={}", encoded(filter))).await;
            assert_eq!(answer.status, StatusCode::OK, "{}: {}", world.name(), answer.text);
            assert_eq!(answer.data(), expected, "{} {query}", world.name());
        }
    }
}

/// Groups of a list are those of the records that the caller may read.
#[tokio::test]
async fn groups_by_a_list_keep_to_what_the_caller_may_read() {
    let notes = Entity::new("notes")
        .owner("owner")
        .soft_delete()
        .field(Field::list("value", Kind::String))
        .field(Field::list("key", Kind::String));
    for world in worlds([notes]).await {
        for (caller, word) in [("ann", "mine"), ("ben", "secret")] {
            let answer = world.post(&user(caller), "/notes", json!({"value": [word, "both"], "key": ["k"]})).await;
            assert_eq!(answer.status, StatusCode::CREATED, "{}", answer.text);
        }
        let gone = world.post(&user("ann"), "/notes", json!({"value": ["gone"]})).await;
        world.delete(&user("ann"), gone.header("location")).await;
        let groups = world.get(&user("ann"), "/notes?group=value").await.data();
        assert_eq!(groups, json!([{"value": "both", "count": 1}, {"value": "mine", "count": 1}]), "{}", world.name());
    }
}

#[tokio::test]
async fn rules_and_checks_read_lists() {
    let notes = Entity::new("notes")
        .field(Field::list("readers", Kind::String))
        .field(Field::list("tags", Kind::String))
        .rule(Action::Read, "readers has @me || readers = []")
        .rule(Action::Update, "readers has @me")
        .check(RecordCheck::new("length(tags) <= 2 || tags has 'long'", "must be few").field("tags"))
        .check(RecordCheck::new("!(@old.tags has 'long') || tags has 'long'", "must stay long").field("tags"));
    for world in worlds([notes]).await {
        let (ann, ben) = (user("ann"), user("ben"));
        let path =
            world.post(&ann, "/notes", json!({"readers": ["ann"], "tags": ["a"]})).await.header("location").to_owned();
        world.post(&ann, "/notes", json!({"readers": []})).await.id();
        let seen = async |caller| world.get(caller, "/notes").await.data().as_array().unwrap().len();
        assert_eq!((seen(&ann).await, seen(&ben).await), (2, 1), "{}", world.name());
        assert_eq!(world.get(&ben, &path).await.status, 404, "{}", world.name());
        let refused = world.patch(&ann, &path, json!({"tags": {"$append": ["b", "c"]}})).await;
        assert_eq!(json!(refused.faults()), json!({"tags": "check"}), "{}: {}", world.name(), refused.text);
        let long = world.patch(&ann, &path, json!({"tags": {"$append": ["b", "long"]}})).await;
        assert_eq!(long.data()["tags"], json!(["a", "b", "long"]), "{}", world.name());
        let short = world.patch(&ann, &path, json!({"tags": {"$remove": ["long"]}})).await;
        assert_eq!(json!(short.faults()), json!({"tags": "check"}), "{}: {}", world.name(), short.text);
        // Nobody may write themselves out: the rule holds after the change too.
        let out = world.patch(&ann, &path, json!({"readers": {"$remove": ["ann"]}})).await;
        assert_eq!(out.status, 403, "{}", world.name());
        let shared = world.patch(&ann, &path, json!({"readers": {"$append": ["ben"]}})).await;
        assert_eq!(shared.status, 200, "{}: {}", world.name(), shared.text);
        assert_eq!(world.get(&ben, &path).await.data()["tags"], json!(["a", "b", "long"]), "{}", world.name());
    }
}

#[tokio::test]
async fn streams_are_filtered_by_items() {
    for world in worlds([posts()]).await {
        let open = async |filter: &str| {
            let filter = format!("({filter}) || title = 'end'");
            Stream::open(world.ask(&anonymous(), Method::GET, &format!("/posts/_events?filter={}", encoded(&filter))))
                .await
        };
        // The last one is asked of the database.
        let mut streams = [
            open("tags has 'red'").await,
            open("ranks has 2").await,
            open("tags = []").await,
            open("length(tags) > 1").await,
        ];
        fill(&world).await;
        post(&world, json!({"title": "end", "tags": ["x"]})).await;
        for (stream, expected) in streams.iter_mut().zip([&["a", "e"][..], &["a", "b"], &["c"], &["a", "e"]]) {
            let mut titles = Vec::new();
            loop {
                let next = tokio::time::timeout(std::time::Duration::from_mins(1), stream.next());
                let (_, record) = next.await.expect("no event within a minute").expect("the stream ended");
                match record["title"].as_str().unwrap() {
                    "end" => break,
                    title => titles.push(title.to_owned()),
                }
            }
            assert_eq!(titles, expected, "{}", world.name());
        }
    }
}

#[tokio::test]
async fn a_list_that_is_added_or_was_json_is_empty_in_existing_records() {
    let notes = |list: Option<Field>| {
        list.into_iter().fold(Entity::new("notes").public().field(Field::string("title")), Entity::field)
    };
    for test_db in gatewright_db::testing::engines().await {
        let db = &test_db.db;
        super::support::make_users(db).await;
        schema::apply(db, &[notes(Some(Field::json("tags")))]).await.unwrap();
        let json_notes = notes(Some(Field::json("tags")));
        for tags in [json!(null), json!(["a"]), json!({"a": 1})] {
            schema::write(db, json_notes.clone(), json!({"title": "x", "tags": tags})).await;
        }
        let lists = || {
            [notes(Some(Field::list("tags", Kind::String))).field(Field::list("more", Kind::Int).default(json!([7])))]
        };
        let planned = schema::plan(db, &lists()).await.unwrap();
        let update = "UPDATE \"notes\" SET \"tags\" = '[]' WHERE \"notes\".\"tags\" IS NULL";
        assert!(planned.statements.iter().any(|sql| sql == update), "{planned:?}");
        assert_eq!(schema::apply(db, &lists()).await.unwrap(), planned, "{}", test_db.name);
        assert_eq!(schema::plan(db, &lists()).await.unwrap().statements, Vec::<String>::new(), "{}", test_db.name);
        let rows = db
            .query("SELECT CAST(tags AS TEXT) AS tags, CAST(more AS TEXT) AS more FROM notes ORDER BY id", params![])
            .await
            .unwrap();
        let read = |column: &str| {
            rows.iter().map(|row| row.get::<String>(column).unwrap().replace(' ', "")).collect::<Vec<_>>()
        };
        assert_eq!(read("tags"), ["[]", "[\"a\"]", "{\"a\":1}"], "{}", test_db.name);
        assert_eq!(read("more"), ["[7]"; 3], "{}", test_db.name);
        // What is no list is found, and named.
        let declared = gatewright_entities::Declarations::check(&lists()).unwrap();
        let mut findings = Vec::new();
        gatewright_entities::schema::verify(db, &declared, |finding| findings.push(finding.to_string())).await.unwrap();
        assert_eq!(findings.len(), 1, "{findings:?}");
        assert!(findings[0].contains("where a JSON array belongs"), "{findings:?}");
    }
}

/// What another program wrote makes its own record unreadable, and no list, filter or group.
#[tokio::test]
async fn a_value_that_is_no_list_harms_no_other_record() {
    for world in worlds([posts()]).await {
        fill(&world).await;
        let damage: &[&str] = match world.db().engine() {
            gatewright_db::Engine::Sqlite => &["'{no json'", "'{\"a\":1}'", "'[1'", "X'00'", "7"],
            gatewright_db::Engine::Postgres => &["'{\"a\":1}'", "'\"a\"'", "'null'"],
        };
        for value in damage {
            for column in ["tags", "ranks"] {
                let sql = format!("UPDATE posts SET {column} = {value} WHERE title = 'd'");
                world.db().execute(sql, params![]).await.unwrap();
            }
            for (filter, expected) in [
                ("tags has 'red'", &["a", "e"][..]),
                ("!(tags has 'red')", &["b", "c"]),
                ("ranks has 2", &["a", "b"]),
                ("tags = []", &["c"]),
                ("length(tags) > 1", &["a", "e"]),
                ("length(tags) >= 0 && !(tags has 'red')", &["b", "c"]),
                ("length(ranks) >= 0 && !(ranks has 2)", &["c", "e"]),
            ] {
                assert_eq!(found(&world, filter).await, expected, "{} {value} {filter}", world.name());
            }
            let groups = world.get(&anonymous(), "/posts?group=tags").await;
            assert_eq!(groups.data()[5], json!({"tags": "red", "count": 2}), "{} {value}", world.name());
        }
        // Items of another type are in no group of a number.
        let items = "UPDATE posts SET ranks = '[\"x\", 1.5, 1e30, 7]', weights = '[\"x\", 7]', prices = '[true, \"7\"]', tags = '[]' WHERE title = 'd'";
        world.db().execute(items, params![]).await.unwrap();
        for list in ["ranks", "weights", "prices"] {
            let groups =
                world.get(&anonymous(), &format!("/posts?group={list}&filter={}", encoded("title = 'd'"))).await;
            assert_eq!(groups.status, StatusCode::OK, "{}: {}", world.name(), groups.text);
        }
    }
}

/// Rows that broke a rule of the list which came later are named to the operator.
#[tokio::test]
async fn rows_that_a_later_limit_forbids_are_reported() {
    let notes = |list: Field| Entity::new("notes").public().field(list);
    for test_db in gatewright_db::testing::engines().await {
        let db = &test_db.db;
        super::support::make_users(db).await;
        let free = notes(Field::list("tags", Kind::String));
        schema::apply(db, std::slice::from_ref(&free)).await.unwrap();
        for tags in [json!(["a", "a"]), json!(["a", "b", "c"]), json!([])] {
            schema::write(db, free.clone(), json!({"tags": tags})).await;
        }
        let strict = [notes(Field::list("tags", Kind::String).max_items(2).unique_items())];
        let declared = gatewright_entities::Declarations::check(&strict).unwrap();
        let rules = gatewright_entities::schema::Rules::All;
        let remarks = gatewright_entities::schema::broken_rules(db, &declared, rules).await.unwrap();
        assert_eq!(remarks.len(), 2, "{remarks:?}");
        for (remark, rule) in remarks.iter().zip(["duplicate", "max"]) {
            assert!(remark.contains(&format!("1 row violates `{rule}`")), "{remark}");
        }
    }
}

#[tokio::test]
async fn an_explanation_shows_the_items_that_a_rule_reads() {
    let notes = Entity::new("notes").field(Field::list("readers", Kind::String)).rule(Action::Read, "readers has @me");
    for world in worlds([notes]).await {
        let id = world.post(&user("ann"), "/notes", json!({"readers": ["ben", "ann"]})).await.id();
        let table = world.entities.table("notes").unwrap();
        let call = gatewright_entities::Call::from(&user_with("ben", &[]));
        let explained = table.explain(&call, Action::Read, Some(&id)).await.unwrap();
        assert!(explained.allowed, "{explained:?}");
        assert!(format!("{explained:?}").contains("Array [String(\"ben\"), String(\"ann\")]"), "{explained:?}");
    }
}
