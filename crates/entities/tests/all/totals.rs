//! Totals of large tables, which follow the event log beside constant writes.

use gatewright_db::testing::engines;
use gatewright_db::{Engine, params};
use gatewright_entities::{Entity, Field, OnDelete};
use http::Method;
use serde_json::{Value, json};

use super::support::{World, anonymous, encoded, logged, user};

/// From this size on, a table's total follows the log on SQLite.
const LARGE: i64 = 10_000;

fn entities() -> Vec<Entity> {
    let items = Entity::new("items").public().field(Field::string("name").unique());
    let parts = Entity::new("parts").public().field(Field::relation("item", "items").on_delete(OnDelete::Cascade));
    let shared = Entity::new("shared").multi_tenant().field(Field::string("name"));
    let binned = Entity::new("binned").public().soft_delete().field(Field::string("name"));
    let owned = Entity::new("owned").owner("owner_id").field(Field::string("name"));
    vec![items, parts, shared, binned, owned]
}

/// Fills a table around the entities: its columns besides the id and the times, and their values.
async fn fill(world: &World, table: &str, (columns, values): (&str, &str), count: i64) {
    let time = if world.db().engine() == Engine::Postgres { "now()" } else { "'2026-01-01T00:00:00.000000Z'" };
    let sql = format!(
        "INSERT INTO \"{table}\" (id, {columns} created_at, updated_at) \
         WITH RECURSIVE numbers(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM numbers WHERE n < ?1) \
         SELECT 'filled-' || CAST(n AS TEXT), {values} {time}, {time} FROM numbers"
    );
    world.db().execute(sql, params![count]).await.unwrap_or_else(|error| panic!("{}: {error}", world.name()));
}

/// The total of a list, from a reader of several.
async fn total(world: &World, path: &str) -> i64 {
    let list = world.get(&anonymous(), &format!("{path}?limit=1")).await.json();
    list["total"].as_i64().unwrap_or_else(|| panic!("{}: {list}", world.name()))
}

