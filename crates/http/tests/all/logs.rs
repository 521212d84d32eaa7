use std::io;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::routing::{get, post as route};
use gatewright_base::testing::Log;
use gatewright_base::{Ambient, Secret};
use gatewright_http::layers::{self, BodyLimit, Deadline, EnvelopeLayer};
use gatewright_http::{Problem, Submission};
use http::Request;
use jiff::Timestamp;
use serde::Deserialize;

use crate::support::send;

fn layered(router: Router) -> Router {
    let (ambient, _) = Ambient::manual(Timestamp::UNIX_EPOCH, 1);
    let deadline = Deadline::new(Duration::from_secs(30));
    layers::standard(router, EnvelopeLayer::new(ambient, BodyLimit::new(1_000), deadline))
}

#[tokio::test]
async fn the_cause_of_a_500_is_logged_with_the_requests_id_and_path_but_not_its_query() {
    let log = Log::default();
    let _guard = log.record();
    let router = Router::new()
        .route("/fails", get(async || Problem::internal(&io::Error::other("the disk is on fire"))))
        .route("/panics", get(async || -> () { panic!("the cat walked here") }));
    let router = layered(router);
    for path in ["/fails?token=canary", "/panics?token=canary"] {
        let request = Request::get(path).header("x-request-id", "trace-7").body(Body::empty()).unwrap();
        assert_eq!(send(&router, request).await.status, 500);
    }
    let text = log.text();
    for expected in ["the disk is on fire", "the cat walked here", "trace-7", "/fails", "/panics"] {
        assert!(text.contains(expected), "{expected}: {text}");
    }
    assert!(!text.contains("canary"), "{text}");
}

#[tokio::test]
async fn a_password_reaches_neither_the_log_nor_the_answer_nor_debug() {
    #[derive(Debug, Deserialize)]
    struct Login {
        password: Secret,
        #[expect(dead_code, reason = "only its type matters")]
        device: i64,
    }
    let log = Log::default();
    let _guard = log.record();
    let router = layered(Router::new().route(
        "/",
        route(async |login: Submission<Login>| {
            assert!(!login.value.password.is_empty());
            tracing::info!(?login, "a careless line");
        }),
    ));
    for (content_type, body) in [
        ("application/json", r#"{"password":"canary","device":1}"#),
        ("application/json", r#"{"password":"canary","device":"canary"}"#),
        ("application/json", r#"{"password":["canary"],"device":1}"#),
        ("application/json", r#"{"password":"canary" oops"#),
        ("application/x-www-form-urlencoded", "password=canary&device=1"),
        ("application/x-www-form-urlencoded", "password=canary&device=canary"),
        ("application/x-www-form-urlencoded", "password=canary&password=canary&device=1"),
        ("multipart/form-data; boundary=x", "--x\r\ncanary"),
        ("text/plain", "password=canary"),
    ] {
        let request = Request::post("/").header("content-type", content_type).body(Body::from(body)).unwrap();
        let answer = send(&router, request).await;
        assert!(!answer.text.contains("canary"), "{body}: {answer:?}");
    }
    assert!(log.text().contains("a careless line") && !log.text().contains("canary"), "{}", log.text());
}
