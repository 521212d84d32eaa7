//! `GET /_events`: one stream for several entities.

use std::sync::Arc;
use std::time::Duration;

use gatewright_base::{Identity, Presented, Reauthenticate, Unavailable};
use gatewright_db::testing::engines;
use gatewright_entities::{Action, Entity, Field, Query};
use gatewright_events::log::Following;
use http::{Method, StatusCode};
use parking_lot::Mutex;
use serde_json::{Value, json};

use super::support::{Stream, World, anonymous, encoded, logged, user, user_with, worlds};

fn tickets() -> Entity {
    Entity::new("tickets")
        .field(Field::string("title"))
        .field(Field::relation("reader", "users"))
        .field(Field::string("secret").read("@roles has 'reader'"))
        .rule(Action::Read, "reader = @me")
}

fn comments() -> Entity {
    Entity::new("comments")
        .table("remarks")
        .public()
        .field(Field::string("title"))
        .field(Field::relation("ticket", "tickets"))
}

fn notes() -> Entity {
    Entity::new("notes").owner("user_id").cross_owner_read("posts:audit").field(Field::string("title"))
}

fn guarded() -> Entity {
    Entity::new("guarded").access(Action::Read, "posts:read").field(Field::string("title"))
}

fn all() -> [Entity; 4] {
    [tickets(), comments(), notes(), guarded()]
}

async fn logged_worlds() -> Vec<(World, Following)> {
    let mut worlds = Vec::new();
    for test_db in engines().await {
        worlds.push(logged(test_db, all()).await);
    }
    worlds
}

async fn open(world: &World, caller: &Identity, query: &str) -> Stream {
    Stream::open(world.ask(caller, Method::GET, &format!("/_events?{query}"))).await
}

/// The present position of the log.
async fn position(world: &World) -> String {
    world.get(&user("ben"), "/remarks").await.header("event-cursor").to_owned()
}

async fn title(stream: &mut Stream) -> String {
    let next = tokio::time::timeout(Duration::from_mins(1), stream.next()).await.expect("no event within a minute");
    let (_, record): (String, Value) = next.unwrap();
    record["title"].as_str().unwrap_or("none").to_owned()
}

async fn write(world: &World, number: usize) {
    let (path, body) = match number % 4 {
        0 => ("/tickets", json!({ "title": format!("{number}"), "reader": "ben" })),
        1 => ("/remarks", json!({ "title": format!("{number}") })),
        2 => ("/notes", json!({ "title": format!("{number}") })),
        // Of these, the stream gets nothing.
        _ => ("/tickets", json!({ "title": "hidden", "reader": "ann" })),
    };
    world.post(&user("ben"), path, body).await.data();
    let other = world.post(&user("ann"), "/notes", json!({ "title": "hidden" })).await;
    assert_eq!(other.status, StatusCode::CREATED, "{}", other.text);
}

#[tokio::test]
async fn the_events_of_several_entities_come_in_one_order_and_resume_at_every_position() {
    for (world, _following) in logged_worlds().await {
        let (ben, name) = (user("ben"), world.name());
        let named = "entities=tickets,comments,notes";
        let mut positions = vec![position(&world).await];
        let mut stream = open(&world, &ben, named).await;
        let (mut seen, written) = (Vec::new(), 24);
        for number in 0..written {
            write(&world, number).await;
        }
        let mut expected: Vec<String> = (0..written).filter(|n| n % 4 != 3).map(|n| n.to_string()).collect();
        for _ in &expected {
            seen.push(title(&mut stream).await);
            positions.push(stream.position.clone());
        }
        assert_eq!(seen, expected, "{name}: the order of the writes");
        drop(stream);
        for (place, position) in positions.iter().enumerate().step_by(5) {
            let mut resumed = open(&world, &ben, &format!("{named}&since={position}")).await;
            for title_of in &expected[place..] {
                assert_eq!(title(&mut resumed).await, *title_of, "{name}: behind {place}");
            }
            write(&world, 4 * place).await;
            expected.push((4 * place).to_string());
            assert_eq!(title(&mut resumed).await, expected[expected.len() - 1], "{name}: and then it is live");
        }
        // The position of a list, and of a stream of one entity, are positions of this stream.
        let cursor = position(&world).await;
        world.post(&ben, "/remarks", json!({ "title": "after the list" })).await.data();
        let mut one = Stream::open(world.ask(&ben, Method::GET, &format!("/remarks/_events?since={cursor}"))).await;
        assert_eq!(title(&mut one).await, "after the list", "{name}");
        let mut several = open(&world, &ben, &format!("{named}&since={cursor}")).await;
        assert_eq!(title(&mut several).await, "after the list", "{name}");
        write(&world, 100).await;
        let mut several = open(&world, &ben, &format!("{named}&since={}", one.position)).await;
        assert_eq!(title(&mut several).await, "100", "{name}");
    }
}

