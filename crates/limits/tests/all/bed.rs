//! Every store, with a clock that a test moves: one suite checks all of them.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use ::redis::aio::MultiplexedConnection;
use gatewright_base::{Ambient, ManualClock, Secret};
use gatewright_db::testing::{REQUIRED, TestDb, engines};
use gatewright_db::{Db, Options, params};
use gatewright_limits::policy::{Counted, History};
use gatewright_limits::{Key, MemoryStore, Policy, Redis, RedisStore, SqlStore, Store, Verdict};
use jiff::{SignedDuration, Timestamp};

/// The environment variable with the URL of a Redis server for tests.
const REDIS: &str = "GATEWRIGHT_TEST_REDIS";

/// One kind of store.
pub(crate) struct Bed {
    pub(crate) name: &'static str,
    /// Two instances over one backend, as two replicas have them; in memory, one instance twice.
    pub(crate) replicas: [Arc<dyn Store>; 2],
    pub(crate) backend: Backend,
    clock: Arc<ManualClock>,
}

/// Where the histories are.
pub(crate) enum Backend {
    Memory,
    Sql(Db, #[expect(dead_code, reason = "the database is there as long as this is held")] TestDb),
    Redis(MultiplexedConnection, String),
}

/// Every store that is available for tests.
pub(crate) async fn all() -> Vec<Bed> {
    let (ambient, clock) = Ambient::manual(Timestamp::UNIX_EPOCH, 1);
    let memory: Arc<dyn Store> = Arc::new(MemoryStore::new(ambient));
    let mut beds = vec![Bed { name: "memory", replicas: [memory.clone(), memory], backend: Backend::Memory, clock }];
    beds.extend(shared().await);
    beds
}

/// The stores that replicas share.
pub(crate) async fn shared() -> Vec<Bed> {
    let mut beds = Vec::new();
    for engine in engines().await {
        SqlStore::migrate(&engine.db).await.unwrap();
        let (ambient, clock) = Ambient::manual(Timestamp::UNIX_EPOCH, 1);
        let second = Db::open(&engine.url, Options::default()).await.unwrap();
        let store = |db: &Db| -> Arc<dyn Store> { Arc::new(SqlStore::new(db.clone(), ambient.clone())) };
        let replicas = [store(&engine.db), store(&second)];
        beds.push(Bed { name: engine.name, replicas, backend: Backend::Sql(engine.db.clone(), engine), clock });
    }
    if let Some((url, prefix)) = redis() {
        let (ambient, clock) = Ambient::manual(Timestamp::UNIX_EPOCH, 1);
        let store = || -> Arc<dyn Store> { Arc::new(RedisStore::new(open(&url, &prefix), ambient.clone())) };
        let client = ::redis::Client::open(url.as_str()).unwrap();
        let connection = client.get_multiplexed_async_connection().await.unwrap();
        let backend = Backend::Redis(connection, format!("{prefix}limit:"));
        beds.push(Bed { name: "redis", replicas: [store(), store()], backend, clock });
    }
    beds
}

/// The test server's URL and a prefix that no other test has.
pub(crate) fn redis() -> Option<(String, String)> {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    let Ok(url) = std::env::var(REDIS) else {
        assert!(std::env::var(REQUIRED).is_err(), "{REDIS} is not set; run `cargo xtask test`");
        return None;
    };
    let number = COUNT.fetch_add(1, Ordering::Relaxed);
    let started = Ambient::system().now().as_nanosecond();
    Some((url, format!("test-{started}-{number}:")))
}

pub(crate) fn open(url: &str, prefix: &str) -> Redis {
    Redis::open(&Secret::new(url)).unwrap().with_prefix(prefix)
}

/// The key of every test of one store; the store is the test's own.
pub(crate) fn key(name: &str) -> Key {
    Key::new("test", name)
}

/// `max` attempts in 1,000 seconds, then a block of 100 minutes.
pub(crate) fn policy(max: u32) -> Policy {
    Policy::new(max, Duration::from_secs(1_000), Duration::from_mins(100))
}

pub(crate) fn now() -> i64 {
    Ambient::system().now().as_microsecond()
}

impl Bed {
    pub(crate) async fn attempt(&self, name: &str, policy: &Policy) -> Verdict {
        self.replicas[0].attempt(&key(name), policy).await.unwrap()
    }

    /// How many of `count` attempts of a key are admitted.
    pub(crate) async fn admitted(&self, name: &str, policy: &Policy, count: u32) -> u32 {
        let mut admitted = 0;
        for _ in 0..count {
            admitted += u32::from(self.attempt(name, policy).await == Verdict::Admitted);
        }
        admitted
    }

