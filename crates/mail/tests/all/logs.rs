use std::time::Duration;

use gatewright_base::Secret;
use gatewright_mail::{Address, DevMailbox, Kind, Letter, QueuePolicy, RetryPolicy};

use crate::support::{Answer, CANARY, Scripted, letter, queue};
use gatewright_base::testing::Log;

#[tokio::test(start_paused = true)]
async fn no_link_and_no_address_is_in_any_log_or_debug() {
    let log = Log::default();
    let _guard = log.record();
    let answers = [Answer::Later, Answer::Never, Answer::Sent, Answer::Panic, Answer::Later, Answer::Later];
    let sender = Scripted::new(answers, Answer::Later);
    let retry = RetryPolicy { max_attempts: 3, ..RetryPolicy::default() };
    let outgoing = queue(sender.clone(), QueuePolicy { capacity: 6, retry, ..QueuePolicy::default() });
    for kind in [Kind::MagicLink, Kind::EmailVerification, Kind::PasswordReset] {
        for to in [format!("{CANARY}@example.com"), format!("{CANARY} not an address"), format!("a@{CANARY}\r\n")] {
            let link = Secret::new(format!("https://app.example.com/{CANARY}?token={CANARY}"));
            let letter = Letter::new(kind, to, link, Duration::from_mins(1));
            tracing::info!(?letter, "a careless line");
            outgoing.post(letter);
        }
    }
    tracing::info!(?outgoing, "another");
    outgoing.until(|counts| counts.failed + counts.sent == 6 && counts.waiting == 0).await;
    for (_, mail) in sender.attempts() {
        assert!(mail.text.expose().contains(CANARY));
        tracing::info!(?mail, "a third");
    }
    outgoing.post(letter(&format!("{CANARY}@example.com")));
    outgoing.drain(Duration::from_secs(1)).await;
    let text = log.text();
    for expected in ["a careless line", "a third", "given up", "trying again", "dropped", "domain=\"example.com\""] {
        assert!(text.contains(expected), "{expected}: {text}");
    }
    assert!(!text.contains(CANARY), "{text}");
}

#[tokio::test]
async fn the_mailbox_shows_nothing_in_debug() {
    let mailbox = DevMailbox::new();
    let outgoing = queue(mailbox.clone(), QueuePolicy::default());
    outgoing.post(letter(&format!("{CANARY}@example.com")));
    outgoing.until(|counts| counts.sent == 1).await;
    let mail = mailbox.mails().pop().unwrap();
    assert_eq!(mail.to, Address::parse(&format!("{CANARY}@example.com")).unwrap());
    assert!(!format!("{mailbox:?} {mail:?}").contains(CANARY));
}
