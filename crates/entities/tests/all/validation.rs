//! Invalid bodies: all errors at once, by field and code.

use gatewright_entities::{Entity, Field};
use serde_json::{Value, json};

use super::support::{anonymous, worlds};

fn everything() -> Entity {
    Entity::new("things")
        .public()
        .field(Field::string("display_name").required().min(2).max(5))
        .field(Field::text("body").pattern("^[a-z]*$"))
        .field(Field::int("count").min(0).max(10))
        .field(Field::float("ratio").min(0).max(1))
        .field(Field::decimal("price").min("0.01"))
        .field(Field::boolean("live"))
        .field(Field::choice("state", ["draft", "published"]).required().default("draft"))
        .field(Field::date("day"))
        .field(Field::timestamp("seen_at"))
        .field(Field::uuid("key"))
        .field(Field::json("meta"))
        .field(Field::relation("parent", "things"))
        .field(Field::string("secret").hidden())
}

#[tokio::test]
async fn all_errors_of_a_body_are_reported_together() {
    for world in worlds([everything()]).await {
        let answer = world.post(&anonymous(), "/things", json!({
            "body": "ABC", "count": 11, "ratio": -1, "price": "0.001", "live": "yes", "state": "gone", "day": "2024-13-01",
            "seenAt": "noon", "key": "x", "meta": "\0", "parent": 7, "secret": "x", "displayNmae": "x", "\u{1F4A9}": 1,
        })).await;
        assert_eq!(answer.status, 422);
        assert_eq!(answer.json()["code"], "validation_failed");
        let expected: std::collections::BTreeMap<String, String> = [
            ("displayName", "required"),
            ("body", "pattern"),
            ("count", "max"),
            ("ratio", "min"),
            ("price", "min"),
            ("live", "type"),
            ("state", "enum"),
            ("day", "type"),
            ("seenAt", "type"),
            ("key", "type"),
            ("meta", "characters"),
            ("parent", "type"),
            ("secret", "unknown_field"),
            ("displayNmae", "unknown_field"),
            ("\u{1F4A9}", "unknown_field"),
        ]
        .into_iter()
        .map(|(field, code)| (field.to_owned(), code.to_owned()))
        .collect();
        assert_eq!(answer.faults(), expected, "{}", world.name());
        assert!(answer.text.contains("did you mean \\\"displayName\\\"?"), "{}", answer.text);
        assert_eq!(world.rows("things").await, 0);
    }
}

#[tokio::test]
async fn a_hidden_field_is_refused_like_an_unknown_one() {
    for world in worlds([everything()]).await {
        let message = async |key: &str| {
            let answer = world.post(&anonymous(), "/things", json!({"displayName": "abc", key: 1})).await;
            assert_eq!(answer.status, 422);
            let text = answer.json()["errors"].to_string();
            text.replace(key, "KEY")
        };
        assert_eq!(message("secret").await, message("zebras").await);
        // Nor is it ever suggested.
        assert_eq!(message("secre").await, message("zebra").await);
    }
}

#[tokio::test]
async fn a_field_is_accepted_once_in_one_case() {
    for world in worlds([everything()]).await {
        for body in [
            r#"{"displayName":"abc","display_name":"abc"}"#,
            r#"{"displayName":"abc","displayName":"abc"}"#,
            r#"{"displayName":"abc","display\u004eame":"abc"}"#,
        ] {
            let answer = world.post(&anonymous(), "/things", body).await;
            assert_eq!((answer.status.as_u16(), &*answer.faults()["displayName"]), (422, "duplicate"), "{body}");
        }
    }
}

#[tokio::test]
async fn null_is_not_absent() {
    for world in worlds([everything()]).await {
        let made = world.post(&anonymous(), "/things", json!({"display_name": "abc", "count": 3})).await;
        assert_eq!(made.data()["state"], "draft");
        assert_eq!(made.data()["live"], Value::Null);
        let path = made.header("location");
        let kept = world.patch(&anonymous(), path, json!({"live": true})).await.data();
        assert_eq!((&kept["count"], &kept["live"]), (&json!(3), &json!(true)));
        let emptied = world.patch(&anonymous(), path, json!({"count": null})).await.data();
        assert_eq!((&emptied["count"], &emptied["live"]), (&Value::Null, &json!(true)));
        for body in [json!({"displayName": null}), json!({"state": null})] {
            let refused = world.patch(&anonymous(), path, &body).await;
            assert_eq!(
                (refused.status.as_u16(), refused.faults().into_values().next().unwrap()),
                (422, "required".to_owned())
            );
            let mut create = json!({"displayName": "abc"});
            create.as_object_mut().unwrap().extend(body.as_object().unwrap().clone());
            assert_eq!(world.post(&anonymous(), "/things", create).await.status, 422);
        }
    }
}

