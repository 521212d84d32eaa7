use std::net::SocketAddr;
use std::sync::Arc;

use axum::Router;
use axum::body::{Body, to_bytes};
use axum::extract::ConnectInfo;
use axum::routing::get;
use gatewright_base::{
    Ambient, Credential, Identity, ManualClock, Principal, Roles, Scopes, ServiceId, Subject, TenantLimit, TokenId,
    UserId,
};
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
    let jwt = Credential::Jwt { expires_at: Timestamp::MAX };
    let identity = user.map_or(Identity::Anonymous, |user| known(self::user(user), jwt));
    send_as(router, peer, identity).await
}

async fn send_as(router: &Router, peer: &str, identity: Identity) -> Response<Body> {
    let mut request = Request::get("/").body(Body::empty()).unwrap();
    request.extensions_mut().insert(ConnectInfo::<SocketAddr>(peer.parse().unwrap()));
    request.extensions_mut().insert(identity);
    router.clone().oneshot(request).await.unwrap()
}

fn user(id: &str) -> Subject {
    Subject::User(UserId::parse(id).unwrap())
}

fn known(subject: Subject, credential: Credential) -> Identity {
    Identity::Known(Arc::new(Principal { subject, email: None, roles: Roles::default(), credential }))
}

fn by_token(subject: Subject, token: &str) -> Identity {
    let id = TokenId::parse(token).unwrap();
    known(
        subject,
        Credential::ApiToken { id, scopes: Scopes::default(), expires_at: None, tenants: TenantLimit::default() },
    )
}

fn budget(response: &Response<Body>) -> [&str; 4] {
    ["ratelimit-limit", "ratelimit-remaining", "ratelimit-reset", "retry-after"]
        .map(|name| response.headers().get(name).map_or("", |value| value.to_str().unwrap()))
}

#[tokio::test]
async fn answers_report_the_budget_and_an_empty_bucket_refuses() {
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
async fn a_signed_in_caller_has_one_bucket_for_all_addresses() {
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
async fn a_token_has_its_own_bucket_and_more_tokens_gain_little() {
    let ambient = manual().0;
    let bucket = |scope, burst| TokenBucket::in_memory(scope, rate(0.1, burst), ambient.clone());
    let layer = TokenBucketLayer::by_token(bucket("api", 2), bucket("api_owner", 5));
    let router = Router::new().route("/", get(async || "")).layer(layer);
    let (peer, ann) = ("203.0.113.7:1", || user("ann"));
    let status = async |identity| send_as(&router, peer, identity).await.status().as_u16();
    // A token over its limit affects neither its owner's session nor the other token.
    for identity in [|| by_token(user("ann"), "t1"), || by_token(user("ann"), "t2")] {
        assert_eq!([status(identity()).await, status(identity()).await, status(identity()).await], [200, 200, 429]);
    }
    // Together they have five: a third token gets the last one, and a hundred more are refused.
    let last = send_as(&router, peer, by_token(ann(), "t3")).await;
    assert_eq!((last.status().as_u16(), budget(&last)), (200, ["5", "0", "50", ""]));
    for minted in 0..100 {
        let refused = send_as(&router, peer, by_token(ann(), &format!("minted{minted}"))).await;
        assert_eq!((refused.status().as_u16(), budget(&refused)), (429, ["5", "0", "50", "10"]));
    }
    let jwt = || known(ann(), Credential::Jwt { expires_at: Timestamp::MAX });
    assert_eq!([status(jwt()).await, status(jwt()).await, status(jwt()).await], [200, 200, 429]);
    // Other owners have their own limit, including a service account of the same name, and so has the address.
    let service = || Subject::Service(ServiceId::parse("ann").unwrap());
    assert_eq!(status(by_token(user("bob"), "t4")).await, 200);
    let first = send_as(&router, peer, by_token(service(), "t5")).await;
    assert_eq!((first.status().as_u16(), budget(&first)), (200, ["2", "1", "10", ""]));
    assert_eq!(status(Identity::Anonymous).await, 200);
}

#[tokio::test]
async fn many_parallel_tokens_stay_within_the_limit_of_their_owner() {
    let bucket = |scope, burst| TokenBucket::in_memory(scope, rate(0.1, burst), manual().0);
    let layer = TokenBucketLayer::by_token(bucket("api", 3), bucket("api_owner", 20));
    let router = Router::new().route("/", get(async || "")).layer(layer);
    let all = (0..100).map(|number| {
        let router = router.clone();
        tokio::spawn(async move {
            let identity = by_token(user("ann"), &format!("t{}", number % 25));
            send_as(&router, "203.0.113.7:1", identity).await.status().as_u16()
        })
    });
    let mut admitted = 0;
    for answer in all.collect::<Vec<_>>() {
        admitted += u32::from(answer.await.unwrap() == 200);
    }
    assert_eq!(admitted, 20);
}

#[tokio::test]
async fn by_address_all_callers_of_an_address_share_a_bucket() {
    let bucket = TokenBucket::in_memory("api", rate(1.0, 2), manual().0);
    let router = Router::new().route("/", get(async || "")).layer(TokenBucketLayer::by_address(bucket));
    let mut statuses = Vec::new();
    for (peer, identity) in [
        ("203.0.113.7:1", Identity::Anonymous),
        ("203.0.113.7:2", by_token(user("ann"), "t1")),
        ("203.0.113.7:3", known(user("bob"), Credential::Jwt { expires_at: Timestamp::MAX })),
        ("203.0.113.8:1", by_token(user("ann"), "t1")),
    ] {
        statuses.push(send_as(&router, peer, identity).await.status().as_u16());
    }
    assert_eq!(statuses, [200, 200, 429, 200]);
}

/// A pending session does not count as the account, and does not use up its budget.
#[tokio::test]
async fn a_pending_session_counts_as_its_address() {
    let bucket = |scope| TokenBucket::in_memory(scope, rate(1.0, 1), manual().0);
    for layer in [TokenBucketLayer::by_caller(bucket("api")), TokenBucketLayer::by_token(bucket("api"), bucket("o"))] {
        let router = Router::new().route("/", get(async || "")).layer(layer);
        let pending = || Identity::Pending(UserId::parse("ann").unwrap());
        let first = send_as(&router, "203.0.113.7:1", pending()).await.status();
        let second = send_as(&router, "203.0.113.7:1", Identity::Anonymous).await.status();
        let own = send(&router, "203.0.113.7:1", Some("ann")).await.status();
        assert_eq!([first, second, own].map(|status| status.as_u16()), [200, 429, 200]);
    }
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
