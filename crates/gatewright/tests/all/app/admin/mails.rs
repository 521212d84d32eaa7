use std::time::{Duration, Instant};

use futures_util::future::join_all;
use gatewright::mail::testing::{SmtpOptions, SmtpServer};
use gatewright_testing::{Actor, TestApp};
use jiff::SignedDuration;
use serde_json::{Value, json};
use tokio::net::TcpListener;

use super::{id_of, operator};

const SETTINGS: &str = r#"
[auth]
jwt_secret = "0123456789-0123456789-0123456789"
[auth.limits.register]
max_attempts = 1000
[auth.limits.password_reset]
max_attempts = 1000
"#;
const ANN: &str = "ann@example.com";

/// A deployment whose mail server is at this port.
async fn apps(port: u16) -> Vec<TestApp> {
    let email = format!("[email]\nsmtp_url = \"smtp://127.0.0.1:{port}\"\nfrom = \"a@example.com\"\n");
    TestApp::on_every_engine(&format!("{SETTINGS}{email}{}", super::ENTITIES)).await
}

/// A port without a server.
async fn closed_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap().port()
}

async fn forgot(app: &TestApp, email: &str) {
    app.anonymous().post("/auth/forgot-password", json!({ "email": email })).await.is(200);
}

/// The letters of a list, once there are so many.
async fn mails(operator: &Actor, query: &str, count: usize) -> Vec<Value> {
    let deadline = Instant::now() + Duration::from_mins(1);
    loop {
        let found = operator.get(&format!("/admin/api/mails{query}")).await.is(200).json();
        let rows = found["data"].as_array().unwrap().clone();
        if rows.len() == count {
            return rows;
        }
        assert!(Instant::now() < deadline, "{query}: {rows:?}");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

/// One letter, once its first attempt has failed.
async fn failed_once(operator: &Actor) -> Value {
    loop {
        let mail = mails(operator, "?recipient=ANN@example.com", 1).await.remove(0);
        if !mail["lastError"].is_null() {
            return mail;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

#[tokio::test]
async fn a_mail_that_cannot_be_sent_is_seen_without_its_link_and_retried_when_the_server_is_back() {
    let port = closed_port().await;
    for app in apps(port).await {
        let operator = operator(&app).await;
        app.signed_in(ANN).await;
        forgot(&app, ANN).await;
        let mail = failed_once(&operator).await;
        assert_eq!((&mail["kind"], &mail["status"]), (&json!("password_reset"), &json!("pending")));
        assert!(mail["lastError"].as_str().unwrap().contains("cannot be reached"), "{mail}");
        let shown = mail.to_string();
        assert!(!shown.contains("token") && !shown.contains("http") && !shown.contains("code"), "{shown}");
        assert!(operator.get("/admin/api/me").await.is(200).text().contains("\"mail_queue\""));
        let metrics = app.anonymous().get("/metrics").await.is(200);
        assert!(metrics.text().contains("gatewright_mail_queue{status=\"pending\"}"), "{}", metrics.text());

        let Some(mut smtp) = SmtpServer::start(SmtpOptions { port: Some(port), ..SmtpOptions::default() }) else {
            return;
        };
        let at = format!("/admin/api/mails/{}", mail["id"].as_str().unwrap());
        operator.post(&format!("{at}/retry"), json!({})).await.is(204);
        let arrived = smtp.mails(1).await.into_iter().find(|mail| mail.recipients == [ANN]).unwrap();
        let token = arrived.text.as_deref().unwrap().split("token=").nth(1).unwrap();
        let token: String = token.chars().take_while(|c| c.is_ascii_alphanumeric() || "-_".contains(*c)).collect();
        let body = json!({ "token": token, "password": "a new correct horse" });
        app.anonymous().post("/auth/reset-password", body).await.is(200);
        mails(&operator, "?recipient=ann@example.com", 0).await;
        operator.post(&format!("{at}/retry"), json!({})).await.is(404);
    }
}

#[tokio::test]
async fn actions_on_mails_are_audited_and_one_of_twenty_discards_succeeds() {
    for app in apps(closed_port().await).await {
        let operator = operator(&app).await;
        let ann = app.signed_in(ANN).await;
        forgot(&app, ANN).await;
        let id = failed_once(&operator).await["id"].as_str().unwrap().to_owned();
        let at = format!("/admin/api/mails/{id}");
        for path in ["/admin/api/mails".to_owned(), at.clone()] {
            ann.get(&path).await.is(403);
        }
        ann.delete(&at).await.is(403);
        operator.get("/admin/api/mails?status=nonsense").await.is(400);

        app.wait(SignedDuration::from_hours(2));
        let expired = operator.post(&format!("{at}/retry"), json!({})).await.is(409);
        assert_eq!(expired.at("/code"), json!("mail_expired"));
        let tries = join_all((0..20).map(|_| operator.delete(&at))).await;
        assert_eq!(tries.iter().filter(|answer| answer.status() == 204).count(), 1);
        assert_eq!(tries.iter().filter(|answer| answer.status() == 404).count(), 19);
        let log = operator.get(&format!("/admin/api/audit?subject=mails/{id}")).await.is(200).json();
        let done = log["data"].as_array().unwrap().iter().find(|event| event["meta"]["status"] == json!(204)).unwrap();
        assert_eq!((&done["meta"]["email"], &done["meta"]["kind"]), (&json!(ANN), &json!("password_reset")));
        assert_eq!(log["data"].as_array().unwrap().len(), 21, "also what was refused");
    }
}

#[tokio::test]
async fn deleting_an_account_deletes_its_mails() {
    for app in apps(closed_port().await).await {
        let operator = operator(&app).await;
        app.signed_in(ANN).await;
        app.registered("ben@example.com").await;
        for email in [ANN, "ben@example.com"] {
            forgot(&app, email).await;
        }
        mails(&operator, "?recipient=ann@example.com", 1).await;
        let ann = id_of(&app, ANN).await;
        // Mails to an address that was never proven do not belong to the account.
        app.prove_mailbox(ANN).await;
        operator.delete(&format!("/admin/api/users/{ann}")).await.is(204);
        mails(&operator, "?recipient=ann@example.com", 0).await;
        mails(&operator, "?recipient=ben@example.com", 1).await;
    }
}

#[tokio::test]
async fn a_silent_mail_server_delays_no_request_and_reveals_no_account() {
    let silent = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = silent.local_addr().unwrap().port();
    for app in apps(port).await {
        let operator = operator(&app).await;
        for number in 0..12 {
            app.registered(&format!("user{number}@example.com")).await;
        }
        let start = Instant::now();
        for number in 0..24 {
            // Half of them have an account.
            forgot(&app, &format!("user{number}@example.com")).await;
        }
        let mut ann = app.signed_in(ANN).await;
        ann.sign_out().await.is(204);
        ann.sign_in(ANN).await.is(200);
        assert!(
            start.elapsed() < Duration::from_mins(1),
            "with an attempt each it would be many minutes: {:?}",
            start.elapsed()
        );
        for number in 0..24 {
            mails(&operator, &format!("?recipient=user{number}@example.com"), usize::from(number < 12)).await;
        }
        // The others wait in the table.
        mails(&operator, "?status=sending", 4).await;
    }
}
