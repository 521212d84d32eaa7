use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::extract::ConnectInfo;
use axum::routing::post;
use gatewright_base::Ambient;
use gatewright_http::TrustedProxies;
use gatewright_limits::{Limiter, LimiterLayer, Policy};
use http::{Request, Response};
use jiff::Timestamp;
use tower::ServiceExt as _;

fn limiter() -> Limiter {
    let (ambient, _) = Ambient::manual(Timestamp::UNIX_EPOCH, 1);
    Limiter::in_memory("route", Policy::new(2, Duration::ZERO, Duration::ZERO), ambient)
}

fn throttled(layer: LimiterLayer) -> (Router, Arc<AtomicU32>) {
    let served = Arc::new(AtomicU32::new(0));
    let count = served.clone();
    let handler = post(async move || {
        count.fetch_add(1, Ordering::Relaxed);
        "served"
    });
    let routes = Router::new().route("/limited", handler.layer(layer)).route("/free", post(async || "served"));
    (routes, served)
}

async fn send(router: &Router, path: &str, peer: &str, headers: &[(&str, &str)]) -> Response<Body> {
    let request = headers.iter().fold(Request::post(path), |request, (name, value)| request.header(*name, *value));
    let mut request = request.body(Body::empty()).unwrap();
    if !peer.is_empty() {
        request.extensions_mut().insert(ConnectInfo::<SocketAddr>(peer.parse().unwrap()));
    }
    router.clone().oneshot(request).await.unwrap()
}

async fn statuses(router: &Router, requests: &[(&str, &str)]) -> Vec<u16> {
    let mut statuses = Vec::new();
    for (peer, forwarded) in requests {
        let response = send(router, "/limited", peer, &[("x-forwarded-for", forwarded)]).await;
        statuses.push(response.status().as_u16());
    }
    statuses
}

#[tokio::test]
async fn one_route_is_throttled_and_the_other_is_not() {
    let (router, served) = throttled(LimiterLayer::by_address(limiter()));
    for _ in 0..2 {
        assert_eq!(send(&router, "/limited", "203.0.113.7:1", &[]).await.status(), 200);
    }
    for _ in 0..3 {
        let refused = send(&router, "/limited", "203.0.113.7:2", &[]).await;
        assert_eq!((refused.status().as_u16(), refused.headers()["retry-after"].to_str().unwrap()), (429, "1800"));
        assert_eq!(refused.headers()["content-type"], "text/plain; charset=utf-8");
        assert!(!refused.headers().keys().any(|name| name.as_str().starts_with("ratelimit")));
        let body = axum::body::to_bytes(refused.into_body(), 100).await.unwrap();
        assert_eq!(body, "rate limit exceeded");
    }
    assert_eq!(served.load(Ordering::Relaxed), 2, "a refused request does not reach the route");
    assert_eq!(send(&router, "/free", "203.0.113.7:1", &[]).await.status(), 200);
    assert_eq!(send(&router, "/limited", "203.0.113.8:1", &[]).await.status(), 200);
}

#[tokio::test]
async fn a_forged_header_gives_no_more_attempts() {
    let (router, _) = throttled(LimiterLayer::by_address(limiter()));
    let forged = [("203.0.113.7:1", "1.1.1.1"), ("203.0.113.7:1", "1.1.1.2"), ("203.0.113.7:1", "1.1.1.3")];
    assert_eq!(statuses(&router, &forged).await, [200, 200, 429], "the header is not trusted");

    let proxies = TrustedProxies::parse(&["10.0.0.0/8"]).unwrap();
    let trusting = limiter().trust_forwarded_for(true).trusted_proxies(proxies);
    let (router, _) = throttled(LimiterLayer::by_address(trusting));
    let behind = [
        ("10.0.0.1:1", "1.1.1.1, 203.0.113.7"),
        ("10.0.0.2:1", "1.1.1.2, 203.0.113.7"),
        ("10.0.0.1:1", "1.1.1.3, 203.0.113.7"),
        ("10.0.0.1:1", "203.0.113.7, 203.0.113.8"),
        ("198.51.100.4:1", "203.0.113.9"),
        ("198.51.100.4:1", "203.0.113.10"),
        ("198.51.100.4:1", "203.0.113.11"),
    ];
    assert_eq!(statuses(&router, &behind).await, [200, 200, 429, 200, 200, 200, 429]);
}

#[tokio::test]
async fn neighbours_in_one_ipv6_network_count_together() {
    let (router, _) = throttled(LimiterLayer::by_address(limiter()));
    let peers = [
        ("[2001:db8::1]:1", "x"),
        ("[2001:db8::ffff:2]:1", "x"),
        ("[2001:db8::3]:1", "x"),
        ("[2001:db8:0:1::1]:1", "x"),
    ];
    assert_eq!(statuses(&router, &peers).await, [200, 200, 429, 200]);
}

#[tokio::test]
async fn a_48_has_64_times_the_attempts_of_a_64() {
    let (router, served) = throttled(LimiterLayer::by_address(limiter()));
    for number in 0..200 {
        let peer = format!("[2001:db8:1:{number:x}::1]:1");
        let expected = if number < 128 { 200 } else { 429 };
        assert_eq!(statuses(&router, &[(&*peer, "x")]).await, [expected], "{peer}");
    }
    assert_eq!(served.load(Ordering::Relaxed), 128);
    let others = [("[2001:db8:2::1]:1", "x"), ("203.0.113.7:1", "x")];
    assert_eq!(statuses(&router, &others).await, [200, 200], "others are not affected");
}

#[tokio::test]
async fn a_request_without_an_address_is_an_error_of_the_program() {
    let (router, served) = throttled(LimiterLayer::by_address(limiter()));
    assert_eq!(statuses(&router, &[("", "a"), ("", "b"), ("", "c")]).await, [500, 500, 500]);
    assert_eq!(served.load(Ordering::Relaxed), 0);

    let trusting = limiter().trust_forwarded_for(true);
    let (router, _) = throttled(LimiterLayer::by_address(trusting));
    let behind =
        [("", "203.0.113.7"), ("", "203.0.113.7"), ("", "203.0.113.7"), ("", "203.0.113.8"), ("", "no address")];
    assert_eq!(
        statuses(&router, &behind).await,
        [200, 200, 429, 200, 500],
        "a proxy on a socket of its own says who it is"
    );
}

#[tokio::test]
async fn any_part_of_a_request_can_be_the_key() {
    let by_key = |parts: &http::request::Parts| parts.headers.get("x-key").map(|key| key.to_str().unwrap().to_owned());
    let (router, _) = throttled(LimiterLayer::by_key(limiter(), by_key));
    let mut statuses = Vec::new();
    for key in ["a", "a", "a", "b"] {
        statuses.push(send(&router, "/limited", "", &[("x-key", key)]).await.status().as_u16());
    }
    for _ in 0..4 {
        statuses.push(send(&router, "/limited", "", &[]).await.status().as_u16());
    }
    assert_eq!(statuses, [200, 200, 429, 200, 200, 200, 200, 200]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn two_of_twenty_parallel_requests_are_served() {
    let (router, served) = throttled(LimiterLayer::by_address(limiter()));
    let tasks: Vec<_> = (0..20)
        .map(|_| {
            let router = router.clone();
            tokio::spawn(async move { send(&router, "/limited", "203.0.113.7:1", &[]).await.status().as_u16() })
        })
        .collect();
    let mut refused = 0;
    for task in tasks {
        refused += u32::from(task.await.unwrap() == 429);
    }
    assert_eq!((served.load(Ordering::Relaxed), refused), (2, 18));
}
