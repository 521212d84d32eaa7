//! Two servers share the outbox of one Postgres. They are killed in turn, and no event is lost or invented.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::json;

use crate::harness::{Database, Launch, Receiver, Server};
use crate::outbox::{command, launch, nothing_is_lost_or_invented, until, write};

/// The number of kills, unless the variable `GATEWRIGHT_TEST_ROUNDS` sets another.
const ROUNDS: usize = 4;
/// Clients of each server.
const WRITERS: usize = 4;
/// Writes acknowledged in a round, by both servers together.
const WRITES: usize = 250;

fn rounds() -> usize {
    std::env::var("GATEWRIGHT_TEST_ROUNDS").map_or(ROUNDS, |rounds| rounds.parse().expect("a number of rounds"))
}

#[tokio::test(flavor = "multi_thread")]
async fn no_kill_of_one_of_two_servers_loses_an_event_or_invents_one() {
    let Some(database) = Database::postgres().await else { return };
    let (receiver, url) = Receiver::start().await;
    receiver.lock().takes_bad = true;
    let mut servers = [launch(&url).start(&database).await, launch(&url).start(&database).await];
    let made = Arc::new(Mutex::new(BTreeSet::new()));
    for round in 0..rounds() {
        let before = made.lock().unwrap().len();
        let writers: Vec<_> = servers
            .iter()
            .flat_map(|server| (0..WRITERS).map(|_| tokio::spawn(write(server.client(), made.clone()))))
            .collect();
        until("enough is written", async || made.lock().unwrap().len() >= before + WRITES).await;
        // During writes, and during deliveries of both servers.
        servers[round % 2].kill();
        until("the other goes on", async || made.lock().unwrap().len() >= before + WRITES + 20).await;
        for writer in writers {
            writer.abort();
            // A client whose server was killed has ended already.
            let _aborted = writer.await;
        }
        servers[round % 2].restart();
    }
    let acknowledged = made.lock().unwrap().clone();
    assert!(acknowledged.len() >= rounds() * WRITES);
    nothing_is_lost_or_invented(&receiver, &servers[1], &database, &acknowledged).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_takes_over_the_deliveries_of_a_killed_server() {
    let Some(database) = Database::postgres().await else { return };
    let (receiver, url) = Receiver::start().await;
    receiver.lock().takes_bad = true;
    receiver.lock().stalls = true;
    let mut holder = launch(&url).start(&database).await;
    holder.client().post("/posts", &json!({ "title": "held" })).await.is(201);
    until("a delivery is under way", async || receiver.lock().stalled.len() == 1).await;

    let other = launch(&url).start(&database).await;
    // Longer than three leases: they are renewed while their holder lives.
    tokio::time::sleep(Duration::from_secs(3)).await;
    assert_eq!(receiver.lock().stalled.len(), 1, "nobody takes what is held");
    holder.kill();
    until("the other takes it over", async || receiver.lock().stalled.len() >= 2).await;
    let stalled = receiver.lock().stalled.clone();
    assert_eq!(stalled[0], stalled[1], "the same event");
    receiver.lock().stalls = false;
    until("it is settled", async || {
        let stats = command(&other, &database, &["stats", "--json"]);
        stats["consumers"] == json!({ "bad": { "dispatched": 1 }, "good": { "dispatched": 1 } })
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_killed_server_is_replaced_long_before_its_lease_ends() {
    let Some(database) = Database::postgres().await else { return };
    let (receiver, url) = Receiver::start().await;
    receiver.lock().stalls = true;
    // The lease is much longer than this test waits.
    let configuration = format!(
        "[outbox]\nenabled = true\nlease_seconds = 3600\npoll_interval_ms = 100\n\
         [[outbox.consumer]]\nname = \"good\"\nevent = \"entity.created\"\nurl = \"{url}/good\"\n\
         secret = \"whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw\"\n\
         [[entity]]\nname = \"posts\"\npublic = true\n[[entity.field]]\nname = \"title\"\ntype = \"text\"\n"
    );
    let mut holder = Launch::configured(&configuration).start(&database).await;
    holder.client().post("/posts", &json!({ "title": "held" })).await.is(201);
    until("a delivery is under way", async || receiver.lock().stalled.len() == 1).await;
    let other = Launch::configured(&configuration).start(&database).await;
    receiver.lock().stalls = false;
    holder.kill();
    until("the other delivers it", async || {
        command(&other, &database, &["stats", "--json"])["consumers"] == json!({ "good": { "dispatched": 1 } })
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_is_notified_of_rows_that_another_stages() {
    let Some(database) = Database::postgres().await else { return };
    let (receiver, url) = Receiver::start().await;
    let table = "[[entity]]\nname = \"posts\"\npublic = true\n[[entity.field]]\nname = \"title\"\ntype = \"string\"\n";
    // Without a notification, the server would poll only after an hour.
    let outbox = "[outbox]\nenabled = true\npoll_interval_ms = 3600000\n";
    let consumer = format!(
        "[[outbox.consumer]]\nname = \"good\"\nevent = \"entity.created\"\nurl = \"{url}/good\"\n\
         secret = \"whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw\"\n"
    );
    let writer = Launch::configured(&format!("{outbox}{table}")).start(&database).await;
    let _deliverer: Server = Launch::configured(&format!("{outbox}{consumer}{table}")).start(&database).await;
    for round in 1..=3 {
        writer.client().post("/posts", &json!({ "title": "t" })).await.is(201);
        until("the other has delivered it", async || receiver.records("/good").len() == round).await;
    }
}
