//! A record takes a small multiple of the bytes of the request that wrote it, in answers and in events: no spelling of a value
//! makes it long.

use gatewright_entities::{Entity, Field};
use http::StatusCode;

use super::support::{user, worlds};

/// The multiple. `1e18` becomes 19 digits, and Postgres puts a space behind each comma.
const MOST: usize = 5;
/// A record's id, times and keys, and every number and time in it once.
const OVERHEAD: usize = 900;
/// The bytes of a value in the test.
const BYTES: usize = 30_000;

fn things() -> Entity {
    Entity::new("things")
        .public()
        .field(Field::string("name"))
        .field(Field::text("body"))
        .field(Field::int("rank"))
        .field(Field::float("weight"))
        .field(Field::decimal("price"))
        .field(Field::boolean("live"))
        .field(Field::choice("state", ["draft", "done"]))
        .field(Field::date("day"))
        .field(Field::timestamp("seen_at"))
        .field(Field::uuid("mark"))
        .field(Field::json("meta"))
}

/// An array that repeats an element.
fn repeated(element: &str) -> String {
    let count = BYTES / (element.len() + 1);
    format!("[{}]", vec![element; count].join(","))
}

fn bodies() -> Vec<String> {
    let elements = [
        "1e-300",
        "-1e-300",
        "5e-324",
        "2.2250738585072014e-308",
        "1e300",
        "1.7976931348623157e308",
        "1e18",
        "-9e18",
        "1e19",
        "18446744073709551616",
        "1e22",
        "0e5",
        "0e999999999",
        "-0.0",
        "1e-5",
        "1E05",
        "0.1",
        "1",
        "true",
        "null",
        "\"\"",
        "[]",
        "{}",
        "[[]]",
        "{\"a\":1e300}",
        "{\"\":0}",
        "\"\\u0001\"",
        "\"\\u001f\\b\\/\"",
        "\"\\ud83d\\ude00\"",
        "\"\u{7f}\u{2028}é\"",
        "0.1000000000000000055511151231257827",
    ];
    let texts = ["\\u0001", "\\u0000e", "\\n", "\\\"", "\\/", "\u{7f}", "\u{2028}", "é", "\\ud83d\\ude00"];
    let values = [
        ("rank", "1e18"),
        ("rank", "-9.223372036854775808e18"),
        ("weight", "1e300"),
        ("weight", "5e-324"),
        ("weight", "1e15"),
        ("weight", "1e-400"),
        ("price", "1e37"),
        ("price", "\"1e-38\""),
        ("price", "1e9999"),
        ("price", "\"0e9999\""),
        ("price", "\"1e-99999999999\""),
        ("day", "\"9999-12-31\""),
        ("day", "\"+999999-01-01\""),
        ("seenAt", "\"2026-01-02T03:04:05.123456789012345678901234567890+02:00\""),
        ("seenAt", "\"9999-12-31T23:59:60Z\""),
        ("mark", "\"0191d2b3-0000-7000-8000-00000000000a\""),
        ("name", "\"\\u0001\\u0002\""),
        ("live", "true"),
        ("state", "\"done\""),
    ];
    let json = elements.iter().map(|element| format!("{{\"meta\":{}}}", repeated(element)));
    let text = texts.iter().map(|piece| format!("{{\"body\":\"{}\"}}", piece.repeat(BYTES / piece.len())));
    let short = values.iter().map(|(field, value)| format!("{{\"{field}\":{value}}}"));
    json.chain(text).chain(short).collect()
}

#[tokio::test]
async fn a_record_takes_a_small_multiple_of_the_bytes_that_wrote_it() {
    for mut world in worlds([things()]).await {
        let mut stored = 0;
        for body in bodies() {
            let shown: String = body.chars().take(60).collect();
            let created = world.post(&user("ann"), "/things", &body).await;
            if created.status != StatusCode::CREATED {
                assert_eq!(
                    created.status,
                    StatusCode::UNPROCESSABLE_ENTITY,
                    "{} {shown}: {}",
                    world.name(),
                    created.text
                );
                continue;
            }
            stored += 1;
            let got = world.get(&user("ann"), &format!("/things/{}", created.id())).await;
            let listed = world.get(&user("ann"), "/things?limit=1&sort=-id").await;
            let event = world.events.recv().await.unwrap();
            let most = MOST * body.len() + OVERHEAD;
            for (what, bytes) in [
                ("created", created.text.len()),
                ("got", got.text.len()),
                ("listed", listed.text.len()),
                ("event", event.record().len()),
            ] {
                assert!(bytes <= most, "{} {what} {shown}: {bytes} bytes of {}", world.name(), body.len());
            }
        }
        assert!(stored > 45, "{stored}");
    }
}
