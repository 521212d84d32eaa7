//! Durable consumers: what a receiver of webhooks sees, over failures, crashes and an operator's commands.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use reqwest::Method;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

use crate::harness::{Answer, Client, Database, Launch, Server, gatewright};

/// How often the server is killed.
const KILLS: usize = 20;
const WRITERS: usize = 8;
/// Writes acknowledged between two kills.
const WRITES: usize = 50;

/// A receiver of webhooks: takes those at `/good`, refuses those at `/bad` until it is told to take them.
#[derive(Clone, Default)]
struct Receiver(Arc<Mutex<Received>>);

#[derive(Default)]
struct Received {
    /// Webhook ids by path and record.
    taken: BTreeMap<(String, String), BTreeSet<String>>,
    signed: bool,
    takes_bad: bool,
}

impl Receiver {
    async fn start() -> (Self, String) {
        let receiver = Self::default();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let shared = receiver.clone();
        tokio::spawn(async move {
            while let Ok((connection, _)) = listener.accept().await {
                let receiver = shared.clone();
                tokio::spawn(async move { receiver.serve(connection).await });
            }
        });
        (receiver, format!("http://{address}"))
    }

    /// Answers one request after the other, until the connection or what it says ends.
    async fn serve(&self, mut connection: TcpStream) {
        let mut buffer = Vec::new();
        loop {
            let head = loop {
                if let Some(end) = buffer.windows(4).position(|bytes| bytes == b"\r\n\r\n") {
                    break end + 4;
                }
                if !matches!(connection.read_buf(&mut buffer).await, Ok(1..)) {
                    return;
                }
            };
            let text = String::from_utf8(buffer[..head].to_vec()).unwrap();
            let header = |name: &str| {
                let line = text.lines().find(|line| line.to_ascii_lowercase().starts_with(&format!("{name}:")));
                line.and_then(|line| line.split_once(": ")).map(|(_, value)| value.to_owned()).unwrap_or_default()
            };
            let length: usize = header("content-length").parse().unwrap();
            while buffer.len() < head + length {
                if !matches!(connection.read_buf(&mut buffer).await, Ok(1..)) {
                    return;
                }
            }
            let body: Value = serde_json::from_slice(&buffer[head..head + length]).unwrap();
            buffer.drain(..head + length);
            let path = text.split(' ').nth(1).unwrap().to_owned();
            let status = self.take(&path, &header("webhook-id"), &header("webhook-signature"), &body);
            let answer = format!("HTTP/1.1 {status} X\r\ncontent-length: 0\r\n\r\n");
            if connection.write_all(answer.as_bytes()).await.is_err() {
                return;
            }
        }
    }

    fn take(&self, path: &str, id: &str, signature: &str, body: &Value) -> u16 {
        let mut received = self.0.lock().unwrap();
        received.signed |= signature.starts_with("v1,");
        if path == "/bad" && !received.takes_bad {
            return 500;
        }
        let record = body["data"]["record"]["id"].as_str().unwrap().to_owned();
        received.taken.entry((path.to_owned(), record)).or_default().insert(id.to_owned());
        200
    }

    fn records(&self, path: &str) -> BTreeSet<String> {
        let received = self.0.lock().unwrap();
        received.taken.keys().filter(|(taken, _)| taken == path).map(|(_, record)| record.clone()).collect()
    }
}

fn launch(receiver: &str) -> Launch {
    let consumer = |name: &str| {
        format!(
            "[[outbox.consumer]]\nname = \"{name}\"\nevent = \"entity.created\"\nurl = \"{receiver}/{name}\"\n\
             secret = \"whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw\"\nentities = [\"posts\"]\n"
        )
    };
    let (good, bad) = (consumer("good"), consumer("bad"));
    Launch::configured(&format!(
        "[outbox]\nenabled = true\nmax_attempts = 2\nlease_seconds = 1\npoll_interval_ms = 100\n{good}{bad}\
         [[entity]]\nname = \"posts\"\npublic = true\n[[entity.field]]\nname = \"title\"\ntype = \"string\"\n"
    ))
}

