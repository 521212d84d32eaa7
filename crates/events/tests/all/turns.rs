use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use gatewright_base::Identity;
use gatewright_events::sse::{Condition, Params, Subscribe};
use gatewright_events::{EntityEvent, EventKind, StreamOptions};

use crate::support::{Reader, event, frame, publish, streams, user};

/// A slow condition that counts how often it was tested.
fn slow(key: &str, tested: &Arc<AtomicUsize>) -> Condition {
    let tested = tested.clone();
    Condition::new(key, move |_| {
        tested.fetch_add(1, Ordering::Relaxed);
        std::thread::sleep(Duration::from_millis(2));
        true
    })
}

fn filtered(table: &str, caller: Identity, condition: Condition) -> Subscribe {
    Subscribe::new(table.to_owned(), caller, Params::default(), |_| true).matching(Some(condition))
}

#[tokio::test]
async fn one_callers_slow_conditions_delay_neither_others_nor_streams_without_conditions() {
    let (bus, streams) = streams(StreamOptions::default());
    let tested = Arc::new(AtomicUsize::new(0));
    let mut slow_ones = Vec::new();
    for n in 0..50 {
        let request = filtered("posts", user("mallory"), slow(&format!("{n}"), &tested));
        slow_ones.push(Reader::open(&streams, request).await.unwrap());
    }
    let mut same_table =
        Reader::open(&streams, filtered("posts", user("ada"), Condition::new("a", |_| true))).await.unwrap();
    let mut unfiltered = Reader::everything(&streams).await;
    let mut other_table =
        Reader::open(&streams, filtered("notes", user("bob"), Condition::new("b", |_| true))).await.unwrap();

    publish(&bus, 0..40);
    drop(bus.publish(EntityEvent::new(EventKind::Created, "notes", "notes", "{}")));
    let mut read = String::new();
    while !read.contains(&frame(39)) {
        read = unfiltered.chunk().await.unwrap();
    }
    let mut read = String::new();
    while !read.contains(&frame(39)) {
        read = same_table.chunk().await.unwrap();
    }
    assert!(other_table.chunk().await.unwrap().contains("notes"));
    // 2,000 tests follow, and each event of the others waits for one of them.
    assert!(tested.load(Ordering::Relaxed) < 200, "{tested:?}");
    assert!(slow_ones[0].chunk().await.unwrap().contains(&frame(0)), "they are not forgotten");
}

#[tokio::test]
async fn equal_conditions_are_tested_once_for_an_event() {
    let (bus, streams) = streams(StreamOptions::default());
    let tested = Arc::new(AtomicUsize::new(0));
    let mut readers = Vec::new();
    for n in 0..60 {
        let caller = user(&format!("user{}", n % 5));
        let key = if n < 50 { "equal" } else { "another" };
        readers.push(Reader::open(&streams, filtered("posts", caller, slow(key, &tested))).await.unwrap());
    }
    publish(&bus, 0..3);
    for reader in &mut readers {
        let mut read = String::new();
        while !read.ends_with(&frame(2)) {
            read.push_str(&reader.chunk().await.unwrap());
        }
        assert_eq!(read, [frame(0), frame(1), frame(2)].concat());
    }
    assert_eq!(tested.load(Ordering::Relaxed), 6);
}

#[test]
fn a_record_is_parsed_once_for_all_readers() {
    let read = AtomicUsize::new(0);
    let event = event(7);
    let length = |record: &[u8]| {
        read.fetch_add(1, Ordering::Relaxed);
        record.len()
    };
    assert_eq!((*event.view(length), *event.view(length)), (7, 7));
    assert_eq!(read.load(Ordering::Relaxed), 1);
    assert_eq!(*event.view(|record| record.first().copied()), Some(b'{'), "another type is read on its own");
}
