//! `/`: the start page in dev mode, and where it leads otherwise.

use axum::Router;
use gatewright_base::Secret;
use gatewright_testing::TestApp;
use serde_json::json;

use super::Server;

const ANN: &str = "ann@example.com";

const CONFIGURATION: &str = concat!(
    entity!(owned "notes" "title"),
    entity!(multi_tenant "plans" "title"),
    "[[entity]]\nname = \"secrets\"\ncrud = false\n[[entity.field]]\nname = \"title\"\ntype = \"string\"\n"
);

#[tokio::test]
async fn in_dev_mode_it_lists_entities_pages_and_a_request() {
    for app in TestApp::on_every_engine(CONFIGURATION).await {
        let ann = app.signed_in(ANN).await;
        for title in ["canary one", "canary two"] {
            ann.post("/notes", json!({ "title": title })).await.is(201);
        }
        let page = ann.get("/").await.is(200);
        for part in [
            "<tr><td>notes</td><td class=\"number\">2</td><td><a href=\"/notes\"><code>/notes</code></a></td></tr>",
            "<tr><td>plans</td><td class=\"number\">0</td>",
            "<tr><td>secrets</td><td class=\"number\">0</td><td></td></tr>",
            "/dev/mail\"",
            "/login\"",
            "curl -s ",
            "Signed in as ann@example.com.",
            "action=\"/auth/logout\"",
            "data-stream=\"/notes/_events\"",
        ] {
            assert!(page.text().contains(part), "{part} is not in {}", page.text());
        }
        // It counts records, and shows none.
        assert!(!page.text().contains("canary"), "{}", page.text());
        assert_eq!(page.header("cache-control"), Some("no-store"));
        let policy = page.header("content-security-policy").unwrap();
        assert!(policy.contains("; connect-src 'self'") && !policy.contains("unsafe"), "{policy}");
        assert!(app.anonymous().get("/").await.is(200).text().contains("href=\"/register\""), "{}", app.engine());
    }
}

#[tokio::test]
async fn in_dev_mode_it_shows_what_check_warns_of() {
    let open = "[[entity]]\nname = \"posts\"\n[[entity.field]]\nname = \"title\"\ntype = \"string\"\n";
    for app in TestApp::on_every_engine(open).await {
        let page = app.anonymous().get("/").await.is(200);
        assert!(page.text().contains("<code>owner_field</code>"), "{}", page.text());
    }
}

#[tokio::test]
async fn outside_dev_mode_it_leads_to_the_front_end_or_the_sign_in() {
    for (app_url, accounts, expected) in [
        (Some("https://front.example/app"), true, "location: https://front.example/app\r\n"),
        (None, true, "location: /login\r\n"),
        (None, false, "The server runs."),
    ] {
        let server = Server::start(
            |config| {
                config.server.dev_mode = false;
                config.auth.jwt_secret = Secret::new("a-secret-of-at-least-thirty-two-bytes");
                config.auth.enabled = accounts;
                config.server.app_url = app_url.map(|url| url.parse().unwrap());
            },
            Router::new(),
        )
        .await;
        let answer = server.get("/").await;
        assert!(answer.contains(expected) && !answer.contains("curl"), "{answer}");
        assert_eq!(answer.contains(" 303 "), expected.starts_with("location"), "{answer}");
    }
}
