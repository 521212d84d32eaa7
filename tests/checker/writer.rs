//! Tasks that write records, and tasks that change memberships.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use reqwest::Method;
use serde_json::{Value, json};

use super::ledger::{Account, Outcome, Project, Topic};
use super::random::Random;
use super::world::{ACCOUNTS, EDITOR, PROJECTS, World};

/// A record that its writer may change.
struct Live {
    topic: Topic,
    key: i64,
    id: String,
}

/// Creates, changes and deletes records until the run stops. If the result of a write is unknown, the record is not
/// written again.
pub(crate) async fn write(world: Arc<World>, mut random: Random) {
    let _busy = Busy::new(&world);
    let mut live: Vec<Live> = Vec::new();
    while !world.stopping.load(Ordering::SeqCst) {
        let server = random.below(world.addresses.len());
        if live.len() < 4 || random.once_in(3) {
            let topic = match random.below(3) {
                0 => Topic::Posts,
                1 => Topic::Notes(random.below(ACCOUNTS)),
                _ => Topic::Tasks(random.below(PROJECTS)),
            };
            let text = "x".repeat(random.below(2_000));
            live.extend(create(&world, server, topic, &text).await);
        } else {
            let at = random.below(live.len());
            let deletes = random.once_in(4);
            match change(&world, server, &live[at], deletes).await {
                Outcome::NotSent => {}
                Outcome::Committed if !deletes => {}
                Outcome::Committed | Outcome::Unknown => {
                    live.swap_remove(at);
                }
            }
        }
        tokio::time::sleep(Duration::from_millis(5 + u64::try_from(random.below(30)).unwrap())).await;
    }
}

/// Creates a record of each topic, and retries until one is acknowledged.
pub(crate) async fn write_one_of_each(world: &World) {
    let notes = (0..ACCOUNTS).map(Topic::Notes);
    let tasks = (0..PROJECTS).map(Topic::Tasks);
    for topic in [Topic::Posts].into_iter().chain(notes).chain(tasks) {
        let mut server = 0;
        while create(world, server % world.addresses.len(), topic, "last").await.is_none() {
            server += 1;
            assert!(server < 100, "{topic:?} cannot be written");
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }
    world.learn_what_was_committed().await;
}

async fn create(world: &World, server: usize, topic: Topic, text: &str) -> Option<Live> {
    let key = world.ledger.new_key();
    let mut body = json!({ "key": key, "version": 1, "text": text });
    if let Topic::Tasks(project) = topic {
        body["project"] = json!(world.projects[project]);
    }
    world.ledger.sends(topic, key, false);
    let (outcome, answer) =
        world.send(server, Method::POST, &format!("/{}", topic.table()), writer(topic), &body).await;
    world.ledger.sent(key, outcome);
    let id = answer?["data"]["id"].as_str()?.to_owned();
    Some(Live { topic, key, id })
}

async fn change(world: &World, server: usize, record: &Live, deletes: bool) -> Outcome {
    let Live { topic, key, id } = record;
    let version = world.ledger.sends(*topic, *key, deletes);
    let method = if deletes { Method::DELETE } else { Method::PATCH };
    let path = format!("/{}/{id}", topic.table());
    let (outcome, _) = world.send(server, method, &path, writer(*topic), &json!({ "version": version })).await;
    world.ledger.sent(*key, outcome);
    outcome
}

fn writer(topic: Topic) -> Option<Account> {
    match topic {
        Topic::Posts => None,
        Topic::Notes(owner) => Some(owner),
        Topic::Tasks(_) => Some(EDITOR),
    }
}

/// Makes users join and leave projects until the run stops. If a result is unknown, it reads the state until it is known.
pub(crate) async fn change_members(world: Arc<World>, mut random: Random) {
    let _busy = Busy::new(&world);
    let mut members: Vec<(Account, Project, Option<String>)> =
        (0..ACCOUNTS).flat_map(|account| (0..PROJECTS).map(move |project| (account, project, None))).collect();
    while !world.stopping.load(Ordering::SeqCst) {
        let at = random.below(members.len());
        let (account, project, membership) = &mut members[at];
        match membership.take() {
            None => {
                *membership = join(&world, *account, *project, &mut random).await;
                if membership.is_none() {
                    // There may be a row whose id is unknown: the account stays a member.
                    members.swap_remove(at);
                }
            }
            Some(row) => leave(&world, *account, *project, &row, &mut random).await,
        }
        tokio::time::sleep(Duration::from_millis(20 + u64::try_from(random.below(100)).unwrap())).await;
    }
}

/// The id of the membership, unless the result is unknown.
async fn join(world: &World, account: Account, project: Project, random: &mut Random) -> Option<String> {
    let body = json!({ "project": world.projects[project], "account": world.accounts[account].id });
    let mut in_doubt = false;
    world.ledger.joins(account, project);
    loop {
        let server = random.below(world.addresses.len());
        let (outcome, answer) = world.send(server, Method::POST, "/members", None, &body).await;
        in_doubt |= outcome == Outcome::Unknown;
        if let Some(id) = answer.as_ref().and_then(|answer| answer["data"]["id"].as_str()) {
            world.ledger.joined(account, project);
            return (!in_doubt).then(|| id.to_owned());
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

async fn leave(world: &World, account: Account, project: Project, row: &str, random: &mut Random) {
    world.ledger.leaves(account, project);
    let mut server = random.below(world.addresses.len());
    loop {
        let (outcome, _) = world.send(server, Method::DELETE, &format!("/members/{row}"), None, &Value::Null).await;
        let gone = outcome == Outcome::Committed || {
            let filter = format!("/members?filter=id%20%3D%20'{row}'");
            world.read(&filter, None).await["data"].as_array().is_some_and(Vec::is_empty)
        };
        if gone {
            break;
        }
        server = random.below(world.addresses.len());
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    world.ledger.left(account, project);
}

/// Counts a task that writes.
struct Busy<'a>(&'a World);

impl<'a> Busy<'a> {
    fn new(world: &'a World) -> Self {
        world.writing.fetch_add(1, Ordering::SeqCst);
        Self(world)
    }
}

impl Drop for Busy<'_> {
    fn drop(&mut self) {
        self.0.writing.fetch_sub(1, Ordering::SeqCst);
    }
}
