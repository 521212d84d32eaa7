//! Postgres comes back without its last commits, as after an asynchronous failover: the positions of the event log are
//! assigned again, to other events. No listener may miss an event without a `gap`.
//!
//! The lost commits are real: Postgres is killed and started on a copy of its data from before the writes.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use futures_util::StreamExt;
use gatewright_servers::PrivatePostgres;
use reqwest::Method;
use serde_json::{Value, json};

use crate::harness::{Answer, Database, Launch, Receiver, Server, gatewright};
use crate::outbox::until;

/// Rounds, unless `GATEWRIGHT_TEST_ROUNDS` sets another number.
const ROUNDS: usize = 2;
/// Records that are created before a failover and lost. More than Postgres skips of a sequence after a crash.
const LOST: usize = 60;
/// Records that are created after a failover: more than were lost, so that their positions are assigned again.
const NEW: usize = 160;

type Ids = BTreeSet<String>;

/// What a listener has seen, as a client that follows the handbook: `gap` means that it reads the list again.
#[derive(Default)]
struct View {
    records: Ids,
    gaps: usize,
    position: String,
}

/// A stream that is read in the background.
struct Listener {
    view: Arc<Mutex<View>>,
    task: tokio::task::JoinHandle<()>,
}

impl Drop for Listener {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Listener {
    /// Listens on one server, from now on or from a position.
    async fn start(server: &Server, since: Option<&str>) -> Self {
        let view = Arc::new(Mutex::new(View::default()));
        let path = since.map_or("/posts/_events".to_owned(), |since| format!("/posts/_events?since={since}"));
        let response = server.client().stream(&path).send().await.unwrap();
        assert_eq!(response.status(), 200, "{path}");
        let (seen, client) = (view.clone(), server.client());
        let task = tokio::spawn(async move {
            let (mut chunks, mut buffer) = (response.bytes_stream(), String::new());
            while let Some(Ok(chunk)) = chunks.next().await {
                buffer.push_str(std::str::from_utf8(&chunk).unwrap());
                while let Some((frame, rest)) = buffer.split_once("\n\n").map(|(a, b)| (a.to_owned(), b.to_owned())) {
                    buffer = rest;
                    let field = |name: &str| frame.lines().find_map(|line| line.strip_prefix(name).map(str::to_owned));
                    let Some(kind) = field("event: ") else { continue };
                    if kind == "gap" {
                        let records = all(&client).await;
                        let mut view = seen.lock().unwrap();
                        view.records = records;
                        view.gaps += 1;
                    }
                    let data: Value = serde_json::from_str(&field("data: ").unwrap()).unwrap();
                    let mut view = seen.lock().unwrap();
                    view.position = field("id: ").unwrap();
                    if let Some(id) = data["data"]["record"]["id"].as_str() {
                        view.records.insert(id.to_owned());
                    }
                }
            }
        });
        Self { view, task }
    }

    fn gaps(&self) -> usize {
        self.view.lock().unwrap().gaps
    }

    fn position(&self) -> String {
        self.view.lock().unwrap().position.clone()
    }

