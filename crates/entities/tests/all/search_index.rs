//! Indexes of words that are declared, changed and dropped beside a running server.

use std::time::Duration;

use gatewright_base::{Ambient, Identity};
use gatewright_db::testing::{TestDb, engines};
use gatewright_db::{Db, Engine};
use gatewright_entities::operations::{Call, Error};
use gatewright_entities::schema::{self, Users};
use gatewright_entities::{Declarations, Entities, Entity, Field, Language, ListQuery, Tables, Unique};
use serde_json::{Value, json};

fn plain() -> Entity {
    Entity::new("notes").public().field(Field::string("title")).field(Field::text("body")).search_fields(["title"])
}

fn indexed(language: &str, fields: &[(&str, u32)]) -> Entity {
    plain().search(language.parse::<Language>().unwrap(), fields.iter().map(|(name, weight)| (*name, *weight)))
}

async fn start(db: &Db, entity: &Entity) -> Entities {
    let builder = Entities::builder(db.clone(), Ambient::system()).users(Users::Elsewhere);
    builder.declare(entity.clone()).build().await.unwrap()
}

fn call() -> Call {
    Call::from(&Identity::Anonymous)
}

async fn create(entities: &Entities, title: &str, body: &str) -> String {
    let body = json!({ "title": title, "body": body }).to_string();
    entities.tables().next().unwrap().create(&call(), body.as_bytes()).await.unwrap().id().to_owned()
}

async fn found(entities: &Entities, query: &str) -> Result<usize, Error> {
    let list = entities.tables().next().unwrap().list(&call(), &ListQuery::parse(query)).await?;
    Ok(list.records::<Value>().unwrap().len())
}

async fn findings(db: &Db, entity: &Entity) -> Vec<String> {
    let mut found = Vec::new();
    let declared = Declarations::check(std::slice::from_ref(entity)).unwrap();
    schema::verify(db, &declared, |finding| found.push(finding.to_string())).await.unwrap();
    found
}

async fn notes_of(db: &Db, entity: &Entity) -> (usize, String) {
    let declared = Declarations::check(std::slice::from_ref(entity)).unwrap();
    let changes = schema::plan(db, &declared, &Users::Elsewhere).await.unwrap();
    (changes.statements.len(), changes.to_string())
}

#[tokio::test]
async fn an_index_is_built_changed_and_dropped_with_its_declaration() {
    for TestDb { db, name, .. } in &engines().await {
        let old = start(db, &plain()).await;
        for number in 0..250 {
            create(&old, &format!("Running {number}"), "a body").await;
        }
        // Built: nothing is searched before it has all records, and what is written meanwhile is there.
        let entity = indexed("english", &[("title", 4)]);
        let (statements, plan) = notes_of(db, &entity).await;
        assert!(statements > 2 && plan.contains("gets a search index in batches"), "{name}: {plan}");
        let new = start(db, &entity).await;
        assert!(matches!(found(&new, "q=run").await, Err(Error::SearchBuilding)), "{name}");
        assert_eq!(found(&new, "limit=100").await.unwrap(), 100, "{name}");
        assert!(notes_of(db, &entity).await.1.contains("gets a search index in batches"), "{name}");
        let during = create(&new, "Runs meanwhile", "x").await;
        new.build_search().await.unwrap();
        assert_eq!(found(&new, "q=run&limit=100&page=3").await.unwrap(), 51, "{name}");
        assert_eq!(found(&new, "q=runs+meanwhile").await.unwrap(), 1, "{name}: {during}");
        assert_eq!(notes_of(db, &entity).await, (0, String::new()), "{name}");
        assert_eq!(findings(db, &entity).await, Vec::<String>::new(), "{name}");
        // Other weights need no other index.
        let weighted = indexed("english", &[("title", 9)]);
        assert_eq!(notes_of(db, &weighted).await, (0, String::new()), "{name}");
        // Changed: another language, another field.
        let changed = indexed("simple", &[("title", 4), ("body", 1)]);
        let new = start(db, &changed).await;
        assert!(matches!(found(&new, "q=running").await, Err(Error::SearchBuilding)), "{name}");
        new.build_search().await.unwrap();
        assert_eq!(found(&new, "q=running+body&limit=100").await.unwrap(), 100, "{name}");
        assert_eq!(found(&new, "q=run").await.unwrap(), 0, "{name}");
        assert_eq!(findings(db, &changed).await, Vec::<String>::new(), "{name}");
        let left = notes_of(db, &changed).await.1;
        assert!(left.contains("keeps its column \"title.english\""), "{name}: {left}");
        // Dropped: texts change without words, and the next index has the new ones.
        let without = start(db, &plain()).await;
        assert_eq!(found(&without, "q=UNN&limit=100").await.unwrap(), 100, "{name}: as before");
        let id = create(&without, "Fresh", "body").await;
        let table = without.tables().next().unwrap();
        table.update(&call(), &during, json!({ "title": "Stale" }).to_string().as_bytes(), None).await.unwrap();
        if db.engine() == Engine::Sqlite {
            let sql = "SELECT count(*) AS n FROM sqlite_master WHERE name LIKE 'gatewright_search.%'";
            let row = db.query_opt(sql, vec![]).await.unwrap().unwrap();
            assert_eq!(row.get::<i64>("n").unwrap(), 0, "{name}: nothing is left of it");
        }
        let again = start(db, &changed).await;
        again.build_search().await.unwrap();
        let counts = (found(&again, "q=fresh").await.unwrap(), found(&again, "q=stale").await.unwrap());
        assert_eq!((counts, found(&again, "q=meanwhile").await.unwrap()), ((1, 1), 0), "{name}: {id}");
        assert_eq!(findings(db, &changed).await, Vec::<String>::new(), "{name}");
    }
}

