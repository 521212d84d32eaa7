//! `etag=true`: records that carry their entity tags.

use gatewright_entities::{Action, Entity, Field};
use http::Method;
use serde_json::{Value, json};

use super::support::{Stream, World, anonymous, service, user, worlds};

fn topics() -> Entity {
    Entity::new("topics").public().field(Field::string("name"))
}

fn posts() -> Entity {
    Entity::new("posts")
        .public()
        .soft_delete()
        .field(Field::string("title"))
        .field(Field::json("notes"))
        .field(Field::relation("topic", "topics"))
        .field(Field::string("secret").hidden().default("canary"))
}

async fn record(world: &World) -> String {
    let topic = world.post(&anonymous(), "/topics", json!({"name": "rust"})).await.data();
    let body = json!({"title": "One", "notes": {"b": [1, 2.50]}, "topic": topic["id"]});
    world.post(&anonymous(), "/posts", body).await.header("location").to_owned()
}

#[tokio::test]
async fn the_tag_is_the_headers_wherever_a_record_is_read() {
    for world in worlds([topics(), posts()]).await {
        let path = record(&world).await;
        let tag = world.get(&anonymous(), &path).await.header("etag").to_owned();
        for query in ["", "&fields=title", "&fields=id,notes", "&include=topic", "&fields=title&include=topic"] {
            let one = world.get(&anonymous(), &format!("{path}?etag=true{query}")).await.data();
            assert_eq!(one["_etag"], tag, "{} one {query}", world.name());
            for paging in ["", "&cursor=", "&cursor=&direction=backward", "&sort=-title", "&sort=title&cursor="] {
                let list = world.get(&anonymous(), &format!("/posts?etag=true{query}{paging}")).await.data();
                assert_eq!(list, json!([one]), "{} {query} {paging}", world.name());
            }
        }
        let whole = world.get(&anonymous(), &path).await.data();
        let mut carried = world.get(&anonymous(), &format!("{path}?etag=true")).await.data();
        assert_eq!(carried.as_object_mut().unwrap().remove("_etag"), Some(tag.into()));
        assert_eq!(carried, whole);
    }
}

#[tokio::test]
async fn tags_are_added_only_on_request() {
    for world in worlds([topics(), posts()]).await {
        let path = record(&world).await;
        for query in ["", "etag=false", "fields=title", "include=topic", "etag=false&fields=title&include=topic"] {
            for path in [format!("{path}?{query}"), format!("/posts?{query}")] {
                assert!(!world.get(&anonymous(), &path).await.text.contains("_etag"), "{path}");
            }
        }
        let fields = world.get(&anonymous(), "/posts?etag=true&fields=title").await.data();
        assert_eq!(fields[0].as_object().unwrap().len(), 2);
    }
}

#[tokio::test]
async fn related_records_have_their_own_tags() {
    for world in worlds([topics(), posts()]).await {
        let path = record(&world).await;
        let post = world.get(&anonymous(), &format!("{path}?etag=true&include=topic")).await.data();
        let topic = &post["_included"]["topic"];
        let path = format!("/topics/{}", topic["id"].as_str().unwrap());
        assert_eq!(topic["_etag"], world.get(&anonymous(), &path).await.header("etag"));
        let change = world.ask(&anonymous(), Method::PATCH, &path).header("if-match", topic["_etag"].as_str().unwrap());
        assert_eq!(change.json(json!({"name": "Rust"})).send().await.status, 200);
    }
}

#[tokio::test]
async fn a_carried_tag_makes_a_change_conditional_and_one_succeeds() {
    for world in worlds([topics(), posts()]).await {
        let path = record(&world).await;
        let tag = world.get(&anonymous(), "/posts?etag=true&fields=title").await.data()[0]["_etag"].clone();
        let tag = tag.as_str().unwrap();
        let tries = (0..20).map(|n| {
            let change = world.ask(&anonymous(), Method::PATCH, &path).header("if-match", tag);
            change.json(json!({"title": format!("by {n}")})).send()
        });
        let mut statuses: Vec<u16> =
            futures_util::future::join_all(tries).await.iter().map(|answer| answer.status.as_u16()).collect();
        statuses.sort_unstable();
        assert_eq!(statuses, [vec![200], vec![412; 19]].concat(), "{}", world.name());
        let delete = world.ask(&anonymous(), Method::DELETE, &path).header("if-match", tag);
        assert_eq!(delete.send().await.status, 412);
    }
}