#[tokio::test]
async fn values_are_returned_exactly_or_in_canonical_form() {
    for world in worlds([everything()]).await {
        for (field, sent, kept) in [
            ("displayName", json!("é\u{1F600}"), json!("é\u{1F600}")),
            ("displayName", json!("a\"\\\n"), json!("a\"\\\n")),
            ("count", json!(10), json!(10)),
            ("count", json!(1.0), json!(1)),
            ("ratio", json!(0.1), json!(0.1)),
            ("ratio", json!(1), json!(1.0)),
            ("price", json!("12.50"), json!("12.5")),
            ("price", json!(1e3), json!("1000")),
            ("price", json!("99999999999999999999.00000001"), json!("99999999999999999999.00000001")),
            ("live", json!(false), json!(false)),
            ("day", json!("2024-02-29"), json!("2024-02-29")),
            ("day", json!("0001-01-01"), json!("0001-01-01")),
            ("day", json!("9999-12-31"), json!("9999-12-31")),
            ("seenAt", json!("2024-01-01T00:00:00.1234567+05:30"), json!("2023-12-31T18:30:00.123456Z")),
            ("seenAt", json!("0001-01-01T00:00:00Z"), json!("0001-01-01T00:00:00.000000Z")),
            ("seenAt", json!("9999-12-30T00:00:00Z"), json!("9999-12-30T00:00:00.000000Z")),
            ("key", json!("0191D2B3-AAAA-7000-8000-00000000000A"), json!("0191d2b3-aaaa-7000-8000-00000000000a")),
            ("meta", json!({"b": 1, "a": [true, null, "x"]}), json!({"a": [true, null, "x"], "b": 1})),
            ("meta", json!(7), json!(7)),
            ("meta", json!("text"), json!("text")),
            ("meta", json!([]), json!([])),
            ("body", json!(""), json!("")),
        ] {
            let mut body = json!({"displayName": "abc"});
            body[field] = sent.clone();
            let made = world.post(&anonymous(), "/things", &body).await;
            assert_eq!(made.data()[field], kept, "{} {field} {sent}", world.name());
            let got = world.get(&anonymous(), made.header("location")).await;
            assert_eq!(got.data()[field], kept, "{} {field} {sent}", world.name());
        }
    }
}

#[tokio::test]
async fn integers_are_exact_at_their_limits() {
    for world in worlds([Entity::new("numbers").public().field(Field::int("n"))]).await {
        for number in ["9223372036854775807", "-9223372036854775808", "9007199254740993", "0"] {
            let made = world.post(&anonymous(), "/numbers", format!("{{\"n\":{number}}}")).await;
            assert!(made.text.contains(&format!("\"n\":{number},")), "{}", made.text);
        }
        for number in ["9223372036854775808", "-9223372036854775809", "1e19", "0.5", "NaN"] {
            let answer = world.post(&anonymous(), "/numbers", format!("{{\"n\":{number}}}")).await;
            assert!(matches!(answer.status.as_u16(), 400 | 422), "{number}");
        }
    }
}

#[tokio::test]
async fn nul_characters_are_refused_everywhere() {
    for world in worlds([everything()]).await {
        for (field, value) in [
            ("displayName", json!("a\0b")),
            ("body", json!("\0")),
            ("meta", json!({"a": ["\0"]})),
            ("meta", json!({"\0": 1})),
        ] {
            let mut body = json!({"displayName": "abc"});
            body[field] = value;
            let answer = world.post(&anonymous(), "/things", body).await;
            assert_eq!((answer.status.as_u16(), &*answer.faults()[field]), (422, "characters"), "{field}");
        }
        for (field, value) in
            [("state", json!("draft\0")), ("parent", json!("\0")), ("key", json!("\0")), ("a\0", json!(1))]
        {
            let mut body = json!({"displayName": "abc"});
            body[field] = value;
            assert_eq!(world.post(&anonymous(), "/things", body).await.status, 422, "{field}");
        }
    }
}

#[tokio::test]
async fn the_errors_of_a_body_with_unknown_keys_are_limited_in_size() {
    for world in worlds([everything()]).await {
        let keys: Vec<String> = (0..50_000).map(|number| format!("\"nonsense_key_{number}\":1")).collect();
        let answer = world.post(&anonymous(), "/things", format!("{{{}}}", keys.join(","))).await;
        assert_eq!(answer.status, 422);
        assert!(answer.text.len() < 20_000, "{} bytes", answer.text.len());
        let long = world.post(&anonymous(), "/things", json!({"x".repeat(100_000): 1, "displayName": "abc"})).await;
        assert_eq!(long.status, 422);
        assert!(long.text.len() < 1_000, "{} bytes", long.text.len());
    }
}
