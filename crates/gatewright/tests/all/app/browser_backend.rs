//! The browser backend in the server: service.md's clauses and contract.md 7.12, each with its table.

use axum::body::Body;
use gatewright::App;
use gatewright::config::Loader;
use gatewright_testing::{Actor, Answer, TestApp};
use http::Method;
use serde_json::json;

const APP: &str = "https://app.example.com";
const CONFIG: &str = "[server]\nallow_public_dev_mode = true\npublic_url = \"https://api.example.com\"\n\
                      [browser_backend]\nallowed_origins = [\"https://app.example.com\"]\n\
                      [[entity]]\nname = \"notes\"\n[[entity.field]]\nname = \"text\"\ntype = \"text\"\n";
const ADA: &str = "ada@example.com";
const PASSWORD: &str = "correct horse battery";

type Headers<'a> = &'a [(&'a str, &'a str)];

async fn send(actor: &mut Actor, method: Method, path: &str, headers: Headers<'_>, body: &str) -> Answer {
    let request = actor.request(method, path);
    let request = headers.iter().fold(request, |request, (name, value)| request.header(*name, *value));
    let answer = actor.send(request.body(Body::from(body.to_owned())).unwrap()).await;
    actor.keep_cookies(&answer);
    answer
}

/// A script on the allowed origin: sends its `Origin`, its cookies and the CSRF token.
async fn script(actor: &mut Actor, method: Method, path: &str, body: &str) -> Answer {
    let token = send(actor, Method::GET, "/auth/csrf", &[("origin", APP)], "").await.is(200).at("/csrfToken");
    let token = token.as_str().unwrap().to_owned();
    let headers = [("origin", APP), ("content-type", "application/json"), ("x-csrf-token", &*token)];
    send(actor, method, path, &headers, body).await
}

fn credentials() -> String {
    json!({ "email": ADA, "password": PASSWORD }).to_string()
}

async fn signed_in(app: &TestApp) -> Actor {
    let mut actor = app.anonymous();
    script(&mut actor, Method::POST, "/auth/register", &credentials()).await.is(200);
    script(&mut actor, Method::POST, "/auth/login", &credentials()).await.is(200);
    actor
}

#[tokio::test]
async fn only_exact_origins_reach_the_surface() {
    for app in TestApp::on_every_engine(CONFIG).await {
        let mut ada = signed_in(&app).await;
        for (origins, status) in [
            (&[][..], 200),
            (&[APP], 200),
            (&["https://api.example.com"], 200),
            (&["https://evil.example"], 403),
            (&["https://app.example.com.evil.example"], 403),
            (&["http://app.example.com"], 403),
            (&["https://app.example.com:444"], 403),
            (&["https://APP.example.com"], 403),
            (&["null"], 403),
            (&["https://app.example.com", "https://evil.example"], 403),
        ] {
            let headers: Vec<_> = origins.iter().map(|origin| ("origin", *origin)).collect();
            for path in ["/api/notes", "/auth/me", "/api/nothing"] {
                let status = if path == "/api/nothing" && status == 200 { 404 } else { status };
                let answer = send(&mut ada, Method::GET, path, &headers, "").await.is(status);
                let allowed = origins == [APP];
                assert_eq!(answer.header("access-control-allow-origin"), allowed.then_some(APP), "{path} {origins:?}");
                let credentials = answer.header("access-control-allow-credentials");
                assert_eq!(credentials, allowed.then_some("true"), "{path} {origins:?}");
                // Refusals of the guard too: answers of authentication are never stored.
                let stored = answer.header("cache-control") != Some("no-store");
                assert!(!stored || !path.starts_with("/auth"), "{path} {origins:?}");
            }
        }
        // Paths outside the surface are not affected.
        for path in ["/healthz", "/login"] {
            send(&mut app.anonymous(), Method::GET, path, &[("origin", "https://evil.example")], "").await.is(200);
        }
        app.anonymous().get("/notes").await.is(404);
    }
}

#[tokio::test]
async fn a_preflight_is_answered_only_for_an_allowed_origin() {
    for app in TestApp::on_every_engine(CONFIG).await {
        for path in ["/api/notes", "/auth/login"] {
            for (origin, status) in [(APP, 204), ("https://evil.example", 403), ("null", 403)] {
                let headers = [("origin", origin), ("access-control-request-method", "POST")];
                let answer = send(&mut app.anonymous(), Method::OPTIONS, path, &headers, "").await.is(status);
                let allowed = status == 204;
                assert_eq!(answer.header("access-control-allow-origin"), allowed.then_some(APP));
                assert_eq!(answer.header("access-control-allow-credentials"), allowed.then_some("true"));
                let methods = answer.header("access-control-allow-methods").unwrap_or_default();
                assert_eq!(methods.contains("DELETE"), allowed);
                assert_ne!(answer.header("access-control-allow-headers"), Some("*"));
            }
        }
    }
}

#[tokio::test]
async fn signing_in_and_registering_return_a_secure_cookie_and_no_token() {
    for app in TestApp::on_every_engine(CONFIG).await {
        let mut ada = app.anonymous();
        let registered = script(&mut ada, Method::POST, "/auth/register", &credentials()).await.is(200);
        let login = script(&mut ada, Method::POST, "/auth/login", &credentials()).await.is(200);
        for answer in [&registered, &login] {
            assert_eq!(answer.at("/user/email"), ADA);
            assert_eq!(answer.json().get("token"), None, "{}", answer.text());
        }
        // In dev mode, too: the test's application is in it.
        assert!(ada.cookies().contains_key("__Host-session") && ada.cookies().contains_key("__Host-csrf"));
        assert!(login.header("set-cookie").unwrap().contains("; Secure"));
        send(&mut ada, Method::GET, "/auth/me", &[("origin", APP)], "").await.is(200);
        script(&mut ada, Method::POST, "/api/notes", "{\"text\":\"x\"}").await.is(201);
    }
}

