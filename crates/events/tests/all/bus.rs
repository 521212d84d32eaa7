use std::sync::{Arc, Barrier, Mutex};
use std::time::Duration;

use gatewright_events::bus::{Bound, Interest};
use gatewright_events::{EntityEvent, EventKind};
use tokio::sync::{Semaphore, mpsc};

use crate::support::{bus, event, publish, settle};

fn number(event: &EntityEvent) -> u64 {
    let record: serde_json::Value = serde_json::from_slice(event.record()).unwrap();
    record["n"].as_u64().unwrap()
}

#[tokio::test(start_paused = true)]
async fn a_handler_gets_every_event_in_the_order_of_the_commits() {
    let bus = bus();
    let (seen, mut handled) = mpsc::unbounded_channel();
    bus.on(Interest::all(), move |event| {
        let seen = seen.clone();
        async move { seen.send(number(&event)).unwrap() }
    });
    publish(&bus, 0..50);
    publish(&bus, 50..1000);
    for expected in 0..1000 {
        assert_eq!(handled.recv().await, Some(expected));
    }
    assert_eq!(bus.published(), 1000);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn all_handlers_see_the_events_of_many_threads_in_one_order() {
    const THREADS: u64 = 8;
    const EACH: u64 = 500;
    let bus = bus();
    let (done, mut finished) = mpsc::unbounded_channel();
    for _ in 0..3 {
        let done = done.clone();
        let seen = Arc::new(Mutex::new(Vec::new()));
        bus.on(Interest::all(), move |event| {
            let mut all = seen.lock().unwrap();
            all.push(number(&event));
            if all.len() as u64 == THREADS * EACH {
                done.send(std::mem::take(&mut *all)).unwrap();
            }
            async {}
        });
    }
    let start = Arc::new(Barrier::new(usize::try_from(THREADS).unwrap()));
    let threads: Vec<_> = (0..THREADS)
        .map(|thread| {
            let (bus, start) = (bus.clone(), start.clone());
            std::thread::spawn(move || {
                start.wait();
                for n in 0..EACH {
                    assert!(bus.publish(event(thread * EACH + n)).is_none());
                }
            })
        })
        .collect();
    for thread in threads {
        thread.join().unwrap();
    }

    let first = finished.recv().await.unwrap();
    for thread in 0..THREADS {
        let own: Vec<_> = first.iter().filter(|n| **n / EACH == thread).copied().collect();
        assert!(own.is_sorted(), "a thread's own events stay in order");
    }
    assert_eq!(finished.recv().await.unwrap(), first);
    assert_eq!(finished.recv().await.unwrap(), first);
}

#[tokio::test(start_paused = true)]
async fn a_slow_handler_delays_neither_the_publisher_nor_another_handler_and_loses_nothing() {
    let bus = bus();
    let gate = Arc::new(Semaphore::new(0));
    let (slow, mut slow_handled) = mpsc::unbounded_channel();
    let (quick, mut quick_handled) = mpsc::unbounded_channel();
    bus.on(Interest::all(), {
        let gate = gate.clone();
        move |event| {
            let (gate, slow) = (gate.clone(), slow.clone());
            async move {
                gate.acquire().await.unwrap().forget();
                slow.send(number(&event)).unwrap();
            }
        }
    });
    bus.on(Interest::all(), move |event| {
        let quick = quick.clone();
        async move { quick.send(number(&event)).unwrap() }
    });
    publish(&bus, 0..1000);
    for expected in 0..1000 {
        assert_eq!(quick_handled.recv().await, Some(expected));
    }
    assert!(slow_handled.try_recv().is_err());
    gate.add_permits(1000);
    for expected in 0..1000 {
        assert_eq!(slow_handled.recv().await, Some(expected));
    }
}

#[tokio::test(start_paused = true)]
async fn a_panicking_handler_continues_with_the_next_event() {
    let bus = bus();
    let (seen, mut handled) = mpsc::unbounded_channel();
    bus.on(Interest::all(), move |event| {
        assert!(number(&event) != 1, "in the call");
        let seen = seen.clone();
        async move {
            assert!(number(&event) != 2, "in the future");
            seen.send(number(&event)).unwrap();
        }
    });
    publish(&bus, 0..4);
    assert_eq!(handled.recv().await, Some(0));
    assert_eq!(handled.recv().await, Some(3));
    assert_eq!(bus.handler_panics(), 2);
}

#[tokio::test(start_paused = true)]
async fn a_handler_above_its_limit_loses_only_its_oldest_events() {
    let bus = bus();
    let (seen, mut handled) = mpsc::unbounded_channel();
    let bound = Bound { events: 10, ..Bound::default() };
    let subscription = bus.on_bounded(Interest::all(), bound, move |event| {
        let seen = seen.clone();
        async move { seen.send(number(&event)).unwrap() }
    });
    publish(&bus, 0..25);
    for expected in 15..25 {
        assert_eq!(handled.recv().await, Some(expected));
    }
    assert_eq!((subscription.dropped(), bus.dropped()), (15, 15));
}

#[tokio::test(start_paused = true)]
async fn a_cancelled_handler_is_not_called_again() {
    let bus = bus();
    let (seen, mut handled) = mpsc::unbounded_channel();
    let subscription = bus.on(Interest::all(), move |event| {
        let seen = seen.clone();
        async move { seen.send(number(&event)).unwrap() }
    });
    publish(&bus, 0..1);
    assert_eq!(handled.recv().await, Some(0));
    subscription.cancel();
    publish(&bus, 1..2);
    assert_eq!(handled.recv().await, None);
}

#[tokio::test(start_paused = true)]
async fn a_handler_gets_only_its_subscribed_events() {
    let bus = bus();
    let (seen, mut handled) = mpsc::unbounded_channel();
    bus.on(Interest::all().table("posts").kind(EventKind::Deleted).local(), move |event| {
        let seen = seen.clone();
        async move { seen.send(number(&event)).unwrap() }
    });
    let make = |kind, table: &str, n: u64| EntityEvent::new(kind, table, table, format!(r#"{{"n":{n}}}"#));
    bus.publish_remote(make(EventKind::Deleted, "posts", 0));
    for (kind, table, n) in
        [(EventKind::Created, "posts", 1), (EventKind::Deleted, "notes", 2), (EventKind::Deleted, "posts", 3)]
    {
        assert!(bus.publish(make(kind, table, n)).is_none());
    }
    assert_eq!(handled.recv().await, Some(3));
    settle().await;
    assert!(handled.try_recv().is_err());
}

#[tokio::test(start_paused = true)]
async fn handlers_finish_their_queue_when_the_bus_ends() {
    let bus = bus();
    let (seen, mut handled) = mpsc::unbounded_channel();
    bus.on(Interest::all(), move |event| {
        let seen = seen.clone();
        async move {
            tokio::time::sleep(Duration::from_secs(1)).await;
            seen.send(number(&event)).unwrap();
        }
    });
    publish(&bus, 0..3);
    drop(bus);
    let mut all = Vec::new();
    while let Some(n) = handled.recv().await {
        all.push(n);
    }
    assert_eq!(all, [0, 1, 2]);
}
