use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::http::StatusCode;
use axum::response::Html;
use axum::routing::{get, post as route};
use futures_util::{StreamExt as _, stream};
use gatewright_base::Ambient;
use gatewright_http::cross_site::guard;
use gatewright_http::layers::{self, BodyLimit, Deadline, EnvelopeLayer, RequestId};
use gatewright_http::{Caller, ClientAddr, Origin};
use http::{Request, Version};
use jiff::Timestamp;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use crate::support::send;

fn app() -> Router {
    let (ambient, _) = Ambient::manual(Timestamp::UNIX_EPOCH, 1);
    let routes = Router::new()
        .route("/id", get(async |axum::Extension(id): axum::Extension<RequestId>| id.as_str().to_owned()))
        .route("/who", get(async |Caller(identity): Caller, address: ClientAddr| format!("{identity:?} {address}")))
        .route("/page", get(async || Html("<p>hello</p>")))
        .route("/own-policy", get(async || ([("content-security-policy", "default-src *")], Html(""))))
        .route("/panic", get(async || -> StatusCode { panic!("canary-{}", 7) }))
        .route("/slow", get(async || tokio::time::sleep(Duration::from_mins(1)).await))
        .route("/patient", get(async || tokio::time::sleep(Duration::from_mins(1)).await))
        .route(
            "/stream",
            get(async || {
                let ticks = stream::unfold(0, async |n: u32| {
                    tokio::time::sleep(Duration::from_secs(20)).await;
                    (n < 3).then(|| (Ok::<_, std::io::Error>(format!("{n}\n")), n + 1))
                });
                Body::from_stream(ticks.boxed())
            }),
        )
        .route("/deaf", route(async || StatusCode::TOO_MANY_REQUESTS))
        .route("/echo", route(async |body: String| body))
        .route("/digest", route(async |_: String| tokio::time::sleep(Duration::from_mins(1)).await))
        .route("/ponder", route(async || tokio::time::sleep(Duration::from_mins(1)).await))
        .route("/private", get(async || "").layer(layers::NoStoreLayer));
    let deadline = Deadline::new(Duration::from_secs(30)).exempting(|uri| uri.path() == "/patient");
    layers::standard(routes, EnvelopeLayer::new(ambient, BodyLimit::new(1000), deadline))
}

fn at(path: &str) -> Request<Body> {
    Request::get(path).body(Body::empty()).unwrap()
}

fn with_id(id: &[u8]) -> Request<Body> {
    let mut request = at("/id");
    request.headers_mut().insert("x-request-id", http::HeaderValue::from_bytes(id).unwrap());
    request
}

#[tokio::test]
async fn a_sane_request_id_is_kept_and_any_other_is_replaced() {
    let longest = "a".repeat(64);
    for kept in ["a", "Trace-1.2_3", &longest] {
        let answer = send(&app(), with_id(kept.as_bytes())).await;
        assert_eq!((answer.text.as_str(), answer.header("x-request-id")), (kept, kept));
    }
    let too_long = "a".repeat(65);
    let huge = "a".repeat(1_000_000);
    for replaced in
        [b"".as_slice(), b"a b", b"a\"b", b"<x>", b"a\tb", b"\xff\xfe", too_long.as_bytes(), huge.as_bytes()]
    {
        let answer = send(&app(), with_id(replaced)).await;
        assert_eq!(answer.text, answer.header("x-request-id"));
        assert_eq!(answer.text.len(), 36, "{answer:?}");
    }
    let mut twice = with_id(b"one");
    twice.headers_mut().append("x-request-id", "two".parse().unwrap());
    assert_eq!(send(&app(), twice).await.text.len(), 36);
}

#[tokio::test]
async fn every_answer_has_an_id_and_nosniff() {
    for path in ["/id", "/page", "/panic", "/nowhere", "/echo"] {
        let answer = send(&app(), at(path)).await;
        assert_eq!(answer.header("x-content-type-options"), "nosniff", "{path}");
        assert_eq!(answer.header("referrer-policy"), "same-origin", "{path}");
        assert_eq!(answer.header("x-request-id").len(), 36, "{path}");
    }
}

#[tokio::test]
async fn html_gets_a_strict_policy_unless_it_brings_one() {
    let policy = send(&app(), at("/page")).await.header("content-security-policy").to_owned();
    assert!(policy.contains("default-src 'none'") && policy.contains("frame-ancestors 'none'"), "{policy}");
    assert!(!policy.contains("unsafe") && !policy.contains('*'), "{policy}");
    assert_eq!(send(&app(), at("/own-policy")).await.header("content-security-policy"), "default-src *");
    assert_eq!(send(&app(), at("/id")).await.header("content-security-policy"), "");
    assert_eq!(send(&app(), at("/private")).await.header("cache-control"), "no-store");
}

