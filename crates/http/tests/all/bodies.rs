use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use axum::Router;
use axum::body::Body;
use axum::routing::post as route;
use futures_util::{StreamExt, stream};
use gatewright_http::layers::{BodyLimit, body_limit};
use gatewright_http::{JsonBody, RawJson};
use serde::Deserialize;
use serde_json::json;

use crate::support::{post, send};

const JSON: Option<&str> = Some("application/json");

#[derive(Deserialize)]
struct NewToken {
    name: String,
    #[serde(default)]
    scopes: Vec<String>,
    ttl_seconds: Option<i64>,
}

fn tokens() -> Router {
    Router::new().route(
        "/",
        route(async |JsonBody(body): JsonBody<NewToken>| {
            format!("{} {} {:?}", body.name, body.scopes.join(","), body.ttl_seconds)
        }),
    )
}

#[tokio::test]
async fn keys_are_accepted_in_either_case() {
    for body in [
        r#"{"name":"ci","scopes":["a:b"],"ttlSeconds":60}"#,
        r#"{"name":"ci","scopes":["a:b"],"ttl_seconds":60,"ownerKind":"user"}"#,
    ] {
        let answer = send(&tokens(), post(JSON, body)).await;
        assert_eq!((answer.status.as_u16(), answer.text.as_str()), (200, "ci a:b Some(60)"), "{body}");
    }
}

#[tokio::test]
async fn malformed_json_is_a_400_with_its_position() {
    let cases: &[(&[u8], &str)] = &[
        (b"", "the request body is empty"),
        (b"{", "ends too early at line 1 column 1"),
        (b"{\"name\":\n  oops}", "is not valid JSON at line 2 column 3"),
        (b"{} {}", "is not valid JSON at line 1 column 4"),
        (b"[]", "the request body is not a JSON object"),
        (b"null", "the request body is not a JSON object"),
        (b"\"text\"", "the request body is not a JSON object"),
        (b"{\"name\":\"a\",\"name\":\"b\"}", "the field \"name\" is given more than once"),
        (b"{\"ttlSeconds\":1,\"ttl_seconds\":2}", "\"ttlSeconds\" is given more than once"),
        (b"{\"name\":\"\xff\xfe\"}", "is not valid JSON"),
        (b"\xef\xbb\xbf{}", "is not valid JSON"),
        (b"{\"name\":1e999}", "is not valid JSON"),
        (b"{\"name\":\"\\ud800\"}", "is not valid JSON"),
        (b"{'name':'a'}", "is not valid JSON"),
        (b"{\"name\":\"a\",}", "is not valid JSON"),
        (b"{\"name\":NaN}", "is not valid JSON"),
    ];
    for (body, expected) in cases {
        let answer = send(&tokens(), post(JSON, *body)).await;
        assert_eq!(answer.status, 400, "{:?} {answer:?}", String::from_utf8_lossy(body));
        assert!(answer.detail().contains(expected), "{:?} {answer:?}", String::from_utf8_lossy(body));
        assert_eq!(answer.header("content-type"), "application/problem+json");
    }
}

#[tokio::test]
async fn endless_nesting_is_a_400() {
    for (open, close) in [("[", "]"), ("{\"a\":", "}")] {
        for depth in [129, 100_000] {
            let nested = format!("{{\"name\":{}1{}}}", open.repeat(depth), close.repeat(depth));
            let answer = send(&tokens(), post(JSON, nested)).await;
            assert_eq!(answer.status, 400, "{open} {depth}");
            let unclosed = format!("{{\"name\":{}", open.repeat(depth));
            assert_eq!(send(&tokens(), post(JSON, unclosed)).await.status, 400, "{open} {depth}");
        }
    }
}

#[tokio::test]
async fn a_field_of_the_wrong_type_is_a_422_that_names_it_and_not_its_value() {
    let cases = [
        (json!({}), "name", "required"),
        (json!({"name": 5}), "name", "invalid"),
        (json!({"name": null}), "name", "invalid"),
        (json!({"name": ["canary"]}), "name", "invalid"),
        (json!({"name": {"canary": 1}}), "name", "invalid"),
        (json!({"name": "a", "scopes": "canary"}), "scopes", "invalid"),
        (json!({"name": "a", "scopes": [1]}), "scopes", "invalid"),
        (json!({"name": "a", "ttlSeconds": "canary"}), "ttlSeconds", "invalid"),
        (json!({"name": "a", "ttl_seconds": 1.5}), "ttl_seconds", "invalid"),
        (json!({"name": "a", "ttl_seconds": 18_446_744_073_709_551_615_u64}), "ttl_seconds", "invalid"),
        (json!({"name": "a\u{0}b"}), "name", "invalid"),
        (json!({"name": "a", "scopes": ["a\u{0}"]}), "scopes", "invalid"),
    ];
    for (body, field, code) in cases {
        let answer = send(&tokens(), post(JSON, body.to_string())).await;
        assert_eq!(answer.status, 422, "{body} {answer:?}");
        let error = &answer.json()["errors"][0];
        assert_eq!((error["field"].as_str(), error["code"].as_str()), (Some(field), Some(code)), "{body}");
        assert!(!answer.text.contains("canary"), "{answer:?}");
    }
}

