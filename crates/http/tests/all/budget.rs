//! Bodies and answers that take their bytes from a budget.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::ConnectInfo;
use axum::routing::{get, post};
use futures_util::{StreamExt as _, stream};
use gatewright_base::{Ambient, Budget, Credential, Identity, Principal, Roles, Subject, UserId};
use gatewright_http::layers::{self, AnswerBudgetLayer, BodyLimit, Deadline, EnvelopeLayer};
use gatewright_http::{RawJson, TrustedProxies};
use http::Request;
use jiff::Timestamp;
use tokio::sync::mpsc;
use tower::ServiceExt as _;

use crate::support::send;

const KIB: usize = 1024;

fn app(budget: &Budget) -> Router {
    let (ambient, _) = Ambient::manual(Timestamp::UNIX_EPOCH, 1);
    let routes = Router::new()
        .route("/notes", post(async |RawJson(bytes): RawJson| bytes.len().to_string()))
        .route("/auth/login", post(async |RawJson(bytes): RawJson| bytes.len().to_string()))
        .route("/authors", post(async |RawJson(bytes): RawJson| bytes.len().to_string()))
        .route("/large", get(async || Bytes::from(vec![b'x'; 100 * KIB])))
        .route("/small", get(async || Bytes::from(vec![b'x'; 16 * KIB])))
        .layer(AnswerBudgetLayer::new(budget.clone()));
    let limit = BodyLimit::new(KIB * KIB).set_by("server.max_body_bytes");
    let envelope = EnvelopeLayer::new(ambient, limit, Deadline::new(Duration::from_secs(30)))
        .trusted_proxies(TrustedProxies::parse(&["10.0.0.0/8"]).unwrap())
        .limit_below("/auth", BodyLimit::new(16 * KIB).set_by("auth.max_body_bytes"))
        .budget(budget.clone());
    layers::standard(routes, envelope)
}

fn from(peer: &str) -> ConnectInfo<SocketAddr> {
    ConnectInfo(SocketAddr::new(peer.parse().unwrap(), 4711))
}

fn json(path: &str, peer: &str, body: Body) -> Request<Body> {
    Request::post(path).header("content-type", "application/json").extension(from(peer)).body(body).unwrap()
}

/// A body that has sent `bytes` bytes and withholds the rest until the sender is dropped.
fn withheld(bytes: usize) -> (mpsc::Sender<Bytes>, Body) {
    let (rest, receiver) = mpsc::channel::<Bytes>(1);
    let chunks = (0..bytes / KIB).map(|_| Bytes::from(vec![b'x'; KIB]));
    let waiting = stream::unfold(receiver, async |mut receiver| Some((receiver.recv().await?, receiver)));
    (rest, Body::from_stream(stream::iter(chunks).chain(waiting.boxed().fuse()).map(Ok::<_, Infallible>)))
}

