//! Durable consumers: what a webhook receiver gets, during failures, crashes and an operator's commands.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use gatewright_servers::Folder;
use reqwest::Method;
use serde_json::{Value, json};

use crate::harness::{Answer, Client, Database, Launch, Receiver, Server, gatewright};

/// How often the server is killed.
const KILLS: usize = 20;
const WRITERS: usize = 8;
/// Writes acknowledged between two kills.
const WRITES: usize = 50;

pub(crate) fn launch(receiver: &str) -> Launch {
    let consumer = |name: &str| {
        format!(
            "[[outbox.consumer]]\nname = \"{name}\"\nevent = \"entity.created\"\nurl = \"{receiver}/{name}\"\n\
             secret = \"whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw\"\nentities = [\"posts\"]\n"
        )
    };
    let (good, bad) = (consumer("good"), consumer("bad"));
    Launch::configured(&format!(
        "[[job]]\nname = \"digest\"\nschedule = \"0 3 29 2 *\"\nemit = \"digest.due\"\n\
         [outbox]\nenabled = true\nmax_attempts = 2\nlease_seconds = 1\npoll_interval_ms = 100\n{good}{bad}\
         [[entity]]\nname = \"posts\"\npublic = true\n[[entity.field]]\nname = \"title\"\ntype = \"text\"\n"
    ))
}

