//! Any accepted value is returned unchanged, by every operation and on both engines.

use gatewright_entities::{Entity, Field};
use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::{Config, TestRunner};
use serde_json::{Value, json};

use super::support::{World, anonymous, worlds};

/// One of every kind except JSON.
fn plain(name: &str) -> Entity {
    Entity::new(name)
        .public()
        .field(Field::text("text"))
        .field(Field::int("int"))
        .field(Field::float("float"))
        .field(Field::decimal("decimal"))
        .field(Field::boolean("bool"))
        .field(Field::timestamp("time"))
        .field(Field::date("date"))
}

fn json_value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        "[^\0]{0,8}".prop_map(Value::from),
    ];
    leaf.prop_recursive(3, 24, 5, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..5).prop_map(Value::from),
            prop::collection::btree_map("[^\0]{0,5}", inner, 0..5)
                .prop_map(|members| Value::Object(members.into_iter().collect())),
        ]
    })
}

fn thing() -> impl Strategy<Value = Value> {
    let float = any::<f64>().prop_filter("finite", |float| float.is_finite()).prop_map(|float| float + 0.0);
    let decimal = ("-?[1-9][0-9]{0,18}", "[0-9]{0,17}[1-9]").prop_map(|(whole, rest)| format!("{whole}.{rest}"));
    let time = (-62_135_596_800_000_000_i64..253_402_200_000_000_000)
        .prop_map(|micros| gatewright_base::time::format(jiff::Timestamp::from_microsecond(micros).unwrap()));
    let date = (-719_162_i64..2_932_896).prop_map(gatewright_base::time::format_date);
    let fields = ("[^\0]{0,40}", any::<i64>(), float, decimal, any::<bool>(), time, date, json_value());
    fields.prop_map(|(text, int, float, decimal, bool, time, date, json)| {
        json!({"text": text, "int": int, "float": float, "decimal": decimal, "bool": bool, "time": time, "date": date, "json": json})
    })
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn generated_values_are_read_back_unchanged() {
    for mut world in worlds([plain("things").field(Field::json("json")), plain("plain")]).await {
        let mut runner = TestRunner::new(Config { cases: 64, failure_persistence: None, ..Config::default() });
        for _ in 0..64 {
            let sent = thing().new_tree(&mut runner).unwrap().current();
            round_trip(&mut world, "/things", &sent).await;
            let mut without_json = sent;
            without_json.as_object_mut().unwrap().remove("json");
            round_trip(&mut world, "/plain", &without_json).await;
        }
    }
}

async fn round_trip(world: &mut World, table: &str, sent: &Value) {
    let made = world.post(&anonymous(), table, sent).await;
    let record = made.data();
    assert_eq!(record["json"], sent["json"], "{}: {sent}", world.name());
    for (key, value) in sent.as_object().unwrap().iter().filter(|(key, _)| *key != "json") {
        // As text: this test's own parser loses digits of floats.
        assert!(made.text.contains(&format!("\"{key}\":{value}")), "{} {key}: {sent}\n{}", world.name(), made.text);
    }
    let path = made.header("location");
    assert_eq!(world.get(&anonymous(), path).await.text, made.text);
    let (_, _, event) = world.event().await;
    assert_eq!(event, record);
    let list = world.get(&anonymous(), &format!("{table}?limit=1&sort=-id")).await;
    assert_eq!(list.data()[0], record);
    let updated = world.patch(&anonymous(), path, sent).await;
    assert_eq!(updated.data(), record);
    world.event().await;
}
