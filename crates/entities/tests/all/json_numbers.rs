//! Numbers in JSON, in every spelling that could make engines differ: one form in every answer, and comparisons that give the
//! same result in SQLite, in Postgres, in lists, in streams and in rules.

use std::cmp::Ordering;
use std::time::Duration;

use gatewright_base::{Ambient, Identity};
use gatewright_entities::{Action, Builder, Entity, Field};
use gatewright_events::{Bus, StreamOptions, Streams};
use http::{Method, StatusCode};
use serde_json::Value;

use super::support::{Answer, Stream, World, encoded, user, worlds, worlds_with};

/// Numbers as clients write them, and their one form.
const NUMBERS: [(&str, &str); 70] = [
    ("0", "0"),
    ("-0", "0"),
    ("-0.0", "0"),
    ("0.000", "0"),
    ("0e5", "0"),
    ("-0E-400", "0"),
    ("0e999999999", "0"),
    ("1", "1"),
    ("1.0", "1"),
    ("1e0", "1"),
    ("1E0", "1"),
    ("100e-2", "1"),
    ("-1", "-1"),
    ("-1.00", "-1"),
    ("1e05", "100000"),
    ("1E+5", "100000"),
    ("100000.0", "100000"),
    ("1e18", "1000000000000000000"),
    ("1e19", "1e+19"),
    ("1e20", "1e+20"),
    ("100000000000000000000", "1e+20"),
    ("1e21", "1e+21"),
    ("1e22", "1e+22"),
    ("10000000000000000000000", "1e+22"),
    ("1e23", "1e+23"),
    ("0.1", "0.1"),
    ("0.10", "0.1"),
    ("1e-1", "0.1"),
    ("0.1000000000000000055511151231257827", "0.1"),
    ("0.2", "0.2"),
    ("0.3", "0.3"),
    ("0.30000000000000004", "0.30000000000000004"),
    ("0.5", "0.5"),
    ("1.5", "1.5"),
    ("-1.5", "-1.5"),
    ("0.001", "0.001"),
    ("0.0001", "0.0001"),
    ("0.00001", "0.00001"),
    ("1e-5", "0.00001"),
    ("0.000001", "1e-6"),
    ("1e-7", "1e-7"),
    ("123456.789012345678", "123456.78901234567"),
    ("9007199254740991", "9007199254740991"),
    ("9007199254740992", "9007199254740992"),
    ("9007199254740993", "9007199254740993"),
    ("9007199254740993.0", "9007199254740993"),
    ("-9007199254740993", "-9007199254740993"),
    ("9223372036854775806", "9223372036854775806"),
    ("9223372036854775807", "9223372036854775807"),
    ("9223372036854775807.0", "9223372036854775807"),
    ("9223372036854775808", "9.223372036854776e+18"),
    ("9223372036854777856", "9.223372036854778e+18"),
    ("-9223372036854775808", "-9223372036854775808"),
    ("-9223372036854777856", "-9.223372036854778e+18"),
    ("18446744073709551616", "1.8446744073709552e+19"),
    ("18446744073709551616.0", "1.8446744073709552e+19"),
    ("1e-300", "1e-300"),
    ("-1e-300", "-1e-300"),
    ("1e300", "1e+300"),
    ("-1e300", "-1e+300"),
    ("5e-324", "5e-324"),
    ("4.9406564584124654e-324", "5e-324"),
    ("3e-324", "5e-324"),
    ("2.2250738585072011e-308", "2.225073858507201e-308"),
    ("2.2250738585072014e-308", "2.2250738585072014e-308"),
    ("1.7976931348623157e308", "1.7976931348623157e+308"),
    ("-1.7976931348623157e308", "-1.7976931348623157e+308"),
    ("8.41e21", "8.41e+21"),
    ("6.02214076E23", "6.02214076e+23"),
    ("3.141592653589793238462643383279", "3.141592653589793"),
];

/// Numbers that nothing holds.
const REFUSED: [&str; 12] = [
    "1e400",
    "-1e400",
    "1e309",
    "1e99999999999999999999",
    "1e-400",
    "-1e-324",
    "1e-99999999999999999999",
    "18446744073709551617",
    "18446744073709551615",
    "9223372036854775809",
    "-9223372036854775809",
    "100000000000000000000000",
];

