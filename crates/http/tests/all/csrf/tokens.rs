use axum::Router;
use axum::extract::Request;
use axum::routing::any;
use http::header::CONTENT_TYPE;
use http::{Method, StatusCode};

use super::{Browser, FORM, SECRET, app, assert_refused, csrf, multipart, with_secret};
use gatewright_base::testing::Log;

#[tokio::test]
async fn a_token_is_read_from_field_or_header_and_the_body_arrives_unchanged() {
    let mut browser = Browser::new(app(csrf()));
    let token = browser.token().await;
    let file = "--x\r\nContent-Disposition: form-data; name=\"f\"; filename=\"f\"\r\n\r\n\u{0}\r\n-x\r\n";
    let bodies = [
        (FORM, format!("_csrf={token}")),
        (FORM, format!("_csrf={token}&text=a+b%20c&_csrf=again")),
        ("application/x-www-form-urlencoded; charset=utf-8", format!("text={}&_csrf={token}", "x".repeat(100_000))),
        ("multipart/form-data; boundary=x", multipart("x", &[("_csrf", &token)])),
        ("multipart/form-data; boundary=\"a b:c\"", multipart("a b:c", &[("a", "b"), ("_csrf", &token)])),
        ("multipart/form-data; boundary=x", format!("{file}{}", multipart("x", &[("_csrf", &token)]))),
    ];
    for (content_type, body) in &bodies {
        let answer = browser.send(Request::post("/echo").header(CONTENT_TYPE, *content_type), body.clone()).await;
        assert_eq!((answer.status, &answer.text), (StatusCode::OK, body), "{content_type}");
    }
    for content_type in ["application/json", FORM, "multipart/form-data; boundary=x", "text/plain", "image/png", ""] {
        for method in [Method::POST, Method::PUT, Method::PATCH, Method::DELETE, "PURGE".parse().unwrap()] {
            let request = Request::builder().method(method.clone()).uri("/echo").header("x-csrf-token", &token);
            let answer = browser.send(request.header(CONTENT_TYPE, content_type), "{\"a\":1}").await;
            assert_eq!((answer.status, answer.text.as_str()), (StatusCode::OK, "{\"a\":1}"), "{method} {content_type}");
        }
    }
}

#[tokio::test]
async fn a_token_is_valid_for_many_parallel_requests() {
    let mut browser = Browser::new(app(csrf()));
    let token = browser.token().await;
    let mut all = tokio::task::JoinSet::new();
    for _ in 0..20 {
        let (mut browser, token) = (browser.clone(), token.clone());
        all.spawn(async move { browser.post_token("/echo", &token).await.status });
    }
    assert!(all.join_all().await.into_iter().all(|status| status == 200));
}

#[tokio::test]
async fn without_a_valid_token_every_unsafe_request_is_refused() {
    let mut browser = Browser::new(app(csrf()));
    let token = browser.token().await;
    let cookie = browser.cookie("csrf").unwrap().to_owned();
    let mut last = token.clone();
    last.replace_range(127.., if token.ends_with('A') { "B" } else { "A" });
    let mut first = token.clone();
    first.replace_range(..1, if token.starts_with('A') { "B" } else { "A" });
    let stranger = Browser::new(app(with_secret(SECRET, 2))).token().await;
    let forged = Browser::new(app(with_secret(&"another secret ".repeat(3), 1))).token().await;
    let tokens = [
        ("nothing", String::new()),
        ("the cookie's own value", cookie.clone()),
        ("the cookie's value under a mask of zeros", format!("{}{cookie}", "A".repeat(64)).to_lowercase()),
        ("tampered at the end", last),
        ("tampered at the beginning", first),
        ("truncated", token[..127].to_owned()),
        ("extended", format!("{token}A")),
        ("padded", format!("{token}==")),
        ("surrounded by spaces", format!("+{token}")),
        ("in capitals", token.to_uppercase()),
        ("its halves swapped into nothing", token[64..].repeat(2)),
        ("another browser's", stranger),
        ("signed with another secret", forged),
        ("a megabyte", "A".repeat(1_000_000)),
        ("not base64", "!".repeat(128)),
        ("zeros", "A".repeat(128)),
        ("null", "null".to_owned()),
    ];
    for (what, text) in &tokens {
        assert_refused(&browser.post_token("/echo", text).await, what);
        let body = multipart("x", &[("_csrf", text)]);
        let request = Request::post("/echo").header(CONTENT_TYPE, "multipart/form-data; boundary=x");
        assert_refused(&browser.send(request, body).await, what);
        if text.len() < 1000 {
            let request = Request::post("/echo").header("x-csrf-token", text).header(CONTENT_TYPE, "application/json");
            let answer = browser.send(request, "{}").await;
            assert_refused(&answer, what);
            assert_eq!(
                (answer.json()["code"].as_str(), answer.header("content-type")),
                (Some("csrf"), "application/problem+json")
            );
        }
    }
    // None of it replaced the browser's cookie.
    assert_eq!(browser.post_token("/echo", &token).await.status, 200);
}

