//! What is Redis' own: round trips, scripts, credentials, TLS.

use std::sync::Arc;

use gatewright_base::{Ambient, Secret};
use gatewright_limits::bucket::{BucketStore as _, Rate, RedisBuckets};
use gatewright_limits::{Limiter, Redis, RedisStore, Store as _, Verdict};
use gatewright_servers::{Opening, PrivateRedis, TlsProxy};

use crate::bed::{key, open, policy, redis};
use crate::outage::installed;

fn store(url: &str, prefix: &str) -> RedisStore {
    RedisStore::new(open(url, prefix), Ambient::system())
}

async fn direct(url: &str) -> ::redis::aio::MultiplexedConnection {
    ::redis::Client::open(url).unwrap().get_multiplexed_async_connection().await.unwrap()
}

#[tokio::test]
async fn a_script_that_the_server_forgot_is_sent_again() {
    let Some((url, prefix)) = redis() else { return };
    let store = store(&url, &prefix);
    for _ in 0..3 {
        ::redis::cmd("SCRIPT").arg("FLUSH").exec_async(&mut direct(&url).await).await.unwrap();
        assert_eq!(store.attempt(&key("a"), &policy(3)).await.unwrap(), Verdict::Admitted);
    }
    assert_ne!(store.attempt(&key("a"), &policy(3)).await.unwrap(), Verdict::Admitted);
}

#[tokio::test]
async fn an_attempt_is_one_round_trip() {
    // A server of its own, since it is the server that counts.
    let Some(server) = installed(PrivateRedis::start()) else { return };
    let (store, mut connection) = (store(&server.url(), "test:"), direct(&server.url()).await);
    let mut reads = async || {
        let info: String = ::redis::cmd("INFO").arg("stats").query_async(&mut connection).await.unwrap();
        let reads = info.lines().find_map(|line| line.strip_prefix("total_reads_processed:"));
        reads.unwrap().parse::<u32>().unwrap()
    };
    store.attempt(&key("makes the connection and sends the script"), &policy(5)).await.unwrap();
    let before = reads().await;
    for n in 0..10 {
        store.attempt(&key(&(n % 3).to_string()), &policy(5)).await.unwrap();
    }
    assert_eq!(reads().await - before, 10 + 1, "one for each, and one for the question");
}

#[tokio::test]
async fn programs_with_their_own_prefixes_share_no_limits() {
    let Some((url, prefix)) = redis() else { return };
    let [one, two] = ["one:", "two:"].map(|program| store(&url, &format!("{prefix}{program}")));
    for store in [&one, &two] {
        assert_eq!(store.attempt(&key("a"), &policy(1)).await.unwrap(), Verdict::Admitted);
    }
}

#[tokio::test]
async fn a_value_that_no_limiter_wrote_refuses() {
    let Some((url, prefix)) = redis() else { return };
    let (store, buckets) = (store(&url, &prefix), RedisBuckets::new(open(&url, &prefix)));
    let mut connection = direct(&url).await;
    let foreign = [["SET", "nonsense"], ["SET", ""], ["SET", "B"], ["SET", "Cnonsense"], ["LPUSH", "nonsense"]];
    for (number, words) in foreign.into_iter().enumerate() {
        let key = key(&number.to_string());
        for kind in ["limit", "bucket"] {
            let mut put = ::redis::cmd(words[0]);
            put.arg(format!("{prefix}{kind}:{key}")).arg(words[1]);
            put.exec_async(&mut connection).await.unwrap();
        }
        assert!(store.attempt(&key, &policy(5)).await.is_err(), "{words:?}");
        assert!(buckets.take(&key, &Rate::new(1.0, 5).unwrap()).await.is_err(), "{words:?}");
    }
    assert_eq!(store.attempt(&key("fine"), &policy(5)).await.unwrap(), Verdict::Admitted);
}

#[tokio::test]
async fn wrong_credentials_refuse_and_the_error_hides_the_password() {
    let Some((url, prefix)) = redis() else { return };
    let mut wrong = url::Url::parse(&url).unwrap();
    wrong.set_username("nobody").unwrap();
    wrong.set_password(Some("canary-7f3a")).unwrap();
    let redis = open(wrong.as_str(), &prefix);
    let error = redis.check().await.unwrap_err();
    let told = format!("{error} {error:?} {}", std::error::Error::source(&error).unwrap());
    assert!(told.contains("redis at 127.0.0.1:") && !told.contains("canary"), "{told}");
    let limiter = Limiter::new("s", policy(5), Arc::new(RedisStore::new(redis, Ambient::system())));
    assert_eq!(limiter.attempt("k").await.unwrap_err().retry_after(), Limiter::STORE_DOWN_RETRY);
    assert!(open(&url, &prefix).check().await.is_ok());
}

#[tokio::test]
async fn over_tls_a_server_is_trusted_only_through_its_certificate_authority() {
    let Some((url, prefix)) = redis() else { return };
    let url = url::Url::parse(&url).unwrap();
    let address = format!("{}:{}", url.host_str().unwrap(), url.port().unwrap());
    let proxy = TlsProxy::start(address, Opening::Tls).await.unwrap();
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().join("root.pem");
    std::fs::write(&root, &proxy.certificate).unwrap();

    let credentials = url.password().map(|password| format!(":{password}@")).unwrap_or_default();
    let at = |host: &str, query: &str| format!("rediss://{credentials}{host}:{}/0{query}", proxy.port);
    let trusting = format!("?sslrootcert={}", root.display());
    let store = store(&at("localhost", &trusting), &prefix);
    assert_eq!(store.attempt(&key("a"), &policy(1)).await.unwrap(), Verdict::Admitted);
    assert_ne!(store.attempt(&key("a"), &policy(1)).await.unwrap(), Verdict::Admitted);

    let refused = async |url: String| open(&url, &prefix).check().await.unwrap_err();
    refused(at("localhost", "")).await;
    refused(at("127.0.0.1", &trusting)).await;
    refused(at("localhost", "").replace("rediss", "redis")).await;
    std::fs::write(&root, "no certificate").unwrap();
    assert!(Redis::open(&Secret::new(at("localhost", &trusting))).is_err());
}
