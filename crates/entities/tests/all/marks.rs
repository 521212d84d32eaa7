//! Records that an older server writes beside this one: they get their numbers and folded texts later.

use gatewright_base::Ambient;
use gatewright_db::testing::{TestDb, engines};
use gatewright_db::{Value as Stored, params};
use gatewright_entities::schema::{self, SchemaError, Users, verify};
use gatewright_entities::{Declarations, Entities, Entity, Field, Unique};
use jiff::Timestamp;
use serde_json::{Value, json};

use super::support::{Answer, World, anonymous, worlds};

fn tickets() -> Entity {
    Entity::new("tickets")
        .public()
        .field(Field::string("desk"))
        .field(Field::string("slug"))
        .field(Field::int("number").sequence(["desk"]))
        .unique(Unique::of(["slug"]).ignore_case())
        .unique(["desk", "number"])
        .soft_delete()
}

const MARKS: &str = "gatewright_marks";

/// Inserts a record as a server does whose configuration has neither the number nor the key.
async fn old_insert(world: &World, id: &str, desk: &str, slug: &str) {
    let sql = "INSERT INTO tickets (id, desk, slug, created_at, updated_at) VALUES (?1, ?2, ?3, ?4, ?4)";
    let now = Stored::Time(Timestamp::UNIX_EPOCH);
    world.db().execute(sql, params![id, desk, slug, now]).await.unwrap();
}

async fn run(world: &World, sql: &str) {
    assert_eq!(world.db().execute(sql.to_owned(), vec![]).await.unwrap(), 1, "{sql}");
}

async fn record(world: &World, id: &str) -> Value {
    world.get(&anonymous(), &format!("/tickets/{id}")).await.data()
}

async fn create(world: &World, body: Value) -> Answer {
    world.post(&anonymous(), "/tickets", body).await
}

async fn repeat(world: &World, slug: &str) -> Answer {
    create(world, json!({ "desk": "x", "slug": slug })).await
}

fn id(number: u32) -> String {
    format!("01890000-0000-7000-8000-{number:012}")
}

#[tokio::test]
async fn records_of_an_older_server_get_numbers_and_folded_texts() {
    for mut world in worlds([tickets()]).await {
        let name = world.name();
        let own = world.post(&anonymous(), "/tickets", json!({ "desk": "a", "slug": "One" })).await.id();
        world.event().await;
        old_insert(&world, &id(1), "a", "Zwei").await;
        assert_eq!(
            (record(&world, &id(1)).await["number"].clone(), world.rows(MARKS).await),
            (Value::Null, 2),
            "{name}"
        );
        assert_eq!(world.entities.complete_marked().await.unwrap(), 2);
        let (kind, _, told) = world.event().await;
        assert_eq!((&*kind, &told["id"], &told["number"]), ("entity.updated", &json!(id(1)), &json!(2)), "{name}");
        let numbered = record(&world, &id(1)).await;
        assert_eq!(numbered, told, "{name}");
        assert!(numbered["updatedAt"] != numbered["createdAt"], "{numbered}");
        assert_eq!(repeat(&world, "ZWEI").await.status, 409, "{name}");

        // It changes a text, moves a record, or does both in one that is in the trash.
        run(&world, &format!("UPDATE tickets SET slug = 'Neu' WHERE id = '{}'", id(1))).await;
        run(&world, &format!("UPDATE tickets SET desk = 'b' WHERE id = '{own}'")).await;
        old_insert(&world, &id(2), "b", "Trash").await;
        let gone = format!("UPDATE tickets SET deleted_at = created_at WHERE id = '{}'", id(2));
        run(&world, &gone).await;
        assert_eq!(world.entities.complete_marked().await.unwrap(), 4, "{name}");
        assert_eq!(record(&world, &own).await["number"], 2, "{name}: in the order of their ids");
        let (kind, _, told) = world.event().await;
        assert_eq!((&*kind, &told["id"]), ("entity.updated", &json!(own)), "{name}");
        world.no_more_events().await;
        assert_eq!(
            (repeat(&world, "neu").await.status.as_u16(), repeat(&world, "zwei").await.status.as_u16()),
            (409, 201),
            "{name}"
        );
        assert_eq!(repeat(&world, "trash").await.status, 201, "{name}: records in the trash do not count");
        let next = world.post(&anonymous(), "/tickets", json!({ "desk": "b" })).await.data();
        assert_eq!(next["number"], 3, "{name}: {next}");

        // Nothing is left to do, and what this server writes is not marked.
        let path = format!("/tickets/{}", next["id"].as_str().unwrap());
        for body in [json!({ "slug": "A" }), json!({ "slug": "a" }), json!({ "slug": null }), json!({ "desk": "a" })] {
            assert_eq!(world.patch(&anonymous(), &path, &body).await.status, 200, "{body}");
        }
        // A number that is the same in both scopes.
        let alone = world.post(&anonymous(), "/tickets", json!({ "desk": "p" })).await.id();
        let moved = world.patch(&anonymous(), &format!("/tickets/{alone}"), json!({ "desk": "q" })).await.data();
        assert_eq!(moved["number"], 1, "{name}");
        let marks = world.db().query(format!("SELECT field FROM {MARKS}"), vec![]).await.unwrap();
        let marks: Vec<String> = marks.iter().map(|row| row.get("field").unwrap()).collect();
        // Of a text in another case, the folded one stays the same.
        assert_eq!(marks, ["slug"], "{name}");
        assert_eq!((world.entities.complete_marked().await.unwrap(), world.rows(MARKS).await), (1, 0), "{name}");
    }
}

