use std::num::NonZeroU32;
use std::process::Command;
use std::sync::Barrier;
use std::time::{Duration, Instant};

use anyhow::Context;
use gatewright_base::Ambient;
use gatewright_limits::bucket::{MemoryBuckets, Rate, TokenBucket};
use gatewright_limits::{Limiter, MemoryStore, Policy};
use governor::{DefaultKeyedRateLimiter, Quota, RateLimiter};

use super::Best;

const MANY: usize = 1_000_000;
const ROUNDS: usize = 5;
const PER_SECOND: u32 = 50;
const BURST: u32 = 100;

/// What is measured.
enum Subject {
    Governor(DefaultKeyedRateLimiter<String>),
    Bucket(TokenBucket),
    Lockout(Limiter),
}

const SUBJECTS: [&str; 3] = ["governor", "bucket", "lockout"];

impl Subject {
    /// With room for all keys, so that none is evicted.
    fn new(name: &str, keys: usize) -> anyhow::Result<Self> {
        let (ambient, room) = (Ambient::system(), keys * 2 + 1_000);
        Ok(match name {
            "governor" => {
                let number = |number| NonZeroU32::new(number).context("not zero");
                Self::Governor(RateLimiter::keyed(Quota::per_second(number(PER_SECOND)?).allow_burst(number(BURST)?)))
            }
            "bucket" => {
                let store = MemoryBuckets::with_capacity(ambient, room);
                Self::Bucket(TokenBucket::new("b", Rate::new(PER_SECOND.into(), BURST)?, std::sync::Arc::new(store)))
            }
            "lockout" => {
                let store = MemoryStore::with_capacity(ambient, room);
                Self::Lockout(Limiter::new("b", Policy::default(), std::sync::Arc::new(store)))
            }
            other => anyhow::bail!("there is no subject `{other}`"),
        })
    }

    async fn decide(&self, key: &String) -> bool {
        match self {
            Self::Governor(limiter) => limiter.check_key(key).is_ok(),
            Self::Bucket(bucket) => bucket.take(key).await.is_ok_and(|level| level.admitted),
            Self::Lockout(limiter) => limiter.attempt(key).await.is_ok(),
        }
    }
}

pub(crate) fn run(time: Duration) -> anyhow::Result<()> {
    let all: Vec<String> = (0..MANY).map(address).collect();
    println!("in memory, decisions a second (of the governor crate's); keys in random order");
    for keys in [1, MANY] {
        for threads in [1, 2] {
            let subjects = SUBJECTS.map(|name| Subject::new(name, keys));
            let mut best = SUBJECTS.map(|_| Best(0.0));
            // In turns, so that other load on the machine affects all of them.
            for _ in 0..ROUNDS {
                for (subject, best) in subjects.iter().zip(&mut best) {
                    let subject = subject.as_ref().map_err(|error| anyhow::anyhow!("{error}"))?;
                    let (calls, elapsed) = round(subject, &all[..keys], threads, time)?;
                    best.offer(calls, elapsed);
                }
            }
            for (name, rate) in SUBJECTS.iter().zip(&best) {
                println!(
                    "  {keys:>7} keys, {threads} threads: {name:<9} {:>6.2}M  {:.2}",
                    rate.0 / 1e6,
                    rate.0 / best[0].0
                );
            }
        }
    }
    println!("bytes a key, {MANY} keys of 15 characters or less, each tried once");
    for name in SUBJECTS {
        let mut child = Command::new(std::env::current_exe()?);
        let output = child.args(["limits", "fill", name, &MANY.to_string()]).output()?;
        anyhow::ensure!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        println!("  {name:<9} {}", String::from_utf8_lossy(&output.stdout).trim());
    }
    Ok(())
}

/// Each thread decides over all keys for `time`. Returns the number of calls and the time. The first round fills the
/// store.
fn round(subject: &Subject, keys: &[String], threads: usize, time: Duration) -> anyhow::Result<(u64, Duration)> {
    let start = Barrier::new(threads);
    std::thread::scope(|scope| {
        let work = |thread: usize| {
            let (start, runtime) = (&start, tokio::runtime::Builder::new_current_thread().enable_time().build());
            scope.spawn(move || {
                start.wait();
                let (mut calls, mut at, begun) = (0, thread * keys.len() / threads, Instant::now());
                runtime?.block_on(async {
                    while calls % 1024 != 0 || begun.elapsed() < time {
                        subject.decide(&keys[at]).await;
                        // A step without a common factor with the number of keys visits all keys, and no neighbours in
                        // sequence.
                        at = (at + 385_559) % keys.len();
                        calls += 1;
                    }
                });
                anyhow::Ok((calls, begun.elapsed()))
            })
        };
        let workers: Vec<_> = (0..threads).map(work).collect();
        let mut sum = (0, Duration::ZERO);
        for worker in workers {
            let (calls, elapsed) = worker.join().map_err(|_| anyhow::anyhow!("a thread panicked"))??;
            sum = (sum.0 + calls, sum.1.max(elapsed));
        }
        Ok(sum)
    })
}

/// Tries each of `keys` keys once and prints the process's growth for each key. Runs in a separate process.
pub(crate) fn fill(name: &str, keys: usize) -> anyhow::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build()?;
    let subject = Subject::new(name, keys)?;
    let before = resident()?;
    runtime.block_on(async {
        for number in 0..keys {
            subject.decide(&address(number)).await;
        }
    });
    println!("{}", (resident()? - before) / keys);
    Ok(())
}

/// The resident memory of this process in bytes. Linux only.
fn resident() -> anyhow::Result<usize> {
    let status = std::fs::read_to_string("/proc/self/status")?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).context("no VmRSS")?;
    Ok(line.trim().trim_end_matches("kB").trim().parse::<usize>()? * 1024)
}

fn address(number: usize) -> String {
    format!("203.{}.{}.{}", number >> 16 & 255, number >> 8 & 255, number & 255)
}
