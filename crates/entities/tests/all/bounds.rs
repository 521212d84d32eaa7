//! Lists at their limits work on both engines, and one more is refused.

use gatewright_entities::{Entity, Field};
use serde_json::json;

use super::support::{anonymous, worlds};

#[tokio::test]
async fn a_list_accepts_parameters_up_to_the_documented_limits() {
    let items = Entity::new("items")
        .public()
        .search_fields(["name"])
        .field(Field::string("name"))
        .field(Field::int("rank"))
        .field(Field::decimal("price"));
    let depth = |depth: usize| format!("{}rank = 7{}", "(".repeat(depth), ")".repeat(depth));
    let negated = |depth: usize| format!("{}rank != 7", "!".repeat(depth));
    let terms = |terms: usize| vec!["rank = 7"; terms].join(" || ");
    let values = |values: usize| {
        let numbers: Vec<String> = (0..values).map(|number| number.to_string()).collect();
        numbers.join(",")
    };
    let texts = |count: usize| {
        let texts: Vec<String> = (0..count).map(|number| format!("'x{number}'")).collect();
        format!("name in [{}] || rank = 7", texts.join(","))
    };
    let filter = |text: String| vec![("filter".to_owned(), text)];
    let cases = [
        (filter(depth(8)), filter(depth(9))),
        (filter(negated(7)), filter(negated(9))),
        (filter(terms(64)), filter(terms(65))),
        (filter(format!("rank in [{}]", values(1000))), filter(format!("rank in [{}]", values(1001)))),
        (filter(format!("price in [7,{}]", values(999))), filter(format!("price in [7,{}]", values(1000)))),
        (filter(texts(1000)), filter(texts(1001))),
        (vec![("rank_in".to_owned(), values(1000))], vec![("rank_in".to_owned(), values(1001))]),
        (vec![("q".to_owned(), "é".repeat(200))], vec![("q".to_owned(), "é".repeat(201))]),
    ];
    for world in worlds([items]).await {
        let item = json!({"name": "é".repeat(200), "rank": 7, "price": "7.0"});
        world.post(&anonymous(), "/items", item).await.data();
        for (within, beyond) in &cases {
            let encoded = |pairs: &[(String, String)]| {
                form_urlencoded::Serializer::new(String::new()).extend_pairs(pairs).finish()
            };
            let shown: String = within[0].1.chars().take(60).collect();
            let found = world.get(&anonymous(), &format!("/items?{}", encoded(within))).await;
            assert_eq!((found.status.as_u16(), &found.json()["total"]), (200, &json!(1)), "{} {shown}", world.name());
            let paged = world.get(&anonymous(), &format!("/items?cursor=&{}", encoded(within))).await;
            assert_eq!(paged.data().as_array().unwrap().len(), 1, "{} {shown}", world.name());
            let refused = world.get(&anonymous(), &format!("/items?{}", encoded(beyond))).await;
            assert_eq!(refused.status, 400, "{} {shown}: {}", world.name(), refused.text);
            assert!(refused.text.len() < 500, "{}", refused.text);
        }
    }
}
