use std::time::Duration;

use gatewright_testing::TestApp;
use serde_json::json;

use super::{ORDERS, Program};

#[tokio::test]
async fn a_record_that_changes_meanwhile_is_asked_about_once_more_and_then_it_is_a_conflict() {
    let program = Program::start().await;
    let toml = format!("{ORDERS}{}", program.hook("orders", "\"before_update\"", "timeout_ms = 5000"));
    for app in TestApp::on_every_engine(&toml).await {
        let ann = app.with_jwt("ann@example.com").await;
        let made = ann.post("/orders", json!({"item": "tea", "price": 5})).await.is(201);
        let id = made.at("/data/id").as_str().unwrap().to_owned();
        let path = format!("/orders/{id}");
        // Past the service: each change makes the record another one.
        let change = async |price: i64| {
            let sql = "UPDATE orders SET price = ?1 WHERE id = ?2";
            app.app().db().execute(sql, gatewright::db::params![price, id.as_str()]).await.unwrap();
        };
        for (changes, status) in [(0, 200), (1, 200), (2, 409)] {
            program.asked();
            program.delays(Duration::from_millis(400));
            let update = ann.patch(&path, json!({"note": format!("{changes}")}));
            let others = async {
                for number in 0..changes {
                    while program.0.lock().asked.len() <= number {
                        tokio::time::sleep(Duration::from_millis(5)).await;
                    }
                    change(10 + i64::try_from(changes * 10 + number).unwrap()).await;
                }
            };
            let (updated, ()) = tokio::join!(update, others);
            let updated = updated.is(status);
            let asked = program.asked();
            match changes {
                0 => assert_eq!(asked.len(), 1),
                1 => {
                    assert_eq!(asked.len(), 2, "it was asked once more");
                    assert_eq!(asked[1]["data"]["old"]["price"], 20, "with the changed record");
                }
                _ => {
                    assert_eq!((asked.len(), updated.at("/code")), (2, json!("conflict")));
                    assert_eq!(ann.get(&path).await.at("/data/note"), "1", "nothing was written");
                }
            }
        }
        program.delays(Duration::ZERO);
    }
}

#[tokio::test]
async fn a_record_that_is_deleted_or_forbidden_meanwhile_is_not_written() {
    let program = Program::start().await;
    let toml = format!("{ORDERS}{}", program.hook("orders", "\"before_update\"", "timeout_ms = 5000"));
    for app in TestApp::on_every_engine(&toml).await {
        let ann = app.with_jwt("ann@example.com").await;
        let made = ann.post("/orders", json!({"item": "tea", "price": 5})).await.is(201);
        let path = format!("/orders/{}", made.at("/data/id").as_str().unwrap());
        program.asked();
        program.delays(Duration::from_millis(300));
        let update = ann.patch(&path, json!({"note": "late"}));
        let gone = async {
            while program.0.lock().asked.is_empty() {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
            ann.delete(&path).await.is(204);
        };
        let (updated, ()) = tokio::join!(update, gone);
        updated.is(404);
        program.delays(Duration::ZERO);
    }
}

#[tokio::test]
async fn several_changes_of_one_record_in_a_batch_are_no_conflict() {
    let program = Program::start().await;
    let toml = format!("{ORDERS}{}", program.hook("orders", "\"before_update\"", ""));
    for app in TestApp::on_every_engine(&toml).await {
        let ann = app.with_jwt("ann@example.com").await;
        let made = ann.post("/orders", json!({"item": "tea", "price": 5})).await.is(201);
        let id = made.at("/data/id").as_str().unwrap().to_owned();
        program.asked();
        let change = |price: i64| json!({"op": "update", "entity": "orders", "id": id, "data": {"price": price}});
        ann.post("/_batch", json!({"operations": [change(6), change(7), change(8)]})).await.is(200);
        let prices: Vec<_> = program.asked().iter().map(|asked| asked["data"]["old"]["price"].clone()).collect();
        assert_eq!(prices, [5, 6, 7], "each sees what the one before it has left");
        assert_eq!(ann.get(&format!("/orders/{id}")).await.at("/data/price"), 8);
    }
}
