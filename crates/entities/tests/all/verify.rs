//! `schema::verify` reads what other programs and older versions have written.

use gatewright_db::{Engine, params};
use gatewright_entities::schema::{self, Finding};
use gatewright_entities::{Declarations, Entity, Field, Unique};
use http::StatusCode;
use serde_json::json;

use super::support::{World, user, worlds};

fn things() -> Entity {
    Entity::new("things")
        .public()
        .soft_delete()
        .field(Field::string("name").min(3))
        .field(Field::int("rank"))
        .field(Field::float("weight"))
        .field(Field::decimal("price"))
        .field(Field::date("day"))
        .field(Field::boolean("live"))
        .field(Field::json("meta"))
        .field(Field::json("secret").hidden())
}

async fn findings(world: &World) -> (u64, Vec<Finding>) {
    findings_of(world, things()).await
}

async fn findings_of(world: &World, things: Entity) -> (u64, Vec<Finding>) {
    let mut found = Vec::new();
    let declarations = Declarations::check(&[things]).unwrap();
    let rows = schema::verify(world.db(), &declarations, |finding| found.push(finding)).await.unwrap();
    (rows, found)
}

async fn insert(world: &World, id: &str, column: &str, value: &str) {
    let cast = match (world.db().engine(), column) {
        (Engine::Postgres, "meta" | "secret") => "::jsonb",
        _ => "",
    };
    let sql = format!(
        "INSERT INTO things (id, {column}, created_at, updated_at)
         VALUES (?1, ?2{cast}, '2026-01-02T03:04:05.000006Z', '2026-01-02T03:04:05.000006Z')"
    );
    world.db().execute(sql, params![id, value]).await.unwrap();
}

#[tokio::test]
async fn values_of_clients_are_in_order() {
    for world in worlds([things()]).await {
        for number in ["1.0", "-0", "1e300", "1e-300", "18446744073709551616", "0.1", "{\"b\":[1E2]}"] {
            let body = format!(
                r#"{{"name": "a name", "rank": 1e3, "weight": 1e-320, "price": "1e-20", "day": "2024-02-29",
                "live": true, "meta": [{number}]}}"#
            );
            assert_eq!(world.post(&user("ann"), "/things", body).await.status, StatusCode::CREATED);
        }
        assert_eq!(findings(&world).await, (7, Vec::new()), "{}", world.name());
    }
}

