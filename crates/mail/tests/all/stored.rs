//! The queue in a database, on each engine: its rows, its senders, and the actions of operators.

use std::collections::HashSet;
use std::sync::Arc;

use futures_util::future::join_all;
use gatewright_base::{Ambient, ManualClock, Secret};
use gatewright_db::params;
use gatewright_db::testing::{TestDb, engines};
use gatewright_mail::stored::{ListMails, MailKeys, MailQueue, MailStatus, QueuedMail, Retry, StoredCounts};
use gatewright_mail::{Kind, Letter, Outgoing, QueuePolicy, Sender};
use jiff::SignedDuration;

use crate::support::{Answer, CANARY, Scripted, letter, soon, templates};

const SECRET: &str = "a secret of at least thirty-two bytes";

/// A database that several servers share.
struct Site {
    db: TestDb,
    ambient: Ambient,
    clock: Arc<ManualClock>,
}

impl Site {
    async fn each() -> Vec<Self> {
        let start = "2026-01-02T03:04:05Z".parse().unwrap();
        let sites = engines().await.into_iter().map(|db| {
            let (ambient, clock) = Ambient::manual(start, 7);
            Self { db, ambient, clock }
        });
        sites.collect()
    }

    async fn queue(&self) -> MailQueue {
        MailQueue::open(self.db.db.clone(), self.ambient.clone(), true).await.unwrap()
    }

    /// A server that sends with `sender`.
    async fn server(&self, sender: impl Sender) -> (Outgoing, MailQueue) {
        self.server_with(sender, SECRET).await
    }

    async fn server_with(&self, sender: impl Sender, secret: &str) -> (Outgoing, MailQueue) {
        let queue = self.queue().await;
        let keys = MailKeys::new(&Secret::new(secret), &[]);
        let policy = QueuePolicy::default();
        (Outgoing::start_stored(Arc::new(sender), templates(), policy, queue.clone(), keys), queue)
    }

    fn wait(&self, minutes: i64) {
        self.clock.advance(SignedDuration::from_mins(minutes));
    }

    /// Letters that a server could not send and has left behind.
    async fn left_behind(&self, recipients: impl IntoIterator<Item = String>) -> MailQueue {
        let (outgoing, queue) = self.server(Scripted::new([], Answer::Later)).await;
        recipients.into_iter().for_each(|to| outgoing.post(letter(&to)));
        assert_eq!(outgoing.drain(std::time::Duration::from_secs(30)).await, 0);
        queue
    }
}

async fn all(queue: &MailQueue) -> Vec<QueuedMail> {
    queue.list(&ListMails { limit: 200, ..ListMails::default() }).await.unwrap()
}

/// Returns once the table has the expected content.
async fn until(queue: &MailQueue, counts: StoredCounts) {
    soon(async {
        while queue.counts().await.unwrap() != counts {
            tokio::time::sleep(std::time::Duration::from_millis(5)).await;
        }
    })
    .await;
}

#[tokio::test]
async fn a_letter_that_was_not_sent_survives_a_restart_and_shows_no_secret() {
    for site in Site::each().await {
        let first = Scripted::new([], Answer::Later);
        let (outgoing, queue) = site.server(first.clone()).await;
        outgoing.post(letter("ann@example.com").code(Secret::new(format!("{CANARY}-code"))));
        soon(outgoing.until(|counts| counts.retries == 1 && counts.waiting == 0)).await;
        outgoing.drain(std::time::Duration::from_secs(5)).await;

        let [mail] = &all(&queue).await[..] else { panic!("one letter") };
        assert_eq!((mail.kind.as_str(), mail.recipient.as_str()), ("magic_link", "ann@example.com"));
        assert_eq!((mail.status, mail.attempts, mail.last_error.as_deref()), (MailStatus::Pending, 1, Some("not now")));
        assert!(mail.next_attempt_at.unwrap() > mail.created_at);
        let rows = site.db.db.query("SELECT * FROM mail_queue", Vec::new()).await.unwrap();
        let sealed: Vec<u8> = rows[0].get("sealed").unwrap();
        assert!(!format!("{rows:?} {mail:?}").contains(CANARY));
        assert!(!sealed.windows(CANARY.len()).any(|part| part == CANARY.as_bytes()));

        site.wait(1);
        let second = Scripted::new([], Answer::Sent);
        let (outgoing, queue) = site.server(second.clone()).await;
        until(&queue, StoredCounts::default()).await;
        let (before, after) = (&first.attempts()[0].1, &second.attempts()[0].1);
        assert_eq!(
            (after.id, after.written_at),
            (before.id, before.written_at),
            "mail servers drop duplicates by the id"
        );
        assert_eq!(after.text, before.text);
        assert!(after.text.expose().contains(&format!("{CANARY}-code")));
        // It is counted after its row is gone.
        soon(outgoing.until(|counts| counts.sent == 1)).await;
    }
}

