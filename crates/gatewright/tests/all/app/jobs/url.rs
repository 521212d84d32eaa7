use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::Bytes;
use axum::extract::State;
use axum::routing::post;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use gatewright_testing::TestApp;
use http::{HeaderMap, StatusCode};
use parking_lot::Mutex;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use super::{a_day_later, declared, ended};

/// What an endpoint has received.
type Received = Arc<Mutex<Vec<(HeaderMap, Bytes)>>>;

/// An endpoint on this machine, and what it has received at `/good`.
pub(crate) async fn endpoint() -> (u16, Received) {
    let received = Received::default();
    let keep = async |State(received): State<Received>, headers: HeaderMap, body: Bytes| {
        received.lock().push((headers, body));
        StatusCode::NO_CONTENT
    };
    let router = Router::new()
        .route("/good", post(keep))
        .route("/bad", post(async || (StatusCode::INTERNAL_SERVER_ERROR, "canary-of-the-answer")))
        .route("/away", post(async || axum::response::Redirect::temporary("/good")))
        .route("/slow", post(async || tokio::time::sleep(Duration::from_mins(1)).await))
        .with_state(received.clone());
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    tokio::spawn(async move { axum::serve(listener, router).await });
    (port, received)
}

/// `whsec_` and 32 bytes, and the signature of a call by the text of Standard Webhooks, with an HMAC of its own.
pub(crate) fn secret() -> (String, [u8; 32]) {
    let key = *b"0123456789abcdef0123456789abcdef";
    (format!("whsec_{}", STANDARD.encode(key)), key)
}

pub(crate) fn signature(key: &[u8; 32], headers: &HeaderMap, body: &[u8]) -> String {
    let header = |name: &str| headers[name].to_str().unwrap().to_owned();
    let mut block = [0_u8; 64];
    block[..32].copy_from_slice(key);
    let pad = |with: u8| block.map(|byte| byte ^ with);
    let signed = format!("{}.{}.", header("webhook-id"), header("webhook-timestamp"));
    let inner = Sha256::new().chain_update(pad(0x36)).chain_update(signed).chain_update(body).finalize();
    format!("v1,{}", STANDARD.encode(Sha256::new().chain_update(pad(0x5c)).chain_update(inner).finalize()))
}

fn job(name: &str, url: &str, secret: &str, more: &str) -> String {
    format!("[[job]]\nname = \"{name}\"\nschedule = \"0 3 * * *\"\nurl = \"{url}\"\nsecret = \"{secret}\"\n{more}\n")
}

#[tokio::test]
async fn a_url_is_called_once_for_a_due_time_with_a_signature_that_others_compute_too() {
    let (port, received) = endpoint().await;
    let (secret, key) = secret();
    let toml = job(
        "digest",
        &format!("http://127.0.0.1:{port}/good?token=canary-of-the-url"),
        &secret,
        "timezone = \"Asia/Tokyo\"",
    );
    for app in TestApp::on_every_engine(&toml).await {
        received.lock().clear();
        declared(&app, "digest").await;
        let runs = a_day_later(&app, "digest", 1).await;
        assert_eq!(runs[0]["outcome"], "succeeded", "{runs:?}");
        let received = std::mem::take(&mut *received.lock());
        let [(headers, body)] = &received[..] else { panic!("one call: {received:?}") };
        assert_eq!(headers["webhook-signature"], signature(&key, headers, body));
        let sent: Value = serde_json::from_slice(body).unwrap();
        assert_eq!((&sent["type"], &sent["data"]["job"]), (&json!("job.due"), &json!("digest")));
        let due = sent["data"]["due"].as_str().unwrap();
        assert!(due.ends_with("T18:00:00.000000Z"), "three in the morning in Tokyo: {due}");
        assert!(sent["timestamp"].as_str().unwrap() >= due);
        assert!(headers["webhook-id"].to_str().unwrap().starts_with("digest-"));
    }
}

#[tokio::test]
async fn a_failure_is_in_the_history_without_the_url_and_the_answer_and_no_private_address_is_called() {
    let (port, received) = endpoint().await;
    let (secret, _) = secret();
    let at = |path: &str| format!("http://127.0.0.1:{port}/{path}");
    let toml = [
        "[functions]\njob_timeout_ms = 1000\n".to_owned(),
        job("bad", &at("bad"), &secret, ""),
        job("away", &at("away"), &secret, ""),
        job("slow", &at("slow"), &secret, ""),
        job("guarded", &at("good"), &secret, "allow_private = false"),
        job("named", &format!("http://localhost:{port}/good"), &secret, "allow_private = false"),
        job("nobody", "http://127.0.0.1:9/canary-of-the-url", &secret, ""),
    ]
    .concat();
    for app in TestApp::on_every_engine(&toml).await {
        received.lock().clear();
        declared(&app, "nobody").await;
        a_day_later(&app, "bad", 1).await;
        for (job, message) in [
            ("bad", "the endpoint answered 500"),
            ("away", "the endpoint answered 307"),
            ("slow", "no answer in time"),
            ("guarded", "not public"),
            ("named", "not public"),
            ("nobody", "no connection"),
        ] {
            let runs = ended(&app, job, 1).await;
            let error = runs[0]["error"].as_str().unwrap();
            let is_late = job == "slow" && error.contains("took longer");
            assert!(error.contains(message) || is_late, "{job}: {error}");
            assert!(!error.contains("canary") && !error.contains("whsec"), "{job}: {error}");
            assert_eq!(runs[0]["outcome"], "failed");
        }
        assert!(received.lock().is_empty(), "no redirect is followed, and no private address is called");
    }
}

#[tokio::test]
async fn an_event_is_emitted_for_consumers() {
    let toml =
        "[outbox]\nenabled = true\n[[job]]\nname = \"digest\"\nschedule = \"0 3 * * *\"\nemit = \"digest.due\"\n";
    for app in TestApp::on_every_engine(toml).await {
        declared(&app, "digest").await;
        let runs = a_day_later(&app, "digest", 1).await;
        assert_eq!(runs[0]["outcome"], "succeeded", "{runs:?}");
        let rows = app.app().db().query("SELECT type, payload FROM event_outbox", Vec::new()).await.unwrap();
        let [row] = &rows[..] else { panic!("one event: {}", rows.len()) };
        assert_eq!(row.get::<String>("type").unwrap(), "digest.due");
        let data: Value = serde_json::from_str(&row.get::<String>("payload").unwrap()).unwrap();
        assert_eq!(data["job"], "digest");
        assert!(data["due"].as_str().unwrap().ends_with("T03:00:00.000000Z"), "{data}");
    }
}
