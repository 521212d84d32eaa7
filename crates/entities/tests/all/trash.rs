//! Soft delete: records in the trash are hidden, except from those who list it.

use gatewright_entities::{Action, Entity, Field, OnDelete};
use http::Method;
use serde_json::{Value, json};

use super::support::{Stream, World, anonymous, user, user_with, worlds};

fn posts() -> Entity {
    Entity::new("posts").public().soft_delete().field(Field::string("title").unique()).field(Field::int("rank"))
}

async fn titles(world: &World, query: &str) -> Vec<String> {
    let list = world.get(&anonymous(), &format!("/posts{query}")).await.data();
    list.as_array().unwrap().iter().map(|post| post["title"].as_str().unwrap().to_owned()).collect()
}

#[tokio::test]
async fn a_deleted_record_is_gone_until_it_is_restored() {
    for mut world in worlds([posts()]).await {
        let made = world.post(&anonymous(), "/posts", json!({"title": "One"})).await;
        assert_eq!(made.data()["deletedAt"], Value::Null);
        world.post(&anonymous(), "/posts", json!({"title": "Two"})).await.data();
        let path = made.header("location").to_owned();
        world.clock.advance(jiff::SignedDuration::from_secs(1));
        assert_eq!(world.delete(&anonymous(), &path).await.status, 204);
        for (method, body) in [
            (Method::GET, None),
            (Method::DELETE, None),
            (Method::PATCH, Some(json!({"title": "x"}))),
            (Method::PATCH, Some(json!({}))),
        ] {
            let ask = world.ask(&anonymous(), method.clone(), &path);
            let ask = match body {
                Some(body) => ask.json(body),
                None => ask,
            };
            assert_eq!(ask.send().await.status, 404, "{method}");
        }
        assert_eq!(titles(&world, "").await, ["Two"]);
        assert_eq!(titles(&world, "?cursor=").await, ["Two"]);
        assert_eq!(world.get(&anonymous(), "/posts").await.json()["total"], 1);
        assert_eq!(world.rows("posts").await, 2);

        world.clock.advance(jiff::SignedDuration::from_secs(1));
        let restored = world.post(&anonymous(), &format!("{path}/_restore"), "").await;
        assert_eq!((restored.status.as_u16(), &restored.data()["deletedAt"]), (200, &Value::Null), "{}", restored.text);
        assert_eq!(restored.data()["updatedAt"], "2026-01-02T03:04:07.000006Z");
        assert_eq!(restored.header("etag"), world.get(&anonymous(), &path).await.header("etag"));
        assert_eq!(titles(&world, "").await, ["One", "Two"]);
        // A record that exists already stays unchanged, and there is no write.
        let again = world.post(&anonymous(), &format!("{path}/_restore"), "").await;
        assert_eq!((again.status.as_u16(), again.data()), (200, restored.data()));
        assert_eq!(world.post(&anonymous(), "/posts/nope/_restore", "").await.status, 404);

        let mut told = Vec::new();
        for _ in 0..4 {
            let (kind, _, record) = world.event().await;
            told.push((kind, record["title"].clone(), record["deletedAt"].is_null()));
        }
        let event = |kind: &str, title: &str, live| (kind.to_owned(), json!(title), live);
        assert_eq!(
            told,
            [
                event("entity.created", "One", true),
                event("entity.created", "Two", true),
                event("entity.deleted", "One", false),
                event("entity.updated", "One", true),
            ]
        );
        world.no_more_events().await;
    }
}

#[tokio::test]
async fn the_trash_is_listed_with_or_without_the_rest() {
    for world in worlds([posts()]).await {
        for title in ["a", "b", "c", "d"] {
            let made = world.post(&anonymous(), "/posts", json!({"title": title})).await;
            if ["b", "d"].contains(&title) {
                world.clock.advance(jiff::SignedDuration::from_secs(1));
                world.delete(&anonymous(), made.header("location")).await;
            }
        }
        for (query, expected) in [
            ("", "a c"),
            ("?trashed=with", "a b c d"),
            ("?trashed=only", "b d"),
            ("?trashed=only&cursor=", "b d"),
            ("?trashed=only&sort=-deletedAt", "d b"),
            ("?trashed=with&deleted_at_null=true", "a c"),
            ("?trashed=only&title=b", "b"),
            ("?trashed=only&deletedAt_gte=2026-01-02T03:04:07Z", "d"),
            ("?deletedAt_null=false", ""),
        ] {
            assert_eq!(titles(&world, query).await.join(" "), expected, "{} {query}", world.name());
        }
        for query in ["?trashed=", "?trashed=yes", "?trashed=ONLY"] {
            world.get(&anonymous(), &format!("/posts{query}")).await.is_refused(400, "trashed is with or only");
        }
    }
}

