//! The contract of stores that replicas share.

use std::sync::Arc;

use gatewright_base::Ambient;
use gatewright_db::params;
use gatewright_db::testing::engines;
use gatewright_limits::policy::{Counted, History, decide};
use gatewright_limits::{Limiter, Policy, SqlStore, Store as _, Verdict};
use tokio::task::JoinSet;

use crate::bed::{Backend, Bed, key, now, policy, shared};

const SECOND: i64 = 1_000_000;

/// Histories of all kinds, in seconds from now; far from every edge, as the server's clock moves.
fn histories(policy: &Policy, now: i64) -> Vec<History> {
    let at = |seconds: i64| now + seconds * SECOND;
    let mut histories: Vec<_> =
        [-100, 100, 5_900, 50_000].into_iter().map(|until| History::Blocked { until: at(until) }).collect();
    for first in [-5_000, -1_500, -900, -1, 500, 5_000] {
        for last in [-1_500, -500, 500, 5_000] {
            for marks in [0, policy.marks() - 1, policy.marks(), policy.marks() + 1] {
                for loose in [0, policy.attempts_per_mark() - 1, policy.attempts_per_mark() + 5] {
                    // The marks are evenly distributed between the first and the last.
                    let between = |n: u32| at(first) + (at(last) - at(first)) / i64::from(marks) * i64::from(n);
                    let marks: Vec<i64> = (1..=marks).map(between).collect();
                    histories.push(History::Counting(Counted::new(at(last), loose, &marks)));
                }
            }
        }
    }
    histories
}

/// The time of a decision, from its outcome; any time of its bracket if that makes no difference.
fn decided_at(verdict: Verdict, before: &History, after: &History, begun: i64) -> i64 {
    match (verdict, after) {
        (Verdict::Blocked { retry_after }, History::Blocked { until }) => {
            until - i64::try_from(retry_after.as_micros()).unwrap()
        }
        (Verdict::Admitted, History::Counting(counted)) => match before {
            History::Counting(known) if known.last() == counted.last() => begun,
            _ => counted.last(),
        },
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn the_backend_decides_as_the_policy_does() {
    for bed in shared().await {
        let bed = Arc::new(bed);
        let mut cases = JoinSet::new();
        for policy in [policy(1), policy(3), policy(100), policy(u32::MAX)] {
            for before in histories(&policy, now()) {
                let (bed, name) = (bed.clone(), format!("k{}", cases.len()));
                cases.spawn(async move { decide_both_ways(&bed, &name, &policy, before).await });
            }
        }
        cases.join_all().await;
    }
}

async fn decide_both_ways(bed: &Bed, name: &str, policy: &Policy, before: History) {
    bed.backend.write(name, &before, now() + 60_000 * SECOND).await;
    let begun = now();
    let verdict = bed.attempt(name, policy).await;
    let (after, ends) = bed.backend.read(name).await.unwrap();
    let time = decided_at(verdict, &before, &after, begun);
    assert!((begun - SECOND..=now() + SECOND).contains(&time), "{}: decided at another time", bed.name);
    let expected = decide(policy, before.clone(), time);
    assert_eq!((verdict, &after), (expected.0, &expected.1), "{} {policy:?} {before:?}", bed.name);
    if bed.name != "redis" {
        assert_eq!(ends, after.ends(policy), "{} {before:?}", bed.name);
    } else if before != after {
        // Its expiries are milliseconds from now; a state that stays is not written again.
        assert!((ends - after.ends(policy)).abs() < 5 * SECOND, "{} {before:?}", bed.name);
    }
}

#[tokio::test]
async fn a_state_stays_small_however_many_attempts_are_allowed() {
    for bed in shared().await {
        let policy = policy(100_000);
        bed.admitted("a", &policy, 3_500).await;
        let (History::Counting(counted), _) = bed.backend.read("a").await.unwrap() else { panic!("{}", bed.name) };
        assert_eq!(policy.attempts_per_mark(), 1_563);
        assert_eq!((counted.marks().len(), counted.loose()), (2, 3_500 - 2 * 1_563), "{}", bed.name);
    }
}

#[tokio::test]
async fn attempts_on_a_blocked_key_do_not_reach_the_backend() {
    for bed in shared().await {
        assert_eq!(bed.admitted("a", &policy(1), 1).await, 1, "{}", bed.name);
        let blocked = bed.attempt("a", &policy(1)).await;
        erase(&bed, "a").await;
        for _ in 0..100 {
            assert_eq!(bed.attempt("a", &policy(1)).await, blocked, "{}: the backend was asked", bed.name);
        }
        bed.age(&[], 1).await;
        assert_eq!(bed.attempt("a", &policy(1)).await, Verdict::Admitted, "{}: it never was", bed.name);
    }
}

/// Removes a key directly from the backend.
async fn erase(bed: &Bed, name: &str) {
    match &bed.backend {
        Backend::Memory => {}
        Backend::Sql(db, _) => {
            db.execute("DELETE FROM rate_limits WHERE key = ?1", params![key(name).as_str()]).await.unwrap();
        }
        Backend::Redis(connection, prefix) => {
            let mut delete = ::redis::cmd("DEL");
            delete.arg(format!("{prefix}{}", key(name)));
            delete.exec_async(&mut connection.clone()).await.unwrap();
        }
    }
}

#[tokio::test]
async fn sweeping_removes_any_number_of_rows() {
    for bed in shared().await {
        if let Backend::Sql(db, _) = &bed.backend {
            let many = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 2500)
                 INSERT INTO rate_limits (key, last_at, loose, marks, ends_at) SELECT 'k' || i, 0, 0, '', i FROM n";
            db.execute(many, params![]).await.unwrap();
            assert_eq!(bed.replicas[0].sweep().await.unwrap(), 2_500, "{}", bed.name);
        }
    }
}

#[tokio::test]
async fn without_its_table_the_store_refuses() {
    for engine in engines().await {
        let store = Arc::new(SqlStore::new(engine.db.clone(), Ambient::system()));
        assert!(store.sweep().await.is_err());
        let denied = Limiter::new("s", policy(1), store).attempt("k").await.unwrap_err();
        assert_eq!(denied.retry_after(), Limiter::STORE_DOWN_RETRY, "{}", engine.name);
    }
}
