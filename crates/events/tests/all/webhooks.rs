//! Webhooks against a real receiver.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::Router;
use axum::http::{HeaderMap, StatusCode};
use axum::response::IntoResponse;
use axum::routing::post;
use gatewright_base::{Ambient, Secret};
use gatewright_db::testing::engines;
use gatewright_db::{Share, Tx, params};
use gatewright_events::outbox::webhook::{SigningSecret, Webhook, WebhookError};
use gatewright_events::outbox::{Backoff, DeliveryStatus, Facts, Outbox, OutboxOptions, Relay};
use gatewright_events::{EntityEvent, EventKind};
use tokio::sync::mpsc;

const SECRET: &str = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";
const OLD_SECRET: &str = "whsec_AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA";

type Call = (HeaderMap, String);

/// A receiver that answers with each of `answers` in turn, and with the last one from then on.
async fn receiver(answers: &'static [u16]) -> (String, mpsc::UnboundedReceiver<Call>) {
    let (sender, calls) = mpsc::unbounded_channel();
    let count = Arc::new(std::sync::atomic::AtomicUsize::new(0));
    let hook = move |headers: HeaderMap, body: String| {
        let turn = count.fetch_add(1, std::sync::atomic::Ordering::Relaxed).min(answers.len() - 1);
        sender.send((headers, body)).unwrap();
        let status = StatusCode::from_u16(answers[turn]).unwrap();
        async move { (status, [("location", "/elsewhere")], "x".repeat(100_000)).into_response() }
    };
    let elsewhere = || async { StatusCode::OK };
    let router = Router::new().route("/hook", post(hook)).route("/elsewhere", post(elsewhere).get(elsewhere));
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/hook", listener.local_addr().unwrap());
    tokio::spawn(async move { axum::serve(listener, router).await });
    (url, calls)
}

fn secret(text: &str) -> SigningSecret {
    SigningSecret::parse(&Secret::new(text)).unwrap()
}

fn webhook(url: &str) -> Webhook {
    Webhook::new("crm", "entity.created", url, secret(SECRET)).unwrap()
}

async fn start(db: &gatewright_db::Db, webhook: Webhook) -> (Outbox, Relay) {
    let options = OutboxOptions {
        poll_interval: Duration::from_millis(20),
        max_attempts: 3,
        backoff: Backoff { first: Duration::from_millis(1), cap: Duration::from_millis(5) },
        ..OutboxOptions::default()
    };
    let outbox = Outbox::open(db.clone(), Ambient::system(), options).await.unwrap();
    let consumer = webhook.into_consumer(Ambient::system()).unwrap();
    let relay = outbox.relay().declare(consumer).unwrap().start();
    (outbox, relay)
}