#[tokio::test]
async fn a_valid_token_in_the_wrong_place_is_refused() {
    let mut browser = Browser::new(app(csrf()));
    let token = browser.token().await;
    let post = || Request::post("/echo");
    let part = format!("--x\r\nContent-Disposition: form-data; name=\"_csrf\"\r\n\r\n{token}\r\n--x--\r\n");
    let cases = [
        ("the query", Request::post(format!("/echo?_csrf={token}")).header(CONTENT_TYPE, FORM), String::new()),
        ("a JSON body", post().header(CONTENT_TYPE, "application/json"), format!("{{\"_csrf\":\"{token}\"}}")),
        ("a form called text", post().header(CONTENT_TYPE, "text/plain"), format!("_csrf={token}")),
        ("a form without a type", post(), format!("_csrf={token}")),
        ("a form of two types", post().header(CONTENT_TYPE, FORM).header(CONTENT_TYPE, FORM), format!("_csrf={token}")),
        ("another field", post().header(CONTENT_TYPE, FORM), format!("csrf={token}&_CSRF={token}&_csrf_token={token}")),
        ("multipart called urlencoded", post().header(CONTENT_TYPE, FORM), part.clone()),
        ("no boundary", post().header(CONTENT_TYPE, "multipart/form-data"), part.clone()),
        ("an empty boundary", post().header(CONTENT_TYPE, "multipart/form-data; boundary="), part.clone()),
        ("another boundary", post().header(CONTENT_TYPE, "multipart/form-data; boundary=y"), part.clone()),
        (
            "a file of that name",
            post().header(CONTENT_TYPE, "multipart/form-data; boundary=x"),
            part.replace("\"_csrf\"", "\"_csrf\"; filename=\"a\""),
        ),
        (
            "behind the closing boundary",
            post().header(CONTENT_TYPE, "multipart/form-data; boundary=x"),
            format!("--x--\r\n{part}"),
        ),
        (
            "a part that never ends",
            post().header(CONTENT_TYPE, "multipart/form-data; boundary=x"),
            part.replace("\r\n--x--\r\n", ""),
        ),
        (
            "a header beside another",
            post().header("x-csrf-token", &token).header("x-csrf-token", &token),
            String::new(),
        ),
        (
            "a bad header beside a good field",
            post().header("x-csrf-token", "x").header(CONTENT_TYPE, FORM),
            format!("_csrf={token}"),
        ),
        ("a header of another name", post().header("csrf-token", &token).header("x-xsrf-token", &token), String::new()),
        (
            "a compressed body",
            post().header(CONTENT_TYPE, FORM).header("content-encoding", "gzip"),
            "\u{1f}\u{8b}".to_owned(),
        ),
    ];
    for (what, request, body) in cases {
        assert_refused(&browser.send(request, body).await, what);
    }
    let mut alone = Browser::new(browser.app.clone());
    assert_refused(&alone.post_token("/echo", &token).await, "a token without the cookie");
}

