use std::time::Duration;

use gatewright_base::{Identity, JsonCase};
use gatewright_events::sse::{Params, Refused, Subscribe};
use gatewright_events::{EntityEvent, EventKind, StreamOptions, Streams};

use crate::support::{HEARTBEAT, Reader, event, everything, frame, frames, publish, settle, streams};

#[tokio::test(start_paused = true)]
async fn a_write_reaches_every_stream_of_its_table_and_no_other() {
    let (bus, streams) = streams(StreamOptions::default());
    let mut first = Reader::everything(&streams).await;
    let mut second = Reader::everything(&streams).await;
    let notes = Subscribe::new("notes", Identity::Anonymous, Params::default(), |_| true);
    let mut other = Reader::open(&streams, notes).await.unwrap();
    publish(&bus, 7..8);
    assert_eq!(first.chunk().await, Some(frame(7)));
    assert_eq!(second.chunk().await, Some(frame(7)));
    assert_eq!(other.available().await, "");
    assert_eq!(streams.stats().delivered, 2);
}

#[tokio::test(start_paused = true)]
async fn the_tenant_key_follows_the_case_and_routing_data_is_not_sent() {
    for (json_case, key) in [(JsonCase::Camel, "tenantId"), (JsonCase::Snake, "tenant_id")] {
        let (bus, streams) = streams(StreamOptions { json_case, ..StreamOptions::default() });
        let mut reader = Reader::everything(&streams).await;
        let event = EntityEvent::new(EventKind::Deleted, "posts", "posts", "{\"id\":\"1\"}")
            .with_tenant("acme")
            .with_owner("canary")
            .with_payload(std::sync::Arc::new("canary"));
        assert!(bus.publish(event).is_none());
        assert_eq!(
            reader.chunk().await.unwrap(),
            format!(
                "event: entity.deleted\ndata: {{\"type\":\"entity.deleted\",\"data\":{{\"entity\":\"posts\",\
                 \"table\":\"posts\",\"record\":{{\"id\":\"1\"}},\"{key}\":\"acme\"}}}}\n\n"
            )
        );
    }
}

#[tokio::test(start_paused = true)]
async fn a_stream_has_only_events_that_its_filter_matches() {
    let (bus, streams) = streams(StreamOptions::default());
    let filtered = |tenant: &'static str| {
        Subscribe::new("posts", Identity::Anonymous, Params::default(), move |event| event.tenant_id() == Some(tenant))
    };
    let mut acme = Reader::open(&streams, filtered("acme")).await.unwrap();
    let mut umbrella = Reader::open(&streams, filtered("umbrella")).await.unwrap();
    for (n, tenant) in [(1, "acme"), (2, "umbrella"), (3, "acme")] {
        assert!(bus.publish(event(n).with_tenant(tenant)).is_none());
    }
    let acme = acme.available().await;
    assert!(acme.contains("\"n\":1") && acme.contains("\"n\":3") && !acme.contains("umbrella"));
    let umbrella = umbrella.available().await;
    assert!(umbrella.contains("\"n\":2") && !umbrella.contains("acme"));
}

#[tokio::test(start_paused = true)]
async fn a_filter_that_panics_ends_its_own_stream_and_shows_nothing() {
    let (bus, streams) = streams(StreamOptions::default());
    let bad = Subscribe::new("posts", Identity::Anonymous, Params::default(), |event| {
        assert!(!event.record().ends_with(b":2}"), "a bad filter");
        true
    });
    let mut bad = Reader::open(&streams, bad).await.unwrap();
    let mut good = Reader::everything(&streams).await;
    publish(&bus, 1..4);
    assert_eq!(bad.rest().await, "");
    assert_eq!(good.chunk().await, Some(frames(1..4)));
}

#[tokio::test(start_paused = true)]
async fn a_client_that_does_not_read_loses_its_oldest_events_without_affecting_others() {
    let (bus, streams) = streams(StreamOptions::default());
    let mut slow = Reader::everything(&streams).await;
    let mut quick = Reader::everything(&streams).await;
    for n in 0..40 {
        publish(&bus, n..n + 1);
        assert_eq!(quick.chunk().await, Some(frame(n)));
    }
    assert_eq!(streams.stats().dropped, 8);
    assert_eq!(slow.available().await, frames(8..40));
}

#[tokio::test(start_paused = true)]
async fn a_client_that_reads_loses_nothing_to_a_burst() {
    let (bus, streams) = streams(StreamOptions::default());
    let mut reader = Reader::everything(&streams).await;
    let reading = tokio::spawn(async move { reader.available().await });
    publish(&bus, 0..500);
    assert_eq!(reading.await.unwrap(), frames(0..500));
    assert_eq!(streams.stats().dropped, 0);
}

