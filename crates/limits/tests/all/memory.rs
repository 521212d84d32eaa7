use std::sync::Arc;
use std::time::Duration;

use gatewright_base::{Ambient, ManualClock};
use gatewright_limits::{Key, MemoryStore, Policy, Store as _, Verdict};
use jiff::{SignedDuration, Timestamp};

const MINUTE: Duration = Duration::from_mins(1);

fn store(capacity: usize) -> (MemoryStore, Arc<ManualClock>) {
    let (ambient, clock) = Ambient::manual(Timestamp::UNIX_EPOCH, 1);
    (MemoryStore::with_capacity(ambient, capacity), clock)
}

fn policy(max: u32) -> Policy {
    Policy::new(max, 10 * MINUTE, 30 * MINUTE)
}

fn key(name: &str) -> Key {
    Key::new("test", name)
}

async fn admitted(store: &MemoryStore, name: &str, max: u32) -> bool {
    store.attempt(&key(name), &policy(max)).await.unwrap() == Verdict::Admitted
}

async fn block(store: &MemoryStore, name: &str) {
    assert!(admitted(store, name, 1).await);
    assert!(!admitted(store, name, 1).await, "{name} is blocked now");
}

#[tokio::test]
async fn the_number_of_keys_is_bounded_under_a_flood() {
    for capacity in [1, 2, 3, 100, 20_000] {
        let (store, _) = store(capacity);
        for n in 0..capacity * 2 + 10 {
            assert!(admitted(&store, &format!("flood-{n}"), 5).await);
            assert!(store.len() <= capacity, "{} of {capacity}", store.len());
        }
        assert!(store.len() > capacity / 2);
    }
}

#[tokio::test]
async fn blocks_survive_a_flood_of_a_million_keys_in_bounded_memory() {
    let (store, clock) = store(MemoryStore::CAPACITY);
    for n in 0..50 {
        block(&store, &format!("attacker-{n}")).await;
    }
    clock.advance(SignedDuration::from_mins(1));
    for n in 0..1_000_000 {
        admitted(&store, &format!("flood-{n}"), 10).await;
    }
    assert!(store.len() <= MemoryStore::CAPACITY, "{}", store.len());
    for n in 0..50 {
        assert!(!admitted(&store, &format!("attacker-{n}"), 1).await, "attacker-{n} was let out");
    }
}

#[tokio::test]
async fn ended_histories_are_evicted_first() {
    let (store, clock) = store(4);
    block(&store, "block").await;
    assert!(admitted(&store, "idle", 2).await);
    clock.advance(SignedDuration::from_mins(11));
    // The window of "idle" is over; these three fill the store.
    for name in ["a", "b", "c"] {
        assert!(admitted(&store, name, 2).await);
        assert!(admitted(&store, name, 2).await);
    }
    for name in ["a", "b", "c", "block"] {
        assert!(!admitted(&store, name, 2).await, "{name} was forgotten");
    }
}

#[tokio::test]
async fn the_longest_idle_counting_key_is_evicted_first() {
    let (store, _) = store(3);
    for name in ["a", "b", "c", "a"] {
        assert!(admitted(&store, name, 2).await);
    }
    assert!(admitted(&store, "fresh", 2).await);
    assert!(!admitted(&store, "a", 2).await, "a was used since b");
    assert!(!{ admitted(&store, "c", 2).await && admitted(&store, "c", 2).await }, "c was used since b");
}

#[tokio::test]
async fn the_block_that_ends_first_is_evicted_first_and_new_keys_still_count() {
    let (store, clock) = store(8);
    for n in 0..8 {
        block(&store, &format!("block-{n}")).await;
        clock.advance(SignedDuration::from_secs(1));
    }
    assert!(admitted(&store, "victim", 2).await);
    assert!(admitted(&store, "other", 2).await);
    assert!(admitted(&store, "victim", 2).await);
    assert!(!admitted(&store, "victim", 2).await, "its count was starved by blocks");
    assert!(!admitted(&store, "block-7", 1).await, "the block that ends last is kept");
    assert!(admitted(&store, "block-0", 1).await, "the block that ends soonest made room");
}

#[tokio::test]
async fn sweeping_removes_what_has_ended_and_nothing_else() {
    let (store, clock) = store(100);
    block(&store, "block").await;
    for n in 0..20 {
        admitted(&store, &format!("k{n}"), 5).await;
    }
    assert_eq!(store.sweep().await.unwrap(), 0);
    clock.advance(SignedDuration::from_mins(10));
    assert_eq!(store.sweep().await.unwrap(), 20);
    assert_eq!(store.len(), 1);
    clock.advance(SignedDuration::from_mins(20));
    assert_eq!(store.sweep().await.unwrap(), 1);
    assert!(store.is_empty());
}

/// The attack: guesses at a password, up to one short of the limit; then a flood of another limiter's keys; then more guesses.
#[tokio::test]
async fn a_flood_of_one_limiter_never_pushes_out_what_another_one_counts() {
    let (store, _) = store(MemoryStore::CAPACITY);
    let guess = async |name: &str| {
        store.attempt(&Key::new("login_account", name), &policy(10)).await.unwrap() == Verdict::Admitted
    };
    for n in 0..9 {
        assert!(guess("victim").await, "{n}");
    }
    for round in 0..2 {
        for n in 0..150_000 {
            let key = Key::new("register", &format!("2001:db8:{round}:{n}::/64"));
            assert_eq!(store.attempt(&key, &policy(5)).await.unwrap(), Verdict::Admitted);
        }
        assert!(store.len() <= MemoryStore::CAPACITY, "{}", store.len());
        assert_eq!(guess("victim").await, round == 0, "the tenth guess is admitted, and no more");
    }
}

/// A limiter that uses the whole capacity yields to a second one, up to half of it.
#[tokio::test]
async fn limiters_share_the_capacity() {
    let (store, _) = store(100);
    let count = async |scope: &str, n: u32| {
        store.attempt(&Key::new(scope, &n.to_string()), &policy(2)).await.unwrap() == Verdict::Admitted
    };
    for n in 0..100 {
        assert!(count("first", n).await);
    }
    for n in 0..1_000 {
        assert!(count("second", n).await);
    }
    assert_eq!(store.len(), 100);
    for n in 50..100 {
        assert!(count("first", n).await, "the second attempt of {n}");
        assert!(!count("first", n).await, "the first attempt of {n} was forgotten");
    }
}

#[tokio::test]
async fn a_flood_of_one_limiter_pushes_out_no_block_of_another_one() {
    let (store, _) = store(100);
    for n in 0..60 {
        block(&store, &format!("block-{n}")).await;
    }
    for n in 0..1_000 {
        store.attempt(&Key::new("other", &n.to_string()), &policy(5)).await.unwrap();
    }
    for n in 0..60 {
        assert!(!admitted(&store, &format!("block-{n}"), 1).await, "block-{n} was let out");
    }
}

/// Limiters beyond the 64th share one part of the capacity.
#[tokio::test]
async fn many_limiters_are_bounded_as_well() {
    let (store, _) = store(1_000);
    for scope in 0..200 {
        for n in 0..20 {
            store.attempt(&Key::new(&format!("scope-{scope}"), &n.to_string()), &policy(5)).await.unwrap();
            assert!(store.len() <= 1_000);
        }
    }
    assert!(store.sweep().await.unwrap() == 0 && store.len() == 1_000);
}
