use std::time::Duration;

use gatewright_mail::{Counts, QueuePolicy, RetryPolicy};

use crate::support::{Answer, Scripted, letter, queue};
use gatewright_base::testing::Log;

fn retrying(max_attempts: u32) -> QueuePolicy {
    QueuePolicy { retry: RetryPolicy { max_attempts, ..RetryPolicy::default() }, ..QueuePolicy::default() }
}

#[tokio::test(start_paused = true)]
async fn a_letter_is_sent_once() {
    let sender = Scripted::new([], Answer::Sent);
    let outgoing = queue(sender.clone(), QueuePolicy::default());
    outgoing.post(letter("ann@example.com"));
    outgoing.until(|counts| counts.waiting == 0).await;
    assert_eq!(outgoing.counts(), Counts { accepted: 1, sent: 1, ..Counts::default() });
    assert_eq!(sender.recipients(), ["ann@example.com"]);
}

#[tokio::test(start_paused = true)]
async fn a_temporary_failure_is_retried_with_growing_pauses_and_the_same_mail() {
    let sender = Scripted::new([Answer::Later, Answer::Later, Answer::Later, Answer::Later], Answer::Sent);
    let outgoing = queue(sender.clone(), QueuePolicy::default());
    outgoing.post(letter("ann@example.com"));
    outgoing.until(|counts| counts.sent == 1).await;
    let attempts = sender.attempts();
    let pauses: Vec<Duration> = attempts.windows(2).map(|pair| pair[1].0 - pair[0].0).collect();
    assert_eq!(pauses.len(), 4);
    for (pause, whole) in pauses.into_iter().zip([1, 2, 4, 8]) {
        let (least, most) = (Duration::from_millis(500) * whole, Duration::from_millis(1001) * whole);
        assert!(least <= pause && pause <= most, "{pause:?} of {whole} s");
    }
    let first = &attempts[0].1;
    for (_, mail) in &attempts {
        assert_eq!((mail.id, mail.written_at), (first.id, first.written_at));
    }
    assert_eq!(outgoing.counts(), Counts { accepted: 1, sent: 1, retries: 4, ..Counts::default() });
}

#[tokio::test(start_paused = true)]
async fn a_permanent_failure_is_not_retried() {
    let sender = Scripted::new([Answer::Never], Answer::Sent);
    let outgoing = queue(sender.clone(), QueuePolicy::default());
    outgoing.post(letter("ann@example.com"));
    outgoing.until(|counts| counts.failed == 1).await;
    tokio::time::sleep(Duration::from_hours(1)).await;
    assert_eq!(sender.attempts().len(), 1);
    assert_eq!(outgoing.counts(), Counts { accepted: 1, failed: 1, ..Counts::default() });
}

#[tokio::test(start_paused = true)]
async fn attempts_are_limited_in_number() {
    let sender = Scripted::new([], Answer::Later);
    let outgoing = queue(sender.clone(), retrying(3));
    outgoing.post(letter("ann@example.com"));
    outgoing.until(|counts| counts.failed == 1).await;
    assert_eq!(sender.attempts().len(), 3);
    assert_eq!(outgoing.counts(), Counts { accepted: 1, failed: 1, retries: 2, ..Counts::default() });
}

#[tokio::test(start_paused = true)]
async fn no_attempt_comes_after_the_end_of_the_link() {
    let sender = Scripted::new([], Answer::Later);
    let outgoing = queue(sender.clone(), retrying(1000));
    let posted = tokio::time::Instant::now();
    outgoing.post(letter("ann@example.com"));
    outgoing.until(|counts| counts.failed == 1).await;
    let attempts = sender.attempts();
    assert!(attempts.len() > 8, "{}", attempts.len());
    assert!(attempts.last().unwrap().0 - posted < Duration::from_mins(15));
}

#[tokio::test(start_paused = true)]
async fn a_letter_whose_link_expired_while_it_waited_is_not_sent() {
    let sender = Scripted::held();
    let outgoing = queue(sender.clone(), QueuePolicy { concurrency: 1, ..QueuePolicy::default() });
    outgoing.post(letter("ann@example.com"));
    outgoing.post(letter("ben@example.com"));
    tokio::time::sleep(Duration::from_mins(16)).await;
    sender.release(2);
    outgoing.until(|counts| counts.waiting == 0).await;
    assert_eq!(sender.recipients(), ["ann@example.com"]);
    assert_eq!(outgoing.counts(), Counts { accepted: 2, sent: 1, failed: 1, ..Counts::default() });
}