#[tokio::test(start_paused = true)]
async fn a_record_of_megabytes_arrives_whole_and_in_order() {
    let (bus, streams) = streams(StreamOptions::default());
    let mut reader = Reader::everything(&streams).await;
    let text = "line\\n".repeat(1_000_000);
    publish(&bus, 1..2);
    let huge = EntityEvent::new(EventKind::Created, "posts", "posts", format!("{{\"text\":\"{text}\"}}"));
    assert!(bus.publish(huge).is_none());
    publish(&bus, 2..3);
    let all = reader.available().await;
    assert!(all.starts_with(&frame(1)) && all.ends_with(&frame(2)));
    assert!(all.contains(&text));
    assert_eq!(all.matches("\n\n").count(), 3, "three frames and no more");
}

#[tokio::test(start_paused = true)]
async fn a_heartbeat_is_written_every_heartbeat_to_idle_and_busy_streams() {
    let (bus, streams) = streams(StreamOptions { heartbeat: Duration::from_secs(15), ..StreamOptions::default() });
    let opened = tokio::time::Instant::now();
    let mut reader = Reader::everything(&streams).await;
    let mut beats = Vec::new();
    for n in 0..4 {
        if n >= 2 {
            publish(&bus, n..n + 1);
            assert_eq!(reader.chunk().await, Some(frame(n)));
        }
        assert_eq!(reader.chunk().await.as_deref(), Some(HEARTBEAT));
        beats.push(opened.elapsed());
    }
    assert!(beats[0] <= Duration::from_secs(15), "{beats:?}");
    for pair in beats.windows(2) {
        let gap = pair[1].abs_diff(pair[0]);
        assert!(gap.abs_diff(Duration::from_secs(15)) <= Duration::from_millis(2), "{beats:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn heartbeats_of_streams_that_were_opened_together_are_spread() {
    let (_bus, streams) = streams(StreamOptions::default());
    let opened = tokio::time::Instant::now();
    let mut beats = tokio::task::JoinSet::new();
    for _ in 0..400 {
        let mut reader = Reader::everything(&streams).await;
        beats.spawn(async move {
            assert_eq!(reader.chunk().await.as_deref(), Some(HEARTBEAT));
            opened.elapsed().as_millis()
        });
    }
    let mut at = std::collections::HashMap::<_, usize>::new();
    for beat in beats.join_all().await {
        *at.entry(beat).or_default() += 1;
    }
    assert_eq!(at.len(), 20);
    assert!(at.values().all(|together| *together == 20), "{at:?}");
}

#[tokio::test(start_paused = true)]
async fn a_shutdown_ends_every_stream_after_what_was_published() {
    let (bus, streams) = streams(StreamOptions::default());
    let mut readers = Vec::new();
    for _ in 0..3 {
        readers.push(Reader::everything(&streams).await);
    }
    publish(&bus, 0..20);
    streams.shutdown();
    assert_eq!(streams.subscribe(everything(Identity::Anonymous)).unwrap_err(), Refused::ShuttingDown);
    publish(&bus, 20..30);
    let started = tokio::time::Instant::now();
    for reader in &mut readers {
        assert_eq!(reader.rest().await, frames(0..30));
    }
    assert_eq!(started.elapsed(), Duration::ZERO);

    let closed = tokio::spawn(async move { streams.closed().await });
    settle().await;
    assert!(!closed.is_finished());
    drop(readers);
    closed.await.unwrap();
    publish(&bus, 30..31);
}

#[tokio::test(start_paused = true)]
async fn streams_end_with_their_bus_and_outlive_their_handles() {
    let (bus, streams) = streams(StreamOptions::default());
    let mut reader = Reader::everything(&streams).await;
    drop(streams);
    publish(&bus, 0..1);
    assert_eq!(reader.chunk().await, Some(frame(0)));
    drop(bus);
    assert_eq!(reader.rest().await, "");
}

#[tokio::test(start_paused = true)]
async fn without_a_bus_every_stream_is_refused() {
    let streams = Streams::disabled();
    assert!(!streams.is_enabled());
    assert_eq!(streams.subscribe(everything(Identity::Anonymous)).unwrap_err(), Refused::NoBus);
    assert_eq!(streams.cut(|_| true), 0);
    streams.shutdown();
    streams.closed().await;
    assert_eq!(streams.stats(), gatewright_events::sse::StreamStats::default());
}
