//! Malformed and hostile requests. None gets a 5xx, and each refusal is a problem document.

use std::{
    io::{Read, Write},
    net::TcpStream,
    time::Duration,
};

use reqwest::Method;
use serde_json::json;

use crate::harness::{Answer, Client, Database, Launch};

/// A JSON body, and the expected statuses for it at an entity and at a sign-in endpoint.
fn bodies() -> Vec<(&'static str, Vec<u8>, &'static [u16])> {
    let text = |body: &str| body.as_bytes().to_vec();
    vec![
        ("nothing", text(""), &[400, 422]),
        ("not JSON", text("{\"title\":"), &[400]),
        ("two documents", text("{} {}"), &[400]),
        ("not UTF-8", b"{\"title\":\"\xff\xfe\"}".to_vec(), &[400]),
        ("a lone surrogate", text(r#"{"title":"\ud800"}"#), &[400, 422]),
        ("a list", text("[]"), &[400, 422]),
        ("a word", text("null"), &[400, 422]),
        ("deep lists", text(&"[".repeat(200_000)), &[400]),
        ("deep objects", text(&r#"{"title":"#.repeat(100_000)), &[400]),
        ("closed deep lists", text(&format!("{}{}", "[".repeat(100_000), "]".repeat(100_000))), &[400, 422]),
        ("too large", text(&format!("{{\"title\":\"{}\"}}", "x".repeat(2 << 20))), &[413]),
        ("a wrong type", text(r#"{"title":5,"email":5,"password":"correct horse battery"}"#), &[400, 422]),
        ("an object for a text", text(r#"{"title":{"a":[]},"email":{},"password":[]}"#), &[400, 422]),
        ("a null for a text", text(r#"{"title":null,"email":null,"password":null}"#), &[400, 422]),
        ("an infinite number", text(r#"{"title":1e999,"email":1e999,"password":"x"}"#), &[400, 422]),
        ("an unknown word", text(r#"{"title":"x","status":"burning","email":"x","password":"short"}"#), &[422]),
        ("a relation to nowhere", text(r#"{"title":"x","topicId":"0","email":"a@b","password":"s"}"#), &[422]),
        ("nothing in it", text("{}"), &[400, 422]),
    ]
}

#[tokio::test(flavor = "multi_thread")]
async fn a_bad_body_is_refused_clearly_everywhere() {
    for database in Database::all().await {
        let server = Launch::dev().start(&database).await;
        let ada = signed_in(&server.client()).await;
        for path in ["/posts", "/auth/register", "/auth/login"] {
            for (what, body, statuses) in bodies() {
                let length = body.len();
                // Sign-in attempts are counted. Past the limit, the limiter answers regardless of the body.
                let request = ada.request(Method::POST, path).header("content-type", "application/json").body(body);
                let answer = Answer::read(request).await;
                if path.starts_with("/auth") && answer.status == 429 {
                    assert_eq!(answer.text.trim(), "rate limit exceeded");
                    continue;
                }
                let is_right = statuses.contains(&answer.status.as_u16());
                // A login with credentials that nobody has is a failed attempt, however unusual they are.
                let is_guess = path == "/auth/login" && answer.status == 401;
                // Sign-in endpoints refuse large bodies.
                let is_too_large = path.starts_with("/auth") && length > 16 << 10 && answer.status == 413;
                assert!(is_right || is_guess || is_too_large, "{path}, {what}: {answer:?}");
                assert_problem(&answer);
            }
        }
        let wrong_type = ada.request(Method::POST, "/posts").header("content-type", "text/plain").body("title=x");
        assert_problem(&Answer::read(wrong_type).await.is(415));
        ada.get("/posts").await.is(200);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_sends_too_much_gets_its_answer_and_not_a_broken_connection() {
    let server = Launch::dev().start(&Database::Sqlite).await;
    let ada = signed_in(&server.client()).await;
    let body = format!("{{\"title\":\"{}\"}}", "x".repeat(4 << 20));
    for _ in 0..20 {
        let request = ada.request(Method::POST, "/posts").header("content-type", "application/json");
        assert_problem(&Answer::read(request.body(body.clone())).await.is(413));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn validation_names_every_field_at_once_and_suggests_nothing_hidden() {
    for database in Database::all().await {
        let server = Launch::dev().start(&database).await;
        let ada = signed_in(&server.client()).await;
        let body = json!({ "title": "", "status": "burning", "colour": "red" });
        let answer = ada.post("/posts", &body).await.is(422).json();
        assert_eq!(answer["status"], 422);
        let mut fields: Vec<&str> =
            answer["errors"].as_array().unwrap().iter().filter_map(|error| error["field"].as_str()).collect();
        fields.sort_unstable();
        assert_eq!(fields, ["colour", "status", "title"]);

        // The server sets the owner: the hidden column is unknown to clients.
        ada.post("/posts", &json!({ "title": "x", "userId": "someone" })).await.is(422);
        ada.post("/posts", &json!({ "title": "x", "user_id": "someone" })).await.is(422);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn text_that_one_engine_cannot_store_is_refused_by_both() {
    for database in Database::all().await {
        let server = Launch::dev().start(&database).await;
        let ada = signed_in(&server.client()).await;
        ada.post("/posts", &json!({ "title": "a\0b" })).await.is(422);
        for path in ["/posts?title=a%00b", "/posts?filter=title%20%3D%20%22a%00b%22", "/posts?title_like=%00"] {
            let answer = ada.get(path).await;
            assert!(answer.status.as_u16() < 500, "{path}: {answer:?}");
        }
        for title in ["'; DROP TABLE posts; --", "%_\\", "👩‍👩‍👧‍👦", "\u{202e}gnp.exe", "<script>alert(1)</script>"]
        {
            let post = ada.post("/posts", &json!({ "title": title })).await.is(201).json();
            assert_eq!(post["data"]["title"], title);
        }
        assert_eq!(ada.get("/posts").await.is(200).json()["total"], 5);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_bad_query_is_a_400_that_names_what_is_wrong() {
    for database in Database::all().await {
        let server = Launch::dev().start(&database).await;
        let ada = signed_in(&server.client()).await;
        let deep = format!("{}title = 1{}", "(".repeat(5_000), ")".repeat(5_000));
        let wide = vec!["title = \"x\""; 100].join("||");
        for (query, mention) in [
            ("limt=5", "limit"),
            ("sort=-titel", "title"),
            ("filter=title", ""),
            ("filter=title = ", ""),
            ("filter=title = \"x", ""),
            ("filter=(title = \"x\"", ""),
            ("filter=title = \"x\" garbage", ""),
            ("filter=status > null", ""),
            ("sort=userId", "userId"),
            ("page=0", "page"),
            ("page=abc", "page"),
            ("limit=-1", "limit"),
            ("cursor=garbage", "cursor"),
            ("cursor=&sort=titel", "title"),
            (&format!("filter={deep}"), ""),
            (&format!("filter={wide}"), ""),
        ] {
            let pairs: Vec<_> = query.split('&').filter_map(|pair| pair.split_once('=')).collect();
            let answer = Answer::read(ada.request(Method::GET, "/posts").query(&pairs)).await;
            let shown = query.chars().take(60).collect::<String>();
            assert_eq!(answer.status, 400, "{shown}: {}", answer.text);
            assert_problem(&answer);
            let detail = answer.json()["detail"].as_str().unwrap().to_owned();
            assert!(detail.contains(mention), "{shown}: {detail}");
        }
        let beyond = ada.get("/posts?page=99999999999999999999").await.is(200).json();
        assert_eq!((&beyond["data"], &beyond["hasMore"]), (&json!([]), &json!(false)));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_bad_path_method_or_credential_is_refused_clearly() {
    for database in Database::all().await {
        let server = Launch::dev().start(&database).await;
        let (ada, stranger) = (signed_in(&server.client()).await, server.client());
        for path in ["/posts/x", "/posts/00000000-0000-0000-0000-000000000000", "/posts/%00", "/posts/..%2f..%2fetc"] {
            let answer = ada.get(path).await;
            assert!([400, 404].contains(&answer.status.as_u16()), "{path}: {answer:?}");
            assert_problem(&answer);
        }
        for path in ["/nothing", "/posts/a/b", "/users", "/sessions", "/audit_log", "/auth"] {
            let answer = ada.get(path).await.is(404);
            assert_problem(&answer);
        }
        let answer = Answer::read(ada.request(Method::TRACE, "/posts")).await.is(405);
        assert!(answer.header("allow").contains("GET"), "{answer:?}");
        for (name, value) in [
            ("authorization", "Bearer"),
            ("authorization", "Bearer eyJhbGciOiJub25lIn0.eyJzdWIiOiJ4In0."),
            ("authorization", "Bearer svc_0000000000000000000000000000000000000000"),
            ("authorization", "Basic YWRhOng="),
            ("cookie", "session_id=guess"),
            ("cookie", "session_id=%00; session_id="),
            ("cookie", ";;;===;"),
        ] {
            let answer = Answer::read(stranger.request(Method::GET, "/posts").header(name, value)).await.is(401);
            assert_problem(&answer);
        }
        let answer = Answer::read(stranger.request(Method::GET, "/posts").header("x-request-id", "mine.1")).await;
        assert_eq!(answer.header("x-request-id"), "mine.1");
        let answer = Answer::read(stranger.request(Method::GET, "/posts").header("x-request-id", "a b<c>")).await;
        assert!(!answer.header("x-request-id").contains('<') && !answer.header("x-request-id").is_empty());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn bytes_that_are_not_http_do_not_affect_other_clients() {
    let server = Launch::dev().start(&Database::Sqlite).await;
    let address = server.address().to_owned();
    let long = format!("GET / HTTP/1.1\r\nHost: x\r\nX: {}\r\n\r\n", "x".repeat(1 << 20));
    let statuses = tokio::task::spawn_blocking(move || {
        ["\0\0\0\0", "GET\r\n\r\n", "GET / HTTP/9.9\r\n\r\n", "\x16\x03\x01\x02\x00\x01", &long]
            .map(|bytes| raw(&address, bytes.as_bytes()))
    });
    for answer in statuses.await.unwrap() {
        assert!(!answer.starts_with("HTTP/1.1 5"), "{answer}");
    }
    // Idle open connections do not delay other clients.
    let _idle: Vec<_> = (0..200).map(|_| TcpStream::connect(server.address()).unwrap()).collect();
    server.client().get("/healthz").await.is(200);
}

async fn signed_in(client: &Client) -> Client {
    client.register("ada@example.com").await.is(200);
    client.log_in("ada@example.com").await.is(200);
    client.clone()
}

#[track_caller]
fn assert_problem(answer: &Answer) {
    assert!(answer.header("content-type").starts_with("application/problem+json"), "{answer:?}");
    assert!(!answer.header("x-request-id").is_empty(), "{answer:?}");
    assert_eq!(answer.header("x-content-type-options"), "nosniff");
    let problem = answer.json();
    assert_eq!(problem["status"], answer.status.as_u16());
    for key in ["type", "title", "detail", "code"] {
        assert!(problem[key].is_string(), "no {key} in {}", answer.text);
    }
}

fn raw(address: &str, bytes: &[u8]) -> String {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(2))).unwrap();
    // The server may close the connection before it has read everything.
    let _ = stream.write_all(bytes);
    let mut answer = Vec::new();
    let _ = stream.read_to_end(&mut answer);
    String::from_utf8_lossy(&answer).into_owned()
}
