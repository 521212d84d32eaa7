use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicUsize};
use std::time::{Duration, Instant};

use reqwest::Method;
use serde_json::{Value, json};
use tokio::sync::Notify;

use super::ledger::{Account, Ledger, Outcome, Topic};
use super::{LISTENERS, TIMEOUT};
use crate::harness::Server;

/// Users that listen. Another user writes tasks, as a member of every project.
pub(crate) const ACCOUNTS: usize = 8;
pub(crate) const EDITOR: Account = ACCOUNTS;
pub(crate) const PROJECTS: usize = 3;

/// The state that all tasks of a run share.
pub(crate) struct World {
    pub(crate) addresses: Vec<String>,
    pub(crate) accounts: Vec<User>,
    /// Their ids.
    pub(crate) projects: Vec<String>,
    pub(crate) ledger: Ledger,
    /// Ends a listener's connection.
    pub(crate) cuts: Vec<Notify>,
    /// Writing has stopped, and every listener reads as fast as it can.
    pub(crate) stopping: AtomicBool,
    /// Tasks that write.
    pub(crate) writing: AtomicUsize,
    http: reqwest::Client,
}

pub(crate) struct User {
    pub(crate) id: String,
    pub(crate) bearer: String,
}

impl World {
    /// Creates the users and projects. Each listening user is a permanent member of some of the projects.
    pub(crate) async fn new(servers: &[Server], ledger: Ledger) -> Self {
        let mut world = Self {
            addresses: servers.iter().map(|server| server.address().to_owned()).collect(),
            accounts: Vec::new(),
            projects: Vec::new(),
            ledger,
            cuts: (0..LISTENERS).map(|_| Notify::new()).collect(),
            stopping: AtomicBool::new(false),
            writing: AtomicUsize::new(0),
            http: reqwest::Client::new(),
        };
        for number in 0..=ACCOUNTS {
            let (client, email) = (servers[0].client(), format!("user{number}@example.com"));
            client.register(&email).await.is(200);
            let answer = client.log_in(&email).await.is(200).json();
            let id = client.get("/auth/me").await.is(200).json()["user"]["id"].as_str().unwrap().to_owned();
            world.accounts.push(User { id, bearer: format!("Bearer {}", answer["token"].as_str().unwrap()) });
        }
        for number in 0..PROJECTS {
            let made = servers[0].client().post("/projects", &json!({ "name": format!("{number}") })).await.is(201);
            world.projects.push(made.json()["data"]["id"].as_str().unwrap().to_owned());
            world.ledger.joins(EDITOR, number);
            let member = json!({ "project": world.projects[number], "account": world.accounts[EDITOR].id });
            servers[0].client().post("/members", &member).await.is(201);
            world.ledger.joined(EDITOR, number);
        }
        world
    }

    /// Sends a write to one server. `None` unless the answer is a success.
    pub(crate) async fn send(
        &self,
        server: usize,
        method: Method,
        path: &str,
        account: Option<Account>,
        body: &Value,
    ) -> (Outcome, Option<Value>) {
        let url = format!("http://{}{path}", self.addresses[server]);
        let mut request = self.http.request(method.clone(), url).timeout(TIMEOUT);
        if let Some(account) = account {
            request = request.header("authorization", &self.accounts[account].bearer);
        }
        if method != Method::DELETE {
            request = request.json(body);
        }
        let answer = match request.send().await {
            Ok(answer) => answer,
            Err(error) if error.is_connect() => return (Outcome::NotSent, None),
            Err(_) => return (Outcome::Unknown, None),
        };
        let status = answer.status();
        if status.is_server_error() {
            return (Outcome::Unknown, None);
        }
        let text = answer.text().await.unwrap_or_default();
        if status == 404 && method == Method::DELETE && path.starts_with("/members/") {
            // An earlier request, whose answer did not arrive, has deleted it.
            return (Outcome::Committed, None);
        }
        if !status.is_success() {
            self.ledger.fault(format!("{method} {path} was answered {status}: {text}"));
            return (Outcome::Unknown, None);
        }
        (Outcome::Committed, Some(serde_json::from_str(&text).unwrap_or_default()))
    }

    /// A JSON document from any server that answers.
    pub(crate) async fn read(&self, path: &str, account: Option<Account>) -> Value {
        let begun = Instant::now();
        for address in self.addresses.iter().cycle() {
            let mut request = self.http.get(format!("http://{address}{path}")).timeout(TIMEOUT);
            if let Some(account) = account {
                request = request.header("authorization", &self.accounts[account].bearer);
            }
            if let Ok(answer) = request.send().await
                && answer.status() == 200
                && let Ok(document) = answer.json().await
            {
                return document;
            }
            assert!(begun.elapsed() < TIMEOUT, "nobody answers {path}");
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        unreachable!("the addresses go round")
    }

    /// Reads every record, and adds the stored versions to the ledger.
    pub(crate) async fn learn_what_was_committed(&self) {
        let mut stored = HashMap::new();
        let owners = (0..=ACCOUNTS).map(Topic::Notes);
        for topic in [Topic::Posts, Topic::Tasks(0)].into_iter().chain(owners) {
            let account = match topic {
                Topic::Posts => None,
                Topic::Notes(owner) => Some(owner),
                Topic::Tasks(_) => Some(EDITOR),
            };
            for page in 1.. {
                let list = self.read(&format!("/{}?limit=100&page={page}", topic.table()), account).await;
                for record in list["data"].as_array().unwrap() {
                    stored.insert(record["key"].as_i64().unwrap(), record["version"].as_i64().unwrap());
                }
                if list["hasMore"] != true {
                    break;
                }
            }
        }
        self.ledger.settle(&stored);
    }

    /// Waits until this many more writes are acknowledged.
    pub(crate) async fn more_writes(&self, count: usize) {
        let enough = self.ledger.committed() + count;
        self.wait_until("enough is written", || self.ledger.committed() >= enough).await;
    }

    /// Waits until a condition holds. There is no deadline while events arrive.
    pub(crate) async fn wait_until(&self, what: &str, holds: impl Fn() -> bool) {
        let mut moved = (self.ledger.progress(), Instant::now());
        while !holds() {
            self.check();
            let progress = self.ledger.progress();
            if progress != moved.0 {
                moved = (progress, Instant::now());
            }
            if moved.1.elapsed() > TIMEOUT {
                let missing = self.ledger.missing();
                let some = missing.iter().take(10).cloned().collect::<Vec<_>>().join("\n");
                panic!("never: {what}. {} {} are missing:\n{some}", self.ledger.summary(), missing.len());
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }

    /// Fails if there was a violation so far.
    pub(crate) fn check(&self) {
        let faults = self.ledger.faults();
        let some = faults.iter().take(10).cloned().collect::<Vec<_>>().join("\n");
        assert!(faults.is_empty(), "{} faults:\n{some}\n{}", faults.len(), self.ledger.summary());
    }
}