#[tokio::test]
async fn a_refusal_says_which_type_is_needed() {
    for (body, message) in [
        (json!({"name": 5}), "expected text, not a number"),
        (json!({"name": 1.5}), "expected text, not a decimal number"),
        (json!({"name": -5}), "expected text, not a number"),
        (json!({"name": null}), "expected text, not null"),
        (json!({"name": "a", "scopes": [1]}), "expected text, not a number"),
        (json!({"name": "a", "ttl_seconds": 1.5}), "expected a whole number, not a decimal number"),
        (json!({"name": "a", "ttl_seconds": u64::MAX}), "expected a whole number"),
    ] {
        let answer = send(&tokens(), post(JSON, body.to_string())).await;
        assert_eq!(answer.json()["errors"][0]["message"], message, "{body}");
    }
}

#[tokio::test]
async fn only_json_is_taken_and_only_uncompressed() {
    // Types that are written as JSON mean something else.
    for content_type in [
        None,
        Some("text/plain"),
        Some("application/x-www-form-urlencoded"),
        Some("text/json"),
        Some("application/vnd.api+json"),
        Some(""),
    ] {
        let answer = send(&tokens(), post(content_type, r#"{"name":"a"}"#)).await;
        assert_eq!((answer.status.as_u16(), answer.json()["code"].as_str()), (415, Some("unsupported_media_type")));
    }
    let answer = send(&tokens(), post(Some("application/json; charset=utf-8"), r#"{"name":"a"}"#)).await;
    assert_eq!(answer.status, 200);
    let mut compressed = post(JSON, r#"{"name":"a"}"#);
    compressed.headers_mut().insert("content-encoding", "gzip".parse().unwrap());
    assert_eq!(send(&tokens(), compressed).await.status, 415);
}

#[tokio::test]
async fn raw_json_hands_over_the_bytes_as_they_came() {
    let router = Router::new().route("/", route(async |RawJson(bytes): RawJson| bytes));
    let body = "{ \"a\" : [1, 2]}";
    assert_eq!(send(&router, post(JSON, body)).await.text, body);
    assert_eq!(send(&router, post(JSON, "")).await.status, 400);
    assert_eq!(send(&router, post(None, body)).await.status, 415);
}

#[tokio::test]
async fn a_body_over_the_limit_is_a_413_whether_it_says_so_or_not() {
    let router = tokens()
        .layer(axum::extract::DefaultBodyLimit::disable())
        .layer(axum::middleware::from_fn_with_state(BodyLimit::new(64), body_limit));
    let chunked = |bytes: usize| {
        let chunks = (0..bytes).map(|_| Ok::<_, std::io::Error>(" "));
        Body::from_stream(stream::iter(chunks.chain([Ok("{\"name\":\"a\"}")])))
    };
    let fits = send(&router, post(JSON, chunked(64 - 12))).await;
    assert_eq!(fits.status, 200, "{fits:?}");
    let announced = {
        let mut request = post(JSON, "{}");
        request.headers_mut().insert("content-length", "65".parse().unwrap());
        request
    };
    let absurd = {
        let mut request = post(JSON, "{}");
        request.headers_mut().insert("content-length", "99999999999999999999".parse().unwrap());
        request
    };
    for request in [post(JSON, chunked(64 - 11)), post(JSON, chunked(100_000)), announced] {
        let answer = send(&router, request).await;
        assert_eq!((answer.status.as_u16(), answer.json()["code"].as_str()), (413, Some("too_large")), "{answer:?}");
    }
    // The server refuses an invalid length; the received bytes are limited in any case.
    assert_ne!(send(&router, absurd).await.status, 500);
}

#[tokio::test]
async fn a_refused_body_is_drained_unless_its_client_waits_for_100_continue() {
    let router = tokens().layer(axum::middleware::from_fn_with_state(BodyLimit::new(64), body_limit));
    for (waits, chunks) in [(false, 100), (true, 0)] {
        let read = Arc::new(AtomicUsize::new(0));
        let counter = read.clone();
        let body = stream::iter(0..100).map(move |_| {
            counter.fetch_add(1, Ordering::Relaxed);
            Ok::<_, std::io::Error>("x")
        });
        let mut request = post(JSON, Body::from_stream(body));
        request.headers_mut().insert("content-length", "100".parse().unwrap());
        if waits {
            request.headers_mut().insert("expect", "100-continue".parse().unwrap());
        }
        assert_eq!(send(&router, request).await.status, 413);
        assert_eq!(read.load(Ordering::Relaxed), chunks);
    }
}

#[tokio::test]
async fn without_its_own_limit_the_default_applies() {
    let answer = send(&tokens(), post(JSON, " ".repeat(2_100_000))).await;
    assert_eq!(answer.status, 413);
}

#[tokio::test]
async fn a_connection_that_breaks_off_is_a_400() {
    let body = stream::iter([Ok("{\"na"), Err(std::io::Error::other("reset"))]);
    let answer = send(&tokens(), post(JSON, Body::from_stream(body))).await;
    assert_eq!((answer.status.as_u16(), answer.detail().as_str()), (400, "the request body could not be read"));
}
