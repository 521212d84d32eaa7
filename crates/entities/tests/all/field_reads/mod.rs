//! Fields that only some callers may read. For others they do not exist: every answer is that of a service without them.

use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use gatewright_base::{Identity, Presented, Reauthenticate, Unavailable};
use gatewright_db::testing::engines;
use gatewright_entities::answers::AnswerOptions;
use gatewright_entities::operations::Call;
use gatewright_entities::{Action, Declarations, Entity, Field, RecordCheck, Unique};
use http::Method;
use jiff::SignedDuration;
use parking_lot::Mutex;
use serde_json::{Value, json};

use super::support::{Answer, Stream, anonymous, encoded, keeping_worlds, logged, user, user_with, worlds};

use self::doors::{entities, store};

mod doors;

/// Who may read.
const EDITORS: &str = "@roles has 'editor'";

#[tokio::test]
async fn callers_with_the_right_and_operators_use_the_field_at_each_door() {
    let editor = user_with("eve", &["editor"]);
    for world in worlds(entities(true)).await {
        let (folder, ticket) = store(&world, true).await;
        let one = world.get(&editor, &format!("/tickets/{ticket}")).await.data();
        for (key, value) in [
            ("priority", json!("high")),
            ("score", json!(7)),
            ("note", json!("canary")),
            ("reviewer", json!("ann")),
            ("moved", json!(folder)),
            ("serial", json!("s-1")),
            ("meta", json!({ "a": 1 })),
            ("tags", json!(["red"])),
            ("watchers", json!(["ann"])),
            ("places", json!([folder])),
            ("number", json!(1)),
        ] {
            assert_eq!(one[key], value);
        }
        for (query, count) in [
            ("sort=-score&score_gt=1", 1),
            ("filter=folder.code='c-1'", 1),
            ("q=canary", 1),
            ("include=moved", 2),
            ("filter=reviewer='ann'", 1),
            ("filter=folder.tickets(moved).score=7", 1),
            ("filter=folder.tickets(places).watchers='ann'", 1),
            ("watchers=ann", 1),
            ("sort=folder.code", 2),
        ] {
            let answer = world.get(&editor, &format!("/tickets?{query}")).await;
            assert_eq!(answer.json()["data"].as_array().map(Vec::len), Some(count), "{query}: {}", answer.text);
        }
        let table = world.entities.table("tickets").unwrap();
        let operator = Call::from(user("ben")).as_operator();
        let seen: Value = table.get(&operator, &ticket).await.unwrap().read().unwrap();
        assert_eq!(seen, one);
        let own: Value = table.get(&Call::from(user("ben")), &ticket).await.unwrap().read().unwrap();
        assert_eq!(own.get("score"), None);
        // The program's own hooks and events get all of it: what was stored is whole.
        let deleted: Value = table.delete(&Call::from(user("ben")), &ticket, None).await.unwrap().read().unwrap();
        assert_eq!(deleted.get("score"), None);
    }
}

fn posts() -> Entity {
    Entity::new("posts")
        .field(Field::string("title"))
        .field(Field::int("votes").max(10).read(EDITORS).write("true"))
        .field(Field::int("rank").read(EDITORS).write("@me = owner || rank = null"))
        .field(Field::json("meta").read(EDITORS).write("true"))
        .field(Field::relation("owner", "users").default("@me"))
        .field(Field::string("slug").read(EDITORS).write("true"))
        .field(Field::int("needed").required().read(EDITORS))
        .field(Field::int("given").required().default(3).read(EDITORS))
        .unique(Unique::of(["title", "slug"]))
        .check(RecordCheck::new("votes = null || votes < 9", "are too many").field("votes"))
}

fn faults(answer: &Answer) -> Vec<(Value, Value)> {
    let errors = answer.json()["errors"].as_array().cloned().unwrap_or_default();
    errors.into_iter().map(|error| (error["field"].clone(), error["code"].clone())).collect()
}

