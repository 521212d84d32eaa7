//! Rows that another program wrote: a value is shown as what it is, or its record alone is unreadable.

use std::collections::BTreeSet;

use gatewright_base::Identity;
use gatewright_db::{Engine, params};
use gatewright_entities::schema;
use gatewright_entities::{Declarations, Entity, Field};
use serde_json::{Value, json};

use super::support::{Answer, World, encoded, user, worlds};

fn declared() -> Vec<Entity> {
    let things = Entity::new("things")
        .public()
        .field(Field::string("name").min(1))
        .field(Field::int("rank"))
        .field(Field::float("weight"))
        .field(Field::decimal("price"))
        .field(Field::date("day"))
        .field(Field::timestamp("seen_at").index())
        .field(Field::boolean("live"))
        .field(Field::uuid("code"))
        .field(Field::json("meta"));
    vec![things, Entity::new("notes").public().field(Field::relation("thing", "things"))]
}

/// What a column is given by SQL, and how it is shown: `None` if its record is unreadable.
type Form = (&'static str, &'static str, Option<&'static str>);

const SQLITE: &[Form] = &[
    ("seen_at", "'2026-01-02 03:04:05'", Some("2026-01-02T03:04:05.000000Z")),
    ("seen_at", "strftime('%Y-%m-%d %H:%M:%f', '2026-01-02 03:04:05.6')", Some("2026-01-02T03:04:05.600000Z")),
    ("seen_at", "datetime('2026-01-02 03:04:05')", Some("2026-01-02T03:04:05.000000Z")),
    ("seen_at", "date('2026-01-02')", Some("2026-01-02T00:00:00.000000Z")),
    ("seen_at", "'2026-01-02T03:04:05Z'", Some("2026-01-02T03:04:05.000000Z")),
    ("seen_at", "'2026-01-02T03:04:05.6789Z'", Some("2026-01-02T03:04:05.678900Z")),
    ("seen_at", "'2026-01-02T03:04:05.123456789Z'", Some("2026-01-02T03:04:05.123456Z")),
    ("seen_at", "'2026-01-02T03:04:05+02:00'", Some("2026-01-02T01:04:05.000000Z")),
    ("created_at", "'2026-01-02 03:04:05'", Some("2026-01-02T03:04:05.000000Z")),
    ("updated_at", "'2026-01-02T03:04:05Z'", Some("2026-01-02T03:04:05.000000Z")),
    ("created_at", "CAST(1700000000 AS TEXT)", None),
    ("created_at", "''", None),
    ("updated_at", "X'00'", None),
    ("seen_at", "'yesterday'", None),
    ("seen_at", "'2026-02-30 00:00:00'", None),
    ("seen_at", "'2026-02-30T00:00:00.000000Z'", None),
    ("seen_at", "'9999-12-31T23:59:59.000000Z'", None),
    ("seen_at", "'0000-01-01T00:00:00.000000Z'", None),
    ("seen_at", "julianday('2026-01-02')", None),
    ("live", "1", Some("true")),
    ("live", "7", None),
    ("live", "'yes'", None),
    ("rank", "1.5", None),
    ("rank", "'many'", None),
    ("weight", "9e999", None),
    ("weight", "'heavy'", None),
    ("price", "1.50", Some("1.5")),
    ("price", "'cheap'", None),
    ("price", "'1,50'", None),
    ("day", "'2024-02-29'", Some("2024-02-29")),
    ("day", "'2026-02-29'", None),
    ("day", "'10000-01-01'", None),
    ("day", "'0000-01-01'", None),
    ("code", "'0191D2B3-0000-7000-8000-00000000000A'", None),
    ("code", "'nothing'", None),
    ("meta", "'{no json'", None),
    ("meta", "'1,\"forged\":2'", None),
    ("name", "X'ff'", None),
    ("name", "CAST(X'ff' AS TEXT)", None),
    ("id", "'0191D2B3-0000-7000-8000-00000000000A'", None),
];

const POSTGRES: &[Form] = &[
    ("seen_at", "'2026-01-02 03:04:05+00'", Some("2026-01-02T03:04:05.000000Z")),
    ("seen_at", "'9999-12-30 21:00:00+00'", Some("9999-12-30T21:00:00.000000Z")),
    ("seen_at", "'9999-12-31 23:59:59+00'", None),
    ("seen_at", "'294276-12-31 23:59:59+00'", None),
    ("seen_at", "'infinity'", None),
    ("seen_at", "'-infinity'", None),
    ("seen_at", "'0044-03-15 12:00:00+00 BC'", None),
    ("created_at", "'infinity'", None),
    ("updated_at", "'9999-12-31 23:59:59+00'", None),
    ("day", "'infinity'", None),
    ("day", "'-infinity'", None),
    ("day", "'0044-03-15 BC'", None),
    ("day", "'12000-01-01'", None),
    ("price", "'NaN'", None),
    ("price", "'Infinity'", None),
    ("weight", "'NaN'", None),
    ("weight", "'-Infinity'", None),
    ("code", "'0191D2B3-0000-7000-8000-00000000000A'", Some("0191d2b3-0000-7000-8000-00000000000a")),
];

fn forms(world: &World) -> &'static [Form] {
    match world.db().engine() {
        Engine::Sqlite => SQLITE,
        Engine::Postgres => POSTGRES,
    }
}

