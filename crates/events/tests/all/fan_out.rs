use std::sync::Arc;

use gatewright_base::{Ambient, Identity};
use gatewright_events::bus::{Bound, Ingested, Interest};
use gatewright_events::sse::{Params, Subscribe};
use gatewright_events::{Bus, EntityEvent, EventKind, StreamOptions, Streams};
use tokio::sync::{broadcast, mpsc};

use crate::support::{Reader, event, frame, frames, settle};

/// Replicas on one channel that, like a database's or a broker's, also delivers to the sender.
fn replicas<const N: usize>() -> [Bus; N] {
    let (channel, _) = broadcast::channel::<bytes::Bytes>(4096);
    std::array::from_fn(|n| {
        let (ambient, _) = Ambient::manual("2026-01-01T00:00:00Z".parse().unwrap(), 100 + n as u64);
        let bus = Bus::new(&ambient);
        let mut egress = bus.egress(Bound::default());
        let sender = channel.clone();
        tokio::spawn(async move {
            while let Some(messages) = egress.next(64).await {
                for message in messages {
                    sender.send(message).unwrap();
                }
            }
        });
        let (mut receiver, inside) = (channel.subscribe(), bus.clone());
        tokio::spawn(async move {
            while let Ok(message) = receiver.recv().await {
                inside.ingest(&message).unwrap();
            }
        });
        bus
    })
}

#[tokio::test(start_paused = true)]
async fn a_write_reaches_the_streams_of_every_replica_once_and_in_order() {
    let buses = replicas::<3>();
    let mut readers = Vec::new();
    for bus in &buses {
        readers.push(Reader::everything(&Streams::start(bus, StreamOptions::default())).await);
    }
    let readings: Vec<_> =
        readers.into_iter().map(|mut reader| tokio::spawn(async move { reader.available().await })).collect();
    for n in 0..100 {
        assert!(buses[0].publish(event(n)).is_none());
    }
    for reading in readings {
        assert_eq!(reading.await.unwrap(), frames(0..100));
    }
}

#[tokio::test(start_paused = true)]
async fn every_replicas_handler_is_called_and_knows_the_origin_of_the_write() {
    let buses = replicas::<2>();
    let (seen, mut handled) = mpsc::unbounded_channel();
    for (n, bus) in buses.iter().enumerate() {
        let seen = seen.clone();
        bus.on(Interest::all(), move |event: Arc<EntityEvent>| {
            seen.send((n, event.is_remote())).unwrap();
            async {}
        });
    }
    assert!(buses[1].publish(event(1)).is_none());
    settle().await;
    let mut all = Vec::new();
    while let Ok(call) = handled.try_recv() {
        all.push(call);
    }
    all.sort_unstable();
    assert_eq!(all, [(0, true), (1, false)], "once each, and it does not go round");
}

#[tokio::test(start_paused = true)]
async fn a_filter_on_another_replica_knows_owner_and_tenant() {
    let buses = replicas::<2>();
    let streams = Streams::start(&buses[1], StreamOptions::default());
    let filter = |event: &EntityEvent| event.owner() == Some("ada") && event.tenant_id() == Some("acme");
    let request = Subscribe::new("posts", Identity::Anonymous, Params::default(), filter);
    let mut reader = Reader::open(&streams, request).await.unwrap();
    for (n, owner, tenant) in [(1, "ada", "umbrella"), (2, "bob", "acme"), (3, "ada", "acme")] {
        assert!(buses[0].publish(event(n).with_owner(owner).with_tenant(tenant)).is_none());
    }
    let seen = reader.available().await;
    assert_eq!(seen.matches("event: ").count(), 1);
    assert!(seen.contains("\"n\":3") && !seen.contains("ada"));
}

#[tokio::test(start_paused = true)]
async fn a_malformed_message_is_an_error_that_changes_nothing() {
    let [bus] = replicas::<1>();
    let mut reader = Reader::everything(&Streams::start(&bus, StreamOptions::default())).await;
    for bad in [&b""[..], b"{}", b"\xff", b"hello", br#"{"v":1,"type":"entity.created"}"#] {
        assert!(bus.ingest(bad).is_err());
    }
    assert_eq!(bus.published(), 0);
    assert!(bus.publish(event(1)).is_none());
    assert_eq!(reader.available().await, frame(1));
}

#[tokio::test(start_paused = true)]
async fn a_forged_line_break_in_a_message_cannot_make_a_second_event() {
    let [bus] = replicas::<1>();
    let mut reader = Reader::everything(&Streams::start(&bus, StreamOptions::default())).await;
    let forged = "{\"v\":1,\"origin\":\"x\",\"number\":1,\"type\":\"entity.created\",\"entity\":\"posts\",\"table\":\"posts\",\
                  \"record\":{\n\n\"a\":\r\n\r\n1}}";
    assert_eq!(bus.ingest(forged.as_bytes()).unwrap(), Ingested::Published { missed: 0 });
    let seen = reader.available().await;
    assert_eq!(seen.matches("\n\n").count(), 1);
    assert!(seen.contains("\"record\":{\"a\":1}"));
}

#[tokio::test(start_paused = true)]
async fn an_egress_sends_local_writes_only_and_ends_with_the_bus() {
    let (ambient, _) = Ambient::manual("2026-01-01T00:00:00Z".parse().unwrap(), 1);
    let bus = Bus::new(&ambient);
    let mut egress = bus.egress(Bound { events: 2, ..Bound::default() });
    bus.publish_remote(EntityEvent::new(EventKind::Deleted, "posts", "posts", "{}"));
    for n in 0..3 {
        assert!(bus.publish(event(n)).is_none());
    }
    let messages = egress.next(64).await.unwrap();
    assert_eq!((messages.len(), egress.dropped()), (2, 1));
    assert_eq!(bus.ingest(&messages[0]).unwrap(), Ingested::Own);
    drop(bus);
    assert_eq!(egress.next(64).await, None);
}
