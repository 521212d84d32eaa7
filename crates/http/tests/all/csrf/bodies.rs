use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use axum::body::{Body, Bytes};
use axum::extract::Request;
use futures_util::{StreamExt as _, stream};
use gatewright_http::Csrf;
use gatewright_http::layers::{BodyLimit, body_limit};
use http::header::{CONTENT_TYPE, COOKIE};
use proptest::prelude::*;

use super::{Browser, FORM, app, assert_refused, csrf, multipart};
use crate::support::send;

fn upload(first: String, megabytes: usize, read: Arc<AtomicUsize>) -> Body {
    let chunk = Bytes::from(vec![b'x'; 64 * 1024]);
    let chunks = stream::iter(0..megabytes * 16).map(move |_| {
        read.fetch_add(chunk.len(), Ordering::Relaxed);
        Ok::<_, std::io::Error>(chunk.clone())
    });
    Body::from_stream(stream::once(async move { Ok(Bytes::from(first)) }).chain(chunks))
}

#[tokio::test]
async fn a_hundred_megabytes_are_neither_buffered_nor_read_without_a_token() {
    let mut browser = Browser::new(app(csrf()));
    let token = browser.token().await;
    let read = || Arc::new(AtomicUsize::new(0));
    let header = "--x\r\nContent-Disposition: form-data; name=\"f\"; filename=\"f\"\r\n\r\n";
    let kinds = [("multipart/form-data; boundary=x", header), (FORM, "f="), ("multipart/form-data; boundary=x", "")];
    for (content_type, first) in kinds {
        let count = read();
        let request = Request::post("/count").header(CONTENT_TYPE, content_type);
        let answer = browser.send(request, upload(first.to_owned(), 100, count.clone())).await;
        assert_refused(&answer, content_type);
        let count = count.load(Ordering::Relaxed);
        assert!(count <= Csrf::FORM_BYTES + 2 * 64 * 1024, "{content_type}: {count}");
    }
    // With the token at the beginning, the whole body passes.
    let part = format!("--x\r\nContent-Disposition: form-data; name=\"_csrf\"\r\n\r\n{token}\r\n{header}");
    for (content_type, first) in [("multipart/form-data; boundary=x", part), (FORM, format!("_csrf={token}&f="))] {
        let expected = first.len() + 100 * 1024 * 1024;
        let request = Request::post("/count").header(CONTENT_TYPE, content_type);
        let answer = browser.send(request, upload(first, 100, read())).await;
        assert_eq!(answer.text, expected.to_string(), "{content_type}");
    }
    // Without a cookie, not a byte is read.
    let count = read();
    let request = Request::post("/count").header(CONTENT_TYPE, FORM);
    let answer = Browser::new(browser.app.clone()).send(request, upload("f=".to_owned(), 100, count.clone())).await;
    assert_refused(&answer, "no cookie");
    assert_eq!(count.load(Ordering::Relaxed), 0);
}

#[tokio::test]
async fn strange_boundaries_and_endless_parts_are_refused_and_harm_nothing() {
    let mut browser = Browser::new(app(csrf()));
    browser.token().await;
    let long = "b".repeat(10_000);
    let types = [
        format!("multipart/form-data; boundary={long}"),
        "multipart/form-data; boundary=".to_owned(),
        "multipart/form-data; boundary=\"\"".to_owned(),
        "multipart/form-data; boundary=\"\r\"".replace('\r', "\t"),
        "multipart/form-data; boundary=-".to_owned(),
        "multipart/form-data; boundary=--".to_owned(),
        "multipart/form-data; boundary=x; boundary=y".to_owned(),
        "multipart/form-data; BOUNDARY=x".to_owned(),
        "multipart/form-data;boundary".to_owned(),
        "multipart/form-data; charset=x".to_owned(),
    ];
    let bodies = [
        String::new(),
        "--".repeat(100_000),
        "--x\r\n".repeat(100_000),
        "\r\n--x".repeat(100_000),
        format!("--x\r\n{}", "a: b\r\n".repeat(100_000)),
        format!("--x\r\nContent-Disposition: form-data; name=\"{}\"\r\n\r\n", "n".repeat(500_000)),
        format!("--x\r\nContent-Disposition: form-data; name=\"_csrf\"\r\n\r\n{}", "v".repeat(500_000)),
        format!("--{long}\r\nContent-Disposition: form-data; name=\"_csrf\"\r\n\r\n{}\r\n--{long}--", "A".repeat(128)),
    ];
    for content_type in &types {
        for body in &bodies {
            let request = Request::post("/echo").header(CONTENT_TYPE, content_type);
            let answer = browser.send(request, body.clone()).await;
            assert_refused(&answer, &format!("{content_type:.60} {body:.60}"));
        }
    }
}

