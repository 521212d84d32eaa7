use std::time::Duration;

use gatewright_base::Identity;
use gatewright_events::{Bus, EntityEvent, EventKind, StreamOptions, Streams};
use tokio::time::Instant;

use crate::support::{Reader, blocking, event, frame, frames, settle, streams};

/// A bus with one blocking stream on `posts`, whose buffer of 32 is full.
async fn full() -> (Bus, Streams, Reader) {
    let options = StreamOptions {
        allow_client_slow_mode: true,
        block_timeout: Duration::from_secs(5),
        ..StreamOptions::default()
    };
    let (bus, streams) = streams(options);
    let reader = Reader::open(&streams, blocking("posts")).await.unwrap();
    assert!(bus.publish_all((0..32).map(event).collect()).wait().await);
    (bus, streams, reader)
}

#[tokio::test(start_paused = true)]
async fn a_blocking_request_is_ignored_where_it_is_not_allowed() {
    let (bus, streams) = streams(StreamOptions::default());
    let mut reader = Reader::open(&streams, blocking("posts")).await.unwrap();
    for n in 0..40 {
        assert!(bus.publish(event(n)).is_none());
    }
    settle().await;
    assert_eq!(reader.available().await, frames(8..40));
}

#[tokio::test(start_paused = true)]
async fn the_writer_waits_until_the_client_has_room_and_nothing_is_lost() {
    let (bus, streams, mut reader) = full().await;
    let writer = tokio::spawn(bus.publish(event(32)).wait());
    settle().await;
    assert!(!writer.is_finished());
    let started = Instant::now();
    assert_eq!(reader.chunk().await, Some(frames(0..33)));
    assert!(writer.await.unwrap());
    assert_eq!(started.elapsed(), Duration::ZERO);
    assert_eq!(streams.stats().dropped, 0);
}

#[tokio::test(start_paused = true)]
async fn the_writer_waits_no_longer_than_the_block_timeout_and_then_the_oldest_is_lost() {
    let (bus, streams, mut reader) = full().await;
    let started = Instant::now();
    assert!(!bus.publish(event(32)).wait().await);
    assert_eq!(started.elapsed(), Duration::from_secs(5));

    // The next writer is not delayed by the same client again.
    let started = Instant::now();
    assert!(bus.publish(event(33)).wait().await);
    assert_eq!(started.elapsed(), Duration::ZERO);
    assert_eq!(reader.available().await, frames(2..34));
    assert_eq!(streams.stats().dropped, 2);
}

#[tokio::test(start_paused = true)]
async fn twenty_writers_wait_together_not_one_after_the_other() {
    let (bus, _streams, reader) = full().await;
    let started = Instant::now();
    let mut writers = tokio::task::JoinSet::new();
    for n in 32..52 {
        writers.spawn(bus.publish(event(n)).wait());
    }
    assert!(writers.join_all().await.iter().all(|had_room| !had_room));
    assert_eq!(started.elapsed(), Duration::from_secs(5));
    drop(reader);
}

#[tokio::test(start_paused = true)]
async fn other_tables_and_other_streams_are_not_delayed() {
    let (bus, streams, _stuck) = full().await;
    let mut sibling = Reader::everything(&streams).await;
    let writer = tokio::spawn(bus.publish(event(32)).wait());
    let started = Instant::now();
    assert_eq!(sibling.chunk().await, Some(frame(32)));
    let note = EntityEvent::new(EventKind::Created, "notes", "notes", "{}");
    assert!(bus.publish(note).is_none());
    assert_eq!(started.elapsed(), Duration::ZERO);
    assert!(!writer.is_finished());
}

#[tokio::test(start_paused = true)]
async fn a_client_that_leaves_or_is_cut_releases_the_writer() {
    for cut in [true, false] {
        let options = StreamOptions { allow_client_slow_mode: true, ..StreamOptions::default() };
        let (bus, streams) = streams(options);
        let request = gatewright_events::sse::Subscribe::new(
            "posts",
            crate::support::user("ada"),
            gatewright_events::sse::Params { block: true, subscriber_id: None, since: None },
            |_| true,
        );
        let reader = Reader::open(&streams, request).await.unwrap();
        assert!(bus.publish_all((0..32).map(event).collect()).wait().await);
        let writer = tokio::spawn(bus.publish(event(32)).wait());
        settle().await;
        assert!(!writer.is_finished());
        let started = Instant::now();
        if cut {
            assert_eq!(streams.cut(|_| true), 1);
        } else {
            drop(reader);
        }
        assert!(writer.await.unwrap());
        assert_eq!(started.elapsed(), Duration::ZERO);
        assert!(bus.publish(event(33)).is_none(), "nobody is left to wait for");
    }
}

#[tokio::test(start_paused = true)]
async fn a_write_of_another_replica_waits_for_no_client() {
    let (bus, streams, mut reader) = full().await;
    for n in 32..40 {
        bus.publish_remote(event(n));
    }
    settle().await;
    assert_eq!(reader.available().await, frames(8..40));
    assert_eq!(streams.stats().dropped, 8);
}

#[tokio::test(start_paused = true)]
async fn an_event_that_the_filter_excludes_delays_no_writer() {
    let options = StreamOptions { allow_client_slow_mode: true, ..StreamOptions::default() };
    let (bus, streams) = streams(options);
    let params = gatewright_events::sse::Params { block: true, subscriber_id: None, since: None };
    let picky = gatewright_events::sse::Subscribe::new("posts", Identity::Anonymous, params, |event| {
        event.owner() == Some("ada")
    });
    let _stuck = Reader::open(&streams, picky).await.unwrap();
    let started = Instant::now();
    for n in 0..100 {
        assert!(bus.publish(event(n).with_owner("bob")).wait().await);
    }
    assert_eq!(started.elapsed(), Duration::ZERO);
}

#[tokio::test(start_paused = true)]
async fn the_queue_of_a_stuck_client_is_bounded() {
    let (bus, streams, mut reader) = full().await;
    let receipts: Vec<_> = (32..3000).map(|n| bus.publish(event(n))).collect();
    settle().await;
    assert_eq!(streams.stats().dropped, 3000 - 32 - 1024);
    drop(receipts);
    assert_eq!(reader.available().await.matches("event: ").count(), 32 + 1024);
}
