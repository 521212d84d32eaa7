use std::net::SocketAddr;
use std::sync::Arc;

use axum::Router;
use axum::body::{Body, to_bytes};
use axum::extract::ConnectInfo;
use axum::routing::get;
use gatewright_base::{Ambient, Credential, Identity, ManualClock, Principal, Roles, Subject, UserId};
use gatewright_db::testing::engines;
use gatewright_limits::Key;
use gatewright_limits::bucket::{BucketStore as _, MemoryBuckets, Rate, SqlBuckets, TokenBucket, TokenBucketLayer};
use http::{Request, Response};
use jiff::{SignedDuration, Timestamp};
use tower::ServiceExt as _;

fn rate(per_second: f64, burst: u32) -> Rate {
    Rate::new(per_second, burst).unwrap()
}

fn manual() -> (Ambient, Arc<ManualClock>) {
    Ambient::manual(Timestamp::UNIX_EPOCH, 1)
}

async fn send(router: &Router, peer: &str, user: Option<&str>) -> Response<Body> {
    let mut request = Request::get("/").body(Body::empty()).unwrap();
    request.extensions_mut().insert(ConnectInfo::<SocketAddr>(peer.parse().unwrap()));
    if let Some(user) = user {
        request.extensions_mut().insert(Identity::Known(Arc::new(Principal {
            subject: Subject::User(UserId::parse(user).unwrap()),
            email: None,
            roles: Roles::default(),
            credential: Credential::Jwt { expires_at: Timestamp::MAX },
        })));
    }
    router.clone().oneshot(request).await.unwrap()
}

fn budget(response: &Response<Body>) -> [&str; 4] {
    ["ratelimit-limit", "ratelimit-remaining", "ratelimit-reset", "retry-after"]
        .map(|name| response.headers().get(name).map_or("", |value| value.to_str().unwrap()))
}

#[tokio::test]
async fn answers_tell_the_budget_and_an_empty_bucket_refuses() {
    let (ambient, clock) = manual();
    let bucket = TokenBucket::in_memory("api", rate(0.5, 2), ambient);
    let router = Router::new().route("/", get(async || "served")).layer(TokenBucketLayer::by_caller(bucket));
    let peer = "203.0.113.7:1";

    assert_eq!(budget(&send(&router, peer, None).await), ["2", "1", "2", ""]);
    clock.advance(SignedDuration::from_millis(500));
    assert_eq!(budget(&send(&router, peer, None).await), ["2", "0", "4", ""]);
    let refused = send(&router, peer, None).await;
    assert_eq!((refused.status().as_u16(), budget(&refused)), (429, ["2", "0", "4", "2"]));
    assert_eq!(to_bytes(refused.into_body(), 100).await.unwrap(), "rate limit exceeded");
    assert_eq!(send(&router, "203.0.113.8:1", None).await.status(), 200, "another address has its own bucket");

    clock.advance(SignedDuration::from_millis(1_500));
    assert_eq!(send(&router, peer, None).await.status(), 200, "a token came back");
    clock.advance(SignedDuration::from_secs(60));
    assert_eq!(budget(&send(&router, peer, None).await), ["2", "1", "2", ""]);
}

#[tokio::test]
async fn a_signed_in_caller_has_one_bucket_wherever_they_call_from() {
    let bucket = TokenBucket::in_memory("api", rate(1.0, 2), manual().0);
    let router = Router::new().route("/", get(async || "")).layer(TokenBucketLayer::by_caller(bucket));
    let mut statuses = Vec::new();
    let calls =
        [("203.0.113.7:1", "ann"), ("203.0.113.8:1", "ann"), ("203.0.113.9:1", "ann"), ("203.0.113.9:1", "bob")];
    for (peer, user) in calls {
        statuses.push(send(&router, peer, Some(user)).await.status().as_u16());
    }
    statuses.push(send(&router, "203.0.113.9:1", None).await.status().as_u16());
    assert_eq!(statuses, [200, 200, 429, 200, 200]);
}

#[tokio::test]
async fn the_number_of_buckets_is_bounded_and_full_ones_are_dropped() {
    let (ambient, clock) = manual();
    for capacity in [1, 10, 20_000] {
        let store = MemoryBuckets::with_capacity(ambient.clone(), capacity);
        for n in 0..capacity * 2 + 5 {
            store.take(&Key::new("s", &n.to_string()), &rate(0.1, 5)).await.unwrap();
            assert!(store.len() <= capacity);
        }
        clock.advance(SignedDuration::from_secs(11));
        let held = store.len() as u64;
        assert_eq!(store.sweep().await.unwrap(), held);
        assert!(store.is_empty());
    }
}

#[tokio::test]
async fn an_emptied_bucket_outlives_a_flood_of_others() {
    let store = MemoryBuckets::with_capacity(manual().0, 4);
    let (empty, rate) = (Key::new("s", "empty"), rate(0.1, 3));
    for _ in 0..3 {
        assert!(store.take(&empty, &rate).await.unwrap().admitted);
    }
    for n in 0..1_000 {
        store.take(&Key::new("s", &n.to_string()), &rate).await.unwrap();
    }
    assert!(!store.take(&empty, &rate).await.unwrap().admitted);
}

#[tokio::test]
async fn a_store_that_fails_refuses() {
    for engine in engines().await {
        let bucket = TokenBucket::new("api", rate(1.0, 1), Arc::new(SqlBuckets::new(engine.db.clone())));
        let router = Router::new().route("/", get(async || "")).layer(TokenBucketLayer::by_caller(bucket));
        let response = send(&router, "203.0.113.7:1", None).await;
        assert_eq!((response.status().as_u16(), budget(&response)), (429, ["", "", "", "5"]), "{}", engine.name);
    }
}