#[tokio::test]
async fn the_trash_is_for_those_who_could_restore_it() {
    let posts = posts_of_editors();
    let notes = Entity::new("notes")
        .owner("user_id")
        .soft_delete()
        .cross_owner_read("posts:audit")
        .field(Field::string("text"));
    for world in worlds([posts, notes]).await {
        let (editor, reader) = (user_with("ann", &["editor"]), user_with("ben", &["reader"]));
        let post = world.post(&editor, "/posts", json!({"title": "One"})).await;
        world.delete(&editor, post.header("location")).await;
        assert_eq!(world.get(&editor, "/posts?trashed=only").await.json()["total"], 1);
        assert_eq!(world.get(&reader, "/posts").await.status, 200);
        for query in ["with", "only"] {
            assert_eq!(world.get(&reader, &format!("/posts?trashed={query}")).await.status, 403);
            assert_eq!(world.get(&anonymous(), &format!("/posts?trashed={query}")).await.status, 401);
        }
        let restore = format!("{}/_restore", post.header("location"));
        assert_eq!(world.post(&reader, &restore, "").await.status, 403);
        assert_eq!(world.post(&anonymous(), &restore, "").await.status, 401);

        let note = world.post(&user("ann"), "/notes", json!({"text": "mine"})).await;
        world.post(&user("ann"), "/notes", json!({"text": "live"})).await.data();
        world.delete(&user("ann"), note.header("location")).await;
        let restore = format!("{}/_restore", note.header("location"));
        let auditor = user_with("eve", &["auditor"]);
        assert_eq!(world.get(&auditor, "/notes").await.json()["total"], 1, "others' live records are read");
        for trashed in ["with", "only"] {
            let list = world.get(&auditor, &format!("/notes?trashed={trashed}")).await.json();
            assert_eq!(list["total"], 0, "others' trash is not");
        }
        for stranger in [user("ben"), auditor] {
            assert_eq!(world.post(&stranger, &restore, "").await.status, 404);
        }
        assert_eq!(world.post(&user("ann"), &restore, "").await.status, 200);
    }
}

fn posts_of_editors() -> Entity {
    Entity::new("posts")
        .soft_delete()
        .access(Action::Read, "posts:read")
        .access(Action::Create, "posts:write")
        .access(Action::Update, "posts:write")
        .access(Action::Delete, "posts:write")
        .field(Field::string("title"))
}

#[tokio::test]
async fn a_deleted_record_frees_its_unique_value_and_gets_it_back_only_while_it_is_free() {
    for world in worlds([posts()]).await {
        let first = world.post(&anonymous(), "/posts", json!({"title": "One"})).await;
        assert_eq!(world.post(&anonymous(), "/posts", json!({"title": "One"})).await.status, 409);
        world.delete(&anonymous(), first.header("location")).await;
        let second = world.post(&anonymous(), "/posts", json!({"title": "One"})).await;
        assert_eq!(second.status, 201, "{} {}", world.name(), second.text);
        let restore = format!("{}/_restore", first.header("location"));
        let refused = world.post(&anonymous(), &restore, "").await;
        refused.is_refused(409, "title is taken already");
        assert_eq!(refused.faults()["title"], "unique");
        world.delete(&anonymous(), second.header("location")).await;
        assert_eq!(world.post(&anonymous(), &restore, "").await.status, 200);
        assert_eq!(world.post(&anonymous(), &format!("{}/_restore", second.header("location")), "").await.status, 409);
    }
}

#[tokio::test]
async fn a_stale_record_is_not_deleted_and_parallel_deletes_have_one_winner() {
    for mut world in worlds([posts()]).await {
        let made = world.post(&anonymous(), "/posts", json!({"title": "One"})).await;
        let path = made.header("location").to_owned();
        let stale = world.ask(&anonymous(), Method::DELETE, &path).header("if-match", "\"x\"").send().await;
        assert_eq!(stale.status, 412);
        let caller = anonymous();
        let tries = (0..20).map(|_| world.delete(&caller, &path));
        let statuses: Vec<u16> =
            futures_util::future::join_all(tries).await.iter().map(|answer| answer.status.as_u16()).collect();
        assert_eq!(statuses.iter().filter(|status| **status == 204).count(), 1, "{statuses:?}");
        assert_eq!(statuses.iter().filter(|status| **status == 404).count(), 19, "{statuses:?}");
        assert_eq!(world.event().await.0, "entity.created");
        assert_eq!(world.event().await.0, "entity.deleted");
        world.no_more_events().await;
    }
}

