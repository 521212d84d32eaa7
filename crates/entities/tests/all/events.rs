//! Which events the bus and the streams get.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use gatewright_base::{Identity, Presented, Reauthenticate, Unavailable};
use gatewright_entities::{Action, Entity, Field};
use gatewright_events::{StreamOptions, Streams};
use http::Method;
use parking_lot::Mutex;
use serde_json::json;
use tokio::time::Instant;

use super::support::{Stream, World, anonymous, user, user_with, worlds, worlds_with};

fn posts() -> Entity {
    Entity::new("posts")
        .table("blog_posts")
        .public()
        .field(Field::string("title").unique())
        .field(Field::string("secret").hidden().default("canary"))
}

fn notes() -> Entity {
    Entity::new("notes").owner("user_id").cross_owner_read("posts:audit").field(Field::string("text"))
}

async fn stream(world: &World, caller: &Identity, path: &str) -> Stream {
    Stream::open(world.ask(caller, Method::GET, path)).await
}

#[tokio::test]
async fn a_write_reaches_a_browser() {
    for mut world in worlds([posts()]).await {
        let mut stream = stream(&world, &anonymous(), "/blog_posts/_events").await;
        let made = world.post(&anonymous(), "/blog_posts", json!({"title": "One"})).await;
        let path = made.header("location");
        let updated = world.patch(&anonymous(), path, json!({"title": "Two"})).await;
        world.delete(&anonymous(), path).await;
        for (kind, answer) in [("created", &made), ("updated", &updated), ("deleted", &updated)] {
            let kind = format!("entity.{kind}");
            let event = world.events.recv().await.unwrap();
            // The bytes that answered the writer are the bytes on the bus.
            assert_eq!(answer.text, format!("{{\"data\":{}}}", std::str::from_utf8(event.record()).unwrap()));
            assert_eq!((event.entity(), event.table(), event.kind().as_str()), ("posts", "blog_posts", &*kind));
            assert_eq!(event.owner(), None);
            assert_eq!(stream.next().await.unwrap(), (kind, answer.data()));
        }
        world.no_more_events().await;
    }
}

#[tokio::test]
async fn a_failed_write_emits_no_event() {
    for mut world in worlds([posts()]).await {
        let made = world.post(&anonymous(), "/blog_posts", json!({"title": "One"})).await;
        world.event().await;
        for (status, answer) in [
            (409, world.post(&anonymous(), "/blog_posts", json!({"title": "One"})).await),
            (422, world.post(&anonymous(), "/blog_posts", json!({"title": 1})).await),
            (404, world.patch(&anonymous(), "/blog_posts/nope", json!({"title": "x"})).await),
            (404, world.delete(&anonymous(), "/blog_posts/nope").await),
            (200, world.get(&anonymous(), made.header("location")).await),
        ] {
            assert_eq!(answer.status, status);
        }
        world.no_more_events().await;
    }
}

#[tokio::test]
async fn a_stream_has_events_of_records_that_its_caller_could_read() {
    for world in worlds([notes()]).await {
        let mut of_ann = stream(&world, &user("ann"), "/notes/_events").await;
        let mut of_ben = stream(&world, &user("ben"), "/notes/_events").await;
        let mut of_auditor = stream(&world, &user_with("eve", &["auditor"]), "/notes/_events").await;
        for (owner, text) in [("ann", "a1"), ("ben", "b1"), ("ann", "a2"), ("ben", "b2")] {
            let made = world.post(&user(owner), "/notes", json!({"text": text})).await;
            world.patch(&user(owner), made.header("location"), json!({"text": format!("{text}!")})).await.data();
            assert_eq!(world.delete(&user(owner), made.header("location")).await.status, 204);
        }
        for (stream, expected) in [
            (&mut of_ann, "a1 a1! a1! a2 a2! a2!"),
            (&mut of_ben, "b1 b1! b1! b2 b2! b2!"),
            (&mut of_auditor, "a1 a1! a1! b1 b1! b1! a2 a2! a2! b2 b2! b2!"),
        ] {
            for text in expected.split(' ') {
                let (_, record) = stream.next().await.unwrap();
                assert_eq!(record["text"], text, "{}", world.name());
                assert!(record.get("userId").is_none());
            }
        }
    }
}

#[tokio::test]
async fn a_stream_has_events_of_one_table() {
    for world in worlds([posts(), notes()]).await {
        let mut stream = stream(&world, &user("ann"), "/notes/_events").await;
        world.post(&anonymous(), "/blog_posts", json!({"title": "One"})).await.data();
        world.post(&user("ann"), "/notes", json!({"text": "mine"})).await.data();
        assert_eq!(stream.next().await.unwrap().1["text"], "mine");
    }
}

/// Credentials with an owner that the test can change.
struct Credentials(Mutex<Result<Identity, Unavailable>>);

impl Reauthenticate for Credentials {
    fn again(&self) -> Pin<Box<dyn Future<Output = Result<Identity, Unavailable>> + Send + '_>> {
        let now = self.0.lock().clone();
        Box::pin(async move { now })
    }
}