async fn until(what: &str, mut holds: impl AsyncFnMut() -> bool) {
    let wait = async {
        while !holds().await {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    assert!(tokio::time::timeout(Duration::from_mins(1), wait).await.is_ok(), "never: {what}");
}

fn command(server: &Server, database: &Database, words: &[&str]) -> Value {
    let url = database.url();
    let words = [&["outbox"], words, &["--database", &url]].concat();
    let finished = tokio::task::block_in_place(|| gatewright(server.folder(), &words, ""));
    assert_eq!(finished.status, 0, "{finished:?}");
    serde_json::from_str(&finished.out).unwrap_or(Value::String(finished.out))
}

#[tokio::test(flavor = "multi_thread")]
async fn a_write_to_a_webhook_and_an_operator_who_helps() {
    for database in Database::all().await {
        let (receiver, url) = Receiver::start().await;
        let server = launch(&url).start(&database).await;
        let text = "x".repeat(100_000);
        let made = server.client().post("/posts", &json!({ "title": text })).await.is(201).json();
        let record = made["data"]["id"].as_str().unwrap().to_owned();
        until("the good receiver has it", async || receiver.records("/good").contains(&record)).await;
        assert!(receiver.0.lock().unwrap().signed);

        let rows = command(&server, &database, &["list", "--status", "pending", "--json"]);
        let row = rows["items"][0]["id"].as_str().unwrap().to_owned();
        let ids = &receiver.0.lock().unwrap().taken[&("/good".to_owned(), record.clone())].clone();
        assert_eq!(ids.iter().collect::<Vec<_>>(), [&row]);
        until("the bad delivery is dead", async || {
            let deliveries = command(&server, &database, &["deliveries", &row, "--json"]);
            let [bad, good] = &deliveries["items"].as_array().unwrap()[..] else { return false };
            assert_eq!((&bad["consumer"], &good["status"]), (&json!("bad"), &json!("dispatched")));
            bad["status"] == "dead" && bad["attempts"] == 2 && bad["lastError"] == "the endpoint answered 500"
        })
        .await;
        let stats = command(&server, &database, &["stats", "--json"]);
        assert_eq!(stats["consumers"], json!({ "bad": { "dead": 1 }, "good": { "dispatched": 1 } }));
        let metrics = server.client().get("/metrics").await.is(200).text;
        for line in [
            "gatewright_outbox_staged_total 1",
            "gatewright_outbox_delivered_total{consumer=\"good\"} 1",
            "gatewright_outbox_failed_total{consumer=\"bad\"} 2",
            "gatewright_outbox_dead_total{consumer=\"bad\"} 1",
        ] {
            assert!(metrics.contains(line), "no {line} in:\n{metrics}");
        }
        server.client().get("/readyz").await.is(200);

        receiver.0.lock().unwrap().takes_bad = true;
        let said = command(&server, &database, &["replay", &row, "--consumer", "bad"]);
        assert_eq!(said, json!("1 delivery is pending again\n"));
        until("the bad receiver has it", async || receiver.records("/bad").contains(&record)).await;
        assert!(!server.log().contains("whsec_") && !server.log().contains("xxxxxxxx"), "{}", server.log());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn no_kill_loses_an_event_or_invents_one() {
    for database in Database::all().await {
        let (receiver, url) = Receiver::start().await;
        receiver.0.lock().unwrap().takes_bad = true;
        let mut server = launch(&url).start(&database).await;
        let mut acknowledged = BTreeSet::new();
        for round in 0..KILLS {
            if round > 0 {
                server.restart();
            }
            let made = Arc::new(Mutex::new(BTreeSet::new()));
            let writers: Vec<_> = (0..WRITERS).map(|_| tokio::spawn(write(server.client(), made.clone()))).collect();
            until("enough is written", async || made.lock().unwrap().len() >= WRITES).await;
            server.kill();
            for writer in writers {
                writer.await.unwrap();
            }
            acknowledged.append(&mut made.lock().unwrap());
        }
        assert!(acknowledged.len() >= KILLS * WRITES);
        server.restart();
        for path in ["/good", "/bad"] {
            until("everything has arrived", async || receiver.records(path).is_superset(&acknowledged)).await;
        }
        until("nothing is pending", async || {
            let stats = command(&server, &database, &["stats", "--json"]);
            stats["oldestPendingSeconds"].is_null()
        })
        .await;
        let client = server.client();
        let delivered = receiver.records("/good");
        let total = client.get("/posts?limit=1").await.is(200).json()["total"].as_u64().unwrap();
        assert_eq!(u64::try_from(delivered.len()).unwrap(), total, "as many events as records");
        assert_eq!(delivered, receiver.records("/bad"));
        for ids in receiver.0.lock().unwrap().taken.values() {
            assert_eq!(ids.len(), 1, "one event for each record, however often it came");
        }
    }
}

/// Creates records until the server is gone.
async fn write(client: Client, made: Arc<Mutex<BTreeSet<String>>>) {
    loop {
        let request = client.request(Method::POST, "/posts").json(&json!({ "title": "t" }));
        let Ok(answer) = Answer::try_read(request).await else { return };
        if answer.status == 201 {
            made.lock().unwrap().insert(answer.json()["data"]["id"].as_str().unwrap().to_owned());
        }
    }
}