#[tokio::test]
async fn older_forms_of_numbers_are_named_and_keep_their_value() {
    for world in worlds([things()]).await {
        let is_sqlite = world.db().engine() == Engine::Sqlite;
        // More than one page, and the findings are on the second one.
        for number in 0..600 {
            insert(&world, &format!("a{number}"), "meta", "[1,0.5]").await;
        }
        insert(&world, "b1", "meta", r#"{"n": [0, 1.0]}"#).await;
        insert(&world, "b2", "meta", "1e-400").await;
        insert(&world, "b3", "meta", "18446744073709551617").await;
        insert(&world, "b4", "secret", "[1.50]").await;
        if is_sqlite {
            insert(&world, "b5", "meta", "[-0]").await;
            insert(&world, "b6", "meta", r#"{"a":1,"a":2}"#).await;
        }
        let (rows, found) = findings(&world).await;
        assert_eq!(rows, if is_sqlite { 606 } else { 604 });
        let found: Vec<(&str, &str, &str, &str)> =
            found.iter().map(|f| (&*f.table, &*f.id, &*f.column, &*f.reason)).collect();
        let expected = [
            ("things", "b1", "meta", "holds JSON with a number that is not in canonical form at .n[1]"),
            ("things", "b2", "meta", "holds JSON with a number so small that a 64-bit float holds 0"),
            ("things", "b3", "meta", "holds JSON with an integer that neither 64 bits nor a 64-bit float hold exactly"),
            ("things", "b4", "secret", "holds JSON with a number that is not in canonical form at [0]"),
            ("things", "b5", "meta", "holds JSON with a number that is not in canonical form at [0]"),
            ("things", "b6", "meta", "holds JSON with a key that the object has already at .a"),
        ];
        assert_eq!(found, expected[..if is_sqlite { 6 } else { 4 }], "{}", world.name());
        // An old number is short in answers too, and has its value.
        let shown = world.get(&user("ann"), "/things/b2").await;
        assert!(shown.text.contains(r#""meta":1e-400"#), "{} {}", world.name(), shown.text);
        let changed = world.patch(&user("ann"), "/things/b1", json!({"meta": {"n": [0, 1]}})).await;
        assert_eq!(changed.status, StatusCode::OK);
        assert!(findings(&world).await.1.iter().all(|finding| finding.id != "b1"));
    }
}

#[tokio::test]
async fn values_of_another_type_are_named() {
    for world in worlds([things()]).await {
        insert(&world, "short", "name", "x").await;
        if world.db().engine() == Engine::Sqlite {
            for (column, value) in [
                ("rank", "many"),
                ("weight", "heavy"),
                ("price", "cheap"),
                ("day", "2024-02-30"),
                ("live", "maybe"),
                ("meta", "{no json"),
                ("deleted_at", "yesterday"),
            ] {
                insert(&world, column, column, value).await;
            }
        }
        let (_, found) = findings(&world).await;
        let found: Vec<(&str, &str)> = found.iter().map(|f| (&*f.id, &*f.column)).collect();
        // Bounds are those of `migrate --plan`.
        let expected = ["day", "deleted_at", "live", "meta", "price", "rank", "weight"].map(|column| (column, column));
        let is_sqlite = world.db().engine() == Engine::Sqlite;
        assert_eq!(found, expected[..if is_sqlite { expected.len() } else { 0 }], "{}", world.name());
    }
}

#[tokio::test]
async fn a_folded_text_that_is_not_that_of_its_field_is_named() {
    let people =
        || Entity::new("people").public().field(Field::string("name")).unique(Unique::of(["name"]).ignore_case());
    for world in worlds([people()]).await {
        let ids: Vec<String> = {
            let mut ids = Vec::new();
            for body in [json!({ "name": "Ann" }), json!({ "name": null }), json!({ "name": "ÄÖ" })] {
                ids.push(world.post(&user("ann"), "/people", body).await.id());
            }
            ids
        };
        let declarations = Declarations::check(&[people()]).unwrap();
        let found = async || {
            let mut found = Vec::new();
            schema::verify(world.db(), &declarations, |finding| found.push((finding.id, finding.column)))
                .await
                .unwrap();
            found
        };
        assert_eq!(found().await, [], "{}", world.name());
        // A server that knows no folded texts changes one and creates a record.
        world.db().execute("UPDATE people SET name = 'Bob' WHERE id = ?1", params![&ids[0]]).await.unwrap();
        world.db().execute("UPDATE people SET \"name.folded\" = NULL WHERE id = ?1", params![&ids[2]]).await.unwrap();
        let name = || "name".to_owned();
        assert_eq!(found().await, [(ids[0].clone(), name()), (ids[2].clone(), name())], "{}", world.name());
    }
}

#[tokio::test]
async fn a_list_of_ids_that_is_not_that_of_its_links_is_named() {
    let things = Entity::new("things").field(Field::relation("watchers", "users").many());
    for world in worlds([things.clone()]).await {
        let make = async |watchers: serde_json::Value| {
            world.post(&user("ann"), "/things", json!({ "watchers": watchers })).await.id()
        };
        let (kept, cut, grown) =
            (make(["ann", "ben"].into()).await, make(["ann"].into()).await, make(["ann"].into()).await);
        assert_eq!(findings_of(&world, things.clone()).await, (3, Vec::new()), "{}", world.name());
        let links = "\"things.watchers.links\"";
        let sql = format!("DELETE FROM {links} WHERE record = ?1");
        world.db().execute(sql, params![&cut]).await.unwrap();
        let sql = format!("INSERT INTO {links} (record, value, position) VALUES (?1, 'ben', 1)");
        world.db().execute(sql, params![&grown]).await.unwrap();
        let found = findings_of(&world, things.clone()).await.1;
        let mut found: Vec<&str> = found.iter().map(|finding| &*finding.id).collect();
        found.sort_unstable();
        let mut wanted = [&*cut, &*grown];
        wanted.sort_unstable();
        assert_eq!(found, wanted, "{} and not {kept}", world.name());
    }
}
