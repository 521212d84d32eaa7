use gatewright_auth::AuthConfig;
use serde_json::json;

use crate::support::{ANN, Call, PASSWORD, Site, config, databases};

const EVIL: (&str, &str) = ("origin", "https://evil.example");
const FETCH: (&str, &str) = ("sec-fetch-site", "cross-site");

fn shaped(path: &str, shape: &str) -> Call {
    let fields = [("email", ANN), ("password", PASSWORD)];
    let call = Call::post(path).header("host", "app.example.com");
    match shape {
        "urlencoded" => call.form(&fields),
        "multipart" => call.multipart(&fields),
        "text" => call.body("text/plain", r#"{"email":"ann@example.com"}"#),
        "none" => call,
        "json" => call.json(&json!({ "email": ANN, "password": PASSWORD })),
        other => unreachable!("{other}"),
    }
}

#[tokio::test]
async fn cross_site_requests_without_a_preflight_are_refused() {
    for db in databases().await {
        let site = Site::on(&db).await;
        site.register_ann().await;
        for path in ["/auth/login", "/auth/register", "/auth/logout"] {
            for shape in ["urlencoded", "multipart", "text", "none"] {
                for (name, value) in [
                    EVIL,
                    FETCH,
                    ("origin", "null"),
                    ("origin", "http://app.example.com:8080"),
                    ("origin", "https://app.example.com"),
                ] {
                    let answer = shaped(path, shape).header(name, value).send(&site).await.expect(403);
                    assert!(answer.body.contains("cross-site request refused"), "{path} {shape}");
                    assert!(answer.set_cookie().is_none());
                    let is_form = matches!(shape, "urlencoded" | "multipart");
                    let kind = if is_form { "text/html" } else { "application/problem+json" };
                    assert!(answer.headers["content-type"].to_str().unwrap().starts_with(kind));
                }
            }
        }
    }
}

#[tokio::test]
async fn json_and_requests_without_an_origin_pass() {
    for db in databases().await {
        let site = Site::on(&db).await;
        site.register_ann().await;
        shaped("/auth/login", "json").header(EVIL.0, EVIL.1).send(&site).await.expect(200);
        shaped("/auth/login", "json").header(FETCH.0, FETCH.1).send(&site).await.expect(200);
        shaped("/auth/login", "urlencoded").send(&site).await.expect(303);
        shaped("/auth/login", "multipart").send(&site).await.expect(303);
        shaped("/auth/logout", "none").send(&site).await.expect(204);
        shaped("/auth/login", "urlencoded").header("origin", "http://app.example.com").send(&site).await.expect(303);
        shaped("/auth/login", "urlencoded").header("sec-fetch-site", "same-origin").send(&site).await.expect(303);
    }
}

#[tokio::test]
async fn the_public_url_is_an_own_origin() {
    for db in databases().await {
        let config = AuthConfig { public_url: Some("https://www.example.com/app".parse().unwrap()), ..config() };
        let site = Site::with(config, |builder| builder.database(db.db.clone())).await;
        site.register_ann().await;
        let login = |origin| shaped("/auth/login", "urlencoded").header("origin", origin);
        login("https://www.example.com").send(&site).await.expect(303);
        login("http://www.example.com").send(&site).await.expect(403);
        login("https://www.example.com:8443").send(&site).await.expect(403);
    }
}

/// A foreign page's form must not sign anybody out, and its script cannot send the JSON that would.
#[tokio::test]
async fn a_refused_logout_keeps_the_session() {
    for db in databases().await {
        let site = Site::on(&db).await;
        let session = site.signed_in_ann().await;
        shaped("/auth/logout", "urlencoded").header(EVIL.0, EVIL.1).cookie_of(&session).send(&site).await.expect(403);
        site.me(&session).await.expect(200);
    }
}
