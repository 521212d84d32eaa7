//! Parallel requests, of which one succeeds.

use futures_util::future::join_all;
use gatewright_entities::{Entity, Field};
use http::Method;
use serde_json::json;

use super::support::{anonymous, worlds};

const TRIES: usize = 20;

/// Without an order of locks, batches that change the same rows in opposite orders would deadlock.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn batches_that_cross_wait_for_each_other() {
    const CLIENTS: usize = 12;
    const BATCHES: usize = 5;
    for world in worlds([posts()]).await {
        let mut ids = Vec::new();
        for number in 0..20 {
            ids.push(world.post(&anonymous(), "/posts", json!({"title": number.to_string()})).await.id());
        }
        let client = async |client: usize| {
            let mut statuses = Vec::new();
            for batch in 0..BATCHES {
                let mut items: Vec<_> =
                    ids.iter().map(|id| json!({"id": id, "views": client * BATCHES + batch})).collect();
                if client % 2 == 1 {
                    items.reverse();
                }
                let ask = world.ask(&anonymous(), Method::PATCH, "/posts/_batch").json(json!({"items": items}));
                statuses.push(ask.send().await.status.as_u16());
            }
            statuses
        };
        let begun = std::time::Instant::now();
        let statuses = join_all((0..CLIENTS).map(client)).await.concat();
        assert_eq!(statuses, [200; CLIENTS * BATCHES], "{}", world.name());
        assert!(begun.elapsed().as_secs() < 60, "{}: {:?}", world.name(), begun.elapsed());
    }
}

fn posts() -> Entity {
    Entity::new("posts").public().field(Field::string("title").unique()).field(Field::int("views").default(0))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_of_twenty_creates_gets_a_unique_value() {
    for mut world in worlds([posts()]).await {
        let answers =
            join_all((0..TRIES).map(async |_| world.post(&anonymous(), "/posts", json!({"title": "one"})).await)).await;
        let mut statuses: Vec<u16> = answers.iter().map(|answer| answer.status.as_u16()).collect();
        statuses.sort_unstable();
        assert_eq!(statuses[0], 201, "{}", world.name());
        assert_eq!(statuses[1..], [409; TRIES - 1], "{}", world.name());
        assert_eq!(world.event().await.0, "entity.created");
        world.no_more_events().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_of_twenty_updates_of_the_same_version_succeeds() {
    for world in worlds([posts()]).await {
        let post = world.post(&anonymous(), "/posts", json!({"title": "one"})).await;
        let update = |number: usize| {
            let ask = world.ask(&anonymous(), Method::PATCH, post.header("location"));
            ask.header("if-match", post.header("etag")).json(json!({"views": number + 1})).send()
        };
        let answers = join_all((0..TRIES).map(update)).await;
        let won: Vec<_> = answers.iter().filter(|answer| answer.status == 200).collect();
        assert_eq!(won.len(), 1, "{}", world.name());
        assert_eq!(answers.iter().filter(|answer| answer.status == 412).count(), TRIES - 1);
        assert_eq!(world.get(&anonymous(), post.header("location")).await.data(), won[0].data());
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_of_twenty_deletes_finds_the_record() {
    for mut world in worlds([posts()]).await {
        let post = world.post(&anonymous(), "/posts", json!({"title": "one"})).await;
        let answers =
            join_all((0..TRIES).map(async |_| world.delete(&anonymous(), post.header("location")).await)).await;
        assert_eq!(answers.iter().filter(|answer| answer.status == 204).count(), 1, "{}", world.name());
        assert_eq!(answers.iter().filter(|answer| answer.status == 404).count(), TRIES - 1);
        world.event().await;
        assert_eq!(world.event().await.0, "entity.deleted");
        world.no_more_events().await;
    }
}