#[tokio::test]
async fn a_soft_delete_ignores_relations_and_no_relation_refers_to_the_trash() {
    let comments = Entity::new("comments")
        .public()
        .field(Field::string("text"))
        .field(Field::relation("post", "posts"))
        .field(Field::relation("quoted", "posts").on_delete(OnDelete::Cascade))
        .field(Field::relation("seen", "posts").on_delete(OnDelete::SetNull));
    for world in worlds([posts(), comments]).await {
        let post = world.post(&anonymous(), "/posts", json!({"title": "One"})).await;
        let id = post.id();
        let comment = world.post(&anonymous(), "/comments", json!({"post": id, "quoted": id, "seen": id})).await;
        assert_eq!(world.delete(&anonymous(), post.header("location")).await.status, 204);
        let kept = world.get(&anonymous(), comment.header("location")).await.data();
        assert_eq!((&kept["post"], &kept["quoted"], &kept["seen"]), (&json!(id), &json!(id), &json!(id)));
        let refused = world.post(&anonymous(), "/comments", json!({"post": id})).await;
        assert_eq!(refused.faults()["post"], "relation", "{}", refused.text);
        let moved = world.patch(&anonymous(), comment.header("location"), json!({"seen": id})).await;
        assert_eq!(moved.faults()["seen"], "relation");
        // A change that does not set the relation works.
        assert_eq!(world.patch(&anonymous(), comment.header("location"), json!({"text": "x"})).await.status, 200);
        world.post(&anonymous(), &format!("{}/_restore", post.header("location")), "").await.data();
        assert_eq!(world.post(&anonymous(), "/comments", json!({"post": id})).await.status, 201);
    }
}

#[tokio::test]
async fn a_permanent_deletion_removes_trashed_records_without_events() {
    let albums = Entity::new("albums").public().field(Field::string("name"));
    let photos = Entity::new("photos")
        .public()
        .soft_delete()
        .field(Field::string("name"))
        .field(Field::relation("album", "albums").on_delete(OnDelete::Cascade));
    for mut world in worlds([albums, photos]).await {
        let album = world.post(&anonymous(), "/albums", json!({"name": "a"})).await;
        for name in ["live", "trashed"] {
            let photo = world.post(&anonymous(), "/photos", json!({"name": name, "album": album.id()})).await;
            if name == "trashed" {
                world.delete(&anonymous(), photo.header("location")).await;
            }
        }
        for _ in 0..4 {
            world.event().await;
        }
        assert_eq!(world.delete(&anonymous(), album.header("location")).await.status, 204);
        assert_eq!(world.rows("photos").await, 0);
        let (kind, table, record) = world.event().await;
        assert_eq!((kind.as_str(), table.as_str(), &record["name"]), ("entity.deleted", "photos", &json!("live")));
        assert_eq!(world.event().await.1, "albums");
        world.no_more_events().await;
    }
}

#[tokio::test]
async fn streams_report_deletions_to_the_trash_and_restores() {
    for world in worlds([posts()]).await {
        let made = world.post(&anonymous(), "/posts", json!({"title": "One"})).await;
        let mut stream = Stream::open(world.ask(&anonymous(), Method::GET, "/posts/_events")).await;
        world.delete(&anonymous(), made.header("location")).await;
        world.post(&anonymous(), &format!("{}/_restore", made.header("location")), "").await.data();
        assert_eq!(stream.next().await.unwrap().0, "entity.deleted");
        assert_eq!(stream.next().await.unwrap().0, "entity.updated");
    }
}

#[tokio::test]
async fn without_soft_delete_there_is_no_trash() {
    for world in worlds([Entity::new("tags").public().field(Field::string("name"))]).await {
        let made = world.post(&anonymous(), "/tags", json!({"name": "a"})).await;
        let answer = world.get(&anonymous(), "/tags?trashed=only").await;
        answer.is_refused(400, "trashed: records that are deleted here are gone");
        assert_eq!(world.post(&anonymous(), &format!("{}/_restore", made.header("location")), "").await.status, 404);
        assert!(made.data().get("deletedAt").is_none());
    }
}
