//! Pages of every origin may call what programs find by discovery, with tokens and never with cookies.

use std::collections::BTreeSet;

use axum::body::Body;
use gatewright_testing::{Actor, Answer, TestApp};
use http::{Method, header};
use serde_json::{Value, json};

const ENTITIES: &str =
    concat!("[authorization_server]\nenabled = true\ndynamic_registration = true\n", entity!(owned "notes" "title"));
const WITH_CSRF: &str = "[csrf]\nenabled = true\n";
const WITH_BACKEND: &str = "[browser_backend]\nallowed_origins = [\"https://spa.example.com\"]\n";
const PAGES: [&str; 4] = ["https://page.example", "null", "http://localhost:5173", "https://spa.example.com"];

/// Every open door, with the method that a page uses.
const DOORS: [(&str, &str); 9] = [
    ("POST", "/auth/oauth2/token"),
    ("POST", "/auth/oauth2/revoke"),
    ("POST", "/auth/oauth2/introspect"),
    ("POST", "/auth/oauth2/register"),
    ("POST", "/auth/oauth2/device_authorization"),
    ("GET", "/.well-known/oauth-authorization-server"),
    ("GET", "/.well-known/oauth-protected-resource"),
    ("GET", "/.well-known/oauth-protected-resource/mcp"),
    ("POST", "/mcp"),
];

async fn send(actor: &Actor, method: &str, path: &str, headers: &[(&str, &str)], body: &str) -> Answer {
    let request = actor.request(method.parse::<Method>().unwrap(), path);
    let request = headers.iter().fold(request, |request, (name, value)| request.header(*name, *value));
    actor.send(request.body(Body::from(body.to_owned())).unwrap()).await
}

fn is_open(answer: &Answer) -> bool {
    assert_eq!(answer.header("access-control-allow-credentials"), None, "never with credentials");
    answer.header("access-control-allow-origin") == Some("*")
}

/// The values of a header that is a list, in lower case.
fn list(answer: &Answer, name: &str) -> BTreeSet<String> {
    let text = answer.header(name).unwrap_or_default().to_ascii_lowercase();
    text.split(',').map(|value| value.trim().to_owned()).collect()
}

#[tokio::test]
async fn every_door_that_discovery_names_answers_preflights_and_lets_every_page_read() {
    for more in ["", WITH_CSRF, WITH_BACKEND] {
        for app in TestApp::on_every_engine(&format!("{more}{ENTITIES}")).await {
            let anyone = app.anonymous();
            for (method, path) in DOORS {
                for page in PAGES {
                    let asked = [
                        ("origin", page),
                        ("access-control-request-method", method),
                        ("access-control-request-headers", "authorization,content-type,mcp-protocol-version"),
                    ];
                    let answer = send(&anyone, "OPTIONS", path, &asked, "").await.is(204);
                    assert!(is_open(&answer), "{path} {page}");
                    assert!(list(&answer, "access-control-allow-methods").contains(&method.to_lowercase()), "{path}");
                    for header in ["authorization", "content-type", "mcp-protocol-version", "mcp-session-id", "accept"]
                    {
                        assert!(list(&answer, "access-control-allow-headers").contains(header), "{path}: {header}");
                    }
                    // Refusals too: a page must learn why.
                    let headers = [("origin", page), ("content-type", "application/json")];
                    let answer = send(&anyone, method, path, &headers, "{}").await;
                    assert!(is_open(&answer) && answer.status() < 500, "{path} {page}: {}", answer.status());
                    if path == "/mcp" {
                        assert_eq!(answer.status(), 401, "{}", answer.text());
                        assert!(
                            answer.header("www-authenticate").is_some_and(|asked| asked.contains("resource_metadata"))
                        );
                    }
                    for header in ["www-authenticate", "mcp-session-id", "retry-after"] {
                        assert!(list(&answer, "access-control-expose-headers").contains(header), "{path}: {header}");
                    }
                }
            }
            let discovered = anyone.get("/.well-known/oauth-authorization-server").await.is(200).json();
            for (name, url) in discovered.as_object().unwrap().iter().filter(|(name, _)| name.ends_with("_endpoint")) {
                let path = url.as_str().unwrap().strip_prefix("http://127.0.0.1:8080").unwrap();
                let is_door = DOORS.iter().any(|(_, door)| *door == path);
                assert_eq!(is_door, name != "authorization_endpoint", "{name}: a browser goes there itself");
            }
            // No other path is open.
            let asked = [("origin", PAGES[0]), ("access-control-request-method", "POST")];
            for path in
                ["/auth/login", "/auth/oauth2/authorize", "/api/notes", "/auth/oauth2/token/", "/mcp/", "/auth/me"]
            {
                let answer = send(&anyone, "OPTIONS", path, &asked, "").await;
                assert!(!is_open(&answer), "{path}");
            }
        }
    }
}

