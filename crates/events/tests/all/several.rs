//! Streams of several tables.

use std::sync::Arc;
use std::time::Duration;

use gatewright_base::Identity;
use gatewright_events::sse::{Condition, Params, Subscribe};
use gatewright_events::{EntityEvent, EventKind, StreamOptions};
use tokio::time::Instant;

use crate::support::{Reader, everything, settle, streams, user};

fn event(table: &str, number: u64) -> EntityEvent {
    EntityEvent::new(EventKind::Created, table.to_owned(), table.to_owned(), format!(r#"{{"n":{number}}}"#))
}

fn several(tables: &[&str], caller: Identity, params: Params) -> Subscribe {
    Subscribe::of_several(tables.iter().map(|table| Arc::from(*table)), caller, params, |_| true)
}

/// The table and the number of each frame.
fn read(frames: &str) -> Vec<(String, u64)> {
    let data = frames.lines().filter_map(|line| line.strip_prefix("data: "));
    let read = data.map(|data| {
        let data: serde_json::Value = serde_json::from_str(data).unwrap();
        (data["data"]["table"].as_str().unwrap().to_owned(), data["data"]["record"]["n"].as_u64().unwrap())
    });
    read.collect()
}

#[tokio::test(start_paused = true)]
async fn a_stream_of_several_tables_gets_their_events_in_one_order_whatever_other_streams_there_are() {
    let (bus, streams) = streams(StreamOptions::default());
    let mut one = Reader::everything(&streams).await;
    let plain = several(&["posts", "notes", "tags"], Identity::Anonymous, Params::default());
    let mut all = Reader::open(&streams, plain).await.unwrap();
    let even = Condition::new("even", |event: &EntityEvent| !event.record().ends_with(b"1}"));
    let picked = several(&["posts", "notes"], user("ada"), Params::default());
    let picked = picked.matching(Condition::by_table(vec![("notes".into(), even)]));
    let mut picked = Reader::open(&streams, picked).await.unwrap();
    let tables = ["posts", "notes", "others", "tags"];
    let mut expected = Vec::new();
    for burst in 0..10_u64 {
        let events: Vec<_> = (0..16).map(|n| event(tables[(n % 4) as usize], burst * 16 + n)).collect();
        expected.extend(events.iter().map(|event| {
            let frame = read(&format!(
                "data: {{\"data\":{{\"table\":\"{}\",\"record\":{}}}}}",
                event.table(),
                String::from_utf8_lossy(event.record())
            ));
            frame[0].clone()
        }));
        assert!(bus.publish_all(events).is_none());
        settle().await;
        let of = |tables: &[&str]| {
            let of_burst = expected[expected.len() - 16..].iter();
            of_burst.filter(|(table, _)| tables.contains(&&**table)).cloned().collect::<Vec<_>>()
        };
        assert_eq!(read(&all.available().await), of(&["posts", "notes", "tags"]));
        let mut of_picked = of(&["posts", "notes"]);
        of_picked.retain(|(table, number)| table == "posts" || number % 10 != 1);
        assert_eq!(read(&picked.available().await), of_picked);
        assert_eq!(read(&one.available().await), of(&["posts"]));
    }
}

#[tokio::test(start_paused = true)]
async fn it_takes_one_seat_and_its_name_is_that_of_the_whole() {
    let (bus, streams) = streams(StreamOptions { max_subscribers: 2, ..StreamOptions::default() });
    let named = |tables: &[&str]| {
        let params = Params { block: false, subscriber_id: Some("tab".to_owned()), since: None };
        several(tables, user("ada"), params)
    };
    let mut old = Reader::open(&streams, named(&["posts", "notes"])).await.unwrap();
    let alone = crate::support::named("posts", user("ada"), "tab");
    let mut of_one = Reader::open(&streams, alone).await.unwrap();
    assert_eq!(streams.stats().subscribers, 2);
    assert!(streams.subscribe(everything(user("ben"))).is_err());
    let mut new = Reader::open(&streams, named(&["notes", "tags"])).await.unwrap();
    assert_eq!(old.rest().await, "");
    assert!(bus.publish(event("tags", 1)).is_none());
    settle().await;
    assert_eq!(read(&new.available().await), [("tags".to_owned(), 1)]);
    assert_eq!(of_one.available().await, "", "a stream of one table has a name of its own");
    drop((new, old));
    assert_eq!(streams.stats().subscribers, 1);
}

#[tokio::test(start_paused = true)]
async fn writers_to_each_of_its_tables_wait_for_a_blocking_one() {
    let options = StreamOptions {
        allow_client_slow_mode: true,
        block_timeout: Duration::from_secs(5),
        ..StreamOptions::default()
    };
    let (bus, streams) = streams(options);
    let params = Params { block: true, subscriber_id: None, since: None };
    let mut reader = Reader::open(&streams, several(&["posts", "notes"], Identity::Anonymous, params)).await.unwrap();
    assert!(bus.publish_all((0..32).map(|n| event(["posts", "notes"][(n % 2) as usize], n)).collect()).wait().await);
    for table in ["posts", "notes"] {
        let writer = tokio::spawn(bus.publish(event(table, 32)).wait());
        settle().await;
        assert!(!writer.is_finished(), "{table}");
        let began = Instant::now();
        assert!(!reader.chunk().await.unwrap().is_empty());
        assert!(writer.await.unwrap());
        assert_eq!(began.elapsed(), Duration::ZERO);
        assert!(bus.publish_all((0..32).map(|n| event(table, n)).collect()).wait().await);
    }
    assert!(bus.publish(event("tags", 1)).is_none(), "nobody waits for a table of others");
    assert_eq!(streams.stats().dropped, 0);
    drop(reader);
    assert!(bus.publish(event("posts", 1)).is_none());
}