#[tokio::test]
async fn a_million_chunks_of_one_byte_are_searched_in_a_few_passes() {
    let mut browser = Browser::new(app(csrf()));
    browser.token().await;
    // An endless header line; a parser that starts again with each chunk would never see its end.
    let first = "--x\r\nContent-Disposition: form-data; name=\"";
    let chunks = stream::iter(std::iter::once(first).chain(std::iter::repeat_n("n", 1024 * 1024)));
    let body = Body::from_stream(chunks.map(Ok::<_, std::io::Error>));
    let request = Request::post("/echo").header(CONTENT_TYPE, "multipart/form-data; boundary=x");
    assert_refused(&browser.send(request, body).await, "a header without end");
}

#[tokio::test]
async fn the_search_ends_at_the_configured_limit() {
    let mut browser = Browser::new(app(csrf().form_bytes(1000)));
    let token = browser.token().await;
    for (padding, expected) in [(0, 200), (800, 200), (990, 403), (5000, 403)] {
        let body = format!("a={}&_csrf={token}", "x".repeat(padding));
        let answer = browser.send(Request::post("/echo").header(CONTENT_TYPE, FORM), body).await;
        assert_eq!(answer.status, expected, "{padding}");
    }
}

#[tokio::test]
async fn a_too_large_body_is_a_413_and_a_truncated_one_a_400() {
    let router = app(csrf()).layer(axum::middleware::from_fn_with_state(BodyLimit::new(1000), body_limit));
    let mut browser = Browser::new(router);
    browser.token().await;
    let long = Body::from_stream(stream::iter((0..100).map(|_| Ok::<_, std::io::Error>("x".repeat(100)))));
    let answer = browser.send(Request::post("/echo").header(CONTENT_TYPE, FORM), long).await;
    assert_eq!(answer.status, 413);
    let broken = Body::from_stream(stream::iter([Ok("_cs"), Err(std::io::Error::other("reset"))]));
    let answer = browser.send(Request::post("/echo").header(CONTENT_TYPE, FORM), broken).await;
    assert_eq!(answer.status, 400);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]
    #[test]
    fn no_random_request_passes_without_a_token_or_breaks_the_middleware(
        content_type in "application/x-www-form-urlencoded|multipart/form-data; boundary=[ -~]{0,20}|[ -~]{0,30}",
        body in prop::collection::vec(proptest::num::u8::ANY, 0..300),
        cookie in "(csrf=[A-Za-z0-9_-]{60,66}; ?)?[ -~]{0,60}",
        header in prop::option::of("[A-Za-z0-9_-]{126,130}|[ -~]{0,40}"),
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        runtime.block_on(async {
            let mut request = Request::post("/echo").body(Body::from(body)).unwrap();
            let mut headers = http::HeaderMap::new();
            headers.insert(CONTENT_TYPE, content_type.parse().unwrap());
            headers.insert(COOKIE, cookie.parse().unwrap());
            if let Some(header) = header {
                headers.insert("x-csrf-token", header.parse().unwrap());
            }
            *request.headers_mut() = headers;
            assert_eq!(send(&app(csrf()), request).await.status, 403);
        });
    }

}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn any_body_with_a_valid_token_reaches_the_handler_unchanged(
        fields in prop::collection::vec(("[a-z]{1,8}", "[a-z0-9]{0,4000}"), 0..12),
        place in 0_usize..12,
        multipart_form: bool,
        cut in 1_usize..5_000,
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        runtime.block_on(async {
            let mut browser = Browser::new(app(csrf()));
            let token = browser.token().await;
            let mut fields = fields;
            fields.insert(place.min(fields.len()), ("_csrf".to_owned(), token));
            let (content_type, body) = if multipart_form {
                let parts: Vec<(&str, &str)> = fields.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
                ("multipart/form-data; boundary=XyZ", multipart("XyZ", &parts))
            } else {
                let pairs: Vec<String> = fields.iter().map(|(name, value)| format!("{name}={value}")).collect();
                (FORM, pairs.join("&"))
            };
            let chunks: Vec<_> = body.as_bytes().chunks(cut).map(|chunk| Ok::<_, std::io::Error>(chunk.to_vec())).collect();
            let request = Request::post("/echo").header(CONTENT_TYPE, content_type);
            let answer = browser.send(request, Body::from_stream(stream::iter(chunks))).await;
            assert_eq!((answer.status.as_u16(), answer.text), (200, body));
        });
    }
}
