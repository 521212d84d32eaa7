//! Backends that die, hang or answer nonsense: attempts are refused quickly, and work again after the recovery.

use std::sync::Arc;
use std::time::Duration;

use gatewright_base::Ambient;
use gatewright_db::testing::REQUIRED;
use gatewright_db::{Db, Options};
use gatewright_limits::bucket::{Rate, RedisBuckets, TokenBucket};
use gatewright_limits::{Denied, Limiter, RedisStore, SqlStore, Store};
use gatewright_servers::{Error, PrivatePostgres, PrivateRedis};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;
use tokio::task::JoinSet;
use tokio::time::Instant;

use crate::bed::{key, open, policy};

/// For things that take a moment on an idle machine.
const TIMEOUT: Duration = Duration::from_mins(1);

const DOWN: Result<(), Denied> = Err(Denied::StoreDown { retry_after: Limiter::STORE_DOWN_RETRY });

/// The server, where its program is installed or must be.
pub(crate) fn installed<T>(server: Result<T, Error>) -> Option<T> {
    assert!(server.is_ok() || std::env::var(REQUIRED).is_err(), "{:?}", server.err());
    server.ok()
}

fn limiter(store: impl Store) -> Limiter {
    Limiter::new("s", policy(3), Arc::new(store))
}

/// Attempts of fresh keys until one is admitted.
async fn recovers(limiter: &Limiter) {
    let deadline = Instant::now() + TIMEOUT;
    for n in 0.. {
        if limiter.attempt(&format!("after {n}")).await.is_ok() {
            return;
        }
        assert!(Instant::now() < deadline, "it did not recover");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// Attempts of 50 callers at once: all must be refused, and none of them hangs.
async fn all_are_refused(limiter: &Limiter) {
    let begun = Instant::now();
    let mut callers = JoinSet::new();
    for n in 0..50 {
        let limiter = limiter.clone();
        callers.spawn(async move { limiter.attempt(&format!("during {n}")).await });
    }
    assert_eq!(callers.join_all().await, [DOWN; 50]);
    assert!(begun.elapsed() < TIMEOUT, "{:?}", begun.elapsed());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_redis_that_dies_refuses_and_recovers() {
    let Some(mut server) = installed(PrivateRedis::start()) else { return };
    let redis = open(&server.url(), "test:");
    let limiter = limiter(RedisStore::new(redis.clone(), Ambient::system()));
    let bucket = TokenBucket::new("s", Rate::new(1.0, 5).unwrap(), Arc::new(RedisBuckets::new(redis)));
    for _ in 0..2 {
        recovers(&limiter).await;
        assert!(bucket.take("k").await.is_ok());
        server.kill();
        all_are_refused(&limiter).await;
        assert!(bucket.take("k").await.is_err());
        // No attempt waits for a server that is known to be unavailable: sequential waits would take longer than that.
        let begun = Instant::now();
        for _ in 0..200 {
            assert_eq!(limiter.attempt("again").await, DOWN);
        }
        assert!(begun.elapsed() < TIMEOUT, "{:?}", begun.elapsed());
        server.restart().unwrap();
    }
    recovers(&limiter).await;
    assert!(bucket.take("k").await.is_ok());
}

#[tokio::test]
async fn a_redis_restart_while_idle_causes_no_refusal() {
    let Some(mut server) = installed(PrivateRedis::start()) else { return };
    let limiter = limiter(RedisStore::new(open(&server.url(), "test:"), Ambient::system()));
    assert_eq!(limiter.attempt("k").await, Ok(()));
    server.kill();
    server.restart().unwrap();
    assert_eq!(limiter.attempt("k").await, Ok(()));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_postgres_that_dies_refuses_and_recovers() {
    let Some(mut server) = installed(PrivatePostgres::start()) else { return };
    let db = Db::open(&server.url(), Options::default()).await.unwrap();
    SqlStore::migrate(&db).await.unwrap();
    let limiter = limiter(SqlStore::new(db, Ambient::system()));
    for _ in 0..4 {
        let _spends_the_budget = limiter.attempt("blocked").await;
    }
    server.kill();
    all_are_refused(&limiter).await;
    server.restart().unwrap();
    recovers(&limiter).await;
    let denied = limiter.attempt("blocked").await.unwrap_err();
    assert!(denied.retry_after() > Duration::from_mins(90), "the block survived the crash: {denied:?}");
}

/// A server that greets as Redis does and then answers every script with the same bytes, or closes after them.
async fn nonsense(answer: Vec<u8>, closes: bool) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("redis://{}", listener.local_addr().unwrap());
    tokio::spawn(async move {
        while let Ok((mut client, _)) = listener.accept().await {
            let answer = answer.clone();
            tokio::spawn(async move {
                let mut buffer = vec![0; 65_536];
                loop {
                    let length = client.read(&mut buffer).await?;
                    let text = String::from_utf8_lossy(&buffer[..length]);
                    if length == 0 {
                        return Ok(());
                    }
                    let greetings = text.matches("CLIENT").count();
                    client.write_all("+OK\r\n".repeat(greetings).as_bytes()).await?;
                    if text.contains("EVALSHA") {
                        client.write_all(&answer).await?;
                        if closes {
                            return std::io::Result::Ok(());
                        }
                    }
                }
            });
        }
    });
    url
}

#[tokio::test]
async fn wrong_answers_refuse_and_break_nothing() {
    let answers: [&[u8]; 18] = [
        b"-ERR no\r\n",
        b"-OOM command not allowed when used memory > 'maxmemory'.\r\n",
        b"-READONLY You can't write against a read only replica.\r\n",
        b"-NOSCRIPT No matching script.\r\n-ERR not that either\r\n",
        b":-7\r\n",
        b":abc\r\n",
        b":99999999999999999999999\r\n",
        b"$3\r\nabc\r\n",
        b"$-1\r\n",
        b"$-9\r\n",
        b"_\r\n",
        b"*0\r\n",
        b"*1\r\n:1\r\n",
        b"*-9\r\n",
        b"HTTP/1.1 400 Bad Request\r\n\r\n",
        b"\xff\xfe\r\n",
        b"\r\n\r\n",
        b"",
    ];
    let deep = b"*1\r\n".repeat(100_000);
    for answer in answers.into_iter().chain([&deep[..]]) {
        let shown = String::from_utf8_lossy(&answer[..answer.len().min(40)]);
        let redis = open(&nonsense(answer.to_vec(), true).await, "test:");
        let bucket = TokenBucket::new("s", Rate::new(1.0, 5).unwrap(), Arc::new(RedisBuckets::new(redis.clone())));
        let limiter = limiter(RedisStore::new(redis, Ambient::system()));
        for _ in 0..3 {
            assert_eq!(limiter.attempt("k").await, DOWN, "{shown}");
            assert!(bucket.take("k").await.is_err(), "{shown}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_redis_that_hangs_refuses_before_the_timeout() {
    let silent = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let silent = format!("redis://{}", silent.local_addr().unwrap());
    for url in [silent, nonsense(Vec::new(), false).await] {
        let store = RedisStore::new(open(&url, "test:"), Ambient::system());
        let begun = Instant::now();
        assert!(store.attempt(&key("k"), &policy(3)).await.is_err(), "{url}");
        assert!(begun.elapsed() <= Duration::from_secs(4), "{:?}", begun.elapsed());
    }
}