/// Text that JSON does not have as a number.
const MALFORMED: [&str; 9] = ["NaN", "Infinity", "-Infinity", "+1", "01", ".5", "1.", "1e", "0x10"];

const OPERATORS: [&str; 6] = ["=", "!=", "<", "<=", ">", ">="];

/// The order of two numbers, by their forms, in arithmetic that shares nothing with the server.
fn order(one: &str, other: &str) -> Ordering {
    match (one.parse::<i64>(), other.parse::<i64>()) {
        (Ok(one), Ok(other)) => one.cmp(&other),
        (Ok(whole), Err(_)) => order_mixed(whole, other.parse().unwrap()),
        (Err(_), Ok(whole)) => order_mixed(whole, one.parse().unwrap()).reverse(),
        (Err(_), Err(_)) => one.parse::<f64>().unwrap().partial_cmp(&other.parse::<f64>().unwrap()).unwrap(),
    }
}

#[expect(clippy::cast_possible_truncation, reason = "the range is checked before")]
fn order_mixed(whole: i64, double: f64) -> Ordering {
    const LIMIT: f64 = 9_223_372_036_854_775_808.0;
    if double >= LIMIT {
        return Ordering::Less;
    }
    if double < -LIMIT {
        return Ordering::Greater;
    }
    let below = double.floor();
    whole.cmp(&(below as i64)).then(if double > below { Ordering::Less } else { Ordering::Equal })
}

fn holds(operator: &str, order: Ordering) -> bool {
    match operator {
        "=" => order.is_eq(),
        "!=" => order.is_ne(),
        "<" => order.is_lt(),
        "<=" => order.is_le(),
        ">" => order.is_gt(),
        _ => order.is_ge(),
    }
}

fn things() -> Entity {
    Entity::new("things")
        .public()
        .max_list_limit(1000)
        .field(Field::int("place"))
        .field(Field::json("n"))
        .field(Field::json("meta"))
        .field(Field::json("list"))
        .field(Field::float("weight"))
        .field(Field::decimal("price"))
}

/// A record with a number at every place where it can be.
fn record(place: usize, number: &str) -> String {
    format!(
        r#"{{"place": {place}, "n": {number}, "meta": {{"a": {{"n": {number}}}}}, "list": ["x", [{number}], {number}],
            "weight": {number}}}"#
    )
}

async fn fill(world: &World) {
    for (place, (number, _)) in NUMBERS.iter().enumerate() {
        let answer = send(world, &user("ann"), Method::POST, "/things", &record(place, number)).await;
        assert_eq!(answer.status, StatusCode::CREATED, "{} {number}: {}", world.name(), answer.text);
    }
}

async fn send(world: &World, caller: &Identity, method: Method, path: &str, body: &str) -> Answer {
    world.ask(caller, method, path).json(body).send().await
}

/// The places of the records that a list shows.
async fn places(world: &World, query: &str) -> Vec<usize> {
    let answer = world.get(&user("ann"), &format!("/things?limit=1000&fields=place&sort=place&{query}")).await;
    assert_eq!(answer.status, StatusCode::OK, "{} {query}: {}", world.name(), answer.text);
    let data = answer.data();
    let place = |record: &Value| usize::try_from(record["place"].as_u64().unwrap()).unwrap();
    data.as_array().unwrap().iter().map(place).collect()
}

