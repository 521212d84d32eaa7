//! Random filters over random records: the database must return the same result as [`matches`](super::matches) in
//! memory.

use std::sync::Arc;

use gatewright_base::{Ambient, Identity, JsonCase};
use gatewright_db::testing::engines;
use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};
use serde_json::{Map, Value, json};

use super::{matches, typed};
use crate::operations::Call;
use crate::{Entities, Entity, Field, Kind, ListQuery, Plan};

fn things() -> Entity {
    Entity::new("things")
        .public()
        .max_list_limit(1000)
        .field(Field::string("name"))
        .field(Field::int("rank"))
        .field(Field::float("weight"))
        .field(Field::decimal("price"))
        .field(Field::boolean("live"))
        .field(Field::choice("state", ["draft", "done"]))
        .field(Field::date("day"))
        .field(Field::timestamp("seen_at"))
        .field(Field::uuid("mark"))
        .field(Field::json("meta"))
        .field(Field::list("names", Kind::String))
        .field(Field::list("ranks", Kind::Int))
        .field(Field::list("weights", Kind::Float))
        .field(Field::list("prices", Kind::Decimal))
        .field(Field::list("states", Kind::Enum).values(["draft", "done"]))
        .field(Field::list("days", Kind::Date))
        .field(Field::list("times", Kind::Timestamp))
        .field(Field::list("marks", Kind::Uuid))
}

const NAMES: [&str; 9] = ["", "a", "A", "b%", "ä", "Ä", "Straße", "İ", "a'\"\\ 😀"];
const RANKS: [i64; 6] = [i64::MIN, -1, 0, 1, 10, i64::MAX];
#[expect(clippy::excessive_precision, reason = "numbers that are rounded are the point")]
const WEIGHTS: [f64; 14] = [
    -1.5,
    0.0,
    -0.0,
    0.1,
    0.300_000_000_000_000_04,
    1e-300,
    1e300,
    5e-324,
    2.225_073_858_507_201_1e-308,
    1.797_693_134_862_315_7e308,
    9_007_199_254_740_993.0,
    9.223_372_036_854_775_807e18,
    8.41e21,
    123_456.789_012_345_678,
];
const PRICES: [&str; 6] = ["-10", "-9.99", "0", "0.1", "9.99", "10000000000000000000000000"];
const DAYS: [&str; 3] = ["1999-12-31", "2024-02-29", "2026-01-01"];
const TIMES: [&str; 3] = ["1999-12-31T23:59:59.999999Z", "2024-02-29T12:00:00Z", "2026-01-01T00:00:00Z"];
const OPERATORS: [&str; 6] = ["=", "!=", ">", ">=", "<", "<="];
const MARKS: [&str; 2] = ["0191d2b3-0000-7000-8000-00000000000a", "ffffffff-0000-7000-8000-00000000000a"];

fn record() -> impl Strategy<Value = Value> {
    fn some<T: serde::Serialize + Clone + std::fmt::Debug + 'static>(
        values: &'static [T],
    ) -> impl Strategy<Value = Value> {
        prop_oneof![1 => Just(Value::Null), 4 => prop::sample::select(values).prop_map(|value| json!(value))]
    }
    fn many<T: serde::Serialize + Clone + std::fmt::Debug + 'static>(
        values: &'static [T],
    ) -> impl Strategy<Value = Value> {
        prop::collection::vec(prop::sample::select(values), 0..4).prop_map(|values| json!(values))
    }
    let texts = (many(&NAMES), many(&["draft", "done"]), many(&DAYS), many(&TIMES), many(&MARKS));
    let numbers = (many(&RANKS), many(&WEIGHTS), many(&PRICES));
    let lists = (texts, numbers).prop_map(|((names, states, days, times, marks), (ranks, weights, prices))| {
        json!({"names": names, "states": states, "days": days, "times": times, "marks": marks, "ranks": ranks,
            "weights": weights, "prices": prices})
    });
    let text = (some(&NAMES), some(&["draft", "done"]), some(&DAYS), some(&TIMES), some(&MARKS));
    let other = (some(&RANKS), some(&WEIGHTS), some(&PRICES), some(&[true, false]), some(&[1, 2]));
    (text, other, lists).prop_map(|((name, state, day, seen, mark), (rank, weight, price, live, meta), lists)| {
        let mut record = json!({"name": name, "state": state, "day": day, "seenAt": seen, "mark": mark,
            "rank": rank, "weight": weight, "price": price, "live": live, "meta": meta});
        record.as_object_mut().unwrap().extend(lists.as_object().unwrap().clone());
        record
    })
}

