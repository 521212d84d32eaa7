//! The rules of the browser backend one by one, for an application's pages, other pages and programs.

use axum::Router;
use axum::body::Body;
use axum::extract::Request;
use axum::middleware::{Next, from_fn};
use axum::response::Response;
use axum::routing::{any, get};
use gatewright_base::{Ambient, Secret};
use gatewright_http::csrf::csrf_token;
use gatewright_http::{AllowedOrigins, BrowserBackend, CookieOnly, Csrf, CsrfBinding, Origin, cookies};
use http::header::{AUTHORIZATION, CONTENT_TYPE, COOKIE, ORIGIN, SET_COOKIE};
use http::{HeaderName, HeaderValue, Method};
use jiff::Timestamp;
use tower_http::cors::CorsLayer;

use crate::support::{Answer, send};

const OWN: &str = "https://api.example.com";
const APP: &str = "https://app.example.com";
const SECOND: &str = "http://localhost:5173";
const JWT: &str = "Bearer eyJhbGciOiJIUzI1NiJ9.e30.c2lnbmF0dXJl";
const TOKEN: &str = "Bearer svc_0123456789012345678901234567890123456789";

fn backend() -> BrowserBackend {
    BrowserBackend::new(OWN.parse().unwrap(), AllowedOrigins::parse(&[APP, SECOND]).unwrap()).unwrap()
}

fn csrf() -> Csrf {
    let (ambient, _) = Ambient::manual(Timestamp::UNIX_EPOCH, 1);
    Csrf::new(&Secret::new("a secret of more than thirty-two bytes"), ambient).unwrap()
}

async fn sessions(mut request: Request, next: Next) -> Response {
    if let Some(id) = cookies::read(request.headers(), "__Host-session") {
        request.extensions_mut().insert(CsrfBinding::session(id));
    }
    next.run(request).await
}

fn routes() -> Router {
    let cookie_only = async |marker: Option<axum::Extension<CookieOnly>>| format!("cookie only: {}", marker.is_some());
    Router::new()
        .route("/api/posts", any(async || "posts"))
        .route("/auth/me", get(async || "me"))
        .route("/auth/csrf", get(csrf_token))
        .route("/auth/login", any(cookie_only))
        .route("/auth/logout", any(async || "bye"))
        .route("/mcp", any(cookie_only))
        .route("/open", get(async || "open"))
}

fn app() -> Router {
    backend().install(routes(), from_fn(sessions), csrf())
}

async fn ask(app: &Router, method: &str, path: &str, headers: &[(HeaderName, &str)]) -> Answer {
    let request = Request::builder().method(method).uri(path);
    let request = headers.iter().fold(request, |request, (name, value)| request.header(name, *value));
    send(app, request.body(Body::empty()).unwrap()).await
}

fn cors(answer: &Answer) -> (&str, &str) {
    (answer.header("access-control-allow-origin"), answer.header("access-control-allow-credentials"))
}

fn vary(answer: &Answer) -> String {
    let values: Vec<&str> = answer.headers.get_all("vary").iter().map(|value| value.to_str().unwrap()).collect();
    values.join(", ")
}

#[tokio::test]
async fn only_an_exact_allowed_origin_passes_and_gets_cors_headers() {
    for origin in [APP, SECOND] {
        for path in ["/api/posts", "/auth/me", "/api/missing"] {
            let answer = ask(&app(), "GET", path, &[(ORIGIN, origin)]).await;
            assert!(matches!(answer.status.as_u16(), 200 | 404), "{origin} {path}: {answer:?}");
            assert_eq!(cors(&answer), (origin, "true"), "{path}");
            assert!(vary(&answer).contains("Origin"), "{answer:?}");
            assert!(answer.header("access-control-expose-headers").contains("ETag"));
        }
    }
}