/// Waits until `bytes` are taken.
async fn taken(budget: &Budget, bytes: usize) {
    while budget.used() != bytes {
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn a_body_takes_its_size_above_the_free_part_until_it_is_answered() {
    let budget = Budget::new(400 * KIB);
    let (rest, body) = withheld(50 * KIB);
    let answer = tokio::spawn(app(&budget).oneshot(json("/notes", "203.0.113.7", body)));
    taken(&budget, 34 * KIB).await;
    drop(rest);
    assert_eq!(answer.await.unwrap().unwrap().status(), 200);
    assert_eq!(budget.used(), 0);
}

#[tokio::test]
async fn one_address_gets_a_quarter_and_others_are_served() {
    let budget = Budget::new(400 * KIB);
    let app = app(&budget);
    let (_rest, body) = withheld(116 * KIB);
    let _held = tokio::spawn(app.clone().oneshot(json("/notes", "203.0.113.7", body)));
    taken(&budget, 100 * KIB).await;
    let of = |bytes: usize| Body::from(vec![b'x'; bytes * KIB]);
    // The same address, by itself or over a proxy, and another one of the same /48.
    let refused = send(&app, json("/notes", "203.0.113.7", of(17))).await;
    assert_eq!((refused.status.as_u16(), &refused.json()["code"]), (503, &"over_budget".into()));
    assert_eq!(refused.header("retry-after"), "1");
    let mut over_proxy = json("/notes", "10.0.0.1", of(17));
    over_proxy.headers_mut().insert("x-forwarded-for", "203.0.113.7".parse().unwrap());
    assert_eq!(send(&app, over_proxy).await.status, 503);
    // Small bodies are accepted from every address, large ones only from others.
    assert_eq!(send(&app, json("/notes", "203.0.113.7", of(16))).await.status, 200);
    assert_eq!(send(&app, json("/notes", "203.0.113.8", of(100))).await.status, 200);
    assert_eq!(send(&app, json("/notes", "127.0.0.1", of(300))).await.status, 200, "loopback has no share");
}

#[tokio::test]
async fn the_networks_of_ipv6_clients_are_their_48() {
    let budget = Budget::new(400 * KIB);
    let app = app(&budget);
    let (_rest, body) = withheld(116 * KIB);
    let _held = tokio::spawn(app.clone().oneshot(json("/notes", "2001:db8:1:1::1", body)));
    taken(&budget, 100 * KIB).await;
    let large = || Body::from(vec![b'x'; 50 * KIB]);
    assert_eq!(send(&app, json("/notes", "2001:db8:1:2::1", large())).await.status, 503);
    assert_eq!(send(&app, json("/notes", "2001:db8:2:1::1", large())).await.status, 200);
}

#[tokio::test]
async fn sign_in_has_a_small_limit_and_the_413_names_limit_and_key() {
    let budget = Budget::new(400 * KIB);
    let app = app(&budget);
    for (path, bytes, detail) in [
        ("/auth/login", 16 * KIB, None),
        ("/auth/login", 16 * KIB + 1, Some("the request body is larger than 16384 bytes (`auth.max_body_bytes`)")),
        ("/authors", 16 * KIB + 1, None),
        ("/notes", KIB * KIB + 1, Some("the request body is larger than 1048576 bytes (`server.max_body_bytes`)")),
    ] {
        // Announced, and not.
        for announced in [true, false] {
            let chunk = Bytes::from(vec![b'x'; bytes]);
            let body = Body::from_stream(stream::iter([Ok::<_, Infallible>(chunk)]));
            let mut request = json(path, "127.0.0.1", body);
            if announced {
                request.headers_mut().insert("content-length", bytes.into());
            }
            // Larger ones exceed the budget before the limit, unless they announce their length.
            if bytes > 400 * KIB && !announced {
                continue;
            }
            let answer = send(&app, request).await;
            match detail {
                None => assert_eq!(answer.status, 200, "{path} {bytes}"),
                Some(detail) => assert_eq!((answer.status.as_u16(), &*answer.detail()), (413, detail)),
            }
        }
    }
}

#[tokio::test]
async fn an_answer_holds_its_bytes_until_it_is_sent_completely() {
    let budget = Budget::new(800 * KIB);
    let app = app(&budget);
    let ask = || Request::get("/large").extension(from("203.0.113.7")).body(Body::empty()).unwrap();
    let mut answers = Vec::new();
    for _ in 0..2 {
        let response = app.clone().oneshot(ask()).await.unwrap();
        assert_eq!(response.status(), 200);
        answers.push(response);
    }
    assert_eq!(budget.used(), 200 * KIB);
    let refused = send(&app, ask()).await;
    assert_eq!((refused.status.as_u16(), &refused.json()["code"]), (503, &"over_budget".into()));
    let small = Request::get("/small").extension(from("203.0.113.7")).body(Body::empty()).unwrap();
    assert_eq!(send(&app, small).await.text.len(), 16 * KIB);

    // A server reads the answer's body, drops it, and sends the bytes as fast as the client reads.
    let body = answers.pop().unwrap().into_body();
    let mut chunks = body.into_data_stream().collect::<Vec<_>>().await;
    assert_eq!(budget.used(), 200 * KIB);
    let bytes = chunks.pop().unwrap().unwrap();
    let mut rest = bytes.clone();
    let sent = rest.split_to(99 * KIB);
    drop(bytes);
    assert_eq!(budget.used(), 200 * KIB);
    drop((rest, sent));
    assert_eq!(budget.used(), 100 * KIB);
    drop(answers);
    assert_eq!(budget.used(), 0);
}

#[tokio::test]
async fn an_account_has_one_share_whatever_its_address() {
    let budget = Budget::new(800 * KIB);
    let app = app(&budget);
    let ask = |user: &str, peer: &str| {
        let principal = Principal {
            subject: Subject::User(UserId::parse(user).unwrap()),
            email: None,
            roles: Roles::default(),
            credential: Credential::Jwt { expires_at: Timestamp::UNIX_EPOCH },
        };
        let request = Request::get("/large").extension(from(peer)).extension(Identity::Known(Arc::new(principal)));
        app.clone().oneshot(request.body(Body::empty()).unwrap())
    };
    let mut held = Vec::new();
    for (user, peer, status) in [
        ("ada", "203.0.113.1", 200),
        ("ada", "203.0.113.2", 200),
        ("ada", "203.0.113.3", 503),
        ("ada", "127.0.0.1", 200),
        ("bob", "203.0.113.1", 200),
        ("bob", "127.0.0.1", 200),
    ] {
        let response = ask(user, peer).await.unwrap();
        assert_eq!(response.status(), status, "{user} {peer}");
        held.push(response);
    }
}
