//! Streams under a rule for reading that get events from the log: those that resume, and those of other servers.

use std::time::Duration;

use gatewright_base::Ambient;
use gatewright_db::testing::engines;
use gatewright_entities::{Action, Entities, Entity, Field, OnDelete};
use gatewright_events::log::Following;
use http::{Method, StatusCode};
use serde_json::{Value, json};

use super::support::{Stream, World, logged, open_log, user};

fn memos() -> Entity {
    Entity::new("memos")
        .field(Field::string("title"))
        .field(Field::relation("author", "users"))
        .field(Field::relation("reader", "users"))
        .rule(Action::Read, "author = @me || reader = @me")
}

/// The same with a hidden field in the rule.
fn notes() -> Entity {
    Entity::new("notes")
        .field(Field::string("title"))
        .field(Field::relation("author", "users"))
        .field(Field::relation("reader", "users"))
        .field(Field::string("state").hidden().default("open"))
        .rule(Action::Read, "state = 'open' && (author = @me || reader = @me)")
}

/// A world on every engine whose events are logged.
async fn logged_worlds() -> Vec<(World, Following)> {
    let mut worlds = Vec::new();
    for test_db in engines().await {
        worlds.push(logged(test_db, [memos(), notes()]).await);
    }
    worlds
}

async fn create(world: &World, title: &str, reader: Option<&str>) -> String {
    let memo = json!({"title": title, "author": "ann", "reader": reader});
    format!("/memos/{}", world.post(&user("ann"), "/memos", memo).await.id())
}

async fn change(world: &World, memo: &str, title: &str, reader: Option<&str>) {
    let answer = world.patch(&user("ann"), memo, json!({"title": title, "reader": reader})).await;
    assert_eq!(answer.status, StatusCode::OK, "{} {}", world.name(), answer.text);
}

async fn open(world: &World, path: &str) -> Stream {
    Stream::open(world.ask(&user("ben"), Method::GET, path)).await
}

/// The next event as `type title`; if the record has only an id, as `type path`.
async fn next(stream: &mut Stream) -> String {
    let next = tokio::time::timeout(Duration::from_mins(1), stream.next()).await.expect("no event within a minute");
    let (kind, record): (String, Value) = next.unwrap();
    match record["title"].as_str() {
        Some(title) => format!("{kind} {title}"),
        None => {
            assert_eq!(record.as_object().unwrap().len(), 1, "{record}");
            format!("{kind} /memos/{}", record["id"].as_str().unwrap())
        }
    }
}

#[tokio::test]
async fn a_stream_under_a_rule_resumes_with_what_its_caller_may_read_now() {
    for (world, _following) in logged_worlds().await {
        let mut stream = open(&world, "/memos/_events").await;
        let one = create(&world, "one", Some("ben")).await;
        assert_eq!(next(&mut stream).await, "entity.created one", "{}", world.name());
        let position = stream.position.clone();
        drop(stream);
        change(&world, &one, "a draft that ben never could read", None).await;
        change(&world, &one, "finished", Some("ben")).await;
        create(&world, "ann's own", None).await;
        let taken_back = create(&world, "taken back", Some("ben")).await;
        change(&world, &taken_back, "taken back", None).await;
        create(&world, "two", Some("ben")).await;
        let mut stream = open(&world, &format!("/memos/_events?since={position}")).await;
        assert_eq!(next(&mut stream).await, "entity.updated finished", "{}", world.name());
        // Ben could read it before that change, so he gets the event.
        assert_eq!(next(&mut stream).await, format!("entity.deleted {taken_back}"), "{}", world.name());
        assert_eq!(next(&mut stream).await, "entity.created two", "{}", world.name());
        create(&world, "three", Some("ben")).await;
        assert_eq!(next(&mut stream).await, "entity.created three", "{}", world.name());
    }
}

/// All missed changes of a record arrive that the caller may read, not only the last one. Values from a time at which the
/// rule did not hold stay secret, and so do all but the current ones if the log lacks a field that the rule reads.
#[tokio::test]
async fn a_resumed_stream_under_a_rule_gets_each_missed_change() {
    for (world, _following) in logged_worlds().await {
        let made = ["created 1", "updated 2", "updated 4", "updated 5"];
        for (path, expected) in [("/memos", &made[..]), ("/notes", &made[3..])] {
            let events = format!("{path}/_events");
            let create = async |title: &str| {
                let body = json!({"title": title, "author": "ann", "reader": "ben"});
                format!("{path}/{}", world.post(&user("ann"), path, body).await.id())
            };
            let mut stream = open(&world, &events).await;
            create("seen").await;
            assert_eq!(next(&mut stream).await, "entity.created seen", "{}", world.name());
            let position = stream.position.clone();
            drop(stream);
            let record = create("1").await;
            for (title, reader) in [("2", Some("ben")), ("3, secret", None), ("4", Some("ben")), ("5", Some("ben"))] {
                change(&world, &record, title, reader).await;
            }
            let mut stream = open(&world, &format!("{events}?since={position}")).await;
            for expected in expected {
                assert_eq!(next(&mut stream).await, format!("entity.{expected}"), "{} {path}", world.name());
            }
        }
    }
}

