use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use gatewright_base::{Credential, Unavailable};
use gatewright_events::sse::{Params, Subscribe, Verdict, Visibility};
use gatewright_events::{EntityEvent, StreamOptions};
use tokio::time::Instant;

use crate::support::{Reader, event, everything, frame, publish, settle, streams, user};

const HEARTBEAT: Duration = Duration::from_secs(15);

fn all() -> Verdict {
    Verdict::Continue(Arc::new(|_| Visibility::Shown))
}

/// A caller whose right can be taken away.
fn revocable(id: &str) -> (Arc<AtomicBool>, Subscribe) {
    let allowed = Arc::new(AtomicBool::new(true));
    let asked = allowed.clone();
    let request = everything(user(id)).rechecked(move || {
        let allowed = asked.load(Ordering::Relaxed);
        async move { Ok(if allowed { all() } else { Verdict::End }) }
    });
    (allowed, request)
}

#[tokio::test(start_paused = true)]
async fn a_stream_ends_within_a_heartbeat_of_its_caller_losing_the_right() {
    let (bus, streams) = streams(StreamOptions::default());
    let mut others = Vec::new();
    for n in 0..40 {
        others.push(Reader::open(&streams, revocable(&format!("other-{n}")).1).await.unwrap());
        let (allowed, request) = revocable("ada");
        let mut reader = Reader::open(&streams, request).await.unwrap();
        // At any time between two heartbeats.
        tokio::time::sleep(Duration::from_millis(40_000 + 377 * n)).await;
        allowed.store(false, Ordering::Relaxed);
        let revoked = Instant::now();
        while reader.chunk().await.is_some() {}
        assert!(revoked.elapsed() <= HEARTBEAT, "{:?}", revoked.elapsed());
    }
    publish(&bus, 1..2);
    for other in &mut others {
        assert!(other.available().await.contains(&frame(1)), "siblings go on");
    }
}

#[tokio::test(start_paused = true)]
async fn a_caller_who_lost_the_right_does_not_get_what_is_still_queued() {
    let (bus, streams) = streams(StreamOptions::default());
    let (allowed, request) = revocable("ada");
    let mut reader = Reader::open(&streams, request).await.unwrap();
    allowed.store(false, Ordering::Relaxed);
    publish(&bus, 1..20);
    tokio::time::sleep(HEARTBEAT).await;
    assert_eq!(reader.rest().await, "");
}

#[tokio::test(start_paused = true)]
async fn a_recheck_can_narrow_the_stream() {
    let (bus, streams) = streams(StreamOptions::default());
    let request = everything(user("ada")).rechecked(|| async {
        Ok(Verdict::Continue(Arc::new(|event: &EntityEvent| Visibility::from(event.owner() == Some("ada")))))
    });
    let mut reader = Reader::open(&streams, request).await.unwrap();
    assert!(bus.publish(event(1).with_owner("bob")).is_none());
    assert_eq!(reader.chunk().await, Some(frame(1)));
    tokio::time::sleep(HEARTBEAT).await;
    reader.available().await;
    assert!(bus.publish(event(2).with_owner("bob")).is_none());
    assert!(bus.publish(event(3).with_owner("ada")).is_none());
    assert_eq!(reader.available().await, frame(3));
}

/// Opens a stream whose re-checks fail as in `how`, and returns how long it was open.
async fn lifetime_when(how: impl Fn(usize) -> How + Send + Sync + 'static) -> Option<Duration> {
    let (_bus, streams) = streams(StreamOptions::default());
    let (calls, how) = (AtomicUsize::new(0), Arc::new(how));
    let request = everything(user("ada")).rechecked(move || {
        let how = how(calls.fetch_add(1, Ordering::Relaxed));
        async move {
            match how {
                How::Answers => Ok(all()),
                How::Unavailable => Err(Unavailable),
                How::Hangs => std::future::pending().await,
                How::Panics => panic!("a bad re-check"),
            }
        }
    });
    let opened = Instant::now();
    let mut reader = Reader::open(&streams, request).await.unwrap();
    let ended = tokio::time::timeout(Duration::from_hours(1), reader.rest()).await;
    ended.ok().map(|_| opened.elapsed())
}