#[tokio::test]
async fn each_letter_is_sent_by_one_of_three_servers() {
    for site in Site::each().await {
        site.left_behind((0..30).map(|number| format!("user{number}@example.com"))).await;
        site.wait(1);
        let sender = Scripted::new([], Answer::Sent);
        let servers = join_all((0..3).map(|_| site.server(sender.clone()))).await;
        until(&servers[0].1, StoredCounts::default()).await;
        for (outgoing, _) in &servers {
            outgoing.drain(std::time::Duration::from_secs(5)).await;
        }
        let sent: Vec<_> = sender.attempts().iter().map(|(_, mail)| mail.id).collect();
        assert_eq!((sent.len(), sent.iter().collect::<HashSet<_>>().len()), (30, 30), "{}", site.db.name);
    }
}

#[tokio::test]
async fn a_letter_of_a_server_that_crashed_is_sent_when_its_lease_ends() {
    for site in Site::each().await {
        let held = Scripted::held();
        let (outgoing, queue) = site.server(held.clone()).await;
        outgoing.post(letter("ann@example.com"));
        soon(async {
            while held.attempts().is_empty() {
                tokio::task::yield_now().await;
            }
        })
        .await;
        outgoing.drain(std::time::Duration::ZERO).await;
        let id = all(&queue).await[0].id.clone();
        assert_eq!(all(&queue).await[0].status, MailStatus::Sending);
        assert_eq!(queue.retry(&id).await.unwrap(), Retry::Sending, "another server may be sending it");

        site.wait(6);
        let sender = Scripted::new([], Answer::Sent);
        let (_outgoing, queue) = site.server(sender.clone()).await;
        until(&queue, StoredCounts::default()).await;
        assert_eq!(sender.attempts()[0].1.id.to_string(), id);
    }
}

#[tokio::test]
async fn an_operator_retries_a_letter_that_was_refused() {
    for site in Site::each().await {
        let sender = Scripted::new([Answer::Never], Answer::Sent);
        let (outgoing, queue) = site.server(sender.clone()).await;
        outgoing.post(letter("ann@example.com"));
        until(&queue, StoredCounts { failed: 1, ..StoredCounts::default() }).await;
        let [mail] = &all(&queue).await[..] else { panic!("one letter") };
        assert_eq!((mail.status, mail.last_error.as_deref()), (MailStatus::Failed, Some("never")));
        assert_eq!(mail.next_attempt_at, None);
        assert!(matches!(queue.retry(&mail.id).await.unwrap(), Retry::Due(mail) if mail.attempts == 0));
        until(&queue, StoredCounts::default()).await;
        soon(outgoing.until(|counts| counts.sent == 1)).await;
        assert_eq!(sender.attempts().len(), 2);
        assert_eq!(queue.retry(&mail.id).await.unwrap(), Retry::Missing);
    }
}

#[tokio::test]
async fn one_of_twenty_parallel_discards_of_a_letter_succeeds() {
    for site in Site::each().await {
        let queue = site.left_behind(["ann@example.com".to_owned()]).await;
        let id = all(&queue).await[0].id.clone();
        let tries = join_all((0..20).map(|_| queue.discard(&id))).await;
        let done: Vec<_> = tries.into_iter().filter_map(Result::unwrap).collect();
        assert_eq!(done.iter().map(|mail| mail.recipient.as_str()).collect::<Vec<_>>(), ["ann@example.com"]);
        assert_eq!(queue.retry(&id).await.unwrap(), Retry::Missing);
    }
}

#[tokio::test]
async fn a_link_that_has_expired_is_removed_and_never_sent() {
    for site in Site::each().await {
        let queue = site.left_behind(["ann@example.com".to_owned()]).await;
        let id = all(&queue).await[0].id.clone();
        site.wait(16);
        assert_eq!(queue.retry(&id).await.unwrap(), Retry::Expired, "not even before it is swept");
        let sender = Scripted::new([], Answer::Sent);
        let (_outgoing, queue) = site.server(sender.clone()).await;
        until(&queue, StoredCounts { expired: 1, ..StoredCounts::default() }).await;
        let rows = site.db.db.query("SELECT sealed FROM mail_queue", Vec::new()).await.unwrap();
        assert_eq!(rows[0].get::<Option<Vec<u8>>>("sealed").unwrap(), None);
        assert_eq!(all(&queue).await[0].last_error.as_deref(), Some("not now"), "the error is still of use");
        assert_eq!(queue.retry(&id).await.unwrap(), Retry::Expired);
        assert!(sender.attempts().is_empty());

        site.wait(15 * 24 * 60);
        let (_outgoing, queue) = site.server(sender).await;
        until(&queue, StoredCounts::default()).await;
    }
}