#[tokio::test]
async fn a_stream_under_a_rule_shows_the_writes_of_another_server() {
    for (mut world, _following) in logged_worlds().await {
        let mut stream = open(&world, "/memos/_events").await;
        let replica = Entities::builder(world.db().clone(), Ambient::system()).log(open_log(world.db()).await);
        let replica = replica.declare(memos()).build().await.unwrap();
        let own = std::mem::replace(&mut world.router, replica.router());
        create(&world, "ann's own", None).await;
        let remote = create(&world, "remote", Some("ben")).await;
        world.router = own;
        assert_eq!(next(&mut stream).await, "entity.created remote", "{}", world.name());
        create(&world, "ann's own too", None).await;
        create(&world, "local", Some("ben")).await;
        assert_eq!(next(&mut stream).await, "entity.created local", "{}", world.name());
        assert_eq!(world.delete(&user("ann"), &remote).await.status, StatusCode::NO_CONTENT);
        assert_eq!(next(&mut stream).await, "entity.deleted remote", "{}", world.name());
    }
}

#[tokio::test]
async fn a_record_that_leaves_a_view_is_deleted_there_and_one_that_enters_is_updated() {
    for (world, _following) in logged_worlds().await {
        world.db().execute("INSERT INTO users (id) VALUES ('cid')", vec![]).await.unwrap();
        let mut bens = open(&world, "/memos/_events").await;
        let mut filtered = open(&world, "/memos/_events?filter=title%20=%20'one'").await;
        let mut anns = Stream::open(world.ask(&user("ann"), Method::GET, "/memos/_events")).await;
        let mut cids = Stream::open(world.ask(&user("cid"), Method::GET, "/memos/_events")).await;
        let memo = create(&world, "one", Some("ben")).await;
        change(&world, &memo, "canary", None).await;
        change(&world, &memo, "canary two", None).await;
        change(&world, &memo, "back", Some("ben")).await;
        let steps = ["entity.created one", &format!("entity.deleted {memo}"), "entity.updated back"];
        for step in steps {
            assert_eq!(next(&mut bens).await, step, "{}", world.name());
        }
        // The deletion is sent whatever the filter finds in its present values: otherwise a filter would reveal them.
        for step in &steps[..2] {
            assert_eq!(next(&mut filtered).await, *step, "{}", world.name());
        }
        for step in ["entity.created one", "entity.updated canary", "entity.updated canary two", "entity.updated back"]
        {
            assert_eq!(next(&mut anns).await, step, "{}", world.name());
        }
        let marker = json!({"title": "marker", "author": "ann", "reader": "cid"});
        let marker = format!("/memos/{}", world.post(&user("ann"), "/memos", marker).await.id());
        // Callers who could never read it get no event.
        assert_eq!(next(&mut cids).await, "entity.created marker", "{}", world.name());
        assert_eq!(world.delete(&user("ann"), &marker).await.status, StatusCode::NO_CONTENT);
        assert_eq!(next(&mut cids).await, "entity.deleted marker", "{}", world.name());
    }
}

#[tokio::test]
async fn a_resumed_stream_reports_records_that_left_or_were_deleted_meanwhile() {
    for (mut world, _following) in logged_worlds().await {
        let mut stream = open(&world, "/memos/_events").await;
        let leaving = create(&world, "leaving", Some("ben")).await;
        let going = create(&world, "going", Some("ben")).await;
        assert_eq!(next(&mut stream).await, "entity.created leaving", "{}", world.name());
        assert_eq!(next(&mut stream).await, "entity.created going", "{}", world.name());
        let position = stream.position.clone();
        drop(stream);
        // Another server writes, so no caller of this one was checked.
        let replica = Entities::builder(world.db().clone(), Ambient::system()).log(open_log(world.db()).await);
        let replica = replica.declare(memos()).build().await.unwrap();
        let own = std::mem::replace(&mut world.router, replica.router());
        change(&world, &leaving, "canary", None).await;
        let secret = create(&world, "canary", None).await;
        change(&world, &secret, "canary two", None).await;
        assert_eq!(world.delete(&user("ann"), &secret).await.status, StatusCode::NO_CONTENT);
        assert_eq!(world.delete(&user("ann"), &going).await.status, StatusCode::NO_CONTENT);
        create(&world, "end", Some("ben")).await;
        world.router = own;
        for path in
            [format!("/memos/_events?since={position}"), format!("/memos/_events?since={position}&filter=id!=null")]
        {
            let mut stream = open(&world, &path).await;
            for step in [&*format!("entity.deleted {leaving}"), "entity.deleted going", "entity.created end"] {
                assert_eq!(next(&mut stream).await, step, "{}", world.name());
            }
        }
    }
}

#[tokio::test]
async fn a_record_that_an_on_delete_removes_from_a_view_is_deleted_there() {
    let boxes = Entity::new("boxes").field(Field::relation("boss", "users"));
    let memos = Entity::new("memos")
        .field(Field::string("title"))
        .field(Field::relation("author", "users"))
        .field(Field::relation("box", "boxes").on_delete(OnDelete::SetNull))
        .rule(Action::Read, "author = @me || box.boss = @me");
    for world in super::support::worlds([boxes, memos]).await {
        let mut bens = open(&world, "/memos/_events").await;
        let mut anns = Stream::open(world.ask(&user("ann"), Method::GET, "/memos/_events")).await;
        let of_ben = world.post(&user("ann"), "/boxes", json!({"boss": "ben"})).await.id();
        let memo = json!({"title": "one", "author": "ann", "box": of_ben});
        let memo = format!("/memos/{}", world.post(&user("ann"), "/memos", memo).await.id());
        assert_eq!(next(&mut bens).await, "entity.created one", "{}", world.name());
        let answer = world.delete(&user("ann"), &format!("/boxes/{of_ben}")).await;
        assert_eq!(answer.status, StatusCode::NO_CONTENT, "{}", answer.text);
        assert_eq!(next(&mut bens).await, format!("entity.deleted {memo}"), "{}", world.name());
        assert_eq!(next(&mut anns).await, "entity.created one", "{}", world.name());
        assert_eq!(next(&mut anns).await, "entity.updated one", "{}", world.name());
    }
}