/// Two servers build the same index, callers write, an old server writes, and each build ends at moments of its own.
#[tokio::test]
async fn a_build_that_ends_at_any_moment_goes_on() {
    for TestDb { db, name, .. } in &engines().await {
        let old = start(db, &plain()).await;
        let mut ids = Vec::new();
        for number in 0..400 {
            ids.push(create(&old, &format!("word{number} common"), "b").await);
        }
        let entity = indexed("simple", &[("title", 1), ("body", 1)]);
        let new = start(db, &entity).await;
        let write = async {
            for (number, id) in ids.iter().enumerate().step_by(7) {
                let writer = if number % 2 == 0 { &new } else { &old };
                let table = writer.tables().next().unwrap();
                let title = json!({ "title": format!("changed{number} common") }).to_string();
                table.update(&call(), id, title.as_bytes(), None).await.unwrap();
                create(writer, &format!("added{number} common"), "b").await;
                if let Some(next) = ids.get(number + 1).filter(|_| number % 3 == 0) {
                    table.delete(&call(), next, None).await.unwrap();
                }
            }
        };
        let build = async {
            for micros in (1..60).map(|step| step * 700) {
                let both = async { tokio::join!(new.build_search(), new.build_search()) };
                if let Ok((one, other)) = tokio::time::timeout(Duration::from_micros(micros), both).await {
                    one.and(other).unwrap();
                }
            }
            new.build_search().await.unwrap();
        };
        tokio::join!(write, build);
        new.complete_marked().await.unwrap();
        let count =
            db.query_opt("SELECT count(*) AS n FROM notes", vec![]).await.unwrap().unwrap().get::<i64>("n").unwrap();
        let list = new.tables().next().unwrap().list(&call(), &ListQuery::parse("q=common&limit=1")).await.unwrap();
        let json: Value = serde_json::from_slice(&list.to_json(gatewright_base::JsonCase::Camel)).unwrap();
        assert_eq!(json["total"], count, "{name}");
        assert_eq!(found(&new, "q=changed14").await.unwrap() + found(&new, "q=changed21").await.unwrap(), 2, "{name}");
        assert_eq!(found(&new, "q=word14").await.unwrap() + found(&new, "q=word21").await.unwrap(), 0, "{name}");
        assert_eq!(findings(db, &entity).await, Vec::<String>::new(), "{name}");
    }
}