#[tokio::test]
async fn who_may_write_a_field_but_not_read_it_learns_nothing_about_its_value() {
    let (editor, ben) = (user_with("eve", &["editor"]), user("ben"));
    for world in worlds([posts()]).await {
        let missing = world.post(&ben, "/posts", json!({ "title": "a" })).await;
        assert_eq!((missing.status.as_u16(), faults(&missing)), (422, vec![(Value::Null, "required".into())]));
        assert!(!missing.text.contains("needed"), "{}", missing.text);
        let body = json!({ "title": "a", "votes": 5, "meta": { "a": 1 }, "slug": "s", "needed": 1, "owner": "ann" });
        let made = world.post(&editor, "/posts", body).await;
        assert_eq!(made.status, 201, "{}", made.text);
        let path = format!("/posts/{}", made.id());
        world.db().execute("UPDATE posts SET rank = 1", vec![]).await.unwrap();
        for (body, status, errors) in [
            // Whether the sum fits would reveal the value.
            (json!({ "votes": { "$add": 5 } }), 422, vec![(json!("votes"), json!("type"))]),
            (json!({ "votes": { "$add": -5 } }), 422, vec![(json!("votes"), json!("type"))]),
            // A rule about the record: the present value is refused like any other, as no field.
            (json!({ "rank": 1 }), 422, vec![(json!("rank"), json!("unknown_field"))]),
            (json!({ "rank": 2 }), 422, vec![(json!("rank"), json!("unknown_field"))]),
            (json!({ "needed": 1 }), 422, vec![(json!("needed"), json!("unknown_field"))]),
            (json!({ "votes": 9 }), 422, vec![(Value::Null, json!("check"))]),
            (json!({ "votes": 6, "rank": null }), 200, vec![]),
        ] {
            let answer = world.patch(&ben, &path, &body).await;
            assert_eq!((answer.status.as_u16(), faults(&answer)), (status, errors), "{body}: {}", answer.text);
            let said: Value = answer.json();
            assert!(["votes", "rank", "meta", "slug"].iter().all(|key| said["data"].get(key).is_none()), "{said}");
        }
        let merge = world.ask(&ben, Method::PATCH, &path).merge_patch(json!({ "meta": { "b": 1 } })).send().await;
        assert_eq!((merge.status.as_u16(), faults(&merge)), (422, vec![(json!("meta"), json!("type"))]));
        assert_eq!(world.get(&editor, &path).await.data()["meta"], json!({ "a": 1 }));
        assert_eq!(world.get(&editor, &path).await.data()["votes"], 6);
        // A key of several fields names those that the caller may read.
        let body = json!({ "title": "b", "votes": 1, "slug": "s", "needed": 1, "owner": "ann" });
        let other = world.post(&editor, "/posts", body).await.id();
        let taken = world.patch(&ben, &format!("/posts/{other}"), json!({ "title": "a" })).await;
        assert_eq!(
            (taken.status.as_u16(), faults(&taken)),
            (409, vec![(json!("title"), json!("taken"))]),
            "{}",
            taken.text
        );
        let taken = world.patch(&editor, &format!("/posts/{other}"), json!({ "title": "a" })).await;
        assert_eq!(faults(&taken).len(), 2, "{}", taken.text);
    }
}

#[tokio::test]
async fn an_entity_tag_covers_what_its_caller_sees_and_changes_with_each_change() {
    let (editor, ben) = (user_with("eve", &["editor"]), user("ben"));
    for world in worlds(entities(true)).await {
        let (_, ticket) = store(&world, true).await;
        let path = format!("/tickets/{ticket}");
        let tag = async |caller| world.get(caller, &path).await.header("etag").to_owned();
        let [bens, editors] = [tag(&ben).await, tag(&editor).await];
        assert_ne!(bens, editors, "a tag of the whole record would let its caller guess the rest");
        let changed_under = async |caller, tag: &str| {
            let ask = world.ask(caller, Method::PATCH, &path).header("if-match", tag);
            ask.json(json!({ "subject": "first" })).send().await.status.as_u16()
        };
        assert_eq!(changed_under(&ben, &editors).await, 412);
        world.clock.advance(SignedDuration::from_secs(1));
        let done = world.patch(&editor, &path, json!({ "score": 8 })).await;
        assert_eq!(done.status, 200);
        assert_ne!(tag(&ben).await, bens, "that the record changed shows");
        assert_eq!(changed_under(&ben, &bens).await, 412);
        assert_eq!(changed_under(&ben, &tag(&ben).await).await, 200);
    }
}

