//! Which records are deleted, kept or set to null when a record is deleted.

use gatewright_entities::{Entity, Field, OnDelete};
use serde_json::{Value, json};

use super::support::{World, anonymous, user, worlds};

async fn drain(world: &mut World, count: usize) -> Vec<(String, String, Value)> {
    let mut events = Vec::new();
    for _ in 0..count {
        events.push(world.event().await);
    }
    events
}

#[tokio::test]
async fn a_record_referred_to_with_restrict_is_not_deleted() {
    let entities =
        [Entity::new("albums").public(), Entity::new("photos").public().field(Field::relation("album", "albums"))];
    for mut world in worlds(entities).await {
        let album = world.post(&anonymous(), "/albums", "{}").await.id();
        let photo = world.post(&anonymous(), "/photos", json!({"album": album})).await.id();
        drain(&mut world, 2).await;
        let refused = world.delete(&anonymous(), &format!("/albums/{album}")).await;
        refused.is_refused(409, "other records refer to this one");
        world.no_more_events().await;
        assert_eq!(world.delete(&anonymous(), &format!("/photos/{photo}")).await.status, 204);
        assert_eq!(world.delete(&anonymous(), &format!("/albums/{album}")).await.status, 204);
    }
}

#[tokio::test]
async fn cascaded_rows_and_rows_set_to_null_emit_their_events() {
    let entities = [
        Entity::new("albums").public().field(Field::string("title")),
        Entity::new("photos")
            .owner("user_id")
            .field(Field::relation("album", "albums").on_delete(OnDelete::Cascade))
            .field(Field::string("name")),
        Entity::new("comments")
            .public()
            .field(Field::relation("photo", "photos").on_delete(OnDelete::Cascade))
            .field(Field::relation("parent", "comments").on_delete(OnDelete::Cascade)),
        Entity::new("covers")
            .public()
            .field(Field::relation("album", "albums").on_delete(OnDelete::SetNull))
            .field(Field::relation("photo", "photos").on_delete(OnDelete::SetNull)),
    ];
    for mut world in worlds(entities).await {
        let album = world.post(&anonymous(), "/albums", json!({"title": "gone"})).await.id();
        let other = world.post(&anonymous(), "/albums", json!({"title": "stays"})).await.id();
        let photo = world.post(&user("ann"), "/photos", json!({"album": album, "name": "p1"})).await.id();
        world.post(&user("ben"), "/photos", json!({"album": album, "name": "p2"})).await.data();
        let kept = world.post(&user("ben"), "/photos", json!({"album": other, "name": "p3"})).await.id();
        // Comments on other users' photos are not allowed here, so the comments refer to each other.
        let comment = world.post(&user("ann"), "/comments", json!({"photo": photo})).await.id();
        let answer = world.post(&anonymous(), "/comments", json!({"parent": comment})).await.id();
        let around = world.patch(&anonymous(), &format!("/comments/{answer}"), json!({"parent": answer})).await.id();
        world.patch(&anonymous(), &format!("/comments/{around}"), json!({"parent": comment})).await.data();
        let cover = world.post(&user("ann"), "/covers", json!({"album": album, "photo": photo})).await;
        drain(&mut world, 10).await;

        world.clock.advance(jiff::SignedDuration::from_secs(5));
        assert_eq!(world.delete(&anonymous(), &format!("/albums/{album}")).await.status, 204, "{}", world.name());
        let events = drain(&mut world, 6).await;
        world.no_more_events().await;
        let kinds: Vec<(&str, &str)> = events.iter().map(|(kind, table, _)| (&**kind, &**table)).collect();
        assert_eq!(kinds[0], ("entity.updated", "covers"));
        assert_eq!(kinds[1..3], [("entity.deleted", "comments"); 2]);
        assert_eq!(kinds[3..5], [("entity.deleted", "photos"); 2]);
        assert_eq!(kinds[5], ("entity.deleted", "albums"));

        let emptied = &events[0].2;
        assert_eq!((&emptied["album"], &emptied["photo"]), (&Value::Null, &Value::Null));
        assert_eq!(emptied["updatedAt"], "2026-01-02T03:04:10.000006Z");
        assert_eq!(world.get(&anonymous(), cover.header("location")).await.data(), *emptied);
        assert_eq!(events[1].2["id"], answer.as_str());
        assert_eq!(events[1].2["parent"], comment.as_str());
        assert_eq!(events[2].2["photo"], photo.as_str());
        assert_eq!(events[5].2["title"], "gone");

        assert_eq!(world.rows("comments").await, 0);
        let left = world.get(&user("ben"), "/photos").await.data();
        assert_eq!(left.as_array().unwrap().iter().map(|photo| photo["id"].clone()).collect::<Vec<_>>(), [json!(kept)]);
    }
}

