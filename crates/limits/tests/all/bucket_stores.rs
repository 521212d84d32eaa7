//! The contract of every store of buckets.

use std::sync::Arc;

use ::redis::aio::MultiplexedConnection;
use gatewright_base::Ambient;
use gatewright_db::testing::{TestDb, engines};
use gatewright_db::{Db, Options, params};
use gatewright_limits::Key;
use gatewright_limits::bucket::{BucketStore, MemoryBuckets, Rate, RedisBuckets, SqlBuckets, TokenBucket};
use tokio::task::JoinSet;

use crate::bed::{key, now, open, redis};

struct Bed {
    name: &'static str,
    replicas: [Arc<dyn BucketStore>; 2],
    backend: Backend,
}

enum Backend {
    Memory,
    Sql(TestDb),
    Redis(MultiplexedConnection, String),
}

async fn all() -> Vec<Bed> {
    let memory: Arc<dyn BucketStore> = Arc::new(MemoryBuckets::new(Ambient::system()));
    let mut beds = vec![Bed { name: "memory", replicas: [memory.clone(), memory], backend: Backend::Memory }];
    for engine in engines().await {
        SqlBuckets::migrate(&engine.db).await.unwrap();
        let second = Db::open(&engine.url, Options::default()).await.unwrap();
        let store = |db: &Db| -> Arc<dyn BucketStore> { Arc::new(SqlBuckets::new(db.clone())) };
        let replicas = [store(&engine.db), store(&second)];
        beds.push(Bed { name: engine.name, replicas, backend: Backend::Sql(engine) });
    }
    if let Some((url, prefix)) = redis() {
        let store = || -> Arc<dyn BucketStore> { Arc::new(RedisBuckets::new(open(&url, &prefix))) };
        let client = ::redis::Client::open(url.as_str()).unwrap();
        let connection = client.get_multiplexed_async_connection().await.unwrap();
        let backend = Backend::Redis(connection, format!("{prefix}bucket:"));
        beds.push(Bed { name: "redis", replicas: [store(), store()], backend });
    }
    beds
}

impl Backend {
    /// Sets the time at which a bucket is full; `None` where a test cannot.
    async fn write(&self, key: &Key, full_at: i64) -> Option<()> {
        match self {
            Self::Memory => return None,
            Self::Sql(engine) => {
                let insert = "INSERT INTO rate_buckets (key, asked_at, full_at, admitted) VALUES (?1, 0, ?2, TRUE)
                    ON CONFLICT (key) DO UPDATE SET full_at = excluded.full_at";
                engine.db.execute(insert, params![key.as_str(), full_at]).await.unwrap();
            }
            Self::Redis(connection, prefix) => {
                let mut set = ::redis::cmd("SET");
                set.arg(format!("{prefix}{key}")).arg(full_at).arg("PX").arg(100_000_000);
                set.exec_async(&mut connection.clone()).await.unwrap();
            }
        }
        Some(())
    }

    async fn read(&self, key: &Key) -> Option<i64> {
        match self {
            Self::Memory => None,
            Self::Sql(engine) => {
                let select = "SELECT full_at FROM rate_buckets WHERE key = ?1";
                Some(engine.db.query_opt(select, params![key.as_str()]).await.unwrap()?.get("full_at").unwrap())
            }
            Self::Redis(connection, prefix) => {
                let name = format!("{prefix}{key}");
                let mut both = ::redis::pipe();
                both.cmd("GET").arg(&name).cmd("PTTL").arg(&name);
                let (full_at, ttl): (Option<i64>, i64) = both.query_async(&mut connection.clone()).await.unwrap();
                assert!(full_at.is_none() || ttl > 0, "a bucket without an expiry stays for ever");
                full_at
            }
        }
    }
}

#[tokio::test]
async fn the_backend_decides_as_the_rate_does() {
    for bed in all().await {
        let rate = Rate::new(0.001, 3).unwrap();
        let aheads = [-5_000_000, -1, 1, 500, 1_000, 1_500, 2_100, 2_900, 3_100, 50_000];
        for (number, ahead) in aheads.into_iter().enumerate() {
            let (key, full_at) = (key(&number.to_string()), now() + ahead * 1_000_000);
            let Some(()) = bed.backend.write(&key, full_at).await else { continue };
            let level = bed.replicas[0].take(&key, &rate).await.unwrap();
            let after = bed.backend.read(&key).await.unwrap();
            let asked_at = after - i64::try_from(level.reset.as_micros()).unwrap();
            assert!((now() - asked_at).abs() < 5_000_000, "{}: the clock", bed.name);
            assert_eq!((level, after), rate.take(full_at, asked_at), "{} {ahead}", bed.name);
        }
        let fresh = bed.replicas[0].take(&key("fresh"), &rate).await.unwrap();
        assert_eq!((fresh.admitted, fresh.remaining), (true, 2), "{}", bed.name);
    }
}

#[tokio::test]
async fn full_buckets_are_not_kept_and_others_are() {
    for bed in all().await {
        let rate = Rate::new(0.001, 2).unwrap();
        for name in ["full", "used"] {
            bed.replicas[0].take(&key(name), &rate).await.unwrap();
        }
        assert_eq!(bed.replicas[0].sweep().await.unwrap(), 0, "{}", bed.name);
        if let Backend::Sql(_) = bed.backend {
            bed.backend.write(&key("full"), 0).await.unwrap();
            assert_eq!(bed.replicas[0].sweep().await.unwrap(), 1, "{}", bed.name);
            assert_eq!(bed.backend.read(&key("full")).await, None);
        }
        assert_eq!(bed.replicas[0].take(&key("used"), &rate).await.unwrap().remaining, 0, "{}", bed.name);
    }
}

#[tokio::test]
async fn the_slowest_and_the_quickest_rate_work_everywhere() {
    for bed in all().await {
        for (per_second, burst) in [(1e-6, 1), (1e-6, 1_000_000), (1e6, 1), (1e6, 1_000_000)] {
            let (rate, key) = (Rate::new(per_second, burst).unwrap(), key(&format!("{per_second} {burst}")));
            let levels =
                [bed.replicas[0].take(&key, &rate).await.unwrap(), bed.replicas[1].take(&key, &rate).await.unwrap()];
            assert!(levels[0].admitted, "{} {per_second} {burst}", bed.name);
            // At a million a second, whether a single token is back depends on the clock.
            if (per_second, burst) != (1e6, 1) {
                assert_eq!(levels[1].admitted, burst > 1, "{} {per_second} {burst}", bed.name);
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn replicas_share_a_bucket_exactly() {
    for bed in all().await {
        for (count, burst) in [(20, 7), (200, 150)] {
            let rate = Rate::new(1e-6, burst).unwrap();
            let buckets = bed.replicas.clone().map(|store| TokenBucket::new("api", rate, store));
            let mut takers = JoinSet::new();
            for n in 0..count {
                let bucket = buckets[n % 2].clone();
                takers.spawn(async move { bucket.take(&burst.to_string()).await.unwrap().admitted });
            }
            let admitted = takers.join_all().await.into_iter().filter(|admitted| *admitted).count();
            assert_eq!(admitted, burst as usize, "{}", bed.name);
        }
    }
}