#[tokio::test]
async fn only_the_method_decides_whether_a_token_is_needed() {
    let mut browser = Browser::new(app(csrf()));
    for method in ["GET", "HEAD", "OPTIONS", "TRACE"] {
        let answer = browser.send(Request::builder().method(method).uri("/echo"), "").await;
        assert_eq!(answer.status, 200, "{method}");
    }
    for method in ["POST", "PUT", "PATCH", "DELETE", "get", "Head", "PROPFIND", "QUERY", "GETX"] {
        let answer = browser.send(Request::builder().method(method).uri("/echo"), "").await;
        assert_refused(&answer, method);
    }
    for name in ["x-http-method-override", "x-http-method", "x-method-override"] {
        assert_refused(&browser.send(Request::post("/echo").header(name, "GET"), "").await, name);
    }
    let request = Request::post("/echo?_method=GET").header(CONTENT_TYPE, FORM);
    assert_refused(&browser.send(request, "_method=GET").await, "_method");
}

#[tokio::test]
async fn a_credential_that_no_browser_sends_by_itself_needs_no_token_and_a_malformed_one_does() {
    let app = app(csrf());
    let ask = async |name: &str, value: &str| {
        let mut browser = Browser::new(app.clone());
        browser.cookies.push(("sid".to_owned(), "s1".to_owned()));
        browser.send(Request::post("/echo").header(name, value), "").await.status.as_u16()
    };
    for (name, value) in [("authorization", "Bearer svc_abc"), ("authorization", "bearer a.b.c"), ("x-api-key", "k")] {
        assert_eq!(ask(name, value).await, 200, "{name}: {value}");
    }
    for (name, value) in [
        ("authorization", "Bearer"),
        ("authorization", "Bearer a b"),
        ("authorization", "Basic dXNlcjpwYXNz"),
        ("authorization", "Bearer,"),
        ("x-api-key", ""),
        ("x-apikey", "k"),
        ("api-key", "k"),
    ] {
        assert_eq!(ask(name, value).await, 403, "{name}: {value}");
    }
}

#[tokio::test]
async fn an_exemption_applies_only_to_its_method_and_whole_path() {
    let csrf = csrf().exempt(Method::POST, "/hook").exempt(Method::POST, "/in/hook");
    let inner = Router::new().route("/hook", any(async || "hooked")).layer(csrf.clone());
    let router = app(csrf).nest("/in", inner.clone()).nest("/out", inner);
    for (method, path, expected) in [
        ("POST", "/hook", 200),
        ("POST", "/hook?x", 200),
        ("POST", "/in/hook", 200),
        ("PUT", "/hook", 403),
        ("DELETE", "/hook", 403),
        ("POST", "/out/hook", 403),
        ("POST", "/echo", 403),
        ("POST", "/echo?/hook", 403),
    ] {
        let answer = Browser::new(router.clone()).send(Request::builder().method(method).uri(path), "").await;
        assert_eq!(answer.status, expected, "{method} {path}");
    }
    for path in ["/hook/", "//hook", "/./hook", "/%68ook", "/HOOK", "/hook;a", "/echo/../hook"] {
        let answer = Browser::new(router.clone()).send(Request::post(path), "").await;
        assert!(matches!(answer.status.as_u16(), 403 | 404), "{path}: {answer:?}");
    }
}

#[tokio::test]
async fn a_form_is_refused_with_a_page() {
    let answer = Browser::new(app(csrf())).post_token("/echo", "").await;
    assert_eq!(answer.header("content-type"), "text/html; charset=utf-8");
    assert!(answer.text.contains("<html lang=\"en\" dir=\"ltr\">"));
}

#[tokio::test]
async fn a_refusal_is_logged_with_its_reason_and_without_the_sent_value() {
    let log = Log::default();
    let _guard = log.record();
    let mut browser = Browser::new(app(csrf()));
    let token = browser.token().await;
    let cookie = browser.cookie("csrf").unwrap().to_owned();
    let other = Browser::new(app(with_secret(SECRET, 2))).token().await;
    assert_refused(&browser.post_token("/echo", &other).await, "another browser's");
    let body = multipart("x", &[("password", "canary"), ("_csrf", &other)]);
    let request = Request::post("/echo").header(CONTENT_TYPE, "multipart/form-data; boundary=x");
    assert_refused(&browser.send(request, body).await, "another browser's");
    let text = log.text();
    assert!(text.contains("the token belongs to another cookie"), "{text}");
    for secret in [token.as_str(), &cookie, &other, "canary", SECRET] {
        assert!(!text.contains(secret), "{secret}: {text}");
    }
}
