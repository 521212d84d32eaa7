//! One task sends heartbeats to all streams and re-checks their callers.
//!
//! A heartbeat is divided into twenty ticks, and streams are distributed over them, so that ten thousand streams
//! neither wake nor re-check at the same time. A timer wheel holds the streams by their next tick, so that a tick
//! touches no others. A re-check comes every fifteen ticks; at most
//! [`StreamOptions::concurrent_rechecks`](super::StreamOptions) run at a time, and each has a heartbeat to answer. A
//! stream whose caller was not confirmed for two heartbeats (the stores behind authentication do not answer, or answer
//! too slowly) ends, because an unconfirmed caller counts as refused.

use std::panic::AssertUnwindSafe;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Weak};

use futures_util::FutureExt;
use tokio::time::MissedTickBehavior;
use tokio_util::sync::CancellationToken;

use super::broker::Broker;
use super::ring::End;
use super::subscribe::{Recheck, Verdict};
use super::subscriber::Subscriber;
use super::ticks::{CONFIRMED_FOR, RECHECK_EVERY, TICKS};

/// Runs until the broker stops.
pub(super) async fn run(broker: Weak<Broker>, stop: CancellationToken) {
    let Some(mut timer) = broker.upgrade().map(|broker| {
        let tick = broker.tick();
        tokio::time::interval_at(broker.epoch() + tick, tick)
    }) else {
        return;
    };
    timer.set_missed_tick_behavior(MissedTickBehavior::Skip);
    loop {
        tokio::select! {
            biased;
            () = stop.cancelled() => return,
            _ = timer.tick() => {}
        }
        let Some(broker) = broker.upgrade() else { return };
        broker.pages.sweep();
        let now = broker.now();
        let due = broker.take_due(now);
        for subscriber in &due {
            look_after(&broker, subscriber, now);
        }
        broker.put_back(&due);
    }
}

fn look_after(broker: &Arc<Broker>, subscriber: &Arc<Subscriber>, now: u64) {
    let due = &subscriber.due;
    let beat = due.beat.load(Ordering::Relaxed);
    if beat <= now {
        due.beat.store(next(beat, TICKS, now), Ordering::Relaxed);
        subscriber.ring.beat();
    }
    let Some(recheck) = &subscriber.recheck else { return };
    if now.saturating_sub(due.confirmed.load(Ordering::Acquire)) >= CONFIRMED_FOR {
        tracing::warn!(
            table = &*subscriber.table,
            "stream ended: its caller could not be confirmed for two heartbeats"
        );
        broker.end(subscriber, End::Cut);
        return;
    }
    let asks = due.recheck.load(Ordering::Relaxed);
    if asks <= now && !due.checking.swap(true, Ordering::AcqRel) {
        due.recheck.store(next(asks, RECHECK_EVERY, now), Ordering::Relaxed);
        tokio::spawn(ask(broker.clone(), subscriber.clone(), recheck.clone()));
    }
}

/// The first multiple of `every` after `due` that is later than `now`.
fn next(due: u64, every: u64, now: u64) -> u64 {
    due + ((now - due) / every + 1) * every
}

async fn ask(broker: Arc<Broker>, subscriber: Arc<Subscriber>, recheck: Recheck) {
    if let Ok(_permit) = broker.rechecks.acquire().await
        && !subscriber.ring.is_ended()
    {
        // An answer counts for the time at which it was requested, not at which it arrived.
        let asked = broker.now();
        let answer = AssertUnwindSafe(async { recheck().await }).catch_unwind();
        match tokio::time::timeout(broker.options.heartbeat, answer).await {
            Ok(Ok(Ok(Verdict::Continue(filter)))) => {
                *subscriber.filter.lock() = filter;
                subscriber.due.confirmed.store(asked, Ordering::Release);
            }
            Ok(Ok(Ok(Verdict::End))) => {
                tracing::debug!(table = &*subscriber.table, "stream ended: its caller would now be refused");
                broker.end(&subscriber, End::Cut);
            }
            Ok(Ok(Err(unavailable))) => {
                tracing::debug!(table = &*subscriber.table, error = %unavailable, "a stream's caller was not confirmed");
            }
            Ok(Err(_panic)) => tracing::error!(table = &*subscriber.table, "a stream's re-check panicked"),
            Err(_elapsed) => tracing::debug!(table = &*subscriber.table, "a stream's re-check took too long"),
        }
    }
    subscriber.due.checking.store(false, Ordering::Release);
}