/// The column as JSON has it.
fn key(column: &str) -> String {
    gatewright_base::to_camel(column)
}

/// Five things, the third of them damaged; returns their ids.
async fn damaged(world: &World, caller: &Identity, (column, value, _): Form) -> Vec<String> {
    world.db().execute("DELETE FROM things", vec![]).await.unwrap();
    let mut ids = Vec::new();
    for number in 0..5 {
        let body = json!({
            "name": format!("n{number}"), "rank": number, "weight": 0.5, "price": "2", "day": "2026-01-01",
            "seenAt": "2026-06-01T00:00:00Z", "live": false, "meta": {"n": number},
            "code": "0191d2b3-0000-7000-8000-00000000000b",
        });
        ids.push(world.post(caller, "/things", body).await.id());
    }
    let sql = format!("UPDATE things SET {column} = {value} WHERE id = ?1");
    world.db().execute(sql, params![&ids[2]]).await.unwrap();
    if column == "id" {
        value.trim_matches('\'').clone_into(&mut ids[2]);
    }
    ids
}

/// The ids of all pages by a cursor, and how many records were unreadable.
async fn walked(world: &World, caller: &Identity, query: &str) -> (Vec<String>, u32) {
    let (mut ids, mut unreadable, mut cursor) = (Vec::new(), 0, String::new());
    for _ in 0..10 {
        let page = world.get(caller, &format!("/things?limit=2&cursor={cursor}{query}")).await;
        ids.extend(
            page.data().as_array().unwrap().iter().map(|record| record["id"].as_str().unwrap_or_default().to_owned()),
        );
        unreadable += count(&page);
        let Some(next) = page.json()["cursor"].as_str().map(str::to_owned) else { return (ids, unreadable) };
        cursor = encoded(&next);
    }
    panic!("the list has no end: {query}");
}

fn count(answer: &Answer) -> u32 {
    answer.header("gatewright-unreadable").parse().unwrap_or(0)
}

#[tokio::test]
async fn a_stored_value_is_shown_as_what_it_is_or_its_record_alone_is_unreadable() {
    let ann = user("ann");
    for world in worlds(declared()).await {
        for form @ (column, value, shown) in forms(&world).iter().copied() {
            let case = format!("{} {column} = {value}", world.name());
            let ids = damaged(&world, &ann, form).await;
            let list = world.get(&ann, "/things").await;
            let records = list.data().as_array().unwrap().clone();
            assert_eq!(list.json()["total"], 5, "{case}");
            let others: BTreeSet<&str> = records.iter().map(|record| record["id"].as_str().unwrap()).collect();
            let one = world.get(&ann, &format!("/things/{}", ids[2])).await;
            match shown {
                Some(shown) => {
                    let text = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
                    assert_eq!((records.len(), count(&list)), (5, 0), "{case}");
                    assert_eq!(text(&records[2][key(column)]), shown, "{case}");
                    assert_eq!(text(&one.data()[key(column)]), shown, "{case}");
                    let partial = world.get(&ann, &format!("/things?fields={column}")).await.data();
                    assert_eq!(text(&partial[2][key(column)]), shown, "{case}");
                }
                None => {
                    assert_eq!(count(&list), 1, "{case}");
                    let intact: BTreeSet<&str> = [0, 1, 3, 4].into_iter().map(|at| &*ids[at]).collect();
                    assert_eq!(others, intact, "{case}");
                    let expected = if column == "id" { (404, "not_found") } else { (500, "record_unreadable") };
                    let code = one.json()["code"].as_str().map(str::to_owned);
                    assert_eq!((one.status.as_u16(), code.as_deref()), (expected.0, Some(expected.1)), "{case}");
                }
            }
        }
    }
}