async fn stage(outbox: &Outbox, db: &gatewright_db::Db, entity: &'static str) -> String {
    let staging = outbox.clone();
    let record = format!(r#"{{"title":"{}"}}"#, "ö".repeat(50_000));
    let event = EntityEvent::new(EventKind::Created, entity, entity, record).with_tenant("t1");
    db.write(async move |tx: &Tx| staging.stage(tx, Share::default(), &event, Facts::default()).await).await.unwrap()
}

async fn ends(outbox: &Outbox, row: &str, status: DeliveryStatus) -> Option<String> {
    let wait = async {
        loop {
            let deliveries = outbox.list_deliveries(row).await.unwrap().unwrap();
            if let Some(delivery) = deliveries.into_iter().find(|delivery| delivery.status == status) {
                return delivery.last_error;
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(Duration::from_mins(1), wait).await.expect("it ends like that")
}

#[tokio::test]
async fn a_webhook_is_signed_with_both_secrets_and_retried_until_it_is_accepted() {
    for engine in engines().await {
        let (url, mut calls) = receiver(&[500, 302, 204]).await;
        let webhook = webhook(&url).also_signed_with(secret(OLD_SECRET)).private_networks(true);
        let (outbox, _relay) = start(&engine.db, webhook).await;
        let id = stage(&outbox, &engine.db, "posts").await;
        ends(&outbox, &id, DeliveryStatus::Dispatched).await;
        for _ in 0..3 {
            let (headers, body) = calls.recv().await.unwrap();
            let header = |name: &str| headers[name].to_str().unwrap().to_owned();
            assert_eq!(header("webhook-id"), id, "the same for every attempt");
            assert_eq!(header("content-type"), "application/json");
            let signatures = header("webhook-signature");
            let timestamp: i64 = header("webhook-timestamp").parse().unwrap();
            let expected = [SECRET, OLD_SECRET].map(|key| signature(key, &id, timestamp, &body)).join(" ");
            assert_eq!(signatures, expected);
            let body: serde_json::Value = serde_json::from_str(&body).unwrap();
            assert_eq!(body["type"], "entity.created");
            assert!(body["timestamp"].as_str().unwrap().ends_with('Z'));
            let keys: Vec<_> = body.as_object().unwrap().keys().collect();
            assert_eq!(keys, ["type", "timestamp", "data"]);
            let keys: Vec<_> = body["data"].as_object().unwrap().keys().collect();
            assert_eq!(keys, ["entity", "table", "record", "tenantId"]);
            assert_eq!(body["data"]["record"]["title"].as_str().unwrap().len(), 100_000);
        }
        assert!(calls.try_recv().is_err(), "nothing follows a redirect, on {}", engine.name);
    }
}

#[tokio::test]
async fn a_webhook_goes_to_private_networks_only_if_allowed() {
    for engine in engines().await {
        let (url, mut calls) = receiver(&[200]).await;
        for url in [url.clone(), url.replace("127.0.0.1", "localhost")] {
            let (outbox, relay) = start(&engine.db, webhook(&url)).await;
            let id = stage(&outbox, &engine.db, "posts").await;
            let error = ends(&outbox, &id, DeliveryStatus::Dead).await.unwrap();
            assert!(error.contains("webhooks do not go to loopback"), "{error}");
            relay.stop(Duration::from_secs(10)).await;
        }
        assert!(calls.try_recv().is_err());
    }
}

#[tokio::test]
async fn a_webhook_gets_only_events_of_its_entities() {
    for engine in engines().await {
        let (url, mut calls) = receiver(&[200]).await;
        let webhook = webhook(&url).entities(vec!["posts".to_owned()]).private_networks(true);
        let (outbox, _relay) = start(&engine.db, webhook).await;
        let other = stage(&outbox, &engine.db, "comments").await;
        let id = stage(&outbox, &engine.db, "posts").await;
        ends(&outbox, &id, DeliveryStatus::Dispatched).await;
        ends(&outbox, &other, DeliveryStatus::Dispatched).await;
        assert_eq!(calls.recv().await.unwrap().0["webhook-id"].to_str().unwrap(), id);
        assert!(calls.try_recv().is_err());
    }
}

#[tokio::test]
async fn a_stored_failure_contains_neither_the_url_nor_the_answer() {
    for engine in engines().await {
        let (url, _calls) = receiver(&[418]).await;
        let refusing = format!("{url}?token=canary");
        let gone = "http://user:canary@127.0.0.1:1/canary".to_owned();
        for (url, expected) in
            [(refusing, "the endpoint answered 418"), (gone, "no connection could be made to the endpoint")]
        {
            let (outbox, relay) = start(&engine.db, webhook(&url).private_networks(true)).await;
            let id = stage(&outbox, &engine.db, "posts").await;
            assert_eq!(ends(&outbox, &id, DeliveryStatus::Dead).await.unwrap(), expected);
            relay.stop(Duration::from_secs(10)).await;
        }
    }
}

#[tokio::test]
async fn an_undeliverable_row_ends_dead_and_delays_no_other() {
    for engine in engines().await {
        let (url, mut calls) = receiver(&[200]).await;
        let (outbox, _relay) = start(&engine.db, webhook(&url).private_networks(true)).await;
        // As another program may write them to the table: invalid JSON, not an object, and an id that is invalid in a header.
        for (id, payload) in [("poison-1", "{"), ("poison-2", "[]"), ("poison\r\nx-forged: 3", "{}")] {
            let now = gatewright_db::column_types("CAST('2026-01-01T00:00:00.000000Z' AS {time})", engine.db.engine());
            let insert = format!(
                "INSERT INTO event_outbox (id, type, payload, created_at) VALUES (?1, 'entity.created', ?2, {now})"
            );
            engine.db.execute(insert, params![id, payload]).await.unwrap();
        }
        let id = stage(&outbox, &engine.db, "posts").await;
        ends(&outbox, &id, DeliveryStatus::Dispatched).await;
        for poison in ["poison-1", "poison-2", "poison\r\nx-forged: 3"] {
            ends(&outbox, poison, DeliveryStatus::Dead).await;
        }
        assert_eq!(calls.recv().await.unwrap().0["webhook-id"].to_str().unwrap(), id);
        assert!(calls.try_recv().is_err(), "nothing of the others was sent");
    }
}

#[test]
fn a_webhook_shows_neither_its_path_nor_its_secret() {
    let shown = format!("{:?}", webhook("https://user:canary@crm.example.com/canary?canary"));
    assert!(shown.contains("crm.example.com") && !shown.contains("canary") && !shown.contains("MfKQ"), "{shown}");
    for url in ["", "crm.example.com", "ftp://crm.example.com", "file:///etc/passwd", "https://"] {
        let refused = Webhook::new("crm", "a", url, secret(SECRET));
        assert!(matches!(refused, Err(WebhookError::Url)), "{url}");
    }
}

/// The signature as a receiver computes it, without this crate's code.
fn signature(key: &str, id: &str, timestamp: i64, body: &str) -> String {
    use base64::Engine as _;
    use base64::engine::general_purpose::STANDARD;
    use hmac::{Hmac, KeyInit as _, Mac as _};
    let key = STANDARD.decode(key.strip_prefix("whsec_").unwrap()).unwrap();
    let mut mac = Hmac::<sha2::Sha256>::new_from_slice(&key).unwrap();
    mac.update(format!("{id}.{timestamp}.{body}").as_bytes());
    format!("v1,{}", STANDARD.encode(mac.finalize().into_bytes()))
}

/// A receiver whose answer a test sets: the status, and `Retry-After`.
async fn answering(first: (u16, Option<&'static str>)) -> (String, Arc<Answering>) {
    let state = Arc::new(Answering { answer: first.into(), calls: Mutex::default() });
    let hook = {
        let state = state.clone();
        move |headers: HeaderMap| {
            let (status, after) = *state.answer.lock().unwrap();
            let id = headers["webhook-id"].to_str().unwrap().to_owned();
            state.calls.lock().unwrap().push((id, std::time::Instant::now()));
            let more: HeaderMap =
                after.map(|text| (axum::http::header::RETRY_AFTER, text.parse().unwrap())).into_iter().collect();
            async move { (StatusCode::from_u16(status).unwrap(), more) }
        }
    };
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/hook", listener.local_addr().unwrap());
    let router = Router::new().route("/hook", post(hook));
    tokio::spawn(async move { axum::serve(listener, router).await });
    (url, state)
}

struct Answering {
    answer: Mutex<(u16, Option<&'static str>)>,
    calls: Mutex<Vec<(String, std::time::Instant)>>,
}

impl Answering {
    fn calls(&self) -> Vec<(String, std::time::Instant)> {
        self.calls.lock().unwrap().clone()
    }

    async fn called(&self, times: usize) {
        let wait = async {
            while self.calls().len() < times {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        tokio::time::timeout(Duration::from_mins(1), wait).await.expect("it is called");
    }
}

#[tokio::test]
async fn retry_after_delays_the_delivery_and_the_other_events_of_the_endpoint() {
    for engine in engines().await {
        let (url, receiver) = answering((503, Some("2"))).await;
        let (outbox, _relay) = start(&engine.db, webhook(&url).private_networks(true)).await;
        let first = stage(&outbox, &engine.db, "posts").await;
        receiver.called(1).await;
        *receiver.answer.lock().unwrap() = (200, None);
        let second = stage(&outbox, &engine.db, "posts").await;
        for row in [&first, &second] {
            ends(&outbox, row, DeliveryStatus::Dispatched).await;
        }
        let calls = receiver.calls();
        assert_eq!(calls.len(), 3, "{calls:?}");
        for (_, at) in &calls[1..] {
            let waited = at.duration_since(calls[0].1);
            assert!(waited >= Duration::from_millis(1_900), "after {waited:?} on {}", engine.name);
        }
        assert!(calls.iter().any(|(id, _)| *id == second));
    }
}

#[tokio::test]
async fn an_endpoint_that_is_gone_is_not_called_again() {
    for engine in engines().await {
        let (url, receiver) = answering((410, None)).await;
        let (outbox, relay) = start(&engine.db, webhook(&url).private_networks(true)).await;
        let first = stage(&outbox, &engine.db, "posts").await;
        let error = ends(&outbox, &first, DeliveryStatus::Dead).await.unwrap();
        assert!(error.contains("answered 410"), "{error}");
        *receiver.answer.lock().unwrap() = (200, None);
        let second = stage(&outbox, &engine.db, "posts").await;
        let error = ends(&outbox, &second, DeliveryStatus::Dead).await.unwrap();
        assert!(error.contains("410 before"), "{error}");
        assert_eq!(receiver.calls().len(), 1, "on {}", engine.name);
        // A restart with the right URL, and a replay.
        relay.stop(Duration::from_secs(10)).await;
        let (outbox, _relay) = start(&engine.db, webhook(&url).private_networks(true)).await;
        for row in [&first, &second] {
            outbox.replay(row).await.unwrap();
            ends(&outbox, row, DeliveryStatus::Dispatched).await;
        }
        assert_eq!(receiver.calls().len(), 3);
    }
}
