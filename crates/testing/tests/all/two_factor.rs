//! The answers to a pending session on every surface of the whole application.

use std::process::Command;

use base64::Engine as _;
use gatewright_testing::{Actor, TestApp};
use http::Method;
use jiff::SignedDuration;
use serde_json::{Value, json};

const BLOG: &str = include_str!("../../../../examples/blog.toml");
const REQUIRED: &str = "two-factor verification required";

/// The code of an authenticator, computed by `oathtool`; `None` without that program, which `cargo xtask test` demands.
fn code(secret: &str, at: i64) -> Option<String> {
    let program = std::env::var_os("GATEWRIGHT_TEST_OATHTOOL").unwrap_or_else(|| "oathtool".into());
    let output = Command::new(program).args(["--totp", "-b", "--now", &format!("@{at}"), secret]).output();
    match output {
        Ok(output) => Some(String::from_utf8_lossy(&output.stdout).trim().to_owned()),
        Err(_) => {
            assert!(std::env::var_os("GATEWRIGHT_TEST_REQUIRED").is_none(), "`oathtool` is missing");
            None
        }
    }
}

/// The application's time: the issue time of a JWT.
fn now(token: &Value) -> i64 {
    let claims = token.as_str().and_then(|token| token.split('.').nth(1)).expect("a token");
    let claims = base64::engine::general_purpose::URL_SAFE_NO_PAD.decode(claims).expect("base64url");
    serde_json::from_slice::<Value>(&claims).expect("JSON")["iat"].as_i64().expect("a number")
}

#[tokio::test]
async fn a_pending_session_is_refused_everywhere_until_the_challenge() {
    for app in TestApp::on_every_engine(BLOG).await {
        app.registered("ada@example.com").await;
        let mut ada = app.anonymous();
        let signed_in = ada.sign_in("ada@example.com").await.is(200);
        let time = now(&signed_in.at("/token"));
        let begun = ada.post("/auth/2fa/enroll", json!({})).await.is(200);
        let secret = begun.at("/secret").as_str().unwrap().to_owned();
        let Some(first) = code(&secret, time) else { return };
        let enabled = ada.post("/auth/2fa/verify", json!({ "code": first })).await.is(200);
        assert_eq!(enabled.at("/backupCodes").as_array().unwrap().len(), 10, "{}", app.engine());
        let created = ada.post("/posts", json!({ "title": "mine" })).await.is(201);
        let post = created.header("location").unwrap().to_owned();
        app.wait(SignedDuration::from_secs(30));

        let mut later = app.anonymous();
        let pending = later.sign_in("ada@example.com").await.is(200);
        assert_eq!((pending.at("/two_factor_required"), pending.at("/token")), (json!(true), Value::Null));
        for path in ["/auth/me", "/auth/sessions", "/posts", &post, "/posts/_events"] {
            assert_eq!(later.get(path).await.is(403).at("/detail"), REQUIRED, "{} {path}", app.engine());
        }
        later.post("/posts", json!({ "title": "too early" })).await.is(403);
        later.patch(&post, json!({ "title": "too early" })).await.is(403);
        later.delete(&post).await.is(403);
        challenge(&mut later, "000000").await.is(401);

        let stolen = later.clone();
        let passed = challenge(&mut later, &code(&secret, time + 30).unwrap()).await.is(200);
        assert_eq!(later.get("/auth/me").await.is(200).at("/twoFactorEnabled"), json!(true));
        later.get(&post).await.is(200);
        app.anonymous().bearing(passed.at("/token").as_str().unwrap()).get(&post).await.is(200);
        stolen.get("/posts").await.is(401);
    }
}

async fn challenge(actor: &mut Actor, code: &str) -> gatewright_testing::Answer {
    let answer = actor.post("/auth/2fa/challenge", json!({ "code": code })).await;
    actor.keep_cookies(&answer);
    answer
}

#[tokio::test]
async fn a_form_redirects_to_the_page_for_the_code() {
    for app in TestApp::on_every_engine(BLOG).await {
        let ada = app.signed_in("ada@example.com").await;
        let time = now(&app.anonymous().sign_in("ada@example.com").await.at("/token"));
        let secret = ada.post("/auth/2fa/enroll", json!({})).await.is(200).at("/secret");
        let Some(first) = code(secret.as_str().unwrap(), time) else { return };
        ada.post("/auth/2fa/verify", json!({ "code": first })).await.is(200);
        let mut visitor = app.anonymous();
        let form = visitor
            .request(Method::POST, "/auth/login")
            .header("content-type", "application/x-www-form-urlencoded")
            .body("email=ada%40example.com&password=correct+horse+battery&next=%2Fposts".into());
        let answer = visitor.send(form.unwrap()).await.is(303);
        visitor.keep_cookies(&answer);
        assert_eq!(answer.header("location"), Some("/two-factor?next=%2Fposts"));
        let page = visitor.get("/two-factor?next=%2Fposts").await.is(200);
        assert!(page.text().contains("action=\"/auth/2fa/challenge\""));
    }
}