fn comparison() -> impl Strategy<Value = String> {
    fn values<T: serde::Serialize>(values: &[T]) -> Vec<String> {
        values.iter().map(|value| json!(value).to_string()).collect()
    }
    let fields: Vec<(&str, Vec<String>)> = vec![
        ("name", values(&NAMES)),
        ("rank", values(&RANKS)),
        ("weight", values(&WEIGHTS)),
        ("price", values(&PRICES)),
        ("live", values(&[true, false])),
        ("state", values(&["draft", "done"])),
        ("day", values(&DAYS)),
        ("seen_at", values(&TIMES)),
        ("mark", values(&MARKS)),
    ];
    let ordered =
        (prop::sample::select(fields.clone()), prop::sample::select(&OPERATORS[..]), any::<prop::sample::Index>())
            .prop_map(|((field, values), operator, index)| format!("{field} {operator} {}", index.get(&values)));
    let listed =
        (prop::sample::select(fields), prop::collection::vec(any::<prop::sample::Index>(), 0..3), any::<bool>())
            .prop_map(|((field, values), indexes, null)| {
                let mut list: Vec<&str> = indexes.iter().map(|index| index.get(&values).as_str()).collect();
                if null {
                    list.push("null");
                }
                format!("{field} in [{}]", list.join(", "))
            });
    let contained = (prop::sample::select(&["name", "state"][..]), any::<bool>(), prop::sample::select(&NAMES[..]))
        .prop_map(|(field, not, text)| format!("{field} {} {}", if not { "!~" } else { "~" }, json!(text)));
    let fields = &["name", "rank", "price", "live", "seenAt", "meta"][..];
    let absent = (prop::sample::select(fields), any::<bool>())
        .prop_map(|(field, not)| format!("{field} {} null", if not { "!=" } else { "=" }));
    let lists: Vec<(&str, Vec<String>)> = vec![
        ("names", values(&NAMES)),
        ("ranks", values(&RANKS)),
        ("weights", values(&WEIGHTS)),
        ("prices", values(&PRICES)),
        ("states", values(&["draft", "done"])),
        ("days", values(&DAYS)),
        ("times", values(&TIMES)),
        ("marks", values(&MARKS)),
    ];
    let has = (prop::sample::select(lists.clone()), any::<prop::sample::Index>())
        .prop_map(|((field, values), index)| format!("{field} has {}", index.get(&values)));
    let empty = (prop::sample::select(lists), any::<bool>())
        .prop_map(|((field, _), not)| format!("{field} {} []", if not { "!=" } else { "=" }));
    prop_oneof![4 => ordered, 2 => listed, 2 => contained, 1 => absent, 4 => has, 1 => empty]
}

fn expression() -> impl Strategy<Value = String> {
    comparison().prop_recursive(4, 12, 3, |inner| {
        prop_oneof![
            (inner.clone(), inner.clone()).prop_map(|(a, b)| format!("({a} && {b})")),
            (inner.clone(), inner.clone()).prop_map(|(a, b)| format!("({a} || {b})")),
            inner.prop_map(|a| format!("!({a})")),
        ]
    })
}

fn draw<T>(strategy: &impl Strategy<Value = T>, runner: &mut TestRunner) -> T {
    strategy.new_tree(runner).expect("the strategy gives values").current()
}

#[tokio::test]
async fn random_filters_agree_with_the_evaluation_in_memory() {
    for engine in engines().await {
        let entities = Entities::builder(engine.db.clone(), Ambient::system())
            .json_case(JsonCase::Camel)
            .declare(things())
            .build()
            .await
            .unwrap();
        let plan: Arc<Plan> = entities.plan("things").unwrap().clone();
        let call = Call::from(Identity::Anonymous);
        let rng = TestRng::from_seed(RngAlgorithm::ChaCha, &[7; 32]);
        let mut runner = TestRunner::new_with_rng(Config::default(), rng);
        for _ in 0..60 {
            let body = draw(&record(), &mut runner).to_string();
            entities.table("things").unwrap().create(&call, &body).await.unwrap();
        }
        let list = async |query: ListQuery| -> Vec<Map<String, Value>> {
            let list = entities.table("things").unwrap().list(&call, &query).await.unwrap();
            serde_json::from_slice(&list.json).unwrap()
        };
        let most = ListQuery::new().limit(1_000);
        let all = list(most.clone()).await;
        assert_eq!(all.len(), 60);
        let passes = |filter: &super::Predicate, record: &Map<String, Value>| {
            let subject = super::Subject::read(&plan.columns, &serde_json::to_vec(record).unwrap());
            matches::matches(filter, &plan.columns, &subject)
        };
        let mut found = 0;
        for _ in 0..400 {
            let text = draw(&expression(), &mut runner);
            let filter = typed::read(&text, plan.columns.seen_by(crate::readable::Readable::all()))
                .unwrap_or_else(|error| panic!("{text}: {error}"));
            let wanted: Vec<_> = all.iter().filter(|record| passes(&filter, record)).cloned().collect();
            let answered = list(most.clone().filter(&text)).await;
            assert_eq!(answered, wanted, "{}: {text}", engine.name);
            found += answered.len();
            // With a comparison that only the database evaluates, all of the expression is another statement.
            let whole = format!("({text}) && length(names) >= 0");
            assert_eq!(list(most.clone().filter(&whole)).await, wanted, "{}: {whole}", engine.name);
        }
        assert!(found > 1_000, "filters that find nothing prove nothing");
    }
}