    /// How many of these records it has not seen, once that no longer changes.
    async fn missing(&self, records: &Ids) -> usize {
        let missing = || records.difference(&self.view.lock().unwrap().records).count();
        let mut last = (missing(), Instant::now());
        while last.0 > 0 && last.1.elapsed() < Duration::from_secs(5) {
            tokio::time::sleep(Duration::from_millis(50)).await;
            if missing() != last.0 {
                last = (missing(), Instant::now());
            }
        }
        last.0
    }
}

/// The ids of all records.
async fn all(client: &crate::harness::Client) -> Ids {
    let mut ids = Ids::new();
    for page in 1.. {
        let list = client.get(&format!("/posts?limit=100&page={page}")).await.is(200).json();
        ids.extend(list["data"].as_array().unwrap().iter().map(|post| post["id"].as_str().unwrap().to_owned()));
        if list["hasMore"] != true {
            break;
        }
    }
    ids
}

async fn are_ready(servers: &[Server]) {
    for server in servers {
        until("the server is ready", async || server.client().get("/readyz").await.status == 200).await;
    }
}

/// Creates records by all servers in turn, and returns their ids. A server that has no database yet is asked again.
async fn create(servers: &[Server], count: usize) -> Ids {
    let mut ids = Ids::new();
    for number in 0..count {
        let client = servers[number % servers.len()].client();
        let begun = Instant::now();
        loop {
            let request = client.request(Method::POST, "/posts").json(&json!({ "title": format!("{number}") }));
            match Answer::try_read(request).await {
                Ok(answer) if answer.status == 201 => {
                    ids.insert(answer.json()["data"]["id"].as_str().unwrap().to_owned());
                    break;
                }
                Ok(answer) => assert_eq!(answer.status, 503, "{}", answer.text),
                Err(error) => panic!("{error}"),
            }
            assert!(begun.elapsed() < Duration::from_mins(1), "the database does not come back");
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }
    ids
}

fn launch(receiver: &str, fanout: &str) -> Launch {
    Launch::configured(&format!(
        "[events]\n{fanout}\n\
         [outbox]\nenabled = true\nlease_seconds = 1\npoll_interval_ms = 100\n\
         [[outbox.consumer]]\nname = \"good\"\nevent = \"entity.created\"\nurl = \"{receiver}/good\"\n\
         secret = \"whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw\"\n\
         [[outbox.consumer]]\nname = \"puller\"\nevent = \"entity.created\"\npull = true\n\
         [[entity]]\nname = \"posts\"\npublic = true\n[[entity.field]]\nname = \"title\"\ntype = \"text\"\n"
    ))
}

fn postgres(database: &mut Database) -> &mut PrivatePostgres {
    let Database::Own(postgres) = database else { unreachable!("the test asked for it") };
    postgres
}

fn rounds() -> usize {
    std::env::var("GATEWRIGHT_TEST_ROUNDS").map_or(ROUNDS, |rounds| rounds.parse().unwrap())
}

/// The same position as a server of 0.10 wrote it.
fn without_check(position: &str) -> String {
    let (log, position) = position.split_once('-').unwrap();
    format!("{}-{position}", &log[..16])
}

/// All that a program with this token gets from the consumer `puller`, which it acknowledges.
async fn pulled(server: &Server, token: &str, seen: &mut Ids) {
    let client = server.client();
    let events = client.request(Method::GET, "/consumers/puller/events?limit=1000").bearer_auth(token);
    let Ok(answer) = Answer::try_read(events).await else { return };
    if answer.status != 200 {
        return;
    }
    let (events, mut ids) = (answer.json(), Vec::new());
    for event in events["events"].as_array().unwrap() {
        seen.extend(event["data"]["record"]["id"].as_str().map(str::to_owned));
        ids.push(event["id"].clone());
    }
    if !ids.is_empty() {
        let ack = client.request(Method::POST, "/consumers/puller/ack").bearer_auth(token).json(&json!({ "ids": ids }));
        _ = Answer::try_read(ack).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn no_event_is_missed_without_a_gap_after_postgres_has_lost_its_last_commits() {
    for fanout in ["", "fanout = \"postgres\""] {
        let Some(mut database) = Database::own_postgres() else { return };
        let (receiver, url) = Receiver::start().await;
        let mut servers = Vec::new();
        for _ in 0..2 {
            servers.push(launch(&url, fanout).start(&database).await);
        }
        let database_url = database.url();
        let run = |words: &[&str]| {
            let words = [words, &["--database", &database_url]].concat();
            let finished = tokio::task::block_in_place(|| gatewright(servers[0].folder(), &words, ""));
            assert_eq!(finished.status, 0, "{finished:?}");
            finished.out
        };
        run(&["service-account", "create", "puller"]);
        let token = ["token", "issue", "--service", "puller", "--name", "t", "--scopes", "consumers:puller"];
        let token = run(&token).lines().find(|line| line.starts_with("svc_")).unwrap().trim().to_owned();
        let (mut lost_events, mut expected, mut wrong) = (0, 0, Vec::new());
        for round in 0..rounds() {
            let kept = create(&servers, 2).await;
            tokio::task::block_in_place(|| postgres(&mut database).keep_copy()).unwrap();
            are_ready(&servers).await;
            let mut held = Vec::new();
            for server in &servers {
                held.push(Listener::start(server, None).await);
            }
            until("the streams are open", async || held.iter().all(|held| !held.position().is_empty())).await;
            let before = held[0].position();
            let mut lost = create(&servers, LOST / 2).await;
            for held in &held {
                assert_eq!(held.missing(&lost).await, 0, "round {round}");
            }
            let inside = held[0].position();
            lost.extend(create(&servers, LOST / 2).await);
            for held in &held {
                assert_eq!(held.missing(&lost).await, 0, "round {round}");
            }
            let after = held[1].position();
            let gaps: Vec<usize> = held.iter().map(Listener::gaps).collect();

            tokio::task::block_in_place(|| postgres(&mut database).lose_commits()).unwrap();
            let new = create(&servers, NEW).await;
            assert!(all(&servers[0].client()).await.is_superset(&kept), "round {round}");

            for (held, gaps) in held.iter().zip(gaps) {
                let missing = held.missing(&new).await;
                lost_events += missing;
                expected += NEW;
                if held.gaps() == gaps {
                    wrong.push(format!("round {round}: an open stream got no gap, and lost {missing} of {NEW}"));
                }
            }
            for server in &servers {
                for (name, since, must_gap) in [
                    ("before the lost part", before.clone(), false),
                    ("inside the lost part", inside.clone(), true),
                    ("after the lost part", after.clone(), true),
                    ("after the lost part, without a check", without_check(&after), true),
                ] {
                    let resumed = Listener::start(server, Some(&since)).await;
                    let missing = resumed.missing(&new).await;
                    lost_events += missing;
                    expected += NEW;
                    if missing > 0 || (must_gap && resumed.gaps() == 0) {
                        let gaps = resumed.gaps();
                        wrong.push(format!("round {round}: resumed from {name}: {gaps} gaps, lost {missing} of {NEW}"));
                    }
                }
                let present = Listener::start(server, Some(&held[0].position())).await;
                let old = Listener::start(server, Some(&without_check(&held[0].position()))).await;
                let next = create(&servers, 4).await;
                for (name, resumed) in [("a present position", present), ("a position of 0.10", old)] {
                    let (missing, gaps) = (resumed.missing(&next).await, resumed.gaps());
                    if (missing, gaps) != (0, 0) {
                        wrong.push(format!("round {round}: resumed from {name}: {gaps} gaps, lost {missing}"));
                    }
                }
            }
            until("the webhook has every new record", async || new.is_subset(&receiver.records("/good"))).await;
            let mut seen = Ids::new();
            until("the consumer has pulled every new record", async || {
                pulled(&servers[round % 2], &token, &mut seen).await;
                new.is_subset(&seen)
            })
            .await;
        }
        println!("events lost without a gap: {lost_events} of {expected}");
        assert!(wrong.is_empty(), "{fanout}: {}", wrong.join("\n"));
    }
}

/// Nobody is there to notice: the servers stop with the database. Only the check in a position shows the loss.
#[tokio::test(flavor = "multi_thread")]
async fn a_position_from_before_the_loss_gets_a_gap_although_every_server_was_restarted() {
    let Some(mut database) = Database::own_postgres() else { return };
    let (_receiver, url) = Receiver::start().await;
    let mut servers = Vec::new();
    for _ in 0..2 {
        servers.push(launch(&url, "").start(&database).await);
    }
    for round in 0..rounds() {
        create(&servers, 2).await;
        tokio::task::block_in_place(|| postgres(&mut database).keep_copy()).unwrap();
        are_ready(&servers).await;
        let held = Listener::start(&servers[0], None).await;
        until("the stream is open", async || !held.position().is_empty()).await;
        let before = held.position();
        let first = create(&servers, LOST / 2).await;
        assert_eq!(held.missing(&first).await, 0);
        let inside = held.position();
        let second = create(&servers, LOST / 2).await;
        assert_eq!(held.missing(&second).await, 0);
        let after = held.position();
        servers.iter_mut().for_each(Server::kill);
        tokio::task::block_in_place(|| postgres(&mut database).lose_commits()).unwrap();
        servers.iter_mut().for_each(Server::restart);
        let new = create(&servers, NEW).await;
        for server in &servers {
            for (since, must_gap) in [(&before, false), (&inside, true), (&after, true)] {
                let resumed = Listener::start(server, Some(since)).await;
                assert_eq!(resumed.missing(&new).await, 0, "round {round}: {since}");
                assert_eq!(resumed.gaps() > 0, must_gap, "round {round}: {since}");
            }
        }
    }
}
