//! Records whose ids clients choose.

use std::time::Duration;

use futures_util::future::join_all;
use gatewright_db::testing::engines;
use gatewright_entities::{Action, Entity, Field, OnDelete};
use http::Method;
use serde_json::{Value, json};

use super::support::{Stream, World, anonymous, logged, user, worlds};

const ID: &str = "0190d2b3-0000-7000-8000-00000000000a";
const RANDOM: &str = "5d1b7f2e-3c4d-4e5f-8a9b-0c1d2e3f4a5b";

fn notes() -> Entity {
    Entity::new("notes").owner("user_id").client_ids().soft_delete().field(Field::string("title").unique())
}

fn plain() -> Entity {
    Entity::new("plain").public().field(Field::string("title"))
}

#[tokio::test]
async fn a_create_brings_its_id_in_any_case() {
    for mut world in worlds([notes(), plain()]).await {
        let ann = user("ann");
        for (id, title) in [(ID.to_ascii_uppercase(), "one"), (RANDOM.to_owned(), "two")] {
            let made = world.post(&ann, "/notes", json!({"id": id, "title": title})).await;
            assert_eq!((made.status.as_u16(), made.id()), (201, id.to_ascii_lowercase()), "{}", world.name());
            assert_eq!(made.header("location"), format!("/notes/{}", id.to_ascii_lowercase()));
            assert_eq!(world.event().await.2["id"], id.to_ascii_lowercase());
            assert_eq!(world.get(&ann, &format!("/notes/{id}")).await.data(), made.data());
        }
        let generated = world.post(&ann, "/notes", json!({"id": null, "title": "three"})).await;
        assert_eq!((generated.status.as_u16(), generated.id().len()), (201, 36));
        for id in [
            json!(7),
            json!(""),
            json!("0190d2b3-0000-6000-8000-00000000000a"),
            json!("0190d2b3-0000-7000-c000-00000000000a"),
            json!("0190d2b300007000800000000000000a"),
            json!("{0190d2b3-0000-7000-8000-00000000000a}"),
            json!(" 0190d2b3-0000-7000-8000-00000000000b"),
        ] {
            let refused = world.post(&ann, "/notes", json!({"id": id, "title": "x"})).await;
            assert_eq!(refused.status, 422, "{id}");
            assert_eq!(refused.faults(), [("id".to_owned(), "type".to_owned())].into(), "{id}");
        }
        // An update does not move a record, and entities without the setting ignore the id.
        let kept = world.patch(&ann, &format!("/notes/{ID}"), json!({"id": RANDOM, "title": "One"})).await;
        assert_eq!((kept.status.as_u16(), kept.id()), (200, ID.to_owned()));
        assert_ne!(world.post(&anonymous(), "/plain", json!({"id": ID, "title": "x"})).await.id(), ID);
        let batch = json!({"items": [{"id": "0190d2b3-0000-7000-8000-00000000000c", "title": "b"}]});
        let batch = world.ask(&ann, Method::POST, "/notes/_batch").json(batch).send().await;
        assert_eq!(batch.json()["results"][0]["data"]["id"], "0190d2b3-0000-7000-8000-00000000000c");
    }
}

#[tokio::test]
async fn an_id_that_any_record_has_is_refused() {
    for world in worlds([notes()]).await {
        let (ann, ben) = (user("ann"), user("ben"));
        assert_eq!(world.post(&ann, "/notes", json!({"id": ID, "title": "one"})).await.status, 201);
        // Also to a caller who may not see the record, in any case, and where another value is taken too.
        for (caller, id, title) in
            [(&ann, ID, "two"), (&ben, ID, "two"), (&ben, &*ID.to_ascii_uppercase(), "two"), (&ann, ID, "one")]
        {
            let refused = world.post(caller, "/notes", json!({"id": id, "title": title})).await;
            assert_eq!(
                (refused.status.as_u16(), &refused.json()["code"]),
                (409, &json!("id_taken")),
                "{}",
                refused.text
            );
        }
        let other = world.post(&ann, "/notes", json!({"id": RANDOM, "title": "one"})).await;
        assert_eq!((other.status.as_u16(), &other.json()["code"]), (409, &json!("conflict")), "{}", world.name());
        // A record in the trash keeps its id.
        assert_eq!(world.delete(&ann, &format!("/notes/{ID}")).await.status, 204);
        assert_eq!(world.post(&ben, "/notes", json!({"id": ID, "title": "x"})).await.json()["code"], "id_taken");
        let create = async |_| world.post(&ann, "/notes", json!({"id": RANDOM, "title": null})).await.status.as_u16();
        let mut statuses = join_all((0..20).map(create)).await;
        statuses.sort_unstable();
        assert_eq!((statuses[0], &statuses[1..]), (201, &[409; 19][..]), "{}", world.name());
    }
}