enum How {
    Answers,
    Unavailable,
    Hangs,
    Panics,
}

#[tokio::test(start_paused = true)]
async fn a_stream_that_cannot_be_rechecked_ends_after_one_more_heartbeat() {
    let never = [
        lifetime_when(|_| How::Unavailable).await,
        lifetime_when(|_| How::Hangs).await,
        lifetime_when(|_| How::Panics).await,
    ];
    for lived in never {
        let lived = lived.expect("the stream ends");
        assert!(lived > HEARTBEAT && lived <= 2 * HEARTBEAT + Duration::from_secs(1), "{lived:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn an_outage_shorter_than_a_heartbeat_ends_nothing() {
    let lived = lifetime_when(|call| if call % 2 == 0 { How::Unavailable } else { How::Answers }).await;
    assert_eq!(lived, None);
    let lived = lifetime_when(|call| if call < 10 { How::Answers } else { How::Unavailable }).await;
    assert!(lived.is_some());
}

#[tokio::test(start_paused = true)]
async fn rechecks_of_many_streams_are_spread_and_few_at_a_time() {
    let (_bus, streams) = streams(StreamOptions { concurrent_rechecks: 8, ..StreamOptions::default() });
    let running = Arc::new(AtomicUsize::new(0));
    let most = Arc::new(AtomicUsize::new(0));
    let asked = Arc::new(AtomicUsize::new(0));
    let mut readers = Vec::new();
    for n in 0..3000 {
        let (running, most, asked) = (running.clone(), most.clone(), asked.clone());
        let request = everything(user(&format!("u{n}"))).rechecked(move || {
            let (running, most, asked) = (running.clone(), most.clone(), asked.clone());
            async move {
                asked.fetch_add(1, Ordering::Relaxed);
                most.fetch_max(running.fetch_add(1, Ordering::Relaxed) + 1, Ordering::Relaxed);
                tokio::time::sleep(Duration::from_millis(2)).await;
                running.fetch_sub(1, Ordering::Relaxed);
                Ok(all())
            }
        });
        readers.push(Reader::open(&streams, request).await.unwrap());
    }
    // A twentieth of a heartbeat later, only their share was rechecked.
    tokio::time::sleep(HEARTBEAT / 20 + Duration::from_millis(600)).await;
    let share = asked.load(Ordering::Relaxed);
    assert!(share <= 3000 / 15, "{share}");
    tokio::time::sleep(HEARTBEAT).await;
    assert!(asked.load(Ordering::Relaxed) >= 3000);
    assert_eq!(most.load(Ordering::Relaxed), 8);
    assert_eq!(streams.stats().subscribers, 3000);
}

#[tokio::test(start_paused = true)]
async fn a_cut_ends_the_matching_streams_at_once() {
    let (bus, streams) = streams(StreamOptions::default());
    let mut ada = Reader::open(&streams, everything(user("ada"))).await.unwrap();
    let mut bob = Reader::open(&streams, everything(user("bob"))).await.unwrap();
    let mut anonymous = Reader::everything(&streams).await;
    publish(&bus, 1..2);
    settle().await;
    let started = Instant::now();
    let cut = streams.cut(
        |principal| matches!(&principal.credential, Credential::Session { id, .. } if id.as_str() == "session-of-ada"),
    );
    assert_eq!(cut, 1);
    assert_eq!(ada.rest().await, "", "not even what was queued");
    assert_eq!(started.elapsed(), Duration::ZERO);
    assert_eq!(bob.chunk().await, Some(frame(1)));
    assert_eq!(anonymous.chunk().await, Some(frame(1)));
    assert_eq!(streams.cut(|_| true), 1, "who is not known is not matched");
}

#[tokio::test(start_paused = true)]
async fn a_stream_without_a_recheck_stays_open() {
    let (bus, streams) = streams(StreamOptions::default());
    let open = Subscribe::new("posts", user("ada"), Params::default(), |_| true);
    let mut reader = Reader::open(&streams, open).await.unwrap();
    tokio::time::sleep(Duration::from_hours(24)).await;
    reader.available().await;
    publish(&bus, 1..2);
    assert_eq!(reader.available().await, frame(1));
}
