use axum::Router;
use axum::extract::Request;
use axum::routing::get;
use gatewright_base::{Ambient, JsonCase, Secret};
use gatewright_http::csrf::{ShortSecret, csrf_token};
use gatewright_http::{Csrf, CsrfBinding, CsrfToken, TrustedProxies};
use http::header::CONTENT_TYPE;
use jiff::Timestamp;

use super::{Browser, FORM, SECRET, app, assert_refused, csrf, set_cookies, token_in};

type Lines = &'static [(&'static str, &'static str)];

#[tokio::test]
async fn the_cookie_is_as_secure_as_the_connection() {
    let plain = "csrf=";
    let secure = "__Host-csrf=";
    let cases: [(Csrf, Lines, &str); 6] = [
        (csrf(), &[], plain),
        (csrf(), &[("x-forwarded-proto", "http")], plain),
        (csrf(), &[("x-forwarded-proto", "https")], secure),
        (csrf(), &[("x-forwarded-proto", "HTTPS, http")], secure),
        (csrf().always_secure(), &[], secure),
        (csrf().always_secure(), &[("x-forwarded-proto", "http")], secure),
    ];
    for (csrf, headers, expected) in cases {
        let request =
            headers.iter().fold(Request::get("/form"), |request, (name, value)| request.header(*name, *value));
        let answer = Browser::new(app(csrf)).send(request, "").await;
        let [cookie] = set_cookies(&answer).try_into().unwrap();
        assert!(cookie.starts_with(expected), "{headers:?}: {cookie}");
        let attributes: Vec<&str> = cookie.split("; ").skip(1).collect();
        let expected: &[&str] = if expected == secure {
            &["HttpOnly", "SameSite=Lax", "Secure", "Path=/"]
        } else {
            &["HttpOnly", "SameSite=Lax", "Path=/"]
        };
        assert_eq!(attributes, expected, "{cookie}");
    }
}

#[tokio::test]
async fn a_proxy_that_is_not_trusted_cannot_change_the_cookie() {
    let proxies = TrustedProxies::parse(&["192.0.2.1"]).unwrap();
    let app = app(csrf()).layer(axum::Extension(proxies));
    let answer = Browser::new(app).send(Request::get("/form").header("x-forwarded-proto", "https"), "").await;
    assert!(set_cookies(&answer)[0].starts_with("csrf="), "{answer:?}");
}

#[tokio::test]
async fn over_https_a_cookie_of_plain_http_is_ignored() {
    let mut browser = Browser::new(app(csrf()));
    let token = browser.token().await;
    let https = Request::post("/echo").header("x-forwarded-proto", "https").header(CONTENT_TYPE, FORM);
    assert_refused(&browser.send(https, format!("_csrf={token}")).await, "the cookie of plain HTTP");
}

#[tokio::test]
async fn only_an_answer_with_a_token_sets_a_cookie_and_only_the_first() {
    let mut browser = Browser::new(app(csrf()));
    let plain = browser.send(Request::get("/plain"), "").await;
    assert!(set_cookies(&plain).is_empty() && plain.header("vary").is_empty(), "{plain:?}");

    let first = browser.send(Request::get("/form"), "").await;
    assert_eq!(set_cookies(&first).len(), 1);
    assert_eq!((first.header("vary"), first.header("cache-control")), ("Cookie", "private, no-cache"));

    let second = browser.send(Request::get("/form"), "").await;
    assert!(set_cookies(&second).is_empty(), "{second:?}");
    assert_eq!((second.header("vary"), second.header("cache-control")), ("Cookie", "private, no-cache"));
    // The mask differs each time, and both tokens are valid.
    let tokens = [token_in(&first.text), token_in(&second.text)];
    assert_ne!(tokens[0], tokens[1]);
    for token in tokens {
        assert_eq!(browser.post_token("/echo", &token).await.status, 200);
    }
}

#[tokio::test]
async fn a_script_gets_its_token_from_the_endpoint() {
    let mut browser = Browser::new(app(csrf()));
    let answer = browser.send(Request::get("/auth/csrf"), "").await;
    assert_eq!((answer.header("cache-control"), answer.header("content-type")), ("no-store", "application/json"));
    let token = answer.json()["csrfToken"].as_str().unwrap().to_owned();
    let request = Request::delete("/echo").header("x-csrf-token", token);
    assert_eq!(browser.send(request, "").await.status, 200);

    let snake = app(csrf()).layer(axum::Extension(JsonCase::Snake));
    let answer = Browser::new(snake).send(Request::get("/auth/csrf"), "").await;
    assert_eq!(answer.json()["csrf_token"].as_str().map(str::len), Some(128));
}

#[tokio::test]
async fn a_page_may_work_with_and_without_the_middleware() {
    let page = async |csrf: Option<CsrfToken>| csrf.map(|csrf| csrf.field()).unwrap_or_default();
    let router: Router = Router::new().route("/", get(page)).route("/must", get(csrf_token));
    assert_eq!(Browser::new(router.clone()).send(Request::get("/"), "").await.text, "");
    let answer = Browser::new(router.clone()).send(Request::get("/must"), "").await;
    assert_eq!(answer.status, 500);
    let with = Browser::new(router.layer(csrf())).send(Request::get("/"), "").await;
    assert!(with.text.starts_with("<input type=\"hidden\" name=\"_csrf\" value=\""), "{with:?}");
}

#[test]
fn a_long_secret_is_required_outside_dev_mode_and_generated_in_it() {
    let (ambient, _) = Ambient::manual(Timestamp::UNIX_EPOCH, 1);
    for length in [0, 31] {
        let error = Csrf::new(&Secret::new("x".repeat(length)), ambient.clone()).unwrap_err();
        assert_eq!(error, ShortSecret(length));
    }
    assert!(Csrf::new(&Secret::new("x".repeat(32)), ambient.clone()).is_ok());
    let _ = (Csrf::dev_mode(&Secret::new(""), ambient.clone()), Csrf::dev_mode(&Secret::new("short"), ambient));
}

#[tokio::test]
async fn in_dev_mode_a_generated_secret_is_unique_to_the_process() {
    let dev = |seed| {
        let (ambient, _) = Ambient::manual(Timestamp::UNIX_EPOCH, seed);
        app(Csrf::dev_mode(&Secret::new(""), ambient))
    };
    let mut browser = Browser::new(dev(1));
    let token = browser.token().await;
    assert_eq!(browser.post_token("/echo", &token).await.status, 200);
    browser.app = dev(2);
    assert_refused(&browser.post_token("/echo", &token).await, "another process");
}

#[tokio::test]
async fn debug_output_shows_no_token_or_secret() {
    let seen = std::sync::Arc::new(std::sync::Mutex::new(String::new()));
    let copy = seen.clone();
    let router = Router::new()
        .route(
            "/",
            get(async move |csrf: CsrfToken| {
                *copy.lock().unwrap() = format!("{csrf:?}");
                csrf.value()
            }),
        )
        .layer(csrf());
    let token = Browser::new(router).send(Request::get("/"), "").await.text;
    let printed = format!("{} {:?} {:?}", seen.lock().unwrap(), csrf(), CsrfBinding::session("canary-session"));
    assert!(!printed.contains(&token) && !printed.contains(SECRET) && !printed.contains("canary"), "{printed}");
}