#[tokio::test(start_paused = true)]
async fn a_full_queue_drops_letters_and_says_so_in_few_lines() {
    let log = Log::default();
    let _guard = log.record();
    let sender = Scripted::held();
    let outgoing = queue(sender.clone(), QueuePolicy { capacity: 3, concurrency: 1, ..QueuePolicy::default() });
    for _ in 0..500 {
        outgoing.post(letter("ann@example.com"));
        tokio::task::yield_now().await;
    }
    assert_eq!(outgoing.counts(), Counts { accepted: 3, dropped: 497, waiting: 3, untried: 3, ..Counts::default() });
    // The sender still hangs: the log must not wait for it.
    tokio::time::sleep(Duration::from_secs(11)).await;
    let lines: Vec<String> = log.text().lines().filter(|line| line.contains("dropped")).map(str::to_owned).collect();
    assert!((1..=2).contains(&lines.len()), "{lines:#?}");
    sender.release(1);
    outgoing.until(|counts| counts.waiting == 2).await;
    outgoing.post(letter("ben@example.com"));
    assert_eq!(outgoing.counts().accepted, 4, "there is room again");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn twenty_at_once_fill_the_queue_to_its_bound_and_no_further() {
    let sender = Scripted::held();
    let outgoing = queue(sender.clone(), QueuePolicy { capacity: 50, ..QueuePolicy::default() });
    let posting: Vec<_> = (0..20)
        .map(|_| {
            let outgoing = outgoing.clone();
            tokio::spawn(async move { (0..100).for_each(|_| outgoing.post(letter("ann@example.com"))) })
        })
        .collect();
    for task in posting {
        task.await.unwrap();
    }
    let counts = outgoing.counts();
    assert_eq!((counts.accepted, counts.dropped, counts.waiting), (50, 1950, 50));
    sender.release(50);
    outgoing.until(|counts| counts.waiting == 0).await;
    assert_eq!(outgoing.counts().sent, 50);
}

#[tokio::test(start_paused = true)]
async fn parallel_sends_are_limited() {
    let sender = Scripted::held();
    let outgoing = queue(sender.clone(), QueuePolicy { concurrency: 3, ..QueuePolicy::default() });
    (0..20).for_each(|_| outgoing.post(letter("ann@example.com")));
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!(sender.attempts().len(), 3);
    sender.release(20);
    outgoing.until(|counts| counts.sent == 20).await;
    assert_eq!(sender.most_running(), 3);
}

#[tokio::test(start_paused = true)]
async fn a_paused_letter_delays_no_other() {
    let sender = Scripted::new([Answer::Later], Answer::Sent);
    let outgoing = queue(sender.clone(), QueuePolicy { concurrency: 1, ..QueuePolicy::default() });
    outgoing.post(letter("ann@example.com"));
    outgoing.post(letter("ben@example.com"));
    outgoing.until(|counts| counts.sent == 2).await;
    assert_eq!(sender.recipients(), ["ann@example.com", "ben@example.com", "ann@example.com"]);
}

#[tokio::test(start_paused = true)]
async fn a_sender_that_panics_harms_that_mail_only() {
    let sender = Scripted::new([Answer::Panic], Answer::Sent);
    let outgoing = queue(sender.clone(), QueuePolicy { concurrency: 1, ..QueuePolicy::default() });
    outgoing.post(letter("ann@example.com"));
    outgoing.post(letter("ben@example.com"));
    outgoing.until(|counts| counts.waiting == 0).await;
    assert_eq!(outgoing.counts(), Counts { accepted: 2, sent: 1, failed: 1, ..Counts::default() });
}

#[tokio::test(start_paused = true)]
async fn a_hostile_address_reaches_no_sender() {
    let sender = Scripted::new([], Answer::Sent);
    let outgoing = queue(sender.clone(), QueuePolicy::default());
    let hostile = [
        "ann@example.com\r\nBcc: eve@example.com",
        "ann@example.com\nSubject: hello",
        "ann@example.com>\r\nRCPT TO:<eve@example.com",
        "ann@example.com, eve@example.com",
        "\"ann\r\n.\r\nMAIL FROM:<eve@example.com>\"@example.com",
        "Ann <ann@example.com>",
        "ann\u{2028}@example.com",
        "",
    ];
    for to in hostile {
        outgoing.post(letter(to));
    }
    outgoing.until(|counts| counts.waiting == 0).await;
    assert_eq!(outgoing.counts().failed, 8);
    assert!(sender.attempts().is_empty());
}

#[tokio::test(start_paused = true)]
async fn settling_waits_for_first_attempts_up_to_a_limit() {
    let sender = Scripted::held();
    let outgoing = queue(sender.clone(), QueuePolicy::default());
    let start = tokio::time::Instant::now();
    outgoing.settle(Duration::from_secs(1)).await;
    assert_eq!(start.elapsed(), Duration::ZERO, "nothing is on its way");
    outgoing.post(letter("ann@example.com"));
    outgoing.settle(Duration::from_secs(1)).await;
    assert!(start.elapsed() >= Duration::from_secs(1));
    sender.release(1);
    outgoing.settle(Duration::from_hours(1)).await;
    assert_eq!(outgoing.counts().sent, 1);
}
