//! Mail with the settings of production and in dev mode.

use axum::Router;
use gatewright::Config;
use gatewright_base::Secret;

use super::Server;

fn production(config: &mut Config) {
    config.server.dev_mode = false;
    config.auth.jwt_secret = Secret::new("a-secret-of-at-least-thirty-two-bytes");
}

async fn post(server: &Server, path: &str, body: &str) -> String {
    let length = body.len();
    let head = format!(
        "POST {path} HTTP/1.1\r\nHost: test\r\nConnection: close\r\nContent-Type: application/json\r\n\
         Content-Length: {length}\r\n\r\n"
    );
    server.exchange(&format!("{head}{body}")).await
}

#[tokio::test]
async fn without_a_mailer_production_answers_503_except_for_a_forgotten_password() {
    let server = Server::start(production, Router::new()).await;
    let link = post(&server, "/auth/magic-link/send", r#"{"email":"ann@example.com"}"#).await;
    assert!(link.starts_with("HTTP/1.1 503") && link.contains("magic link delivery not configured"), "{link}");
    let forgot = post(&server, "/auth/forgot-password", r#"{"email":"ann@example.com"}"#).await;
    assert!(forgot.starts_with("HTTP/1.1 200") && forgot.ends_with(r#"{"sent":true}"#), "{forgot}");
    // The screens do not offer mails.
    let login = server.get("/login").await;
    assert!(login.contains("name=\"password\"") && !login.contains("/forgot-password"), "{login}");
    let page = server.get("/forgot-password").await;
    assert!(page.contains("sends no mail") && !page.contains("<form") && page.contains("href=\"/login\""), "{page}");
    let dev = Server::plain().await;
    assert!(dev.get("/login").await.contains("/forgot-password"));
    assert!(dev.get("/forgot-password").await.contains("<form"));
}

#[tokio::test]
async fn the_development_mailbox_exists_only_in_dev_mode() {
    let dev = Server::plain().await;
    let get = |path: &str| format!("GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
    for path in ["/dev/mail", "/dev/mail.json"] {
        let shown = dev.exchange(&get(path)).await;
        assert!(shown.starts_with("HTTP/1.1 200"), "{shown}");
        let production = Server::start(production, Router::new()).await;
        let hidden = production.exchange(&get(path)).await;
        assert!(hidden.starts_with("HTTP/1.1 404"), "{hidden}");
    }
}

#[tokio::test]
async fn a_template_of_the_configuration_confirms_magic_links() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("confirm.html");
    let form = "<form class=mine method=post action=\"{{ action }}\">{% if csrf %}<input name=_csrf value=\"{{ csrf }}\">\
                {% endif %}<input name=token value=\"{{ token }}\"></form>";
    std::fs::write(&path, form).unwrap();
    let server = Server::start(|config| config.auth.magic_link_template = Some(path.clone()), Router::new()).await;
    post(&server, "/auth/magic-link/send", r#"{"email":"ann@example.com"}"#).await;
    let mails = server.exchange("GET /dev/mail.json HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n").await;
    let (_, token) = mails.split_once("token=").expect("a mail with a link");
    let page = server.get(&format!("/auth/magic-link/verify?token={}", &token[..43])).await;
    assert!(page.contains("class=mine"), "{page}");
}

#[test]
fn the_reference_names_every_template() {
    let about = gatewright::Config::settings()
        .into_iter()
        .find(|setting| setting.section == "email" && setting.key == "templates");
    let about = format!("{:?}", about.unwrap());
    for kind in gatewright_mail::Kind::ALL {
        assert!(about.contains(&format!("`{}", kind.name())), "{}: {about}", kind.name());
    }
}

#[test]
fn the_check_reports_an_unusable_template_or_mail_server() {
    let mut config = Config::default();
    config.server.dev_mode = true;
    config.auth.magic_link_template = Some("nowhere.html".into());
    let faults = config.check().unwrap_err().to_string();
    assert!(faults.contains("auth.magic_link.template: nowhere.html cannot be read"), "{faults}");
    for (url, from, key) in [
        ("http://h", "a@b", "email.smtp_url"),
        ("smtp://h", "a@b\r\nBcc: c@d", "email.from"),
        ("smtp://h", "a", "email.from"),
    ] {
        let email = gatewright::config::Email { smtp_url: Secret::new(url), from: from.to_owned(), templates: None };
        let config = Config { email: Some(email), ..Config::default() };
        assert!(config.check().unwrap_err().to_string().contains(key), "{url} {from}");
    }
}