#[tokio::test]
async fn a_cycle_of_cascades_ends() {
    let entities = [
        Entity::new("left").public().field(Field::relation("right", "right").on_delete(OnDelete::Cascade)),
        Entity::new("right").public().field(Field::relation("left", "left").on_delete(OnDelete::Cascade)),
    ];
    for mut world in worlds(entities).await {
        let left = world.post(&anonymous(), "/left", "{}").await.id();
        let right = world.post(&anonymous(), "/right", json!({"left": left})).await.id();
        world.patch(&anonymous(), &format!("/left/{left}"), json!({"right": right})).await.data();
        drain(&mut world, 3).await;
        assert_eq!(world.delete(&anonymous(), &format!("/left/{left}")).await.status, 204);
        let events = drain(&mut world, 2).await;
        assert_eq!((&*events[0].1, &*events[1].1), ("right", "left"));
        world.no_more_events().await;
        assert_eq!((world.rows("left").await, world.rows("right").await), (0, 0));
    }
}

#[tokio::test]
async fn a_restrict_deep_in_a_cascade_prevents_the_whole_deletion() {
    let entities = [
        Entity::new("albums").public(),
        Entity::new("photos").public().field(Field::relation("album", "albums").on_delete(OnDelete::Cascade)),
        Entity::new("orders").public().field(Field::relation("photo", "photos")),
        Entity::new("covers").public().field(Field::relation("album", "albums").on_delete(OnDelete::SetNull)),
    ];
    for mut world in worlds(entities).await {
        let album = world.post(&anonymous(), "/albums", "{}").await.id();
        let photo = world.post(&anonymous(), "/photos", json!({"album": album})).await.id();
        world.post(&anonymous(), "/orders", json!({"photo": photo})).await.data();
        let cover = world.post(&anonymous(), "/covers", json!({"album": album})).await;
        drain(&mut world, 4).await;
        assert_eq!(world.delete(&anonymous(), &format!("/albums/{album}")).await.status, 409);
        world.no_more_events().await;
        assert_eq!(world.get(&anonymous(), cover.header("location")).await.data(), cover.data());
        assert_eq!((world.rows("albums").await, world.rows("photos").await), (1, 1));
    }
}

#[tokio::test]
async fn if_match_and_ownership_apply_to_cascading_deletes() {
    let entities = [
        Entity::new("albums").owner("user_id"),
        Entity::new("photos").public().field(Field::relation("album", "albums").on_delete(OnDelete::Cascade)),
    ];
    for world in worlds(entities).await {
        let album = world.post(&user("ann"), "/albums", "{}").await;
        world.post(&user("ann"), "/photos", json!({"album": album.id()})).await.data();
        let path = album.header("location");
        let delete = |caller: &str, tag: &str| {
            let ask = world.ask(&user(caller), http::Method::DELETE, path).header("if-match", tag);
            async move { ask.send().await.status.as_u16() }
        };
        assert_eq!(world.delete(&user("ben"), path).await.status, 404);
        assert_eq!(delete("ben", album.header("etag")).await, 404);
        assert_eq!(delete("ann", "\"stale\"").await, 412);
        assert_eq!(world.rows("photos").await, 1);
        assert_eq!(delete("ann", album.header("etag")).await, 204);
        assert_eq!(world.rows("photos").await, 0);
    }
}

/// Adds rows `p1`, `p2`, … to `table`; `columns` names the other columns, and `values` gives their values.
async fn fill(world: &World, table: &str, count: usize, columns: &str, values: &str) {
    let time = "2026-01-01T00:00:00.000000Z";
    let fill = format!(
        "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < {count})
         INSERT INTO {table} (id, created_at, updated_at, {columns}) SELECT 'p' || i, '{time}', '{time}', {values} FROM n"
    );
    // A statement that begins with WITH is still a write; it uses its own transaction.
    world.db().write(async move |tx: &gatewright_db::Tx| tx.execute(fill.clone(), vec![]).await).await.unwrap();
}

fn albums_and_photos(on_delete: OnDelete) -> [Entity; 3] {
    [
        Entity::new("albums").owner("user_id"),
        Entity::new("photos")
            .owner("user_id")
            .field(Field::relation("album", "albums").on_delete(on_delete))
            .field(Field::text("data")),
        Entity::new("orders").public().field(Field::relation("album", "albums")),
    ]
}