#[tokio::test]
async fn every_other_origin_is_refused_on_the_whole_surface_for_every_method() {
    let strangers = [
        "https://evil.com",
        "null",
        "NULL",
        "",
        "*",
        // Another scheme, port, case or dot is another origin.
        "http://app.example.com",
        "https://app.example.com:8443",
        "https://app.example.com:443",
        "https://app.example.com:80",
        "https://APP.example.com",
        "HTTPS://app.example.com",
        "https://app.example.com.",
        "https://app.example.com/",
        "https://app.example.com/path",
        " https://app.example.com,",
        "http://localhost",
        "http://localhost:5174",
        "http://localhost:51730",
        "https://localhost:5173",
        "http://127.0.0.1:5173",
        "http://api.example.com",
        "https://api.example.com:8443",
        // Lookalikes at either end.
        "https://app.example.com.evil.com",
        "https://app.example.comevil.com",
        "https://evilapp.example.com",
        "https://evil.app.example.com",
        "https://evil.com/app.example.com",
        "https://evil.com?https://app.example.com",
        "https://evil.com#https://app.example.com",
        "https://app.example.com@evil.com",
        "https://app.example.com%00.evil.com",
        "https://appxexample.com",
        "https://example.com",
        "https://app.example.com https://evil.com",
        "https://app.example.com, https://evil.com",
        "file://",
        "chrome-extension://abcdef",
    ];
    let app = app();
    for origin in strangers {
        for (method, path) in
            [("GET", "/api/posts"), ("POST", "/auth/login"), ("DELETE", "/api/posts"), ("POST", "/auth/logout")]
        {
            let answer = ask(&app, method, path, &[(ORIGIN, origin)]).await;
            assert_eq!(answer.status, 403, "{method} {path} {origin}");
            assert_eq!(answer.json()["code"], "origin_not_allowed", "{origin}");
            assert_eq!((cors(&answer), vary(&answer).as_str()), (("", ""), "Origin"), "{origin}");
        }
    }
    let invisible =
        Request::get("/api/posts").header(ORIGIN, HeaderValue::from_bytes(b"https://app.example.com\xff").unwrap());
    assert_eq!(send(&app, invisible.body(Body::empty()).unwrap()).await.status, 403);
}

#[tokio::test]
async fn two_origin_headers_are_refused() {
    for (one, two) in [(APP, "https://evil.com"), ("https://evil.com", APP), (APP, APP), (OWN, APP)] {
        let answer = ask(&app(), "GET", "/api/posts", &[(ORIGIN, one), (ORIGIN, two)]).await;
        assert_eq!((answer.status.as_u16(), cors(&answer)), (403, ("", "")), "{one} {two}");
    }
}

#[tokio::test]
async fn the_own_origin_and_a_missing_origin_pass_without_cors_headers() {
    let cases: &[&[(HeaderName, &str)]] = &[
        &[],
        &[(ORIGIN, OWN)],
        &[(HeaderName::from_static("sec-fetch-site"), "cross-site")],
        &[(HeaderName::from_static("referer"), "https://evil.com/")],
        &[(HeaderName::from_static("x-forwarded-host"), "evil.com")],
    ];
    for headers in cases {
        let answer = ask(&app(), "GET", "/api/posts", headers).await;
        assert_eq!((answer.status.as_u16(), cors(&answer)), (200, ("", "")), "{headers:?}");
        // A cache that kept this answer must not give it to a page that names its origin.
        assert!(vary(&answer).contains("Origin"), "{headers:?}");
    }
}

#[tokio::test]
async fn the_host_header_does_not_define_the_own_origin() {
    let host = HeaderName::from_static("host");
    for origin in ["https://evil.com", "http://evil.com"] {
        let answer = ask(&app(), "GET", "/api/posts", &[(ORIGIN, origin), (host.clone(), "evil.com")]).await;
        assert_eq!(answer.status, 403, "{origin}");
    }
}