#[tokio::test]
async fn a_tag_in_a_body_is_ignored() {
    for world in worlds([topics(), posts()]).await {
        let path = record(&world).await;
        let mut whole = world.get(&anonymous(), &format!("{path}?etag=true&include=topic")).await.data();
        whole["title"] = "Two".into();
        assert_eq!(world.patch(&anonymous(), &path, whole.clone()).await.data()["title"], "Two");
        whole["_etag"] = json!({"any": ["thing"]});
        assert_eq!(world.post(&anonymous(), "/posts", whole.clone()).await.status, 201);
        let items = json!({"items": [whole]});
        assert_eq!(world.patch(&anonymous(), "/posts/_batch", items.clone()).await.status, 200);
        assert_eq!(world.post(&anonymous(), "/posts/_batch", items).await.status, 200);
    }
}

#[tokio::test]
async fn the_parameter_is_true_or_false_once() {
    for world in worlds([topics(), posts()]).await {
        let path = record(&world).await;
        for path in ["/posts", &*path, "/posts/_events"] {
            for (query, detail) in [
                ("etag=1", "etag is true or false"),
                ("etag=", "etag is true or false"),
                ("etag=true&etag=true", "the parameter \"etag\" is given more than once"),
                ("etga=true", "there is no parameter \"etga\"; did you mean \"etag\"?"),
            ] {
                world.get(&anonymous(), &format!("{path}?{query}")).await.is_refused(400, detail);
            }
        }
    }
}

#[tokio::test]
async fn a_stream_has_tags_only_on_request() {
    for world in worlds([topics(), posts()]).await {
        let ask = |path: &str| world.ask(&anonymous(), Method::GET, path);
        let mut tagged = Stream::open(ask("/posts/_events?etag=true")).await;
        let mut plain = Stream::open(ask("/posts/_events")).await;
        let path = record(&world).await;
        let made = world.get(&anonymous(), &path).await.header("etag").to_owned();
        let changed = world.patch(&anonymous(), &path, json!({"title": "Two"})).await.header("etag").to_owned();
        world.delete(&anonymous(), &path).await;
        for (kind, tag) in [("entity.created", Some(made)), ("entity.updated", Some(changed)), ("entity.deleted", None)]
        {
            let (name, record) = tagged.next().await.unwrap();
            assert_eq!(name, kind);
            match tag {
                Some(tag) => assert_eq!(record["_etag"], tag, "{kind}"),
                None => assert!(record["_etag"].is_string()),
            }
            let (_, plain) = plain.next().await.unwrap();
            assert_eq!(plain.get("_etag"), None);
            assert_eq!(without_tag(record), plain);
        }
    }
}

fn without_tag(mut record: Value) -> Value {
    record.as_object_mut().unwrap().remove("_etag");
    record
}

/// A caller who may write but not read gets no tag, because it would let them test guesses of hidden values.
#[tokio::test]
async fn a_writer_who_may_not_read_gets_no_tag() {
    let notes = Entity::new("notes").access(Action::Read, "posts:read").access(Action::Update, "posts:write");
    let notes = notes.access(Action::Create, "posts:write").field(Field::string("text"));
    for world in worlds([notes]).await {
        let writer = super::support::user_with("ann", &["writer"]);
        let path = world.post(&writer, "/notes", json!({"text": "a"})).await.header("location").to_owned();
        for asked in ["", "?etag=true"] {
            let change = world.patch(&writer, &format!("{path}{asked}"), json!({"text": "b"})).await;
            assert_eq!(change.status, 200);
            assert!(!change.text.contains("_etag") && !change.headers.contains_key("etag"));
            assert_eq!(world.get(&writer, &format!("{path}{asked}")).await.status, 403);
        }
        assert_eq!(world.get(&service("bot", &[]), "/notes?etag=true").await.status, 403);
        assert_eq!(world.get(&user("ben"), "/notes?etag=true").await.status, 403);
    }
}