pub(crate) async fn until(what: &str, mut holds: impl AsyncFnMut() -> bool) {
    let wait = async {
        while !holds().await {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    assert!(tokio::time::timeout(Duration::from_mins(1), wait).await.is_ok(), "never: {what}");
}

pub(crate) fn command(server: &Server, database: &Database, words: &[&str]) -> Value {
    let url = database.url();
    let words = [&["outbox"], words, &["--database", &url]].concat();
    let finished = tokio::task::block_in_place(|| gatewright(server.folder(), &words, ""));
    assert_eq!(finished.status, 0, "{finished:?}");
    serde_json::from_str(&finished.out).unwrap_or(Value::String(finished.out))
}

#[tokio::test(flavor = "multi_thread")]
async fn a_write_reaches_a_webhook_and_an_operator_retries_a_dead_delivery() {
    for database in Database::all().await {
        let (receiver, url) = Receiver::start().await;
        let server = launch(&url).start(&database).await;
        let text = "x".repeat(100_000);
        let made = server.client().post("/posts", &json!({ "title": text })).await.is(201).json();
        let record = made["data"]["id"].as_str().unwrap().to_owned();
        until("the good receiver has it", async || receiver.records("/good").contains(&record)).await;
        assert!(receiver.lock().signed);

        let rows = command(&server, &database, &["list", "--status", "pending", "--json"]);
        let row = rows["items"][0]["id"].as_str().unwrap().to_owned();
        let ids = &receiver.lock().taken[&("/good".to_owned(), record.clone())].clone();
        assert_eq!(ids.iter().collect::<Vec<_>>(), [&row]);
        until("the bad delivery is dead", async || {
            let deliveries = command(&server, &database, &["deliveries", &row, "--json"]);
            let [bad, good] = &deliveries["items"].as_array().unwrap()[..] else { return false };
            let dead = bad["consumer"] == "bad" && bad["status"] == "dead" && bad["attempts"] == 2;
            // The receiver has the event before the database records the delivery.
            dead && bad["lastError"] == "the endpoint answered 500" && good["status"] == "dispatched"
        })
        .await;
        let stats = command(&server, &database, &["stats", "--json"]);
        assert_eq!(stats["consumers"], json!({ "bad": { "dead": 1 }, "good": { "dispatched": 1 } }));
        for line in [
            "gatewright_outbox_staged_total 1\n",
            "gatewright_outbox_delivered_total{consumer=\"good\"} 1\n",
            "gatewright_outbox_failed_total{consumer=\"bad\"} 2\n",
            "gatewright_outbox_dead_total{consumer=\"bad\"} 1\n",
        ] {
            // The counter changes after the database does.
            until(line, async || server.client().get("/metrics").await.is(200).text.contains(line)).await;
        }
        server.client().get("/readyz").await.is(200);

        receiver.lock().takes_bad = true;
        let said = command(&server, &database, &["replay", &row, "--consumer", "bad"]);
        assert_eq!(said, json!("1 delivery is pending again\n"));
        until("the bad receiver has it", async || receiver.records("/bad").contains(&record)).await;
        assert!(!server.log().contains("whsec_") && !server.log().contains("xxxxxxxx"), "{}", server.log());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_webhook_over_tls_is_sent_only_to_a_host_with_a_trusted_certificate() {
    let (receiver, url, authority) = Receiver::start_tls().await;
    let folder = Folder::create("authority").unwrap();
    let file = folder.path().join("authority.pem");
    std::fs::write(&file, authority).unwrap();
    let stranger = launch(&url).start(&Database::Sqlite).await;
    let friend = launch(&url).env("SSL_CERT_FILE", file.to_str().unwrap()).start(&Database::Sqlite).await;
    for server in [&stranger, &friend] {
        server.client().post("/posts", &json!({ "title": "t" })).await.is(201);
    }
    until("the trusted one has told", async || receiver.records("/good").len() == 1).await;
    until("the other has given up", async || {
        let stats = command(&stranger, &Database::Sqlite, &["stats", "--json"]);
        stats["consumers"] == json!({ "bad": { "dead": 1 }, "good": { "dead": 1 } })
    })
    .await;
    assert_eq!(receiver.records("/good").len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn no_kill_loses_an_event_or_invents_one() {
    for database in Database::all().await {
        let (receiver, url) = Receiver::start().await;
        receiver.lock().takes_bad = true;
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
        nothing_is_lost_or_invented(&receiver, &server, &database, &acknowledged).await;
    }
}

/// Waits until every record's event has arrived at both consumers: the events of all acknowledged writes, those of the
/// few whose answer was lost, and no others.
pub(crate) async fn nothing_is_lost_or_invented(
    receiver: &Receiver,
    server: &Server,
    database: &Database,
    acknowledged: &BTreeSet<String>,
) {
    let client = server.client();
    let total = async || client.get("/posts?limit=1").await.is(200).json()["total"].as_u64().unwrap();
    let told = |path: &str| receiver.records(path).len() as u64;
    for path in ["/good", "/bad"] {
        until("everything has arrived", async || receiver.records(path).is_superset(acknowledged)).await;
        // A write that was committed during a kill has its event too, perhaps after the event of a later write.
        until("as many events as records", async || told(path) == total().await).await;
    }
    until("nothing is pending", async || {
        command(server, database, &["stats", "--json"])["oldestPendingSeconds"].is_null()
    })
    .await;
    let made = ids(&client).await;
    assert!(receiver.records("/good") == made && receiver.records("/bad") == made, "events and records are the same");
    for ids in receiver.lock().taken.values() {
        assert_eq!(ids.len(), 1, "one event for each record, however often it came");
    }
    println!("{} records, {} of them acknowledged; as many events to each consumer", made.len(), acknowledged.len());
}

/// The ids of all records.
async fn ids(client: &Client) -> BTreeSet<String> {
    let mut ids = BTreeSet::new();
    for page in 1.. {
        let answer = client.get(&format!("/posts?limit=100&page={page}")).await.is(200).json();
        ids.extend(answer["data"].as_array().unwrap().iter().map(|post| post["id"].as_str().unwrap().to_owned()));
        if answer["hasMore"] != true {
            break;
        }
    }
    ids
}

/// Creates records until the server stops.
pub(crate) async fn write(client: Client, made: Arc<Mutex<BTreeSet<String>>>) {
    loop {
        let request = client.request(Method::POST, "/posts").json(&json!({ "title": "t" }));
        let Ok(answer) = Answer::try_read(request).await else { return };
        if answer.status == 201 {
            made.lock().unwrap().insert(answer.json()["data"]["id"].as_str().unwrap().to_owned());
        }
    }
}