#[tokio::test]
async fn records_of_others_do_not_prevent_an_owners_delete() {
    const OTHERS: usize = 10_500;
    for on_delete in [OnDelete::Cascade, OnDelete::SetNull] {
        for mut world in worlds(albums_and_photos(on_delete)).await {
            let album = world.post(&user("ann"), "/albums", "{}").await.id();
            world.event().await;
            fill(&world, "photos", OTHERS, "album, user_id", &format!("'{album}', 'ben'")).await;
            let deleted = world.delete(&user("ann"), &format!("/albums/{album}")).await;
            assert_eq!(deleted.status, 204, "{} {}", world.name(), deleted.text);
            let expected = if on_delete == OnDelete::Cascade { "entity.deleted" } else { "entity.updated" };
            for _ in 0..OTHERS {
                assert_eq!(world.event().await.0, expected);
            }
            assert_eq!((&*world.event().await.1, world.rows("albums").await), ("albums", 0));
            world.no_more_events().await;
            let left = if on_delete == OnDelete::Cascade { 0 } else { i64::try_from(OTHERS).unwrap() };
            assert_eq!(world.rows("photos").await, left);
        }
    }
}

/// A cascade of many bytes is deleted in pieces, and others write between them.
#[tokio::test]
async fn others_write_while_a_large_cascade_is_deleted() {
    const CHILDREN: usize = 60;
    for mut world in worlds(albums_and_photos(OnDelete::Cascade)).await {
        let album = world.post(&user("ann"), "/albums", "{}").await.id();
        let large = match world.name() {
            "sqlite" => "hex(zeroblob(524288))",
            _ => "repeat('x', 1048576)",
        };
        let values = format!("'{album}', 'ann', {large}");
        fill(&world, "photos", CHILDREN, "album, user_id, data", &values).await;
        let path = format!("/albums/{album}");
        let deleted = {
            let ann = user("ann");
            let mut delete = std::pin::pin!(world.delete(&ann, &path));
            loop {
                let write = async { world.post(&user("ben"), "/albums", "{}").await.data() };
                tokio::select! { biased; deleted = &mut delete => break deleted, _ = write => {} }
            }
        };
        assert_eq!(deleted.status, 204, "{} {}", world.name(), deleted.text);
        let mut order = Vec::new();
        while order.last().is_none_or(|event| event != "entity.deleted albums") {
            let (kind, entity, _) = world.event().await;
            order.push(format!("{kind} {entity}"));
        }
        let place = |what: &str| order.iter().position(|event| event == what).unwrap();
        let (first, last) = (place("entity.deleted photos"), place("entity.deleted albums"));
        let meanwhile = order[first..last].iter().filter(|event| *event == "entity.created albums").count();
        assert!(meanwhile >= 3, "{}: {meanwhile} writes in between", world.name());
        assert_eq!(world.rows("photos").await, 0);
    }
}

#[tokio::test]
async fn a_restrict_prevents_a_large_cascade() {
    for mut world in worlds(albums_and_photos(OnDelete::Cascade)).await {
        let album = world.post(&user("ann"), "/albums", "{}").await.id();
        world.post(&user("ann"), "/orders", json!({"album": album})).await.data();
        drain(&mut world, 2).await;
        fill(&world, "photos", 3_000, "album, user_id", &format!("'{album}', 'ben'")).await;
        assert_eq!(world.delete(&user("ann"), &format!("/albums/{album}")).await.status, 409);
        world.no_more_events().await;
        assert_eq!(world.rows("photos").await, 3_000);
    }
}

#[tokio::test]
async fn a_long_chain_is_deleted_from_its_end() {
    const LENGTH: usize = 2_500;
    let entities =
        [Entity::new("notes").public().field(Field::relation("parent", "notes").on_delete(OnDelete::Cascade))];
    for mut world in worlds(entities).await {
        fill(&world, "notes", LENGTH, "parent", "CASE WHEN i > 1 THEN 'p' || (i - 1) END").await;
        let deleted = world.delete(&anonymous(), "/notes/p1").await;
        assert_eq!(deleted.status, 204, "{} {}", world.name(), deleted.text);
        assert_eq!(world.event().await.2["id"], format!("p{LENGTH}"));
        drain(&mut world, LENGTH - 1).await;
        world.no_more_events().await;
        assert_eq!(world.rows("notes").await, 0);
    }
}

#[tokio::test]
async fn a_cycle_too_large_for_one_transaction_is_refused() {
    let entities =
        [Entity::new("notes").public().field(Field::relation("parent", "notes").on_delete(OnDelete::Cascade))];
    for mut world in worlds(entities).await {
        fill(&world, "notes", 1_500, "parent", "CASE WHEN i > 1 THEN 'p' || (i - 1) END").await;
        world.db().execute("UPDATE notes SET parent = 'p1500' WHERE id = 'p1'", vec![]).await.unwrap();
        let refused = world.delete(&anonymous(), "/notes/p1").await;
        assert_eq!(refused.status, 409, "{} {}", world.name(), refused.text);
        world.no_more_events().await;
        assert_eq!(world.rows("notes").await, 1_500);
    }
}