#[tokio::test]
async fn a_preflight_is_answered_only_for_an_allowed_origin() {
    let method = HeaderName::from_static("access-control-request-method");
    let app = app();
    for path in ["/api/posts", "/api/anything", "/auth/login", "/auth/logout"] {
        let answer = ask(&app, "OPTIONS", path, &[(ORIGIN, APP), (method.clone(), "DELETE")]).await;
        assert_eq!((answer.status.as_u16(), answer.text.as_str()), (204, ""), "{path}");
        assert_eq!(cors(&answer), (APP, "true"));
        assert_eq!(answer.header("access-control-allow-methods"), "GET, HEAD, POST, PUT, PATCH, DELETE");
        for name in ["Content-Type", "X-CSRF-Token", "Authorization", "If-Match", "X-Tenant-ID"] {
            let listed = answer.header("access-control-allow-headers");
            assert!(listed.split(", ").any(|word| word == name), "{name}: {listed}");
        }
        assert_eq!(answer.header("access-control-max-age"), "600");
        assert!(vary(&answer).contains("Origin") && vary(&answer).contains("Access-Control-Request-Headers"));
        // Credentials and wildcards exclude each other.
        assert!(!answer.headers.values().any(|value| value == "*"), "{answer:?}");
    }
    for origin in ["https://evil.com", "null", "https://app.example.com.evil.com", "http://app.example.com"] {
        let answer = ask(&app, "OPTIONS", "/api/posts", &[(ORIGIN, origin), (method.clone(), "GET")]).await;
        assert_eq!(answer.status, 403, "{origin}");
        let told = answer.headers.keys().find(|name| name.as_str().starts_with("access-control-"));
        assert_eq!((told, vary(&answer).as_str()), (None, "Origin"), "{origin}");
    }
}

#[tokio::test]
async fn an_incomplete_preflight_reaches_the_routes() {
    let method = HeaderName::from_static("access-control-request-method");
    let cases: &[(&str, &[(HeaderName, &str)])] = &[
        ("OPTIONS", &[]),
        ("OPTIONS", &[(ORIGIN, APP)]),
        ("OPTIONS", &[(method.clone(), "GET")]),
        ("OPTIONS", &[(ORIGIN, OWN), (method.clone(), "GET")]),
        ("GET", &[(ORIGIN, APP), (method, "GET")]),
    ];
    for (verb, headers) in cases {
        let answer = ask(&app(), verb, "/api/posts", headers).await;
        assert_eq!((answer.status.as_u16(), answer.text.as_str()), (200, "posts"), "{verb} {headers:?}");
    }
}

#[tokio::test]
async fn an_application_may_allow_further_headers() {
    let backend = backend().allow_header(&HeaderName::from_static("x-own-tenant"));
    let app = backend.install(routes(), from_fn(sessions), csrf());
    let method = HeaderName::from_static("access-control-request-method");
    let answer = ask(&app, "OPTIONS", "/api/posts", &[(ORIGIN, APP), (method, "GET")]).await;
    assert!(answer.header("access-control-allow-headers").ends_with(", X-Tenant-ID, x-own-tenant"), "{answer:?}");
}

#[tokio::test]
async fn cors_headers_of_an_inner_layer_are_removed() {
    let permissive = routes().layer(CorsLayer::very_permissive());
    let app = backend().install(permissive, from_fn(sessions), csrf());
    for (origin, expected) in [(APP, (200, APP, "true")), (OWN, (200, "", "")), ("https://evil.com", (403, "", ""))] {
        let answer = ask(&app, "GET", "/api/posts", &[(ORIGIN, origin)]).await;
        let (allowed, credentials) = cors(&answer);
        assert_eq!((answer.status.as_u16(), allowed, credentials), expected, "{origin}");
    }
}

#[tokio::test]
async fn refusals_of_the_routes_can_be_read_by_the_allowed_page() {
    let answer = ask(&app(), "POST", "/api/posts", &[(ORIGIN, APP)]).await;
    assert_eq!((answer.status.as_u16(), answer.detail().as_str()), (403, "csrf token missing or invalid"));
    assert_eq!(cors(&answer), (APP, "true"));
}

