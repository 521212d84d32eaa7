use std::sync::Arc;
use std::time::{Duration, Instant};

use gatewright_base::{Ambient, Secret};
use gatewright_limits::bucket::{Rate, RedisBuckets, TokenBucket};
use gatewright_limits::{Limiter, Policy, Redis, RedisStore};
use gatewright_servers::PrivateRedis;
use redis::aio::MultiplexedConnection;
use tokio::task::JoinSet;

use super::Best;

const CALLERS: usize = 64;
const KEYS: usize = 10_000;
const ROUNDS: usize = 3;

/// What is measured.
#[derive(Clone)]
enum Subject {
    /// `INCR`: one connection for all callers, or one for each.
    Increment(Vec<MultiplexedConnection>),
    Bucket(TokenBucket),
    Lockout(Limiter),
}

pub(crate) async fn run(time: Duration) -> anyhow::Result<()> {
    let server = match PrivateRedis::start() {
        Ok(server) => server,
        Err(missing) => {
            println!("in Redis: left out, {missing}");
            return Ok(());
        }
    };
    let client = redis::Client::open(server.url())?;
    let connect = async |count| {
        let mut connections = Vec::new();
        for _ in 0..count {
            connections.push(client.get_multiplexed_async_connection().await?);
        }
        anyhow::Ok(connections)
    };
    let ours = Redis::open(&Secret::new(server.url()))?;
    // Limits that are not reached, because a blocked key is refused without a request to Redis.
    let policy = Policy::new(1_000_000_000, Duration::ZERO, Duration::ZERO);
    let strict = Policy::new(64, Duration::from_millis(1), Duration::ZERO);
    let lockout = |policy| {
        let store = RedisStore::new(ours.clone(), Ambient::system());
        Subject::Lockout(Limiter::new("b", policy, Arc::new(store)))
    };
    let bucket = TokenBucket::new("b", Rate::new(1e6, 1_000_000)?, Arc::new(RedisBuckets::new(ours.clone())));
    let subjects = [
        ("INCR over one connection", Subject::Increment(connect(1).await?)),
        ("INCR over a connection each", Subject::Increment(connect(CALLERS).await?)),
        ("bucket", Subject::Bucket(bucket)),
        ("lockout of many attempts", lockout(policy)),
        ("lockout of 64 attempts", lockout(strict)),
    ];
    let mut best = [const { Best(0.0) }; 5];
    for _ in 0..ROUNDS {
        for ((_, subject), best) in subjects.iter().zip(&mut best) {
            let (calls, elapsed) = round(subject, time).await?;
            best.offer(calls, elapsed);
        }
    }
    println!("in Redis, {CALLERS} callers, decisions a second (of INCR over one connection)");
    for ((name, _), rate) in subjects.iter().zip(&best) {
        println!("  {name:<28} {:>7.1}k  {:.2}", rate.0 / 1e3, rate.0 / best[0].0);
    }
    Ok(())
}

async fn round(subject: &Subject, time: Duration) -> anyhow::Result<(u64, Duration)> {
    let begun = Instant::now();
    let mut callers = JoinSet::new();
    for caller in 0..CALLERS {
        let mut subject = subject.clone();
        callers.spawn(async move {
            let (mut calls, mut at) = (0, caller * KEYS / CALLERS);
            while begun.elapsed() < time {
                subject.ask(caller, &format!("203.0.{}.{}", at >> 8, at & 255)).await?;
                at = (at + 7_919) % KEYS;
                calls += 1;
            }
            anyhow::Ok(calls)
        });
    }
    let mut calls = 0;
    while let Some(outcome) = callers.join_next().await {
        calls += outcome??;
    }
    Ok((calls, begun.elapsed()))
}

impl Subject {
    async fn ask(&mut self, caller: usize, key: &str) -> anyhow::Result<()> {
        match self {
            Self::Increment(connections) => {
                let count = connections.len();
                redis::cmd("INCR").arg(key).exec_async(&mut connections[caller % count]).await?;
            }
            Self::Bucket(bucket) => {
                bucket.take(key).await?;
            }
            Self::Lockout(limiter) => limiter.attempt(key).await?,
        }
        Ok(())
    }
}
