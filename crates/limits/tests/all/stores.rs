//! The contract of every store.

use std::sync::Arc;
use std::time::Duration;

use gatewright_limits::{Limiter, Policy, Verdict};

use crate::bed::{Bed, all, key, policy};

const MINUTE: Duration = Duration::from_mins(1);

#[tokio::test]
async fn a_key_is_admitted_then_blocked_then_counts_again() {
    for bed in all().await {
        let policy = policy(3);
        assert_eq!(bed.admitted("a", &policy, 3).await, 3, "{}", bed.name);
        assert_eq!(bed.attempt("a", &policy).await, Verdict::Blocked { retry_after: 100 * MINUTE }, "{}", bed.name);
        assert_eq!(bed.attempt("b", &policy).await, Verdict::Admitted, "{}: another key counts apart", bed.name);
        bed.age(&["a"], 5_000).await;
        let Verdict::Blocked { retry_after } = bed.attempt("a", &policy).await else {
            panic!("let out early: {}", bed.name)
        };
        assert!((990..=1_000).contains(&retry_after.as_secs()), "{}: {retry_after:?}", bed.name);
        bed.age(&["a"], 1_000).await;
        assert_eq!(bed.admitted("a", &policy, 5).await, 3, "{}: a whole budget after the block", bed.name);
    }
}

#[tokio::test]
async fn a_budget_spent_on_both_sides_of_an_edge_is_one_budget() {
    for bed in all().await {
        let policy = policy(10);
        assert_eq!(bed.admitted("a", &policy, 1).await, 1, "{}", bed.name);
        // Just before a window that began with the first attempt would end, and just after it.
        bed.age(&["a"], 900).await;
        assert_eq!(bed.admitted("a", &policy, 9).await, 9, "{}", bed.name);
        bed.age(&["a"], 110).await;
        assert_eq!(bed.admitted("a", &policy, 10).await, 1, "{}: one attempt had left the window", bed.name);
        assert_ne!(bed.attempt("a", &policy).await, Verdict::Admitted, "{}", bed.name);
    }
}

#[tokio::test]
async fn attempts_leave_the_window_one_by_one() {
    for bed in all().await {
        let policy = policy(2);
        for _ in 0..6 {
            assert_eq!(bed.attempt("a", &policy).await, Verdict::Admitted, "{}", bed.name);
            bed.age(&["a"], 510).await;
        }
        assert_eq!(bed.admitted("a", &policy, 2).await, 1, "{}", bed.name);
    }
}

#[tokio::test]
async fn a_limit_above_what_is_exact_is_never_exceeded() {
    for bed in all().await {
        for max in [65, 200] {
            let (name, policy) = (max.to_string(), policy(max));
            assert_eq!(bed.admitted(&name, &policy, max - 30).await, max - 30, "{}", bed.name);
            bed.age(&[&name], 900).await;
            let burst = bed.admitted(&name, &policy, 40).await;
            assert_eq!(burst, 30, "{}: a burst from nothing gets the whole budget", bed.name);

            let name = format!("{name} later");
            bed.admitted(&name, &policy, max - 30).await;
            bed.age(&[&name], 900).await;
            bed.admitted(&name, &policy, 20).await;
            bed.age(&[&name], 200).await;
            // 20 are left in the window.
            let more = bed.admitted(&name, &policy, max).await;
            let most = max - 20;
            assert!(more <= most && more + policy.attempts_per_mark() > most, "{}: {more} of {most}", bed.name);
        }
    }
}

#[tokio::test]
async fn a_block_shorter_than_the_window_ends_when_it_says() {
    for bed in all().await {
        let policy = Policy::new(2, Duration::from_secs(1_000), Duration::from_secs(50));
        assert_eq!(bed.admitted("a", &policy, 3).await, 2, "{}", bed.name);
        bed.age(&["a"], 51).await;
        assert_eq!(bed.admitted("a", &policy, 3).await, 2, "{}", bed.name);
    }
}

#[tokio::test]
async fn a_forgotten_key_starts_again() {
    for bed in all().await {
        assert_eq!(bed.admitted("a", &policy(1), 3).await, 1, "{}", bed.name);
        bed.replicas[0].forget(&key("a")).await.unwrap();
        bed.replicas[0].forget(&key("never seen")).await.unwrap();
        assert_eq!(bed.admitted("a", &policy(1), 3).await, 1, "{}", bed.name);
    }
}

#[tokio::test]
async fn an_attempt_that_is_never_awaited_does_not_count() {
    for bed in all().await {
        for _ in 0..10 {
            drop(bed.replicas[0].attempt(&key("a"), &policy(1)));
        }
        assert_eq!(bed.attempt("a", &policy(1)).await, Verdict::Admitted, "{}", bed.name);
    }
}

#[tokio::test]
async fn keys_are_data_whatever_they_contain() {
    for bed in all().await {
        let limiter = Limiter::new("scope'; --", policy(1), bed.replicas[0].clone());
        let long = "x".repeat(1_000_000);
        for hostile in ["'; DROP TABLE rate_limits; --", "a\0b", "\r\nFLUSHALL\r\n", "*", "\u{202e}", "", &long] {
            assert!(limiter.attempt(hostile).await.is_ok(), "{}", bed.name);
            assert!(limiter.attempt(hostile).await.is_err(), "{}", bed.name);
        }
    }
}