#[tokio::test]
async fn a_recipient_has_few_letters_of_a_kind_and_the_newest_ones() {
    for site in Site::each().await {
        let (outgoing, queue) = site.server(Scripted::new([], Answer::Later)).await;
        let notice = Letter { kind: Kind::NewDevice, ..letter("ann@example.com") };
        outgoing.post(notice);
        for _ in 0..15 {
            outgoing.post(letter("ann@example.com"));
        }
        outgoing.drain(std::time::Duration::from_secs(30)).await;
        let mails = all(&queue).await;
        let count = |kind: &str| mails.iter().filter(|mail| mail.kind == kind).count();
        assert_eq!((count("magic_link"), count("new_device")), (10, 1), "a flood takes no notice's place");
        assert_eq!(queue.forget("ann@example.com").await.unwrap(), 11);
    }
}

#[tokio::test]
async fn a_full_table_accepts_no_letter_and_drops_the_oldest_failures() {
    for site in Site::each().await {
        let queue = site.queue().await;
        let fill = async |status: &str, count: i64| {
            let sql = "WITH RECURSIVE numbers(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM numbers WHERE n < ?4) \
                       INSERT INTO mail_queue \
                       (id, kind, recipient, status, attempts, created_at, next_attempt_at, expires_at) \
                       SELECT ?1 || CAST(100000 + n AS TEXT), 'magic_link', 'ben@example.com', ?1, 1, ?2, ?3, ?3 \
                       FROM numbers";
            let now = site.ambient.now();
            let params = params![status, now, now + SignedDuration::from_hours(24), count];
            site.db.db.execute(sql, params).await.unwrap();
        };
        fill("pending", 10_000).await;
        fill("failed", 10_002).await;
        let sender = Scripted::new([], Answer::Sent);
        let (outgoing, _) = site.server(sender.clone()).await;
        until(&queue, StoredCounts { pending: 10_000, failed: 10_000, expired: 0 }).await;
        let oldest = "SELECT MIN(id) AS id FROM mail_queue WHERE status = 'failed'";
        let oldest = site.db.db.query(oldest, Vec::new()).await.unwrap()[0].get::<String>("id").unwrap();
        assert_eq!(oldest, "failed100003", "{}", site.db.name);
        outgoing.post(letter("ann@example.com"));
        outgoing.until(|counts| counts.dropped == 1).await;
        assert!(sender.attempts().is_empty(), "{}", site.db.name);
        // There is room again.
        assert_eq!(queue.forget("ben@example.com").await.unwrap(), 20_000);
        outgoing.post(letter("ann@example.com"));
        outgoing.until(|counts| counts.sent == 1).await;
    }
}

#[tokio::test]
async fn letters_wait_in_the_table_while_the_mail_server_hangs() {
    for site in Site::each().await {
        let held = Scripted::held();
        let (outgoing, queue) = site.server(held.clone()).await;
        for number in 0..100 {
            outgoing.post(letter(&format!("user{number}@example.com")));
        }
        until(&queue, StoredCounts { pending: 100, ..StoredCounts::default() }).await;
        soon(outgoing.until(|counts| counts.waiting == 4)).await;
        let list = async |status| {
            let list = ListMails { status: Some(status), limit: 200, ..ListMails::default() };
            queue.list(&list).await.unwrap().len()
        };
        assert_eq!((list(MailStatus::Sending).await, list(MailStatus::Pending).await), (4, 100));
        held.release(100);
        until(&queue, StoredCounts::default()).await;
        assert_eq!(held.recipients().into_iter().collect::<HashSet<_>>().len(), 100);
        assert!(held.most_running() <= 4);
    }
}

#[tokio::test]
async fn a_letter_of_a_former_secret_is_given_up_with_the_reason() {
    for site in Site::each().await {
        site.left_behind(["ann@example.com".to_owned()]).await;
        site.wait(1);
        let sender = Scripted::new([], Answer::Sent);
        let (_outgoing, queue) = site.server_with(sender.clone(), "another secret of thirty-two bytes").await;
        until(&queue, StoredCounts { expired: 1, ..StoredCounts::default() }).await;
        assert!(all(&queue).await[0].last_error.as_deref().unwrap().contains("auth.jwt_secret"));
        assert!(sender.attempts().is_empty());
    }
}

#[tokio::test]
async fn a_letter_is_tried_once_while_the_database_is_unavailable() {
    for site in Site::each().await {
        let sender = Scripted::new([Answer::Sent], Answer::Later);
        let (outgoing, _) = site.server(sender.clone()).await;
        site.db.db.close().await;
        outgoing.post(letter("ann@example.com"));
        outgoing.post(letter("ben@example.com"));
        soon(outgoing.until(|counts| counts.sent == 1 && counts.failed == 1)).await;
        assert_eq!(sender.attempts().len(), 2);
    }
}