/// A text that another record has in another case: both records stay, and one of them conflicts with none.
#[tokio::test]
async fn texts_that_an_older_server_repeats_are_kept_and_reported() {
    for world in worlds([tickets()]).await {
        let name = world.name();
        let own = world.post(&anonymous(), "/tickets", json!({ "slug": "One" })).await.id();
        old_insert(&world, &id(1), "a", "ONE").await;
        old_insert(&world, &id(2), "a", "two").await;
        assert_eq!((world.entities.complete_marked().await.unwrap(), world.rows(MARKS).await), (4, 0), "{name}");
        let shown = [record(&world, &id(1)).await, record(&world, &id(2)).await, record(&world, &own).await];
        assert_eq!(shown.map(|record| record["slug"].clone()), ["ONE", "two", "One"], "{name}");
        let mut found = Vec::new();
        let declared = Declarations::check(&[tickets()]).unwrap();
        verify(world.db(), &declared, |finding| found.push(finding.id)).await.unwrap();
        assert_eq!(found, [id(1)], "{name}");
        let path = format!("/tickets/{}", id(1));
        assert_eq!(world.patch(&anonymous(), &path, json!({ "slug": "one" })).await.status, 409, "{name}");
        assert_eq!(world.patch(&anonymous(), &path, json!({ "slug": "three" })).await.status, 200, "{name}");
    }
}

#[tokio::test]
async fn several_servers_give_each_marked_record_one_number() {
    for world in worlds([tickets()]).await {
        for number in 0..40 {
            old_insert(&world, &id(number), "a", &format!("s{number}")).await;
        }
        let all = (0..4).map(|_| world.entities.complete_marked());
        let creates = (0..10).map(|_| create(&world, json!({ "desk": "a" })));
        let (completed, made) =
            tokio::join!(futures_util::future::join_all(all), futures_util::future::join_all(creates));
        assert!(completed.iter().all(Result::is_ok) && made.iter().all(|made| made.status == 201), "{completed:?}");
        let rows = world.db().query("SELECT number FROM tickets ORDER BY number", vec![]).await.unwrap();
        let numbers: Vec<i64> = rows.iter().map(|row| row.get("number").unwrap()).collect();
        assert_eq!((numbers, world.rows(MARKS).await), ((1..=50).collect(), 0), "{}", world.name());
    }
}

/// The field and the key are new, the records older, and a server without them continues to write meanwhile.
#[tokio::test]
async fn marks_follow_new_names_and_declarations() {
    let before = Entity::new("pages").public().field(Field::string("site"));
    let after = before.clone().field(Field::int("n").sequence(Vec::<String>::new()));
    let keyed = after.clone().unique(Unique::of(["site"]).ignore_case());
    let renamed = Entity::new("sheets")
        .renamed_from("pages")
        .public()
        .field(Field::string("place").renamed_from("site"))
        .field(Field::int("number").renamed_from("n").sequence(Vec::<String>::new()))
        .unique(Unique::of(["place"]).ignore_case());
    for TestDb { db, name, .. } in &engines().await {
        let start = async |entity: &Entity| {
            let builder = Entities::builder(db.clone(), Ambient::system()).users(Users::Elsewhere);
            builder.declare(entity.clone()).build().await.unwrap()
        };
        let insert = async |number: u32, table: &str, column: &str| {
            let sql = format!("INSERT INTO {table} (id, {column}, created_at, updated_at) VALUES (?1, ?2, ?3, ?3)");
            let site = format!("S{number}");
            db.execute(sql, params![id(number), site, Stored::Time(Timestamp::UNIX_EPOCH)]).await.unwrap();
        };
        start(&before).await;
        insert(1, "pages", "site").await;
        start(&after).await;
        insert(2, "pages", "site").await;
        start(&keyed).await;
        insert(3, "pages", "site").await;
        let entities = start(&renamed).await;
        insert(4, "sheets", "place").await;
        assert_eq!(entities.complete_marked().await.unwrap(), 5, "{name}");
        let sql = "SELECT number, \"place.folded\" AS folded FROM sheets ORDER BY id";
        let rows = db.query(sql, vec![]).await.unwrap();
        let numbers: Vec<i64> = rows.iter().map(|row| row.get("number").unwrap()).collect();
        let folded: Vec<String> = rows.iter().map(|row| row.get("folded").unwrap()).collect();
        assert_eq!(
            (numbers, folded),
            (vec![1, 2, 3, 4], vec!["s1", "s2", "s3", "s4"].into_iter().map(str::to_owned).collect()),
            "{name}"
        );
        // An operator's change of a column that a trigger names.
        let counted = |site| Entity::new("rows").public().field(site).field(Field::int("n").sequence(["site"]));
        let entities = start(&counted(Field::string("site"))).await;
        let table = entities.tables().next().unwrap();
        table.create(&anonymous().into(), br#"{"site":"7"}"#).await.unwrap();
        let declared = Declarations::check(&[counted(Field::int("site"))]).unwrap();
        let Err(SchemaError::Refused(refused)) = schema::plan(db, &declared, &Users::Elsewhere).await else {
            panic!("{name}: it changes a type")
        };
        for statement in refused.iter().flat_map(|refusal| &refusal.sql) {
            db.execute(statement.clone(), vec![]).await.unwrap();
        }
        start(&counted(Field::int("site"))).await;
        let sql = "INSERT INTO rows (id, site, created_at, updated_at) SELECT 'x', 7, created_at, updated_at FROM rows";
        db.execute(sql, vec![]).await.unwrap();
        let marks = db.query("SELECT id FROM gatewright_marks", vec![]).await.unwrap();
        assert_eq!(marks.iter().map(|row| row.get::<String>("id").unwrap()).collect::<Vec<_>>(), ["x"], "{name}");
    }
}