#[tokio::test]
async fn pages_go_on_past_an_unreadable_record_in_every_order() {
    let ann = user("ann");
    for world in worlds(declared()).await {
        for form @ (column, value, shown) in forms(&world).iter().copied() {
            // A text that is not UTF-8 is no place in a list either.
            if column == "name" {
                continue;
            }
            let ids = damaged(&world, &ann, form).await;
            let expected: BTreeSet<&String> =
                ids.iter().enumerate().filter(|(at, _)| *at != 2 || shown.is_some()).map(|(_, id)| id).collect();
            for query in ["", "&sort=rank", "&sort=-createdAt", "&direction=backward", "&fields=rank", "&etag=true"]
                .into_iter()
                .map(str::to_owned)
                .chain([format!("&sort={}", key(column)), format!("&sort=-{}", key(column))])
            {
                if column == "meta" && query.contains("meta") {
                    continue;
                }
                let case = format!("{} {column} = {value} {query}", world.name());
                let (found, unreadable) = walked(&world, &ann, &query).await;
                if query == "&fields=rank" {
                    // What is not shown does no harm.
                    let hidden = usize::from(shown.is_none() && column != "rank");
                    assert_eq!(found.len(), expected.len() + hidden, "{case}");
                    continue;
                }
                assert_eq!(found.iter().collect::<BTreeSet<_>>(), expected, "{case}");
                assert_eq!(found.len(), expected.len(), "{case}");
                assert_eq!(unreadable, u32::from(shown.is_none()), "{case}");
            }
        }
    }
}

#[tokio::test]
async fn included_and_grouped_records_leave_out_what_is_unreadable() {
    let ann = user("ann");
    for world in worlds(declared()).await {
        let form = *forms(&world).iter().find(|(column, _, shown)| *column == "day" && shown.is_none()).unwrap();
        let ids = damaged(&world, &ann, form).await;
        for id in &ids[1..3] {
            world.post(&ann, "/notes", json!({ "thing": id })).await.id();
        }
        let notes = world.get(&ann, "/notes?include=thing").await.data();
        assert_eq!(notes[0]["_included"]["thing"]["id"], json!(ids[1]), "{}", world.name());
        assert_eq!(notes[1]["_included"]["thing"], Value::Null, "{}", world.name());
        assert_eq!(notes[1]["thing"], json!(ids[2]));
        let groups = world.get(&ann, "/things?group=day").await;
        assert_eq!(groups.data(), json!([{ "day": "2026-01-01", "count": 4 }]), "{}", world.name());
        assert_eq!(count(&groups), 1);
        // A field is mended by writing it.
        let mended = world.patch(&ann, &format!("/things/{}", ids[2]), json!({ "day": "2026-01-03" })).await;
        assert_eq!(mended.data()["day"], "2026-01-03");
        assert_eq!(count(&world.get(&ann, "/things").await), 0);
    }
}

#[tokio::test]
async fn verify_names_every_unreadable_value() {
    let ann = user("ann");
    for world in worlds(declared()).await {
        for form @ (column, value, shown) in forms(&world).iter().copied() {
            let ids = damaged(&world, &ann, form).await;
            let (mut found, declarations) = (Vec::new(), Declarations::check(&declared()).unwrap());
            schema::verify(world.db(), &declarations, |finding| found.push(finding)).await.unwrap();
            let found: Vec<(&str, &str)> = found.iter().map(|finding| (&*finding.id, &*finding.column)).collect();
            let expected = if shown.is_none() { vec![(&*ids[2], column)] } else { vec![] };
            assert_eq!(found, expected, "{} {column} = {value}", world.name());
        }
    }
}

#[tokio::test]
async fn a_time_that_cannot_be_sent_is_refused_at_a_write() {
    let ann = user("ann");
    for world in worlds(declared()).await {
        for time in ["9999-12-31T23:59:59Z", "infinity", "0000-12-31T23:59:59Z", "-0044-03-15T12:00:00Z"] {
            let answer = world.post(&ann, "/things", json!({ "name": "x", "seenAt": time })).await;
            assert_eq!(answer.status, 422, "{time} {}", answer.text);
        }
    }
}