#[tokio::test]
async fn each_entity_has_its_own_filter_rights_and_fields() {
    for (world, _following) in logged_worlds().await {
        let (ben, name) = (user("ben"), world.name());
        let filter = encoded("title = 'yes'");
        let related = encoded("ticket.title = 'yes'");
        let query =
            format!("entities=tickets,remarks,notes&filter.tickets={filter}&filter.remarks={related}&etag=true");
        let begun = position(&world).await;
        let mut stream = open(&world, &ben, &query).await;
        let mut ticket = String::new();
        for title in ["no", "yes"] {
            let body = json!({ "title": title, "reader": "ben", "secret": "hush" });
            ticket = world.post(&user_with("ben", &["reader"]), "/tickets", body).await.id();
            world.post(&ben, "/remarks", json!({ "title": format!("of {title}"), "ticket": ticket })).await.data();
            world.post(&ben, "/notes", json!({ "title": format!("note {title}") })).await.data();
        }
        world.post(&user("ann"), "/notes", json!({ "title": "of another" })).await.data();
        let mut resumed = open(&world, &ben, &format!("{query}&since={begun}")).await;
        for stream in [&mut stream, &mut resumed] {
            let mut titles = Vec::new();
            for _ in 0..4 {
                let (_, record): (String, Value) = stream.next().await.unwrap();
                assert!(record.get("secret").is_none() && record["_etag"].is_string(), "{name}: {record}");
                titles.push(record["title"].as_str().unwrap().to_owned());
            }
            assert_eq!(titles, ["note no", "yes", "of yes", "note yes"], "{name}");
        }
        // Who may no longer read a record is told so, by its id alone.
        world.patch(&ben, &format!("/tickets/{ticket}"), json!({ "reader": "ann" })).await;
        let left = stream.next().await.unwrap();
        assert_eq!(left, ("entity.deleted".to_owned(), json!({ "id": ticket })), "{name}");
    }
}

/// Credentials with an owner that the test can change.
struct Credentials(Mutex<Identity>);

impl Reauthenticate for Credentials {
    fn again(&self) -> std::pin::Pin<Box<dyn Future<Output = Result<Identity, Unavailable>> + Send + '_>> {
        let now = self.0.lock().clone();
        Box::pin(async move { Ok(now) })
    }
}

#[tokio::test]
async fn losing_the_right_to_one_entity_ends_the_stream() {
    for world in worlds(all()).await {
        let reader = user_with("ben", &["reader"]);
        let credentials = Arc::new(Credentials(Mutex::new(reader.clone())));
        let ask = world.ask(&reader, Method::GET, "/_events?entities=comments,guarded");
        let mut stream = Stream::open(ask.extension(Presented(credentials.clone()))).await;
        world.post(&reader, "/remarks", json!({ "title": "seen" })).await.data();
        assert_eq!(title(&mut stream).await, "seen");
        *credentials.0.lock() = user("ben");
        assert!(stream.next().await.is_none(), "{}", world.name());
    }
}

#[tokio::test]
async fn what_a_stream_of_several_entities_does_not_take_is_refused() {
    let view =
        Entity::view("titles", Query::new("SELECT id, title FROM remarks")).public().field(Field::string("title"));
    let inner = Entity::new("inner").crud(false).public().field(Field::string("title"));
    let more = (0..60).map(|number| Entity::new(format!("e{number}")).public().field(Field::string("title")));
    for world in worlds(all().into_iter().chain([view, inner]).chain(more)).await {
        let many = |count: usize| (0..count).map(|n| format!("e{n}")).collect::<Vec<_>>().join(",");
        let (ben, nobody) = (user("ben"), anonymous());
        for (caller, query, status, detail) in [
            (&ben, String::new(), 400, "name the entities: entities=tickets,comments"),
            (&ben, "?entities=".to_owned(), 400, "name the entities"),
            (&ben, "?entities=notes&entities=tickets".to_owned(), 400, "given more than once"),
            (&ben, "?entities=notes,notes".to_owned(), 400, "\"notes\" is named more than once"),
            (&ben, "?entities=comments,remarks".to_owned(), 400, "\"remarks\" is named more than once"),
            (&ben, "?entities=titles".to_owned(), 400, "\"titles\" changes without events"),
            (&ben, "?entities=notes,".to_owned(), 404, "there is nothing at this path"),
            (&ben, "?entities=nothing".to_owned(), 404, "there is nothing at this path"),
            (&ben, "?entities=notes,inner".to_owned(), 404, "there is nothing at this path"),
            (&ben, format!("?entities={}", many(51)), 400, "at most 50"),
            (&ben, "?entities=notes&filter=title%3D'x'".to_owned(), 400, "there is no parameter \"filter\""),
            (&ben, "?entities=notes&filter.tickets=title%3D'x'".to_owned(), 400, "\"filter.tickets\""),
            (&ben, "?entities=notes&filter.notes=nope%3D1".to_owned(), 400, "filter.notes: "),
            (&ben, "?entities=tickets&filter.tickets=secret%3D'x'".to_owned(), 400, "filter.tickets: "),
            (
                &ben,
                "?entities=notes&filter.notes=title%3D'x'&filter.notes=title%3D'x'".to_owned(),
                400,
                "more than once",
            ),
            (&ben, "?entities=notes&sync=true".to_owned(), 400, "there is no parameter \"sync\""),
            (&ben, "?entities=comments,guarded".to_owned(), 403, ""),
            (&nobody, "?entities=comments,notes".to_owned(), 401, ""),
            (&nobody, "?entities=comments".to_owned(), 200, ""),
            (&ben, format!("?entities={}", many(50)), 200, ""),
            (&ben, "?entities=notes&filter.notes=&slow=block&subscriber_id=tab".to_owned(), 200, ""),
        ] {
            let path = format!("/_events{query}");
            if status == 200 {
                assert_eq!(world.ask(caller, Method::GET, &path).open().await.status(), 200, "{query}");
                continue;
            }
            let answer = world.ask(caller, Method::GET, &path).send().await;
            assert_eq!(answer.status.as_u16(), status, "{query}: {}", answer.text);
            assert!(answer.text.contains(&detail.replace('"', "\\\"")), "{query}: {}", answer.text);
        }
        assert_eq!(world.ask(&ben, Method::POST, "/_events?entities=notes").send().await.status, 405);
    }
}
