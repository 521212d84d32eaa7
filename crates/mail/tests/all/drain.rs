use std::time::Duration;

use gatewright_mail::{Counts, QueuePolicy};
use tokio::time::Instant;

use crate::support::{Answer, Scripted, letter, queue};
use gatewright_base::testing::Log;

#[tokio::test(start_paused = true)]
async fn queued_letters_are_sent_before_the_end() {
    let sender = Scripted::new([], Answer::Sent);
    let outgoing = queue(sender.clone(), QueuePolicy { concurrency: 1, ..QueuePolicy::default() });
    (0..20).for_each(|_| outgoing.post(letter("ann@example.com")));
    assert_eq!(outgoing.drain(Duration::from_secs(5)).await, 0);
    assert_eq!(outgoing.counts(), Counts { accepted: 20, sent: 20, ..Counts::default() });
}

#[tokio::test(start_paused = true)]
async fn a_paused_letter_gets_exactly_one_more_attempt() {
    let sender = Scripted::new([], Answer::Later);
    let outgoing = queue(sender.clone(), QueuePolicy::default());
    outgoing.post(letter("ann@example.com"));
    tokio::time::sleep(Duration::from_mins(1)).await;
    let (before, start) = (sender.attempts().len(), Instant::now());
    assert_eq!(outgoing.drain(Duration::from_secs(5)).await, 0);
    assert_eq!(start.elapsed(), Duration::ZERO, "nobody waits for the pause");
    assert_eq!(sender.attempts().len(), before + 1);
    assert_eq!(outgoing.counts().failed, 1);
}

#[tokio::test(start_paused = true)]
async fn the_deadline_applies_when_the_sender_hangs() {
    let log = Log::default();
    let _guard = log.record();
    let sender = Scripted::held();
    let outgoing = queue(sender.clone(), QueuePolicy { concurrency: 2, ..QueuePolicy::default() });
    (0..5).for_each(|_| outgoing.post(letter("ann@example.com")));
    let start = Instant::now();
    assert_eq!(outgoing.drain(Duration::from_secs(5)).await, 5);
    assert_eq!(start.elapsed().as_secs(), 5);
    assert_eq!(outgoing.counts(), Counts { accepted: 5, failed: 5, ..Counts::default() });
    assert!(log.text().contains("abandoned=5"), "{}", log.text());
    sender.release(5);
    tokio::time::sleep(Duration::from_secs(5)).await;
    assert_eq!(sender.attempts().len(), 2, "nothing goes on in the dark");
    assert_eq!(outgoing.counts().sent, 0);
}

#[tokio::test(start_paused = true)]
async fn a_closed_queue_accepts_nothing() {
    let sender = Scripted::new([], Answer::Sent);
    let outgoing = queue(sender.clone(), QueuePolicy::default());
    assert_eq!(outgoing.drain(Duration::from_secs(5)).await, 0);
    outgoing.post(letter("ann@example.com"));
    assert_eq!(outgoing.drain(Duration::from_secs(5)).await, 0);
    assert_eq!(outgoing.counts(), Counts { dropped: 1, ..Counts::default() });
    assert!(sender.attempts().is_empty());
}

#[tokio::test(start_paused = true)]
async fn the_queue_outlives_its_handles() {
    let sender = Scripted::new([Answer::Later], Answer::Sent);
    let outgoing = queue(sender.clone(), QueuePolicy::default());
    outgoing.post(letter("ann@example.com"));
    drop(outgoing);
    tokio::time::sleep(Duration::from_mins(1)).await;
    assert_eq!(sender.attempts().len(), 2);
}

#[test]
fn a_queue_without_its_runtime_drops_letters_without_an_error_for_the_caller() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
    let outgoing = runtime.block_on(async { queue(Scripted::held(), QueuePolicy::default()) });
    drop(runtime);
    outgoing.post(letter("ann@example.com"));
    assert_eq!(outgoing.counts(), Counts { accepted: 1, failed: 1, ..Counts::default() });
}