    /// Lets time go by for the keys of these names: by the clock in memory, by moving what is kept into the past
    /// elsewhere.
    pub(crate) async fn age(&self, names: &[&str], seconds: i64) {
        self.clock.advance(SignedDuration::from_secs(seconds));
        for name in names {
            if let Some((history, ends)) = self.backend.read(name).await {
                let by = seconds * 1_000_000;
                let earlier = match history {
                    History::Fresh => History::Fresh,
                    History::Blocked { until } => History::Blocked { until: until - by },
                    History::Counting(counted) => {
                        let marks: Vec<i64> = counted.marks().iter().map(|time| time - by).collect();
                        History::Counting(Counted::new(counted.last() - by, counted.loose(), &marks))
                    }
                };
                self.backend.write(name, &earlier, ends - by).await;
            }
        }
    }
}

impl Backend {
    /// The history of a key, and when the backend may forget it.
    pub(crate) async fn read(&self, name: &str) -> Option<(History, i64)> {
        match self {
            Self::Memory => None,
            Self::Sql(db, _) => {
                let sql = "SELECT last_at, loose, marks, blocked_until, ends_at FROM rate_limits WHERE key = ?1";
                let row = db.query_opt(sql, params![key(name).as_str()]).await.unwrap()?;
                let history = match row.get::<Option<i64>>("blocked_until").unwrap() {
                    Some(until) => {
                        assert_eq!(row.get::<String>("marks").unwrap(), "", "a blocked key keeps no marks");
                        History::Blocked { until }
                    }
                    None => counting(
                        row.get("last_at").unwrap(),
                        u32::try_from(row.get::<i64>("loose").unwrap()).unwrap(),
                        &row.get::<String>("marks").unwrap(),
                    ),
                };
                Some((history, row.get("ends_at").unwrap()))
            }
            Self::Redis(connection, prefix) => {
                let mut connection = connection.clone();
                let name = format!("{prefix}{}", key(name));
                let mut both = ::redis::pipe();
                both.cmd("GET").arg(&name).cmd("PTTL").arg(&name).cmd("TIME");
                let (text, ttl, (seconds, micros)): (Option<String>, i64, (i64, i64)) =
                    both.query_async(&mut connection).await.unwrap();
                let text = text?;
                let history = match text.split_at(1) {
                    ("B", until) => History::Blocked { until: until.parse().unwrap() },
                    (_, rest) => counting(rest[..16].parse().unwrap(), rest[16..26].parse().unwrap(), &rest[26..]),
                };
                assert!(ttl > 0, "a key without an expiry stays for ever");
                Some((history, seconds * 1_000_000 + micros + ttl * 1_000))
            }
        }
    }

    /// Puts a history in place of what is there.
    pub(crate) async fn write(&self, name: &str, history: &History, ends: i64) {
        let (last, loose, marks, until) = match history {
            History::Fresh => return,
            History::Counting(counted) => {
                let marks: Vec<String> = counted.marks().iter().map(|time| format!("{time:016}")).collect();
                (counted.last(), counted.loose(), marks.concat(), None)
            }
            History::Blocked { until } => (*until, 0, String::new(), Some(*until)),
        };
        match self {
            Self::Memory => {}
            Self::Sql(db, _) => {
                let sql = "INSERT INTO rate_limits (key, last_at, loose, marks, blocked_until, ends_at)
                    VALUES (?1, ?2, ?3, ?4, ?5, ?6) ON CONFLICT (key) DO UPDATE SET last_at = excluded.last_at,
                    loose = excluded.loose, marks = excluded.marks, blocked_until = excluded.blocked_until,
                    ends_at = excluded.ends_at";
                let values = params![key(name).as_str(), last, loose, marks, until, ends];
                db.execute(sql, values).await.unwrap();
            }
            Self::Redis(connection, prefix) => {
                let text = match until {
                    Some(until) => format!("B{until:016}"),
                    None => format!("C{last:016}{loose:010}{marks}"),
                };
                let (name, left) = (format!("{prefix}{}", key(name)), (ends - now()) / 1_000);
                let mut command = ::redis::cmd(if left > 0 { "SET" } else { "DEL" });
                command.arg(name);
                if left > 0 {
                    command.arg(text).arg("PX").arg(left);
                }
                command.exec_async(&mut connection.clone()).await.unwrap();
            }
        }
    }
}

fn counting(last: i64, loose: u32, marks: &str) -> History {
    let marks: Vec<i64> =
        marks.as_bytes().chunks(16).map(|mark| str::from_utf8(mark).unwrap().parse().unwrap()).collect();
    History::Counting(Counted::new(last, loose, &marks))
}