#[tokio::test]
async fn a_jwt_is_refused_on_the_surface_with_and_without_a_cookie_and_an_api_token_is_not() {
    let app = app();
    let refused = ["Bearer", "Bearer ", "bearer eyJ", "BEARER eyJ", "Bearer SVC_0", "Bearer  eyJ", "Bearer\teyJ", JWT];
    for path in ["/api/posts", "/auth/me", "/auth/login", "//api/posts", "/%61pi/posts"] {
        for cookie in [None, Some("__Host-session=s1")] {
            for value in refused {
                let mut headers = vec![(AUTHORIZATION, value)];
                headers.extend(cookie.map(|cookie| (COOKIE, cookie)));
                let answer = ask(&app, "GET", path, &headers).await;
                assert_eq!(
                    (answer.status.as_u16(), &answer.json()["code"]),
                    (401, &"jwt_not_accepted".into()),
                    "{path} {value}"
                );
                assert_eq!(answer.header("www-authenticate"), "Bearer");
            }
        }
    }
    for headers in
        [vec![(AUTHORIZATION, TOKEN)], vec![(AUTHORIZATION, TOKEN), (ORIGIN, APP)], vec![(AUTHORIZATION, "Basic eA==")]]
    {
        assert_eq!(ask(&app, "GET", "/api/posts", &headers).await.status, 200, "{headers:?}");
    }
    let both = [(AUTHORIZATION, TOKEN), (AUTHORIZATION, JWT)];
    assert_eq!(ask(&app, "GET", "/api/posts", &both).await.status, 401);
    // An API token needs no CSRF token, because no browser sends it by itself.
    assert_eq!(ask(&app, "POST", "/api/posts", &[(AUTHORIZATION, TOKEN)]).await.status, 200);
    // On other paths a JWT is accepted.
    assert_eq!(ask(&app, "POST", "/mcp", &[(AUTHORIZATION, JWT)]).await.status, 200);
}

#[tokio::test]
async fn outside_the_surface_nothing_changes() {
    for origin in ["https://evil.com", "null", APP] {
        let answer = ask(&app(), "GET", "/open", &[(ORIGIN, origin)]).await;
        assert_eq!((answer.status.as_u16(), cors(&answer), vary(&answer).as_str()), (200, ("", ""), ""), "{origin}");
    }
}

#[tokio::test]
async fn a_path_in_another_spelling_is_on_the_surface_too() {
    for path in
        ["//api/posts", "/./api/posts", "/x/../api/posts", "/%61pi/posts", "/api%2Fposts", "/api/..%2f..%2fopen"]
    {
        let answer = ask(&app(), "GET", path, &[(ORIGIN, "https://evil.com")]).await;
        assert_eq!(answer.status, 403, "{path}");
    }
}

#[tokio::test]
async fn requests_of_the_surface_require_a_cookie_only_sign_in() {
    let app = app();
    let login = ask(&app, "GET", "/auth/login", &[]).await;
    let elsewhere = ask(&app, "GET", "/mcp", &[]).await;
    assert_eq!((login.text.as_str(), elsewhere.text.as_str()), ("cookie only: true", "cookie only: false"));
}

#[tokio::test]
async fn the_csrf_cookie_is_secure_whatever_the_connection_looks_like() {
    let forwarded = HeaderName::from_static("x-forwarded-proto");
    for headers in [vec![], vec![(forwarded.clone(), "http")], vec![(forwarded, "https")]] {
        let answer = ask(&app(), "GET", "/auth/csrf", &headers).await;
        let cookie = answer.header("set-cookie");
        assert!(cookie.starts_with("__Host-csrf="), "{cookie}");
        for attribute in ["Secure", "HttpOnly", "SameSite=Lax", "Path=/"] {
            assert!(cookie.split("; ").any(|part| part == attribute), "{cookie}");
        }
    }
}