#[tokio::test]
async fn streams_show_live_and_logged_events_without_the_field() {
    let (editor, ben) = (user_with("eve", &["editor"]), user("ben"));
    for test_db in engines().await {
        let (world, _following) = logged(test_db, entities(true)).await;
        let open = async |caller: &Identity, query: &str| {
            Stream::open(world.ask(caller, Method::GET, &format!("/tickets/_events?{query}"))).await
        };
        let mut streams = [open(&ben, "").await, open(&ben, "etag=true").await, open(&editor, "etag=true").await];
        let filter = encoded("folder.title = 'one'");
        let mut filtered = open(&ben, &format!("filter={filter}")).await;
        let (_, ticket) = store(&world, true).await;
        let path = format!("/tickets/{ticket}");
        world.patch(&editor, &path, json!({ "score": 8 })).await;
        let etag = world.get(&ben, &path).await.header("etag").to_owned();
        world.delete(&editor, &path).await;
        let mut seen: Vec<Vec<Value>> = Vec::new();
        for stream in &mut streams {
            let mut records = Vec::new();
            for kind in ["entity.created", "entity.created", "entity.updated", "entity.deleted"] {
                let (found, record) = stream.next().await.unwrap();
                assert_eq!(found, kind);
                records.push(record);
            }
            seen.push(records);
        }
        for record in seen[0].iter().chain(&seen[1]) {
            let keys: Vec<&String> = record.as_object().unwrap().keys().filter(|key| *key != "_etag").collect();
            assert_eq!(keys, ["id", "subject", "folder", "createdAt", "updatedAt", "deletedAt"], "{record}");
        }
        assert_eq!(seen[2][2]["score"], 8);
        assert_eq!(seen[1][2]["_etag"], etag, "the tag of the stream is that of the record");
        assert_ne!(seen[1][2]["_etag"], seen[2][2]["_etag"]);
        assert!(!filtered.next().await.unwrap().1.to_string().contains("canary"));
        // From the log, for one who was not there.
        let first = streams[0].position.clone();
        assert!(!first.is_empty());
        world
            .patch(&editor, &format!("/tickets/{}", seen[0][1]["id"].as_str().unwrap()), json!({ "note": "canary 2" }))
            .await;
        let mut resumed = open(&ben, &format!("since={}", encoded(&first))).await;
        let (kind, record) = resumed.next().await.unwrap();
        assert_eq!((&*kind, record.get("note"), &record["subject"]), ("entity.updated", None, &json!("second")));
        let mut resumed = open(&editor, &format!("since={}", encoded(&first))).await;
        assert_eq!(resumed.next().await.unwrap().1["note"], "canary 2");
    }
}

/// A credential whose caller may change.
struct Changing(Mutex<Identity>);

impl Reauthenticate for Changing {
    fn again(&self) -> Pin<Box<dyn Future<Output = Result<Identity, Unavailable>> + Send + '_>> {
        let now = self.0.lock().clone();
        Box::pin(async move { Ok(now) })
    }
}

#[tokio::test]
async fn a_stream_ends_when_the_fields_that_its_caller_may_read_change() {
    for world in worlds(entities(true)).await {
        let credentials = Arc::new(Changing(Mutex::new(user_with("eve", &["editor"]))));
        let ask = world.ask(&user_with("eve", &["editor"]), Method::GET, "/tickets/_events?filter=score%3E1");
        let mut stream = Stream::open(ask.extension(Presented(credentials.clone()))).await;
        *credentials.0.lock() = user("eve");
        let ended = tokio::time::timeout(Duration::from_mins(1), stream.next()).await;
        assert!(ended.expect("the stream did not end").is_none(), "{}", world.name());
    }
}