/// `count` attempts at once, on two replicas in turn; how many were admitted.
async fn race(bed: &Bed, name: &str, policy: Policy, count: usize) -> u32 {
    let start = Arc::new(tokio::sync::Barrier::new(count));
    let tasks: Vec<_> = (0..count)
        .map(|n| {
            let (store, name, start) = (bed.replicas[n % 2].clone(), key(name), start.clone());
            tokio::spawn(async move {
                start.wait().await;
                store.attempt(&name, &policy).await.unwrap()
            })
        })
        .collect();
    let mut admitted = 0;
    for task in tasks {
        admitted += u32::from(task.await.unwrap() == Verdict::Admitted);
    }
    admitted
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn exactly_as_many_parallel_attempts_on_two_replicas_pass_as_allowed() {
    for bed in all().await {
        for round in 0..5 {
            for (count, max) in [(20, 7), (200, 10), (200, 64), (200, 100), (200, 199)] {
                let name = format!("{round} {max}");
                assert_eq!(race(&bed, &name, policy(max), count).await, max, "{} {name}", bed.name);
                assert_eq!(race(&bed, &name, policy(max), 20).await, 0, "{} {name}", bed.name);
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn one_of_several_parallel_attempts_gets_the_last_one_of_a_sliding_window() {
    for bed in all().await {
        for round in 0..10 {
            let (name, policy) = (round.to_string(), policy(5));
            assert_eq!(bed.admitted(&name, &policy, 1).await, 1, "{}", bed.name);
            bed.age(&[&name], 900).await;
            assert_eq!(bed.admitted(&name, &policy, 4).await, 4, "{}", bed.name);
            bed.age(&[&name], 200).await;
            assert_eq!(race(&bed, &name, policy, 20).await, 1, "{}", bed.name);
        }
    }
}

#[tokio::test]
async fn only_ended_entries_are_removed() {
    for bed in all().await {
        let names = ["old", "young", "blocked"];
        for (name, count) in [("old", 1), ("blocked", 2)] {
            bed.admitted(name, &policy(1), count).await;
        }
        bed.age(&names, 500).await;
        // Before the old one ends: in memory, a new key evicts ended ones of its shard.
        bed.attempt("young", &policy(1)).await;
        bed.age(&names, 501).await;
        let swept = bed.replicas[0].sweep().await.unwrap();
        assert_eq!(swept, u64::from(bed.name != "redis"), "{}: redis has done it already", bed.name);
        for name in ["young", "blocked"] {
            assert_eq!(bed.admitted(name, &policy(1), 1).await, 0, "{}: {name} was forgotten", bed.name);
        }
        assert_eq!(bed.admitted("old", &policy(1), 1).await, 1, "{}", bed.name);
    }
}

#[tokio::test]
async fn successes_that_are_given_back_never_block_and_free_nothing_else() {
    for bed in all().await {
        for max in [1, 3, 64, 65, 200] {
            let name = format!("office {max}");
            let limiter = Limiter::new("test", policy(max), bed.replicas[0].clone());
            for _ in 0..max * 3 {
                limiter.begin(&name).await.unwrap().give_back().await;
            }
            assert_eq!(bed.admitted(&name, &policy(max), max + 1).await, max, "{}: failures only, {max}", bed.name);
        }
    }
}

#[tokio::test]
async fn a_success_gives_back_only_its_own_attempt() {
    for bed in all().await {
        let limiter = |name: &str, max| (name.to_owned(), Limiter::new("test", policy(max), bed.replicas[0].clone()));

        // Among failures before and after it.
        let (name, three) = limiter("among", 3);
        three.attempt(&name).await.unwrap();
        let own = three.begin(&name).await.unwrap();
        three.attempt(&name).await.unwrap();
        own.give_back().await;
        assert_eq!(bed.admitted(&name, &policy(3), 2).await, 1, "{}: two failures count", bed.name);

        // A block stays, whoever succeeds during it.
        let (name, two) = limiter("blocked", 2);
        let own = two.begin(&name).await.unwrap();
        two.attempt(&name).await.unwrap();
        let until = two.attempt(&name).await.unwrap_err();
        own.give_back().await;
        let still = two.attempt(&name).await.unwrap_err();
        assert!(still.retry_after() <= until.retry_after() && !still.retry_after().is_zero(), "{}", bed.name);

        // Forgotten in between: later attempts are not its own, and the count is never below zero.
        let (name, two) = limiter("forgotten", 2);
        let (first, second) = (two.begin(&name).await.unwrap(), two.begin(&name).await.unwrap());
        two.forget(&name).await.unwrap();
        bed.age(&[&name], 1).await;
        first.give_back().await;
        two.attempt(&name).await.unwrap();
        second.give_back().await;
        assert_eq!(bed.admitted(&name, &policy(2), 3).await, 1, "{}", bed.name);
    }
}

#[tokio::test]
async fn parallel_failures_beside_successes_never_exceed_the_limit() {
    for bed in all().await {
        for round in 0..5 {
            let name = format!("race {round}");
            let tries = (0..20_usize).map(|n| {
                let (store, name) = (bed.replicas[n % 2].clone(), name.clone());
                tokio::spawn(async move {
                    let admitted = Limiter::new("test", policy(5), store).begin(&name).await;
                    match admitted {
                        Ok(attempt) if n % 4 < 2 => {
                            attempt.give_back().await;
                            false
                        }
                        Ok(_) => true,
                        Err(_) => false,
                    }
                })
            });
            let tries: Vec<_> = tries.collect();
            let mut wrong = 0;
            for task in tries {
                wrong += u32::from(task.await.unwrap());
            }
            assert!(wrong <= 5, "{}: {wrong} wrong ones were admitted", bed.name);
            let more = bed.admitted(&name, &policy(5), 20).await;
            assert!(wrong + more <= 5, "{}: {wrong} and {more}", bed.name);
        }
    }
}
