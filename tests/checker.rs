//! Streams that resume, while servers, database connections, carriers and memberships are interrupted or changed.
//!
//! [`Ledger`] knows every committed write and every listener's rights. 200 listeners of three entities resume on any
//! server that they can reach. The entities have public records, records with an owner, and records under a rule for
//! reading, whose members change. No listener may miss a write that they may read, receive one that they may not read,
//! receive one twice without a resume, or receive the writes to one record in another order.
//!
//! A printed seed chooses the faults. `GATEWRIGHT_TEST_SEED` sets it, `GATEWRIGHT_TEST_ROUNDS` the number of faults.
//! There is no deadline while events arrive.

mod ledger;
mod listener;
mod random;
mod world;
mod writer;

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use gatewright_servers::{PrivateNats, PrivateRedis};
use tokio::sync::Mutex;
use tokio::task::JoinSet;

use self::ledger::Ledger;
use self::random::Random;
use self::world::World;
use crate::harness::{Database, Launch, Server};

const LISTENERS: usize = 200;
const WRITERS: usize = 6;
/// The number of faults in a run, unless `GATEWRIGHT_TEST_ROUNDS` sets another.
const ROUNDS: usize = 8;
/// Writes that are acknowledged between two faults.
const WRITES: usize = 60;
/// A run fails if nothing has arrived for this long.
const TIMEOUT: Duration = Duration::from_mins(2);

/// Runs wait for each other: each keeps the machine busy.
static TURN: Mutex<()> = Mutex::const_new(());