#[tokio::test]
async fn a_stream_ends_when_its_caller_would_be_refused() {
    let guarded = Entity::new("posts").access(Action::Read, "posts:read").field(Field::string("title"));
    for world in worlds([guarded]).await {
        for after in [Ok(user("ann")), Ok(anonymous()), Ok(super::support::pending()), Err(Unavailable)] {
            let reader = user_with("ann", &["reader"]);
            let credentials = Arc::new(Credentials(Mutex::new(Ok(reader.clone()))));
            let ask = world.ask(&reader, Method::GET, "/posts/_events").extension(Presented(credentials.clone()));
            let mut stream = Stream::open(ask).await;
            world.post(&user("ann"), "/posts", json!({"title": "seen"})).await.data();
            assert_eq!(stream.next().await.unwrap().1["title"], "seen");
            *credentials.0.lock() = after;
            assert!(stream.next().await.is_none());
        }
    }
}

#[tokio::test]
async fn a_stream_narrows_when_its_caller_loses_a_right() {
    for world in worlds([notes()]).await {
        let credentials = Arc::new(Credentials(Mutex::new(Ok(user_with("ben", &["auditor"])))));
        let ask = world.ask(&user_with("ben", &["auditor"]), Method::GET, "/notes/_events");
        let mut stream = Stream::open(ask.extension(Presented(credentials.clone()))).await;
        world.post(&user("ann"), "/notes", json!({"text": "audited"})).await.data();
        assert_eq!(stream.next().await.unwrap().1["text"], "audited");
        *credentials.0.lock() = Ok(user("ben"));
        // Within a heartbeat, notes of others no longer come on the stream: only the second of each pair comes then.
        loop {
            world.post(&user("ann"), "/notes", json!({"text": "others"})).await.data();
            world.post(&user("ben"), "/notes", json!({"text": "mine"})).await.data();
            if stream.next().await.unwrap().1["text"] == "mine" {
                break;
            }
            assert_eq!(stream.next().await.unwrap().1["text"], "mine");
        }
    }
}

#[tokio::test]
async fn without_a_recheck_a_stream_ends_when_its_credential_expires() {
    for world in worlds([notes()]).await {
        let credential = gatewright_base::Credential::Jwt { expires_at: "2026-01-02T03:05:00Z".parse().unwrap() };
        let Identity::Known(principal) = user("ann") else { panic!("known") };
        let brief = Identity::Known(Arc::new(gatewright_base::Principal { credential, ..(*principal).clone() }));
        let mut stream = stream(&world, &brief, "/notes/_events").await;
        world.post(&user("ann"), "/notes", json!({"text": "mine"})).await.data();
        assert!(stream.next().await.is_some());
        world.clock.advance(jiff::SignedDuration::from_secs(120));
        assert!(stream.next().await.is_none());
    }
}

#[tokio::test]
async fn unknown_stream_parameters_are_refused() {
    for world in worlds([posts()]).await {
        for (query, status) in
            [("", 200), ("?slow=block", 200), ("?subscriber_id=tab", 200), ("?fliter=x", 400), ("?filter=title", 400)]
        {
            let response = world.ask(&anonymous(), Method::GET, &format!("/blog_posts/_events{query}")).open().await;
            assert_eq!(response.status(), status, "{query}");
        }
    }
}

#[tokio::test]
async fn a_writer_waits_for_blocking_streams_up_to_a_limit() {
    for world in worlds([posts()]).await {
        let timeout = Duration::from_millis(500);
        let options =
            StreamOptions { allow_client_slow_mode: true, block_timeout: timeout, ..StreamOptions::default() };
        let entities = gatewright_entities::Entities::builder(world.db().clone(), gatewright_base::Ambient::system())
            .bus(world.bus.clone())
            .streams(Streams::start(&world.bus, options))
            .declare(posts())
            .build()
            .await
            .unwrap();
        let world = World { router: entities.router(), entities, ..world };
        let unread = world.ask(&anonymous(), Method::GET, "/blog_posts/_events?slow=block").open().await;
        for _ in 0..32 {
            assert_eq!(world.post(&anonymous(), "/blog_posts", "{}").await.status, 201);
        }
        let started = Instant::now();
        assert_eq!(world.post(&anonymous(), "/blog_posts", "{}").await.status, 201);
        assert!(started.elapsed() >= timeout, "{:?}", started.elapsed());
        drop(unread);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_caller_who_disconnects_leaves_both_a_row_and_its_event_or_neither() {
    for mut world in worlds([posts()]).await {
        for number in 0..100 {
            let body = json!({"title": number.to_string()});
            let caller = anonymous();
            let mut request = Box::pin(world.post(&caller, "/blog_posts", body));
            for _ in 0..number % 7 {
                if futures_util::poll!(&mut request).is_ready() {
                    break;
                }
                tokio::task::yield_now().await;
            }
        }
        // Statements in progress finish; then there are as many events as rows.
        let agree = async {
            while world.rows("blog_posts").await != i64::try_from(world.bus.published()).unwrap() {
                tokio::task::yield_now().await;
            }
        };
        tokio::time::timeout(Duration::from_mins(1), agree).await.unwrap();
        let rows = world.rows("blog_posts").await;
        for _ in 0..rows {
            assert_eq!(world.event().await.0, "entity.created");
        }
        world.no_more_events().await;
    }
}

#[tokio::test]
async fn without_a_bus_streams_are_503_and_writes_work() {
    for world in worlds_with([posts()], |builder| builder.streams(Streams::disabled())).await {
        assert_eq!(world.get(&anonymous(), "/blog_posts/_events").await.status, 503);
        assert_eq!(world.post(&anonymous(), "/blog_posts", json!({"title": "One"})).await.status, 201);
    }
}