/// Including refusals of the layers around the routes.
#[tokio::test]
async fn a_handler_that_never_rests_has_a_deadline_too() {
    let (ambient, _) = Ambient::manual(Timestamp::UNIX_EPOCH, 1);
    let busy = async || -> StatusCode {
        loop {
            tokio::task::consume_budget().await;
        }
    };
    let deadline = Deadline::new(Duration::from_millis(10));
    let envelope = EnvelopeLayer::new(ambient, BodyLimit::new(10), deadline);
    let app = layers::standard(Router::new().route("/busy", get(busy)), envelope);
    let answered = tokio::time::timeout(Duration::from_mins(1), send(&app, at("/busy"))).await;
    assert_eq!(answered.expect("the deadline ends it").status, StatusCode::SERVICE_UNAVAILABLE);
}

#[tokio::test]
async fn every_answer_below_a_no_store_path_is_no_store() {
    let (ambient, _) = Ambient::manual(Timestamp::UNIX_EPOCH, 1);
    let deadline = Deadline::new(Duration::from_secs(30));
    for written in ["/auth", "/auth/"] {
        let envelope = EnvelopeLayer::new(ambient.clone(), BodyLimit::new(10), deadline.clone()).never_store(written);
        let cached = [("cache-control", "public, max-age=60")];
        let routes = Router::new()
            .route("/auth/me", get(async move || (cached, "me")))
            .route("/auth/panic", get(async || -> StatusCode { panic!("canary") }))
            .route("/authors", get(async move || (cached, "authors")));
        let app = layers::standard(routes, envelope);
        let large = Request::post("/auth/me").header("content-length", 11).body("x".repeat(11).into()).unwrap();
        for (request, status, expected) in [
            (at("/auth/me"), 200, "no-store"),
            (at("/auth/nowhere"), 404, "no-store"),
            (at("/auth"), 404, "no-store"),
            (at("/auth/panic"), 500, "no-store"),
            (Request::delete("/auth/me").body(Body::empty()).unwrap(), 405, "no-store"),
            (large, 413, "no-store"),
            (at("/authors"), 200, "public, max-age=60"),
            (at("/nowhere"), 404, ""),
        ] {
            let path = request.uri().path().to_owned();
            let answer = send(&app, request).await;
            assert_eq!((answer.status.as_u16(), answer.header("cache-control")), (status, expected), "{path}");
        }
    }
}

#[tokio::test]
async fn a_panic_is_a_500_without_details() {
    let answer = send(&app(), at("/panic")).await;
    assert_eq!((answer.status.as_u16(), answer.json()["code"].as_str()), (500, Some("internal")));
    assert!(!answer.text.contains("canary"), "{answer:?}");
}

#[tokio::test]
async fn unknown_paths_and_methods_are_problems() {
    let answer = send(&app(), at("/nowhere")).await;
    assert_eq!((answer.status.as_u16(), answer.json()["code"].as_str()), (404, Some("not_found")));
    let answer = send(&app(), at("/echo")).await;
    assert_eq!((answer.status.as_u16(), answer.json()["code"].as_str()), (405, Some("method_not_allowed")));
    assert_eq!(answer.header("allow"), "POST");
    let answer = send(&app(), Request::delete("/id").body(Body::empty()).unwrap()).await;
    assert_eq!(answer.header("allow"), "GET,HEAD");
}

#[tokio::test(start_paused = true)]
async fn an_answer_that_does_not_begin_in_time_is_a_503() {
    let answer = send(&app(), at("/slow")).await;
    assert_eq!((answer.status.as_u16(), answer.json()["code"].as_str()), (503, Some("timeout")));
    assert_eq!(answer.header("retry-after"), "1");
}