#[tokio::test]
async fn a_page_of_an_allowed_origin_gets_a_token_and_uses_it() {
    let app = app();
    let session = "__Host-session=s1";
    let answer = ask(&app, "GET", "/auth/csrf", &[(ORIGIN, APP), (COOKIE, session)]).await;
    assert_eq!((cors(&answer), answer.header("cache-control")), ((APP, "true"), "no-store"));
    let token = answer.json()["csrfToken"].as_str().unwrap().to_owned();
    let cookie = answer.headers[SET_COOKIE].to_str().unwrap().split(';').next().unwrap().to_owned();
    let cookie = format!("{session}; {cookie}");
    let header = HeaderName::from_static("x-csrf-token");
    let good = [(ORIGIN, APP), (COOKIE, cookie.as_str()), (header, token.as_str())];
    assert_eq!(ask(&app, "POST", "/api/posts", &good).await.status, 200);
}

#[tokio::test]
async fn only_the_logout_form_needs_no_token() {
    let app = app();
    let form = (CONTENT_TYPE, "application/x-www-form-urlencoded");
    for origin in [None, Some(OWN), Some(APP)] {
        let headers: Vec<_> = [form.clone()].into_iter().chain(origin.map(|origin| (ORIGIN, origin))).collect();
        let answer = ask(&app, "POST", "/auth/logout", &headers).await;
        assert_eq!((answer.status.as_u16(), answer.text.as_str()), (200, "bye"), "{origin:?}");
    }
    for path in [
        "/auth/login",
        "/auth/logout/",
        "//auth/logout",
        "/auth/%6cogout",
        "/AUTH/logout",
        "/auth/logout/x",
        "/api/posts?/auth/logout",
        "/x/../auth/logout",
    ] {
        let answer = ask(&app, "POST", path, std::slice::from_ref(&form)).await;
        assert!(matches!(answer.status.as_u16(), 403 | 404), "{path}: {answer:?}");
        assert_ne!(answer.text, "bye", "{path}");
    }
    for method in ["PUT", "PATCH", "DELETE"] {
        assert_eq!(ask(&app, method, "/auth/logout", std::slice::from_ref(&form)).await.status, 403, "{method}");
    }
    // A cross-site form does not reach the handler.
    let answer = ask(&app, "POST", "/auth/logout", &[form, (ORIGIN, "https://evil.com")]).await;
    assert_eq!((answer.status.as_u16(), answer.header("content-type")), (403, "text/html; charset=utf-8"));
}

#[tokio::test]
async fn the_surface_has_the_configured_paths() {
    let routes = Router::new()
        .route("/v1/posts", any(async || "posts"))
        .route("/accounts/logout", any(async || "bye"))
        .route("/api/posts", any(async || "not the api"));
    let backend = backend().api_prefix("/v1").auth_base("/accounts/");
    let app = backend.install(routes, from_fn(sessions), csrf());
    for (method, path, expected) in
        [("GET", "/v1/posts", 403), ("POST", "/accounts/logout", 403), ("GET", "/api/posts", 200)]
    {
        let answer = ask(&app, method, path, &[(ORIGIN, "https://evil.com")]).await;
        assert_eq!(answer.status, expected, "{path}");
    }
    assert_eq!(ask(&app, Method::POST.as_str(), "/accounts/logout", &[]).await.text, "bye");
    assert_eq!(ask(&app, Method::POST.as_str(), "/auth/logout", &[]).await.status, 403);
}

#[test]
fn the_public_origin_must_be_one_that_browsers_keep_secure_cookies_for() {
    let cases = [
        (OWN, true),
        ("http://localhost:8080", true),
        ("http://127.0.0.1:8080", true),
        ("http://[::1]:8080", true),
        ("http://api.example.com", false),
        ("http://192.168.1.2:8080", false),
        ("http://localhost.evil.com", false),
    ];
    for (origin, expected) in cases {
        let origin: Origin = origin.parse().unwrap();
        let made = BrowserBackend::new(origin.clone(), AllowedOrigins::default());
        assert_eq!(made.is_ok(), expected, "{origin}");
        if let Err(error) = made {
            assert!(error.to_string().contains(origin.as_str()) && error.to_string().contains("HTTPS"), "{error}");
        }
    }
}