#[tokio::test]
async fn a_kept_answer_is_not_repeated_to_a_caller_who_may_read_fewer_fields_now() {
    for world in keeping_worlds(entities(true), |builder| builder, AnswerOptions::default()).await {
        let create = async |caller: &Identity, key: &str| {
            let ask = world.ask(caller, Method::POST, "/tickets").header("idempotency-key", key);
            ask.json(json!({ "subject": key })).send().await
        };
        let (editor, same) = (user_with("eve", &["editor"]), user("eve"));
        let first = create(&editor, "a").await;
        assert_eq!(first.data()["priority"], "low", "{}", first.text);
        assert_eq!(create(&editor, "a").await.text, first.text);
        let later = create(&same, "a").await;
        assert_eq!(later.status, 422, "{}", later.text);
        assert_eq!(create(&same, "b").await.data().get("priority"), None);
        assert_eq!(create(&same, "b").await.data().get("priority"), None);
    }
}

#[tokio::test]
async fn a_rule_for_reading_is_about_the_caller() {
    let rules = [
        ("of_ann", "@me = 'ann'"),
        ("of_signed_in", "@me != null"),
        ("of_agents", "@tenant_roles has 'agent'"),
        ("of_acme", "@tenant = 'acme'"),
        ("of_nobody", "false"),
        ("of_all", "true"),
    ];
    let notes = Entity::new("notes").access(Action::Read, "public").access(Action::Create, "public");
    let notes = rules.iter().fold(notes, |notes, (name, rule)| notes.field(Field::int(*name).default(1).read(*rule)));
    for world in worlds([notes]).await {
        let (ann, ben) = (user("ann"), user("ben"));
        world.join("acme", &ben).await;
        let made = world.post(&ann, "/notes", json!({})).await;
        let path = format!("/notes/{}", made.id());
        for (caller, tenant, expected) in [
            (&ann, None, vec!["ofAnn", "ofSignedIn", "ofAll"]),
            (&ben, None, vec!["ofSignedIn", "ofAll"]),
            (&ben, Some("acme"), vec!["ofSignedIn", "ofAcme", "ofAll"]),
            // Not a member.
            (&ann, Some("acme"), vec!["ofAnn", "ofSignedIn", "ofAll"]),
            (&anonymous(), None, vec!["ofAll"]),
        ] {
            let ask = world.ask(caller, Method::GET, &path);
            let ask = match tenant {
                Some(tenant) => ask.tenant(tenant),
                None => ask,
            };
            let answer = ask.send().await;
            let data = answer.data();
            let found: Vec<&String> = data.as_object().unwrap().keys().filter(|key| key.starts_with("of")).collect();
            assert_eq!(found, expected, "{} {caller:?} {tenant:?}", world.name());
        }
    }
}

#[test]
fn a_rule_that_is_not_about_the_caller_is_refused_with_its_place() {
    for (rule, place, message) in [
        ("title = 'x'", "at 1:1", "this rule is about the caller alone"),
        ("@me = title", "at 1:7", "this rule is about the caller alone"),
        ("@roles has 'a' ||\n  owner.id = @me", "at 2:3", "this rule is about the caller alone"),
        ("@now > '2020-01-01'", "at 1:1", "this rule is about the caller alone"),
        ("any(notes(parent), true)", "at 1:5", "this rule is about the caller alone"),
        ("length(title) > 1", "at 1:8", "this rule is about the caller alone"),
        ("@old.title = 'a'", "at 1:", "@old has a meaning only in rules for update"),
        ("changed(title)", "at 1:", "changed has a meaning only in rules for update"),
        ("", "", "the rule is empty"),
    ] {
        let notes = Entity::new("notes")
            .field(Field::string("title"))
            .field(Field::relation("parent", "notes"))
            .field(Field::relation("owner", "users"))
            .field(Field::int("secret").read(rule));
        let errors = Declarations::check(&[notes]).unwrap_err().to_string();
        assert!(errors.contains(message) && errors.contains("field \"secret\""), "{rule}: {errors}");
        assert!(errors.contains(place), "{rule}: {errors}");
    }
    let hidden = Entity::new("notes").field(Field::int("secret").hidden().read("true"));
    assert!(Declarations::check(&[hidden]).unwrap_err().to_string().contains("nobody reads a hidden field"));
    let ordered = Entity::new("notes").field(Field::int("rank").read("true")).cursor_fields(["rank"]);
    assert!(Declarations::check(&[ordered]).unwrap_err().to_string().contains("cursor_fields would reveal its values"));
}