#[tokio::test]
async fn jwts_are_refused_on_the_surface_and_api_tokens_are_not() {
    for app in TestApp::on_every_engine(CONFIG).await {
        let mut ada = signed_in(&app).await;
        let jwt = "Bearer eyJhbGciOiJIUzI1NiJ9.e30.c2ln";
        // The second token does not exist, so the handler answers 401: the guard let it pass.
        let unknown = "Bearer svc_0000000000000000000000000000000000000000";
        for (bearer, path, code) in [
            (jwt, "/api/notes", "jwt_not_accepted"),
            (jwt, "/auth/me", "jwt_not_accepted"),
            (unknown, "/api/notes", "unauthorized"),
        ] {
            for actor in [&mut app.anonymous(), &mut ada] {
                let answer = send(actor, Method::GET, path, &[("authorization", bearer)], "").await;
                if bearer == jwt {
                    assert_eq!(answer.is(401).at("/code"), code, "cookie or not");
                } else if actor.cookies().is_empty() {
                    assert_eq!(answer.is(401).at("/code"), code);
                }
            }
        }
    }
}

#[tokio::test]
async fn csrf_is_on_and_only_the_logout_form_is_exempt() {
    for app in TestApp::on_every_engine(CONFIG).await {
        let mut ada = signed_in(&app).await;
        let json = ("content-type", "application/json");
        for (path, body) in [("/api/notes", "{\"text\":\"x\"}"), ("/auth/login", &*credentials())] {
            let answer = send(&mut ada, Method::POST, path, &[("origin", APP), json], body).await.is(403);
            assert_eq!(answer.at("/code"), "csrf", "{path}");
        }
        let form = ("content-type", "application/x-www-form-urlencoded");
        for (headers, status) in [
            (&[form, ("origin", "https://evil.example")][..], 403),
            (&[form, ("sec-fetch-site", "cross-site")], 403),
            // An allowed page is still another origin for the handler: its form is refused, but its script is accepted.
            (&[form, ("origin", APP)], 403),
            (&[form, ("origin", "https://api.example.com")], 303),
        ] {
            send(&mut ada.clone(), Method::POST, "/auth/logout", headers, "").await.is(status);
        }
        ada.get("/auth/me").await.is(401);
    }
}

#[tokio::test]
async fn only_an_allowed_page_may_create_backup_codes() {
    for app in TestApp::on_every_engine(CONFIG).await {
        let mut ada = signed_in(&app).await;
        for (headers, status) in [
            // 409: it reached the handler, and there is no second factor yet.
            (&[("origin", APP), ("sec-fetch-site", "same-site")][..], 409),
            (&[("sec-fetch-site", "same-site")], 403),
            (&[("origin", "https://evil.example")], 403),
            (&[("sec-fetch-site", "cross-site")], 403),
        ] {
            send(&mut ada, Method::GET, "/auth/2fa/backup-codes", headers, "").await.is(status);
        }
    }
}

#[tokio::test]
async fn an_allowed_page_restores_a_record_without_a_body() {
    let config = CONFIG.replace("name = \"notes\"\n", "name = \"notes\"\nsoft_delete = true\n");
    for app in TestApp::on_every_engine(&config).await {
        let mut ada = signed_in(&app).await;
        let made = script(&mut ada, Method::POST, "/api/notes", "{\"text\":\"x\"}").await.is(201);
        let path = format!("/api/notes/{}", made.at("/data/id").as_str().unwrap());
        script(&mut ada, Method::DELETE, &path, "").await.is(204);
        let token = send(&mut ada, Method::GET, "/auth/csrf", &[("origin", APP)], "").await.at("/csrfToken");
        let token = ("x-csrf-token", token.as_str().unwrap());
        let restore = format!("{path}/_restore");
        for (headers, status) in [
            (&[token, ("origin", "https://evil.example")][..], 403),
            (&[token, ("sec-fetch-site", "same-site")], 403),
            (&[token, ("origin", APP), ("sec-fetch-site", "same-site")], 200),
        ] {
            send(&mut ada, Method::POST, &restore, headers, "").await.is(status);
        }
    }
}

#[tokio::test]
async fn the_prefix_is_api_unless_another_is_set() {
    for (prefix, path) in [("", "/api/notes"), ("api_prefix = \"/v1\"\n", "/v1/notes")] {
        let config = CONFIG.replacen("[server]\n", &format!("[server]\n{prefix}"), 1);
        for app in TestApp::on_every_engine(&config).await {
            let origin = [("origin", "https://evil.example")];
            send(&mut app.anonymous(), Method::GET, path, &origin, "").await.is(403);
            app.anonymous().get(path).await.is(401);
        }
    }
}

#[tokio::test]
async fn the_start_is_refused_without_https_or_loopback() {
    for (public, starts) in [
        ("https://api.example.com", true),
        ("http://127.0.0.1:8080", true),
        ("http://localhost:8080", true),
        ("http://api.example.com", false),
        ("http://192.168.0.1", false),
    ] {
        let folder = tempfile::tempdir().unwrap();
        let url = format!("sqlite://{}/test.db", folder.path().display());
        let mut config = Loader::text("f.toml", CONFIG).dev_mode().database(&*url).load().unwrap();
        config.server.public_url = Some(public.parse().unwrap());
        let built = App::builder(config).build().await;
        assert_eq!(built.is_ok(), starts, "{public}");
        if let Err(error) = built {
            assert!(error.to_string().contains("server.public_url"), "{error}");
        }
    }
}