/// A slow client gets 408, and its connection is closed.
#[tokio::test(start_paused = true)]
async fn a_body_that_does_not_come_in_time_is_a_408_and_a_handler_that_does_not_answer_a_503() {
    let never = || stream::iter([Ok::<_, std::io::Error>("begun")]).chain(stream::pending());
    let trickle = || {
        stream::unfold((), async |()| {
            tokio::time::sleep(Duration::from_secs(7)).await;
            Some((Ok::<_, std::io::Error>("x"), ()))
        })
    };
    let cases = [
        ("/echo", Body::from_stream(never()), Version::HTTP_11, 408, "request_timeout", "close"),
        ("/echo", Body::from_stream(trickle().boxed()), Version::HTTP_11, 408, "request_timeout", "close"),
        ("/echo", Body::from_stream(never()), Version::HTTP_2, 408, "request_timeout", ""),
        // It has read the whole body, or reads none: the handler is slow.
        ("/digest", Body::from("all of it"), Version::HTTP_11, 503, "timeout", ""),
        (
            "/digest",
            Body::from_stream(stream::iter([Ok::<_, std::io::Error>("all")])),
            Version::HTTP_11,
            503,
            "timeout",
            "",
        ),
        ("/ponder", Body::from("unread"), Version::HTTP_11, 503, "timeout", ""),
    ];
    for (path, body, version, status, code, connection) in cases {
        let request = Request::post(path).version(version).body(body).unwrap();
        let begun = tokio::time::Instant::now();
        let answer = send(&app(), request).await;
        assert_eq!(
            (answer.status.as_u16(), answer.json()["code"].as_str()),
            (status, Some(code)),
            "{path} {version:?}"
        );
        assert_eq!(answer.header("connection"), connection, "{path} {version:?}");
        assert_eq!(answer.header("content-type"), "application/problem+json");
        assert_eq!(begun.elapsed().as_secs(), 30, "{path} {version:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn started_streams_and_exempt_paths_have_no_deadline() {
    assert_eq!(send(&app(), at("/stream")).await.text, "0\n1\n2\n");
    assert_eq!(send(&app(), at("/patient")).await.status, 200);
}

#[tokio::test]
async fn a_body_over_the_limit_never_reaches_the_handler() {
    let sized =
        |bytes: usize| Request::post("/echo").header("content-length", bytes).body("a".repeat(bytes).into()).unwrap();
    assert_eq!(send(&app(), sized(1000)).await.status, 200);
    let answer = send(&app(), sized(1001)).await;
    assert_eq!((answer.status.as_u16(), answer.json()["code"].as_str()), (413, Some("too_large")));
    let unannounced =
        Request::post("/echo").body(Body::from_stream(stream::iter([Ok::<_, std::io::Error>("a".repeat(1001))])));
    assert_eq!(send(&app(), unannounced.unwrap()).await.status, 413);
}

#[tokio::test]
async fn an_unread_body_does_not_disturb_the_next_request() {
    let mut connection = connect().await;
    for _ in 0..3 {
        let refused = exchange(&mut connection, "POST /deaf", &"x".repeat(900)).await;
        assert!(refused.starts_with("HTTP/1.1 429") && !refused.contains("connection: close"), "{refused}");
        let heard = exchange(&mut connection, "POST /echo", "hello").await;
        assert!(heard.starts_with("HTTP/1.1 200") && heard.ends_with("hello"), "{heard}");
    }
    let too_large = exchange(&mut connection, "POST /echo", &"x".repeat(100_000)).await;
    assert!(too_large.starts_with("HTTP/1.1 413") && !too_large.contains("connection: close"), "{too_large}");
    assert!(exchange(&mut connection, "GET /id", "").await.starts_with("HTTP/1.1 200"));
}

#[tokio::test]
async fn a_refused_request_gets_no_100_continue() {
    let mut connection = connect().await;
    let head = "POST /deaf HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\nContent-Length: 900\r\n\r\n";
    connection.write_all(head.as_bytes()).await.unwrap();
    let mut answer = String::new();
    connection.read_to_string(&mut answer).await.unwrap();
    assert!(answer.starts_with("HTTP/1.1 429") && answer.contains("connection: close"), "{answer}");
}

async fn connect() -> TcpStream {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move { axum::serve(listener, app()).await });
    TcpStream::connect(address).await.unwrap()
}

/// Sends one request, its body after its head, and reads its answer, whose length is announced.
async fn exchange(connection: &mut TcpStream, line: &str, body: &str) -> String {
    let length = body.len();
    let head = format!("{line} HTTP/1.1\r\nHost: x\r\nContent-Length: {length}\r\n\r\n");
    connection.write_all(head.as_bytes()).await.unwrap();
    // The server has the head, and could answer, before the body comes.
    tokio::time::sleep(Duration::from_millis(20)).await;
    connection.write_all(body.as_bytes()).await.unwrap();
    let mut answer = String::new();
    loop {
        let mut chunk = [0; 4096];
        let count = connection.read(&mut chunk).await.unwrap();
        assert!(count > 0, "the connection ended after {answer:?}");
        answer.push_str(std::str::from_utf8(&chunk[..count]).unwrap());
        let Some((head, body)) = answer.split_once("\r\n\r\n") else { continue };
        let announced = head.lines().find_map(|line| line.strip_prefix("content-length: ")).unwrap_or("0");
        if body.len() >= announced.parse().unwrap() {
            return answer;
        }
    }
}

#[tokio::test]
async fn without_authentication_or_connection_the_caller_is_unknown() {
    assert_eq!(send(&app(), at("/who")).await.text, "Anonymous unknown");
}

#[tokio::test]
async fn the_guard_refuses_a_cross_site_form_with_a_page_and_accepts_an_own_one() {
    let public: Option<Origin> = Some("https://app.example.com".parse().unwrap());
    let router =
        Router::new().route("/login", route(async || "in")).layer(axum::middleware::from_fn_with_state(public, guard));
    let post = |content_type: &str, origin: &str| {
        let request = Request::post("/login").header("host", "internal:8080").header("content-type", content_type);
        request.header("origin", origin).body(Body::empty()).unwrap()
    };
    let form = "application/x-www-form-urlencoded";
    for origin in ["https://app.example.com", "http://internal:8080"] {
        assert_eq!(send(&router, post(form, origin)).await.text, "in", "{origin}");
    }
    assert_eq!(send(&router, post("application/json", "https://evil.com")).await.text, "in");
    let page = send(&router, post(form, "https://evil.com")).await;
    assert_eq!((page.status.as_u16(), page.header("content-type")), (403, "text/html; charset=utf-8"));
    assert!(page.text.contains("cross-site request refused"));
    let problem = send(&router, post("text/plain", "https://evil.com")).await;
    assert_eq!(problem.json()["code"], "cross_site");
    assert_eq!(problem.detail(), "cross-site request refused");
}