#[tokio::test]
async fn lists_are_in_the_order_of_creation() {
    let title = Field::string("title");
    let ordered = Entity::new("ordered").public().client_ids().cursor_fields(["title"]).field(title);
    for world in worlds([notes(), ordered]).await {
        for (path, caller) in [("/notes", user("ann")), ("/ordered", anonymous())] {
            for (number, digit) in ["9", "3", "7", "1"].into_iter().enumerate() {
                let id = format!("{digit}190d2b3-0000-4000-8000-00000000000a");
                let made = world.post(&caller, path, json!({"id": id, "title": digit})).await;
                assert_eq!(made.status, 201, "{number} {}", made.text);
                // The last two are created in the same moment.
                if number < 2 {
                    world.clock.advance(jiff::SignedDuration::from_secs(1));
                }
            }
            let titles = |list: &Value| -> Vec<String> {
                list["data"].as_array().unwrap().iter().map(|note| note["title"].as_str().unwrap().to_owned()).collect()
            };
            let list = world.get(&caller, path).await.json();
            assert_eq!(titles(&list), ["9", "3", "1", "7"], "{} {path}", world.name());
            let second = world.get(&caller, &format!("{path}?limit=2&page=2")).await.json();
            assert_eq!(titles(&second), ["1", "7"], "{} {path}", world.name());
            let (mut cursor, mut seen) = (String::new(), Vec::new());
            loop {
                let page = world.get(&caller, &format!("{path}?limit=1&cursor={cursor}")).await.json();
                seen.extend(titles(&page));
                match page["cursor"].as_str() {
                    Some(next) => next.clone_into(&mut cursor),
                    None => break,
                }
            }
            let expected = if path == "/notes" { ["9", "3", "1", "7"] } else { ["1", "3", "7", "9"] };
            assert_eq!(seen, expected, "{} {path}", world.name());
        }
    }
}

/// The id of a deleted record can be chosen again. Events of the record that had it stay those of its readers.
#[tokio::test]
async fn an_id_that_is_chosen_again_does_not_open_the_events_of_the_record_before() {
    let projects = Entity::new("projects")
        .client_ids()
        .field(Field::string("title"))
        .field(Field::relation("author", "users"))
        .rule(Action::Read, "author = @me || members(project).user = @me");
    let members = Entity::new("members")
        .field(Field::relation("project", "projects").on_delete(OnDelete::Cascade))
        .field(Field::relation("user", "users"));
    for test_db in engines().await {
        let (world, _following) = logged(test_db, [projects.clone(), members.clone()]).await;
        let (ann, ben) = (user("ann"), user("ben"));
        let make = async |caller, id: &str, title: &str, author: &str| {
            let body = json!({"id": id, "title": title, "author": author});
            let made = world.post(caller, "/projects", body).await;
            assert_eq!(made.status, 201, "{} {}", world.name(), made.text);
        };
        let open = async |path: &str| Stream::open(world.ask(&ben, Method::GET, path)).await;
        let mut stream = open("/projects/_events").await;
        make(&ben, RANDOM, "mark", "ben").await;
        assert_eq!(next(&world, &mut stream).await, "entity.created mark");
        let position = stream.position.clone();
        drop(stream);
        make(&ann, ID, "ann's secret", "ann").await;
        assert_eq!(world.patch(&ann, &format!("/projects/{ID}"), json!({"title": "ann's plan"})).await.status, 200);
        assert_eq!(world.delete(&ann, &format!("/projects/{ID}")).await.status, 204);
        make(&ben, ID, "ben's own", "ben").await;
        world.post(&ben, "/members", json!({"project": ID, "user": "ben"})).await;
        let mut stream = open(&format!("/projects/_events?since={position}")).await;
        assert_eq!(next(&world, &mut stream).await, "entity.created ben's own", "{}", world.name());
    }
}

async fn next(world: &World, stream: &mut Stream) -> String {
    let next = tokio::time::timeout(Duration::from_mins(1), stream.next()).await;
    let (kind, record) = next.unwrap_or_else(|_| panic!("no event on {}", world.name())).unwrap();
    format!("{kind} {}", record["title"].as_str().unwrap_or_default())
}