#[tokio::test]
async fn a_number_has_the_same_text_in_every_answer_of_both_engines() {
    for world in worlds([things()]).await {
        for (place, (number, form)) in NUMBERS.iter().enumerate() {
            let created = send(&world, &user("ann"), Method::POST, "/things", &record(place, number)).await;
            let path = format!("/things/{}", created.id());
            let got = world.get(&user("ann"), &path).await;
            // Sent back as it was answered, a record stays the same.
            let n = format!(r#"{{"n": {form}}}"#);
            let patched = send(&world, &user("ann"), Method::PATCH, &path, &n).await;
            let listed = world.get(&user("ann"), &format!("/things?place={place}")).await;
            for answer in [created, got, patched, listed] {
                let text = answer.text.replace(": ", ":").replace(", ", ",");
                for part in [
                    format!(r#""n":{form},"#),
                    format!(r#""meta":{{"a":{{"n":{form}}}}}"#),
                    format!(r#""list":["x",[{form}],{form}]"#),
                ] {
                    assert!(text.contains(&part), "{} {number}: {part} in {text}", world.name());
                }
            }
        }
    }
}

#[tokio::test]
async fn a_number_that_nothing_holds_is_refused_with_its_field_and_path() {
    for world in worlds([things()]).await {
        let ann = user("ann");
        let id = send(&world, &ann, Method::POST, "/things", r#"{"n": 1}"#).await.id();
        for number in REFUSED {
            for (body, place) in [
                (format!(r#"{{"n": {number}}}"#), "n"),
                (format!(r#"{{"meta": {{"a": [0, {number}]}}}}"#), "meta.a[1]"),
                (format!(r#"{{"list": [{{"b c": {number}}}]}}"#), r#"list[0]["b c"]"#),
            ] {
                let batch = format!(r#"{{"items": [{body}]}}"#);
                let change = format!(r#"{{"items": [{{"id": "{id}", {}]}}"#, &body[1..]);
                for (method, path, body) in [
                    (Method::POST, "/things".to_owned(), &body),
                    (Method::PATCH, format!("/things/{id}"), &body),
                    (Method::PUT, format!("/things/{id}"), &body),
                    (Method::POST, "/things/_batch".to_owned(), &batch),
                    (Method::PATCH, "/things/_batch".to_owned(), &change),
                ] {
                    let answer = send(&world, &ann, method.clone(), &path, body).await;
                    assert_eq!(answer.status.as_u16(), 422, "{method} {path} {body}: {}", answer.text);
                    let json = answer.json();
                    let error = match &json["results"] {
                        Value::Array(results) => &results[0]["error"]["errors"][0],
                        _ => &json["errors"][0],
                    };
                    let field = place.split(['.', '[']).next().unwrap();
                    assert_eq!(error["field"], field, "{}", answer.text);
                    let message = error["message"].as_str().unwrap();
                    assert!(message.ends_with(&format!(", at {place}")), "{message}");
                }
            }
            for filter in
                [format!("meta.a.n = {number}"), format!("list has {number}"), format!("meta.a.n in [1, {number}]")]
            {
                let answer = world.get(&ann, &format!("/things?filter={}", encoded(&filter))).await;
                assert_eq!(answer.status, StatusCode::BAD_REQUEST, "{filter}: {}", answer.text);
                let live = world.get(&ann, &format!("/things/_events?filter={}", encoded(&filter))).await;
                assert_eq!(live.status, StatusCode::BAD_REQUEST, "{filter}: {}", live.text);
            }
        }
        for number in MALFORMED {
            let answer = send(&world, &ann, Method::POST, "/things", &format!(r#"{{"n": [{number}]}}"#)).await;
            assert_eq!(answer.status, StatusCode::BAD_REQUEST, "{number}: {}", answer.text);
        }
        assert_eq!(world.get(&ann, "/things").await.json()["total"], 1);
    }
}

/// Filters on JSON, each with the test of a stored number's form against the literal's.
fn filters(literal: &str) -> Vec<(String, &'static str)> {
    let mut filters: Vec<(String, &str)> = Vec::new();
    for operator in OPERATORS {
        // A comparison of the whole field with a number is refused where it stands alone.
        filters.push((format!("n {operator} {literal} || list has 'none'"), operator));
        filters.push((format!("meta.a.n {operator} {literal}"), operator));
    }
    filters.push((format!("list has {literal}"), "="));
    filters.push((format!("meta.a.n in ['x', {literal}]"), "="));
    filters.push((format!("!(meta.a.n != {literal})"), "="));
    filters
}

#[tokio::test]
async fn lists_compare_every_number_with_every_other_one_by_their_values() {
    for world in worlds([things()]).await {
        fill(&world).await;
        let mut compared = 0;
        for (literal, form) in NUMBERS {
            for (filter, operator) in filters(literal) {
                let found = places(&world, &format!("filter={}", encoded(&filter))).await;
                let expected: Vec<usize> =
                    (0..NUMBERS.len()).filter(|place| holds(operator, order(NUMBERS[*place].1, form))).collect();
                assert_eq!(found, expected, "{} {filter}", world.name());
                compared += NUMBERS.len();
            }
        }
        assert!(compared > 60_000, "{compared}");
        // With a column of floats: a large integer is rounded there, and compared as the double that it became.
        for operator in OPERATORS {
            let found = places(&world, &format!("filter={}", encoded(&format!("n {operator} weight")))).await;
            let weight = |form: &str| {
                let double: f64 = form.parse().unwrap();
                if double.fract() == 0.0 && double.abs() < 9e18 {
                    format!("{double:.0}")
                } else {
                    format!("{double:e}")
                }
            };
            let expected: Vec<usize> = (0..NUMBERS.len())
                .filter(|place| holds(operator, order(NUMBERS[*place].1, &weight(NUMBERS[*place].1))))
                .collect();
            assert_eq!(found, expected, "{} n {operator} weight", world.name());
        }
    }
}

#[tokio::test]
async fn floats_compare_sort_and_add_up_alike_on_both_engines() {
    let mut answers = Vec::new();
    for world in worlds([things()]).await {
        fill(&world).await;
        for (literal, form) in NUMBERS {
            for operator in OPERATORS {
                let found =
                    places(&world, &format!("filter={}", encoded(&format!("weight {operator} {literal}")))).await;
                let double = |form: &str| form.parse::<f64>().unwrap();
                let order = |place: usize| double(NUMBERS[place].1).partial_cmp(&double(form)).unwrap();
                let expected: Vec<usize> = (0..NUMBERS.len()).filter(|place| holds(operator, order(*place))).collect();
                assert_eq!(found, expected, "{} weight {operator} {literal}", world.name());
            }
        }
        let text = async |query: &str| world.get(&user("ann"), &format!("/things?{query}")).await.text;
        answers.push([
            text("fields=place,weight&sort=weight,place&limit=1000").await,
            text("group=weight&sum=place").await,
            text("sum=weight,place&min=weight&max=weight&avg=weight").await,
            text(&format!("sum=weight&avg=weight&filter={}", encoded("weight < 1e19 && weight > -1e18"))).await,
            text(&format!("sum=weight&avg=weight&filter={}", encoded("weight < 1e24 && weight > 1e20"))).await,
        ]);
    }
    assert!(answers.windows(2).all(|pair| pair[0] == pair[1]), "{answers:#?}");
}

#[tokio::test]
async fn decimals_compare_and_add_up_alike_on_both_engines() {
    const DECIMALS: [&str; 14] = [
        "0",
        "-0",
        "0e5",
        "-0.00",
        "1",
        "1.0",
        "100e-2",
        "0.1",
        "0.10",
        "1e37",
        "1e-38",
        "-1e-38",
        "9007199254740993",
        "99999999999999999999999999999999999999",
    ];
    let mut answers = Vec::new();
    for world in worlds([things()]).await {
        for (place, number) in DECIMALS.iter().enumerate() {
            let body = format!(r#"{{"place": {place}, "price": {number}}}"#);
            assert_eq!(send(&world, &user("ann"), Method::POST, "/things", &body).await.status, StatusCode::CREATED);
        }
        let mut found = Vec::new();
        for literal in DECIMALS {
            for operator in OPERATORS {
                found
                    .push(places(&world, &format!("filter={}", encoded(&format!("price {operator} {literal}")))).await);
            }
            found.push(places(&world, &format!("filter={}", encoded(&format!("price in [{literal}]")))).await);
            let last = &found[found.len() - 7..];
            assert!(
                last[0].contains(&DECIMALS.iter().position(|one| *one == literal).unwrap()),
                "a number equals itself"
            );
            assert_eq!(last[0], last[6], "{literal}");
        }
        let text = async |query: &str| world.get(&user("ann"), &format!("/things?{query}")).await.text;
        let sums = [
            text("group=price&sum=place").await,
            text("sum=price&min=price&max=price&avg=price").await,
            text("fields=place,price&sort=price,place").await,
        ];
        answers.push((found, sums));
    }
    assert!(answers.windows(2).all(|pair| pair[0] == pair[1]), "{answers:#?}");
}

/// Comparisons of which one applies to a record, as `pick` says.
const PICKS: [(&str, &str); 14] = [
    ("=", "-0.0"),
    ("=", "1.0"),
    ("!=", "1e22"),
    ("<", "9007199254740993"),
    ("<=", "9007199254740993"),
    (">", "9223372036854775807"),
    (">=", "9223372036854775808"),
    ("=", "18446744073709551616"),
    ("<", "1e-300"),
    ("=", "5e-324"),
    ("=", "0.30000000000000004"),
    (">", "0.3"),
    ("has", "1e23"),
    ("has", "9007199254740993"),
];

fn picked() -> String {
    let one = |(pick, (operator, literal)): (usize, &(&str, &str))| {
        let left = if *operator == "has" { "list" } else { "n" };
        format!("pick = {pick} && {left} {operator} {literal}")
    };
    PICKS.iter().enumerate().map(one).collect::<Vec<_>>().join(" || ")
}

#[tokio::test]
async fn streams_rules_and_lists_decide_alike_about_numbers_in_json() {
    let kind = |name: &str| {
        let entity = Entity::new(name).max_list_limit(1000).field(Field::int("place")).field(Field::int("pick"));
        entity.field(Field::json("n")).field(Field::json("list"))
    };
    // Long heartbeats: no stream ends because a busy machine was late to confirm its caller.
    let patient = |builder: Builder| {
        let bus = Bus::new(&Ambient::system());
        let streams = Streams::start(&bus, StreamOptions::default());
        builder.bus(bus).streams(streams)
    };
    let ruled = kind("ruled").rule(Action::Read, format!("place = -1 || {}", picked()));
    for world in worlds_with([kind("open").public(), ruled], patient).await {
        let ann = user("ann");
        let filter = format!("place = -1 || {}", picked());
        let of_filter = format!("/open/_events?filter={}", encoded(&filter));
        let mut filtered = Stream::open(world.ask(&ann, Method::GET, &of_filter)).await;
        let mut ruled = Stream::open(world.ask(&ann, Method::GET, "/ruled/_events")).await;
        let mut expected = Vec::new();
        for (pick, (operator, literal)) in PICKS.iter().enumerate() {
            let form = NUMBERS.iter().find(|(number, _)| number == literal).expect("a number of the table").1;
            let numbers: Vec<(usize, &(&str, &str))> = NUMBERS.iter().enumerate().collect();
            // A stream has room for some events that were not read yet.
            for few in numbers.chunks(20) {
                let first = expected.len();
                for (place, (number, own)) in few {
                    let place = pick * NUMBERS.len() + place;
                    let body = format!(r#"{{"place": {place}, "pick": {pick}, "n": {number}, "list": [{number}]}}"#);
                    create(&world, &ann, &body).await;
                    if holds(if *operator == "has" { "=" } else { operator }, order(own, form)) {
                        expected.push(place);
                    }
                }
                create(&world, &ann, r#"{"place": -1, "n": 0}"#).await;
                for (what, stream) in [("filter", &mut filtered), ("rule", &mut ruled)] {
                    let seen = until_marker(stream).await;
                    assert_eq!(seen, expected[first..], "{} stream by {what}: {operator} {literal}", world.name());
                }
            }
        }
        for path in
            [format!("/open?sort=place&limit=1000&filter={}", encoded(&filter)), "/ruled?sort=place&limit=1000".into()]
        {
            let listed = world.get(&ann, &path).await.data();
            let listed: Vec<usize> = listed.as_array().unwrap().iter().filter_map(place).collect();
            assert_eq!(listed, expected, "{} {path}", world.name());
        }
    }
}

/// The place of a record; `None` for the marker.
fn place(record: &Value) -> Option<usize> {
    record["place"].as_u64().map(|place| usize::try_from(place).unwrap())
}

/// The places of the records that a stream shows up to the marker.
async fn until_marker(stream: &mut Stream) -> Vec<usize> {
    let mut seen = Vec::new();
    loop {
        let next = tokio::time::timeout(Duration::from_mins(2), stream.next()).await;
        let (_, record) = next.expect("no event in 2 minutes").expect("the stream ended");
        match place(&record) {
            Some(place) => seen.push(place),
            None => return seen,
        }
    }
}

async fn create(world: &World, caller: &Identity, body: &str) {
    for path in ["/open", "/ruled"] {
        let answer = send(world, caller, Method::POST, path, body).await;
        assert_eq!(answer.status, StatusCode::CREATED, "{} {body}: {}", world.name(), answer.text);
    }
}