#[tokio::test(flavor = "multi_thread")]
async fn replicas_that_share_a_redis_lose_nothing() {
    let Some(database) = Database::postgres().await else { return };
    run(&database, 3, Carrier::Redis(PrivateRedis::start().unwrap())).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn replicas_that_share_a_nats_lose_nothing() {
    let Some(database) = Database::postgres().await else { return };
    run(&database, 3, Carrier::Nats(PrivateNats::start().unwrap())).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn replicas_without_a_carrier_lose_nothing() {
    let Some(database) = Database::postgres().await else { return };
    run(&database, 3, Carrier::None).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_on_sqlite_that_restarts_loses_nothing() {
    run(&Database::Sqlite, 1, Carrier::None).await;
}

enum Carrier {
    None,
    Redis(PrivateRedis),
    Nats(PrivateNats),
}

#[derive(Debug, Clone, Copy)]
enum Fault {
    /// Connections of streams end.
    Disconnects,
    /// A server is killed.
    Kill,
    /// A server stops on SIGTERM.
    Stop,
    /// The database ends some of the servers' connections.
    Backends,
    /// The carrier is unavailable for a while.
    Carrier,
}

async fn run(database: &Database, count: usize, mut carrier: Carrier) {
    let _turn = TURN.lock().await;
    let mut random = Random::of_run();
    let rounds = std::env::var("GATEWRIGHT_TEST_ROUNDS").map_or(ROUNDS, |rounds| rounds.parse().unwrap());
    let mut servers = Vec::new();
    for _ in 0..count {
        servers.push(Launch::configured(&configuration(&carrier)).start(database).await);
    }
    let world = Arc::new(World::new(&servers, Ledger::new(LISTENERS)).await);

    let mut tasks = JoinSet::new();
    for number in 0..LISTENERS {
        tasks.spawn(listener::listen(world.clone(), number, random.child()));
    }
    world.wait_until("every listener has a position", || world.ledger.listening() == LISTENERS).await;
    for _ in 0..WRITERS {
        tasks.spawn(writer::write(world.clone(), random.child()));
    }
    tasks.spawn(writer::change_members(world.clone(), random.child()));
    let mut faults = Vec::new();
    for _ in 0..rounds {
        if faults.is_empty() {
            faults = carrier.faults(database);
        }
        let fault = faults.swap_remove(random.below(faults.len()));
        world.more_writes(WRITES).await;
        strike(fault, &world, &mut servers, database, &mut carrier, &mut random).await;
        world.check();
    }
    world.more_writes(WRITES).await;

    let begun = Instant::now();
    world.stopping.store(true, Ordering::SeqCst);
    world.wait_until("every writer has ended", || world.writing.load(Ordering::SeqCst) == 0).await;
    world.learn_what_was_committed().await;
    world.wait_until("every listener has what it may read", || world.ledger.missing().is_empty()).await;
    // Everything that was still being delivered comes before these.
    writer::write_one_of_each(&world).await;
    world.wait_until("every listener has the last writes", || world.ledger.missing().is_empty()).await;
    world.check();
    while let Some(ended) = tasks.try_join_next() {
        ended.expect("no writer and no listener panics");
    }
    tasks.shutdown().await;
    println!("{} The end took {:?}.", world.ledger.summary(), begun.elapsed());
    assert!(world.ledger.resumes() > LISTENERS, "streams resume: {}", world.ledger.summary());
}

async fn strike(
    fault: Fault,
    world: &World,
    servers: &mut [Server],
    database: &Database,
    carrier: &mut Carrier,
    random: &mut Random,
) {
    println!("{fault:?}, after {}", world.ledger.summary());
    match fault {
        Fault::Disconnects => {
            let first = random.below(LISTENERS);
            for number in 0..LISTENERS / 2 {
                world.cuts[(first + number) % LISTENERS].notify_one();
            }
        }
        Fault::Kill => {
            let victim = random.below(servers.len());
            servers[victim].kill();
            if servers.len() > 1 {
                world.more_writes(WRITES).await;
            }
            servers[victim].restart();
        }
        Fault::Stop => {
            let victim = random.below(servers.len());
            servers[victim].stop().await;
            servers[victim].restart();
        }
        Fault::Backends => {
            let statement = format!(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity
                 WHERE datname = current_database() AND pid <> pg_backend_pid()
                 ORDER BY md5(pid::text || '{}') LIMIT {}",
                random.below(1_000),
                1 + random.below(12)
            );
            database.execute(servers[0].folder(), &statement).await;
        }
        Fault::Carrier => {
            carrier.kill();
            world.more_writes(WRITES).await;
            tokio::task::block_in_place(|| carrier.restart());
        }
    }
}

impl Carrier {
    /// The faults of one cycle. The test strikes with each of them once, in random order.
    fn faults(&self, database: &Database) -> Vec<Fault> {
        let mut faults = vec![Fault::Disconnects, Fault::Kill, Fault::Kill, Fault::Stop];
        if !matches!(database, Database::Sqlite) {
            faults.extend([Fault::Backends, Fault::Backends]);
        }
        if !matches!(self, Self::None) {
            faults.extend([Fault::Carrier, Fault::Carrier]);
        }
        faults
    }

    fn kill(&mut self) {
        match self {
            Self::None => {}
            Self::Redis(server) => server.kill(),
            Self::Nats(server) => server.kill(),
        }
    }

    fn restart(&mut self) {
        match self {
            Self::None => {}
            Self::Redis(server) => server.restart().unwrap(),
            Self::Nats(server) => server.restart().unwrap(),
        }
    }
}

fn configuration(carrier: &Carrier) -> String {
    let fanout = match carrier {
        Carrier::None => String::new(),
        Carrier::Redis(server) => format!("fanout = \"redis\"\nfanout_url = \"{}\"", server.url()),
        Carrier::Nats(server) => format!("fanout = \"nats\"\nfanout_url = \"{}\"", server.url()),
    };
    let record = "[[entity.field]]\nname = \"key\"\ntype = \"int\"\n\
                  [[entity.field]]\nname = \"version\"\ntype = \"int\"\n\
                  [[entity.field]]\nname = \"text\"\ntype = \"text\"";
    format!(
        r#"
[auth]
jwt_secret = "a secret that all servers of the test share"
jwt_expiry_seconds = 86400
[events]
heartbeat_seconds = 2
{fanout}
[[entity]]
name = "posts"
public = true
{record}
[[entity]]
name = "notes"
owner_field = "user_id"
{record}
[[entity]]
name = "projects"
public = true
[[entity.field]]
name = "name"
type = "string"
[[entity]]
name = "members"
public = true
[[entity.field]]
name = "project"
type = "relation"
to = "projects"
[[entity.field]]
name = "account"
type = "string"
[[entity]]
name = "tasks"
[entity.rules]
read = "project.members(project).account = @me"
[[entity.field]]
name = "project"
type = "relation"
to = "projects"
{record}
"#
    )
}