#[tokio::test]
async fn a_page_of_another_origin_connects_with_a_token() {
    for app in TestApp::on_every_engine(ENTITIES).await {
        let ada = app.signed_in("ada@example.com").await;
        let wanted = json!({ "name": "page", "scopes": ["notes:write"] });
        let token = ada.post("/auth/tokens", wanted).await.is(200).at("/token");
        let bearer = format!("Bearer {}", token.as_str().unwrap());
        for page in PAGES {
            let made = call(&app.anonymous(), &[("origin", page), ("authorization", &bearer)]).await.is(200);
            assert!(is_open(&made), "{page}");
            assert_eq!(made.json()["result"]["isError"], json!(false), "{page}: {}", made.text());
            let unknown = call(&app.anonymous(), &[("origin", page)]).await.is(401);
            assert!(is_open(&unknown) && unknown.header("www-authenticate").is_some(), "{page}");
            let wrong = [("origin", page), ("authorization", "Bearer svc_unknown")];
            call(&app.anonymous(), &wrong).await.is(401);
            let rebound = [("origin", page), ("authorization", &*bearer), ("host", "evil.example")];
            call(&app.anonymous(), &rebound).await.is(403);
        }
    }
}

/// The attack: a page makes the browser of a user who is signed in act with the session's cookie.
#[tokio::test]
async fn a_cookie_is_no_credential_for_a_page_of_another_origin() {
    for more in ["", "[mcp]\nanonymous = true\n"] {
        for app in TestApp::on_every_engine(&format!("{more}{ENTITIES}")).await {
            let ada = app.signed_in("ada@example.com").await;
            let ways: [&[(&str, &str)]; 6] = [
                &[("origin", "https://page.example")],
                &[("origin", "null")],
                &[("origin", "https://page.example"), ("sec-fetch-site", "same-origin")],
                &[("sec-fetch-site", "cross-site")],
                &[("sec-fetch-site", "same-site")],
                &[("origin", "http://127.0.0.1:8080"), ("origin", "https://page.example")],
            ];
            for headers in ways {
                let answer = call(&ada, headers).await;
                assert!([401, 403].contains(&answer.status()), "{headers:?}: {} {}", answer.status(), answer.text());
                is_open(&answer);
                let junk = [headers, &[("authorization", "Bearer junk")]].concat();
                let answer = call(&ada, &junk).await;
                assert!([401, 403].contains(&answer.status()), "{junk:?}: {} {}", answer.status(), answer.text());
            }
            assert_eq!(ada.get("/notes").await.is(200).json()["total"], 0, "nothing was written");
            // The service's own page, and a program with the cookie.
            for headers in [&[][..], &[("origin", "http://127.0.0.1:8080"), ("sec-fetch-site", "same-origin")]] {
                call(&ada, headers).await.is(200);
            }
            assert_eq!(ada.get("/notes").await.is(200).json()["total"], 2);
        }
    }
}

/// Creates a note with a tool.
async fn call(actor: &Actor, headers: &[(&str, &str)]) -> Answer {
    let params = json!({ "name": "notes_create", "arguments": { "title": "x" } });
    let message: Value = json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params });
    let usual = [
        (header::CONTENT_TYPE.as_str(), "application/json"),
        (header::ACCEPT.as_str(), "application/json, text/event-stream"),
    ];
    send(actor, "POST", "/mcp", &[&usual, headers].concat(), &message.to_string()).await
}