/// An old server starts again beside a new one: it knows neither the index nor the number nor the folded text, and drops what
/// feeds them.
#[tokio::test]
async fn a_server_makes_again_what_an_older_one_dropped_at_its_start() {
    let slugged = |entity: Entity| entity.field(Field::string("slug")).unique(Unique::of(["slug"]).ignore_case());
    let entity = slugged(indexed("english", &[("title", 4)]).field(Field::int("number").sequence([] as [&str; 0])));
    let plain = slugged(plain());
    for TestDb { db, name, .. } in &engines().await {
        let new = start(db, &entity).await;
        let kept = create(&new, "Running", "body").await;
        new.build_search().await.unwrap();
        assert_eq!(found(&new, "q=run").await.unwrap(), 1, "{name}");
        assert_eq!(new.keep_derived().await.unwrap(), 0, "{name}: nothing is missing");
        let old = start(db, &plain).await;
        create(&old, "Runs beside it", "body").await;
        let table = old.tables().next().unwrap();
        table.update(&call(), &kept, br#"{"title":"Walking","slug":"\u00c4B"}"#, None).await.unwrap();
        let found_then = findings(db, &entity).await;
        assert!(
            found_then.iter().any(|found| found.contains("the search index was dropped")),
            "{name}: {found_then:?}"
        );
        assert!(new.keep_derived().await.unwrap() > 3, "{name}");
        assert_eq!(new.keep_derived().await.unwrap(), 0, "{name}: once");
        assert!(matches!(found(&new, "q=run").await, Err(Error::SearchBuilding)), "{name}");
        new.build_search().await.unwrap();
        new.complete_marked().await.unwrap();
        let counts = (found(&new, "q=run").await.unwrap(), found(&new, "q=walk").await.unwrap());
        assert_eq!((counts, found(&new, "number_gte=1").await.unwrap()), ((1, 1), 2), "{name}");
        assert_eq!(findings(db, &entity).await, Vec::<String>::new(), "{name}");
        let again = new.tables().next().unwrap().create(&call(), br#"{"title":"x","slug":"\u00e4b"}"#).await;
        assert!(again.is_err(), "{name}: the folded text is compared");
        // A server that may not change tables says so instead.
        drop(start(db, &plain).await);
        let builder = Entities::builder(db.clone(), Ambient::system()).users(Users::Elsewhere).tables(Tables::Check);
        let checking = builder.declare(entity.clone()).build().await;
        assert!(checking.is_err() && new.keep_derived().await.unwrap() > 0, "{name}");
    }
}

/// Of two servers with different indexes, the one that started last has its own; the other one searches nothing, and undoes nothing.
#[tokio::test]
async fn servers_of_different_declarations_do_not_undo_each_others_indexes() {
    for TestDb { db, name, .. } in &engines().await {
        let (first, second) = (indexed("english", &[("title", 4)]), indexed("simple", &[("title", 4), ("body", 1)]));
        let old = start(db, &first).await;
        create(&old, "Running", "body").await;
        old.build_search().await.unwrap();
        let new = start(db, &second).await;
        new.build_search().await.unwrap();
        for _ in 0..2 {
            assert_eq!((old.keep_derived().await.unwrap(), new.keep_derived().await.unwrap()), (0, 0), "{name}");
        }
        assert!(matches!(found(&old, "q=run").await, Err(Error::SearchBuilding)), "{name}");
        assert_eq!(found(&new, "q=running").await.unwrap(), 1, "{name}");
        assert_eq!(findings(db, &second).await, Vec::<String>::new(), "{name}");
    }
}

/// The script of a new type drops the triggers of a table.
#[tokio::test]
async fn an_index_that_lacked_a_trigger_is_built_again() {
    for TestDb { db, name, .. } in &engines().await {
        let entity = indexed("english", &[("title", 4)]);
        let new = start(db, &entity).await;
        let id = create(&new, "Running", "body").await;
        new.build_search().await.unwrap();
        for trigger in gatewright_db::schema::triggers(db, "notes").await.unwrap() {
            let of = if db.engine() == Engine::Postgres { " ON notes" } else { "" };
            db.execute(format!("DROP TRIGGER \"{trigger}\"{of}"), vec![]).await.unwrap();
        }
        db.execute("UPDATE notes SET title = 'Walking' WHERE id = ?1", vec![id.into()]).await.unwrap();
        let new = start(db, &entity).await;
        new.build_search().await.unwrap();
        assert_eq!((found(&new, "q=run").await.unwrap(), found(&new, "q=walk").await.unwrap()), (0, 1), "{name}");
        assert_eq!(findings(db, &entity).await, Vec::<String>::new(), "{name}");
    }
}

#[tokio::test]
async fn an_index_follows_new_names() {
    for TestDb { db, name, .. } in &engines().await {
        let entity = indexed("simple", &[("title", 1)]);
        let before = start(db, &entity).await;
        create(&before, "alpha", "x").await;
        let renamed = Entity::new("sheets").renamed_from("notes").public().field(Field::text("body"));
        let renamed =
            renamed.field(Field::string("subject").renamed_from("title")).search(Language::SIMPLE, [("subject", 1)]);
        let after = start(db, &renamed).await;
        after.build_search().await.unwrap();
        after.tables().next().unwrap().create(&call(), br#"{"subject":"beta"}"#).await.unwrap();
        let both = (found(&after, "q=alpha").await.unwrap(), found(&after, "q=beta").await.unwrap());
        assert_eq!(both, (1, 1), "{name}");
        assert_eq!(findings(db, &renamed).await, Vec::<String>::new(), "{name}");
        assert_eq!(notes_of(db, &renamed).await.0, 0, "{name}");
    }
}

/// Each field has its own room, so that no text fails to be stored.
#[tokio::test]
async fn the_longest_texts_are_stored_and_found() {
    for TestDb { db, name, .. } in &engines().await {
        let entity =
            Entity::new("notes").public().field(Field::string("title")).field(Field::text("body").max(4_000_000));
        let entity = entity.search(Language::SIMPLE, [("title", 1), ("body", 1)]);
        let entities = start(db, &entity).await;
        let word = |number: usize| format!("{}{number:05}", "x".repeat(180));
        let long: Vec<String> = (0..10_100).map(word).collect();
        let id = create(&entities, "t", &long.join(" ")).await;
        let asked = |text: &str| format!("q={text}&fields=id");
        assert_eq!(found(&entities, &asked(&word(9_999))).await.unwrap(), 1, "{name}");
        assert_eq!(found(&entities, &asked(&word(10_000))).await.unwrap(), 0, "{name}: the first 10,000 words");
        assert_eq!(found(&entities, &asked(&format!("{}&prefix=true", "x".repeat(60)))).await.unwrap(), 1, "{name}");
        let table = entities.tables().next().unwrap();
        let often = json!({ "title": "z", "body": "a ".repeat(20_000) }).to_string();
        table.update(&call(), &id, often.as_bytes(), None).await.unwrap();
        assert_eq!(found(&entities, &asked("%22a+a%22")).await.unwrap(), 1, "{name}");
        assert_eq!(findings(db, &entity).await, Vec::<String>::new(), "{name}");
    }
}

#[tokio::test]
async fn a_promoted_database_is_searched_by_words_of_its_own() {
    let engines = engines().await;
    let of = |engine| engines.iter().find(|test_db| test_db.db.engine() == engine).map(|test_db| &test_db.db);
    let (Some(source), Some(target)) = (of(Engine::Sqlite), of(Engine::Postgres)) else { return };
    let entity = indexed("english", &[("title", 4), ("body", 1)]);
    let old = start(source, &entity).await;
    for number in 0..30 {
        create(&old, &format!("Running {number}"), "a body").await;
    }
    // A column of words that no declaration has now.
    let left = indexed("simple", &[("title", 4)]);
    start(source, &left).await.build_search().await.unwrap();
    start(source, &entity).await.build_search().await.unwrap();
    let new = start(target, &entity).await;
    gatewright_db::promote::promote(source, target, &[]).await.unwrap();
    let new = {
        drop(new);
        start(target, &entity).await
    };
    assert!(matches!(found(&new, "q=run").await, Err(Error::SearchBuilding)));
    new.build_search().await.unwrap();
    assert_eq!((found(&new, "q=run&limit=100").await.unwrap(), new.complete_marked().await.unwrap()), (30, 0));
    assert_eq!(findings(target, &entity).await, Vec::<String>::new());
}
