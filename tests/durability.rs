//! Acknowledged writes survive every kill.

use std::{
    collections::HashSet,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use reqwest::Method;
use serde_json::{Value, json};
use tokio::task::JoinHandle;

use crate::harness::{Answer, Client, Database, Launch, Server, gatewright};

const WRITERS: usize = 64;
const ACKNOWLEDGED: usize = 3000;

#[tokio::test(flavor = "multi_thread")]
async fn every_acknowledged_write_survives_the_death_of_the_server() {
    for database in Database::all().await {
        let mut server = Launch::dev().start(&database).await;
        let ada = signed_in(&server).await;
        let writers = Writers::start(&ada);
        writers.have_acknowledged(ACKNOWLEDGED).await;
        server.kill();
        let outcome = writers.end().await;
        assert_eq!(outcome.refused, Vec::<u16>::new());

        server.restart();
        assert_all_there(&ada, outcome.acknowledged).await;
        ada.post("/posts", &json!({ "title": "after" })).await.is(201);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_copy_of_the_database_file_is_whole_after_a_clean_stop() {
    let mut server = Launch::dev().start(&Database::Sqlite).await;
    let ada = signed_in(&server).await;
    let writers = Writers::start(&ada);
    writers.have_acknowledged(500).await;
    let acknowledged = writers.end().await.acknowledged;
    assert_eq!(server.stop().await, Some(0));

    // A copy of the database file alone lacks the files beside it, so they must be empty.
    for beside in ["-wal", "-shm", "-lock"] {
        let file = server.folder().join(format!("gatewright.db{beside}"));
        assert_eq!(std::fs::metadata(&file).map_or(0, |file| if beside == "-wal" { file.len() } else { 0 }), 0);
        let _not_there = std::fs::remove_file(file);
    }
    server.restart();
    assert_all_there(&ada, acknowledged).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_second_server_on_one_sqlite_file_is_refused_and_commands_work_beside_the_first() {
    let mut server = Launch::dev().start(&Database::Sqlite).await;
    let folder = server.folder().to_owned();
    let file = ["--database", "sqlite://gatewright.db"];
    let run = |words: &[&str], input| gatewright(&folder, &[words, &file].concat(), input);

    let second = run(&["serve", "--dev", "--listen", "127.0.0.1:0"], "");
    assert_eq!(second.status, 1, "{second:?}");
    for part in ["another server (process ", "gatewright.db", "Postgres"] {
        assert!(second.err.contains(part), "no {part}: {second:?}");
    }
    server.client().get("/healthz").await.is(200);

    let created = run(&["user", "create", "eve@example.com", "--password-stdin"], "a long enough passphrase\n");
    assert_eq!(created.status, 0, "{created:?}");
    assert_eq!(run(&["migrate"], "").status, 0);
    server.kill();
    server.restart();
    server.client().get("/healthz").await.is(200);
}

#[tokio::test(flavor = "multi_thread")]
async fn every_acknowledged_write_survives_the_death_of_postgres_and_the_server_finds_it_again() {
    let Some(mut database) = Database::own_postgres() else { return };
    let server = Launch::dev().start(&database).await;
    let ada = signed_in(&server).await;
    let writers = Writers::start(&ada);
    writers.have_acknowledged(ACKNOWLEDGED).await;

    let Database::Own(postgres) = &mut database else { unreachable!("asked for above") };
    postgres.kill();
    let down = ada.get("/readyz").await;
    assert_eq!(down.status, 503, "ready without a database: {}", down.text);
    ada.get("/healthz").await.is(200);
    tokio::task::block_in_place(|| postgres.restart()).unwrap();

    // Nobody restarts the server: it reconnects to its database, and the writers continue.
    let so_far = writers.count();
    writers.have_acknowledged(so_far + 200).await;
    let outcome = writers.end().await;
    let unexpected: Vec<u16> = outcome.refused.into_iter().filter(|status| *status != 503).collect();
    assert_eq!(unexpected, Vec::<u16>::new(), "while the database is away the answer is 503");
    assert_all_there(&ada, outcome.acknowledged).await;
    ada.get("/readyz").await.is(200);
}

async fn signed_in(server: &Server) -> Client {
    let client = server.client();
    client.register("ada@example.com").await.is(200);
    client.log_in("ada@example.com").await.is(200);
    client
}

/// Clients that create one record after the other until they are stopped or lose their server.
struct Writers {
    outcome: Arc<Mutex<Outcome>>,
    stop: Arc<AtomicBool>,
    tasks: Vec<JoinHandle<()>>,
}

#[derive(Default, Clone)]
struct Outcome {
    acknowledged: Vec<(String, String)>,
    refused: Vec<u16>,
}

impl Writers {
    fn start(client: &Client) -> Self {
        let outcome = Arc::new(Mutex::new(Outcome::default()));
        let stop = Arc::new(AtomicBool::new(false));
        let task = |writer| {
            let (client, outcome, stop) = (client.clone(), Arc::clone(&outcome), Arc::clone(&stop));
            tokio::spawn(async move {
                for number in 0.. {
                    if stop.load(Ordering::Relaxed) {
                        return;
                    }
                    let title = format!("{writer} {number}");
                    let request = client.request(Method::POST, "/posts").json(&json!({ "title": title }));
                    let Ok(answer) = Answer::try_read(request).await else { return };
                    if answer.status == 201 {
                        let id = answer.json()["data"]["id"].as_str().unwrap().to_owned();
                        outcome.lock().unwrap().acknowledged.push((id, title));
                    } else {
                        outcome.lock().unwrap().refused.push(answer.status.as_u16());
                        tokio::time::sleep(Duration::from_millis(50)).await;
                    }
                }
            })
        };
        let tasks = (0..WRITERS).map(task).collect();
        Self { outcome, stop, tasks }
    }

    fn count(&self) -> usize {
        self.outcome.lock().unwrap().acknowledged.len()
    }

    async fn have_acknowledged(&self, number: usize) {
        let enough = async {
            while self.count() < number {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        if tokio::time::timeout(Duration::from_mins(2), enough).await.is_err() {
            let refused = self.outcome.lock().unwrap().refused.clone();
            panic!("{} of {number} writes acknowledged; refused: {:?}", self.count(), refused.last());
        }
    }

    async fn end(self) -> Outcome {
        self.stop.store(true, Ordering::Relaxed);
        for task in self.tasks {
            task.await.unwrap();
        }
        self.outcome.lock().unwrap().clone()
    }
}

/// Reads all records, page by page, and finds each acknowledged record exactly once.
async fn assert_all_there(client: &Client, acknowledged: Vec<(String, String)>) {
    let mut found: Vec<(String, String)> = Vec::new();
    for number in 1.. {
        let page = client.get(&format!("/posts?limit=100&page={number}")).await.is(200).json();
        let text = |record: &Value, key: &str| record[key].as_str().unwrap().to_owned();
        found.extend(page["data"].as_array().unwrap().iter().map(|post| (text(post, "id"), text(post, "title"))));
        if page["hasMore"] != true {
            break;
        }
    }
    let unique: HashSet<_> = found.iter().cloned().collect();
    assert_eq!(unique.len(), found.len(), "a page repeated a record");
    let lost: Vec<_> = acknowledged.into_iter().filter(|post| !unique.contains(post)).collect();
    assert!(lost.is_empty(), "{} acknowledged writes are lost, such as {:?}", lost.len(), lost[0]);
}
