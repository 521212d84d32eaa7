//! Links in mails through the whole application: the development mailbox, and an independent mail server.

use gatewright_mail::testing::{SmtpOptions, SmtpServer};
use gatewright_testing::{Actor, Answer, TestApp};
use http::{Method, header};
use jiff::SignedDuration;
use serde_json::json;

/// The path and query of the newest mail's link.
async fn newest_link(app: &TestApp) -> String {
    let mails = app.anonymous().get("/dev/mail.json").await.is(200);
    let link = mails.at("/0/links/0").as_str().expect("a mail with a link").to_owned();
    let (_, path) = link.split_once("://").and_then(|(_, rest)| rest.split_once('/')).expect("a whole URL");
    format!("/{path}")
}

fn token_of(link: &str) -> &str {
    link.split_once("token=").expect("the link has a token").1
}

async fn post_form(actor: &Actor, path: &str, fields: &[(&str, &str)]) -> Answer {
    let body = url::form_urlencoded::Serializer::new(String::new()).extend_pairs(fields).finish();
    let request = actor.request(Method::POST, path).header(header::CONTENT_TYPE, "application/x-www-form-urlencoded");
    actor.send(request.body(body.into()).expect("a request")).await
}

#[tokio::test]
async fn a_visitor_signs_in_by_the_link_in_the_development_mailbox() {
    for app in TestApp::on_every_engine("").await {
        let mut ada = app.anonymous();
        let login = ada.get("/login").await.is(200);
        assert!(login.text().contains("/auth/magic-link/send"));
        let fields = [("email", "ada@example.com"), ("next", "/account")];
        let sent = post_form(&ada, "/auth/magic-link/send", &fields).await.is(200);
        // In a browser that did not request it, the link of a form needs the code of the mail too.
        ada.keep_cookies(&sent);
        let link = newest_link(&app).await;
        let page = ada.get(&link).await.is(200);
        assert!(page.text().contains("ada@example.com"), "{}", app.engine());
        let answer = post_form(&ada, "/auth/magic-link/verify", &[("token", token_of(&link))]).await.is(303);
        assert_eq!(answer.header("location"), Some("/account"));
        ada.keep_cookies(&answer);
        assert_eq!(ada.get("/auth/me").await.is(200).at("/emailVerified"), json!(true));
        post_form(&app.anonymous(), "/auth/magic-link/verify", &[("token", token_of(&link))]).await.is(401);
    }
}

#[tokio::test]
async fn a_forgotten_password_is_replaced_and_the_address_verified() {
    for app in TestApp::on_every_engine("").await {
        let ada = app.signed_in("ada@example.com").await;
        ada.post("/auth/send-verification", json!({})).await.is(200);
        let link = newest_link(&app).await;
        let scanned = app.anonymous().get(&link).await.is(200).json();
        assert_eq!(scanned, json!({ "verified": false, "confirm": "POST" }));
        assert_eq!(ada.get(&link).await.is(200).json(), json!({ "verified": true }));
        assert_eq!(ada.get("/auth/me").await.is(200).at("/emailVerified"), json!(true));

        app.anonymous().post("/auth/forgot-password", json!({ "email": "Ada@Example.com" })).await.is(200);
        let link = newest_link(&app).await;
        assert!(link.starts_with("/reset-password?token="));
        app.anonymous().get(&link).await.is(200);
        app.wait(SignedDuration::from_secs(1));
        let body = json!({ "token": token_of(&link), "password": "a wholly new password" });
        app.anonymous().post("/auth/reset-password", body.clone()).await.is(200);
        app.anonymous().post("/auth/reset-password", body).await.is(401);
        ada.get("/auth/me").await.is(401);
        app.anonymous().sign_in("ada@example.com").await.is(401);
        let login = json!({ "email": "ada@example.com", "password": "a wholly new password" });
        app.anonymous().post("/auth/login", login).await.is(200);
    }
}

#[tokio::test]
async fn lifetimes_and_limits_are_those_of_the_configuration() {
    let toml = "[auth.magic_link]\nttl_seconds = 60\n[auth.limits.magic_link]\nmax_attempts = 2";
    for app in TestApp::on_every_engine(toml).await {
        app.anonymous().post("/auth/magic-link/send", json!({ "email": "ada@example.com" })).await.is(200);
        let link = newest_link(&app).await;
        app.wait(SignedDuration::from_secs(60));
        app.anonymous().post("/auth/magic-link/verify", json!({ "token": token_of(&link) })).await.is(401);
        app.anonymous().post("/auth/magic-link/send", json!({ "email": "ada@example.com" })).await.is(200);
        let refused =
            app.anonymous().post("/auth/magic-link/send", json!({ "email": "ada@example.com" })).await.is(429);
        assert_eq!(refused.text(), "rate limit exceeded");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn with_a_mail_server_in_dev_mode_mails_are_sent_and_shown() {
    let Some(mut server) = SmtpServer::start(SmtpOptions::default()) else { return };
    let toml =
        format!("[email]\nsmtp_url = \"smtp://127.0.0.1:{}\"\nfrom = \"Blog <noreply@example.com>\"", server.port());
    let apps = TestApp::on_every_engine(&toml).await;
    for (index, app) in apps.iter().enumerate() {
        app.registered("ada@example.com").await;
        app.anonymous().post("/auth/forgot-password", json!({ "email": "ada@example.com" })).await.is(200);
        let mails = server.mails(index + 1).await;
        let mail = mails.last().unwrap();
        assert_eq!(mail.recipients, ["ada@example.com"]);
        assert_eq!(mail.header("From"), "Blog <noreply@example.com>");
        let link = newest_link(app).await;
        let text = mail.text.as_deref().unwrap().split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(text.contains(token_of(&link)) && text.contains("it also ends the account's API tokens"), "{text}");
        let body = json!({ "token": token_of(&link), "password": "a wholly new password" });
        app.anonymous().post("/auth/reset-password", body).await.is(200);
    }
}