/// The total of every reader that is asked.
async fn is_total(world: &World, path: &str, expected: i64) {
    for _ in 0..6 {
        assert_eq!(total(world, path).await, expected, "{} {path}", world.name());
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_large_total_includes_every_write() {
    for test_db in engines().await {
        let (world, _following) = logged(test_db, entities()).await;
        let world = &world;
        fill(world, "items", ("", ""), LARGE).await;
        fill(world, "parts", ("item,", "'filled-' || CAST(n AS TEXT),"), LARGE).await;
        let caller = anonymous();
        let (mut items, mut parts) = (LARGE, LARGE);
        for number in 0..12 {
            is_total(world, "/items", items).await;
            is_total(world, "/parts", parts).await;
            let item = world.post(&caller, "/items", json!({"name": number.to_string()})).await.id();
            items += 1;
            is_total(world, "/items", items).await;
            let answer = world.post(&caller, "/items", json!({"name": number.to_string()})).await;
            assert_eq!(answer.status, 409, "a taken name writes nothing");
            is_total(world, "/items", items).await;
            world.patch(&caller, &format!("/items/{item}"), json!({"name": null})).await.data();
            is_total(world, "/items", items).await;
            let three = json!({"items": [{}, {}, {}]});
            assert_eq!(world.post(&caller, "/items/_batch", three).await.status, 200, "{}", world.name());
            items += 3;
            is_total(world, "/items", items).await;
            // The record's part goes with it.
            let gone = format!("/items/filled-{}", number + 1);
            assert_eq!(world.delete(&caller, &gone).await.status, 204);
            (items, parts) = (items - 1, parts - 1);
            is_total(world, "/parts", parts).await;
        }
        is_total(world, "/items", world.rows("items").await).await;
        assert_eq!(items, world.rows("items").await, "{}", world.name());
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_large_total_beside_writers_is_never_behind_an_answer() {
    for test_db in engines().await {
        let (world, _following) = logged(test_db, entities()).await;
        fill(&world, "items", ("", ""), LARGE).await;
        let world = &world;
        let writer = async || {
            for _ in 0..40 {
                let before = total(world, "/items").await;
                let id = world.post(&anonymous(), "/items", "{}").await.id();
                let with = total(world, "/items").await;
                // The others may have deleted theirs, and may have made one each.
                assert!((LARGE + 1..=LARGE + 4).contains(&with), "{}: {before} and then {with}", world.name());
                assert_eq!(world.delete(&anonymous(), &format!("/items/{id}")).await.status, 204);
                let without = total(world, "/items").await;
                assert!((LARGE..=LARGE + 3).contains(&without), "{}: {with} and then {without}", world.name());
            }
        };
        tokio::join!(writer(), writer(), writer(), writer());
        is_total(world, "/items", LARGE).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn totals_of_tenants_owners_filters_and_of_the_trash_include_every_write() {
    for test_db in engines().await {
        let (world, _following) = logged(test_db, entities()).await;
        let ann = user("ann");
        world.join("acme", &ann).await;
        world.join("other", &ann).await;
        fill(&world, "shared", ("name, tenant_id,", "'x', 'acme',"), LARGE).await;
        fill(&world, "binned", ("name,", "'x',"), LARGE).await;
        fill(&world, "owned", ("name, owner_id,", "'x', 'ann',"), LARGE).await;
        let ask = async |tenant: &str, method: Method, path: &str, body: Value| {
            let asked = world.ask(&ann, method, path).tenant(tenant).json(body).send().await;
            assert!(asked.status.is_success(), "{}", asked.text);
            asked
        };
        let total = async |tenant: &str, path: &str| {
            ask(tenant, Method::GET, path, Value::Null).await.json()["total"].as_i64().unwrap()
        };
        let mut expected = [LARGE; 4];
        for number in 0..12 {
            let totals = [
                total("acme", "/shared?limit=1").await,
                total("acme", "/binned?limit=1").await,
                total("acme", "/owned?limit=1").await,
                total("acme", "/shared?limit=1&name=x").await,
            ];
            assert_eq!(totals, expected, "{} {number}", world.name());
            assert_eq!(total("other", "/shared").await, number, "{}", world.name());
            for _ in 0..8 {
                ask("acme", Method::POST, "/owned", json!({"name": "y"})).await;
                let filtered = total("acme", "/shared?limit=1&name=x").await;
                assert_eq!(filtered, LARGE, "{}: after a write to another table", world.name());
            }
            ask("other", Method::POST, "/shared", json!({"name": "x"})).await;
            ask("acme", Method::POST, "/shared", json!({"name": "y"})).await;
            ask("acme", Method::POST, "/owned", json!({"name": "y"})).await;
            // Another account's record is in the same table, and not in this total.
            world.post(&user("ben"), "/owned", json!({"name": "y"})).await.data();
            let binned = ask("acme", Method::POST, "/binned", json!({"name": "y"})).await.id();
            ask("acme", Method::DELETE, &format!("/binned/{binned}"), Value::Null).await;
            if number % 2 == 0 {
                ask("acme", Method::POST, &format!("/binned/{binned}/_restore"), Value::Null).await;
                expected[1] += 1;
            }
            (expected[0], expected[2]) = (expected[0] + 1, expected[2] + 9);
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_large_total_of_a_filter_over_a_relation_depends_on_the_other_table_too() {
    for test_db in engines().await {
        let (world, _following) = logged(test_db, entities()).await;
        // So many that the total stays large.
        let rows = LARGE + 8;
        fill(&world, "items", ("name,", "'n' || CAST(n AS TEXT),"), rows).await;
        fill(&world, "parts", ("item,", "'filled-' || CAST(n AS TEXT),"), rows).await;
        let path = format!("/parts?limit=1&filter={}", encoded("item.name < 'o'"));
        let total = async || world.get(&anonymous(), &path).await.json()["total"].as_i64().unwrap();
        for number in 0..8 {
            assert_eq!(total().await, rows - number, "{}", world.name());
            let item = format!("/items/filled-{}", number + 1);
            world.patch(&anonymous(), &item, json!({"name": format!("z{number}")})).await.data();
        }
        assert_eq!(total().await, LARGE, "{}", world.name());
    }
}
