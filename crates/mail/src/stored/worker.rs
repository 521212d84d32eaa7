//! The sender of a stored queue: one task on each server.

use std::sync::Arc;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep_until, timeout};

use super::rows::{After, Claim, Claimed, NewRow};
use super::sealed::Place;
use super::{MailKeys, MailQueue};
use crate::outgoing::{Drops, Next, Outcome, Posted, Shared};
use crate::{Kind, Letter, SendError, Sender, Templates};

/// How often the table is queried for letters that other servers and operators have made due.
const POLL: Duration = Duration::from_secs(5);
/// How often expired links are removed.
const SWEEP: Duration = Duration::from_mins(1);
/// How long one attempt may take.
const ATTEMPT: Duration = Duration::from_secs(150);
/// How long a letter belongs to the server that sends it: longer than an attempt and its settlement.
const LEASE: SignedDuration = SignedDuration::from_mins(5);

/// The task that sends stored letters.
pub(crate) struct Worker {
    shared: Arc<Shared>,
    inbox: mpsc::UnboundedReceiver<Posted>,
    sender: Arc<dyn Sender>,
    templates: Templates,
    queue: MailQueue,
    keys: Arc<MailKeys>,
    running: JoinSet<(Sent, Result<(), SendError>)>,
    drops: Drops,
    /// When the table is read next.
    look_at: Instant,
    sweep_at: Instant,
    /// Letters wait in the table for a free place.
    has_backlog: bool,
}

/// A letter and its row.
struct Sent {
    posted: Posted,
    /// `None` if it could not be stored: it has only this one attempt.
    claim: Option<Claim>,
    /// It came from this process a moment ago, not from the table.
    is_fresh: bool,
}

impl Worker {
    pub(crate) fn new(
        shared: Arc<Shared>,
        inbox: mpsc::UnboundedReceiver<Posted>,
        sender: Arc<dyn Sender>,
        templates: Templates,
        queue: MailQueue,
        keys: Arc<MailKeys>,
    ) -> Self {
        let (look_at, sweep_at) = (Instant::now(), Instant::now());
        let (running, drops) = (JoinSet::new(), Drops::default());
        Self { shared, inbox, sender, templates, queue, keys, running, drops, look_at, sweep_at, has_backlog: false }
    }

    /// Runs until every handle is dropped and no attempt runs. The remaining letters stay in the table.
    pub(crate) async fn run(mut self) {
        let (shared, queue) = (self.shared.clone(), self.queue.clone());
        let (mut is_closing, mut is_open) = (false, true);
        while is_open || !self.running.is_empty() {
            let has_room = self.free() > 0;
            let has_news = self.drops.has_news(&shared);
            tokio::select! {
                biased;
                Some(ended) = self.running.join_next(), if !self.running.is_empty() => {
                    let (sent, result) = ended.expect("an attempt catches panics and nobody cancels it");
                    self.settle(sent, result).await;
                }
                () = shared.closing.cancelled(), if !is_closing => {
                    is_closing = true;
                    self.inbox.close();
                }
                () = sleep_until(self.drops.next_report), if has_news => self.drops.report(&shared),
                () = shared.dropped.notified(), if !has_news => {}
                posted = self.inbox.recv(), if is_open => match posted {
                    Some(posted) => self.take(posted).await,
                    None => is_open = false,
                },
                () = queue.wake.notified(), if is_open => self.look_at = Instant::now(),
                () = sleep_until(self.look_at), if has_room && is_open && !is_closing => self.look().await,
            }
        }
        self.drops.report(&shared);
    }

    fn free(&self) -> usize {
        self.shared.policy.concurrency.max(1).saturating_sub(self.running.len())
    }

    /// Stores a letter, and sends it at once if there is room.
    async fn take(&mut self, mut posted: Posted) {
        let has_room = self.free() > 0;
        let ambient = self.shared.ambient.clone();
        let (id, now) = (ambient.uuid(), ambient.now());
        posted.identify(id, now);
        let (id, letter) = (id.to_string(), posted.letter());
        let lease = has_room.then(|| ambient.uuid().to_string());
        let mut row = NewRow::new(letter, &id, (now, posted.expires_at), &self.keys);
        row.lease = lease.clone().map(|lease| (lease, leased_until(now)));
        match (self.queue.add(row).await, lease) {
            (Ok(true), Some(lease)) => self.start(posted, Some(Claim { id, lease }), true),
            (Ok(true), None) => {
                self.has_backlog = true;
                self.count(true, Outcome::Stored);
            }
            (Ok(false), _) => self.count(true, Outcome::Dropped),
            (Err(error), Some(_)) => {
                tracing::warn!(kind = posted.kind(), %error, "mail not stored; it is sent once, without retries");
                self.start(posted, None, true);
            }
            (Err(error), None) => {
                tracing::error!(kind = posted.kind(), %error, "mail given up: it could not be stored");
                self.count(true, Outcome::Failed);
            }
        }
    }

    /// Takes letters that are due from the table.
    async fn look(&mut self) {
        self.look_at = Instant::now() + POLL;
        if self.sweep_at <= Instant::now() {
            self.sweep_at = Instant::now() + SWEEP;
            match self.queue.sweep().await {
                Ok(0) => {}
                Ok(letters) => tracing::debug!(letters, "expired mails were removed from the mail queue"),
                Err(error) => tracing::warn!(%error, "cannot remove expired mails from the mail queue"),
            }
        }
        let free = self.free();
        let claimed = match self.queue.claim(free, leased_until(self.shared.ambient.now())).await {
            Ok(claimed) => claimed,
            Err(error) => return tracing::warn!(%error, "cannot read the mail queue; it is read again in 5 s"),
        };
        self.has_backlog = claimed.len() == free;
        for claimed in claimed {
            let claim = claimed.claim.clone();
            match self.read(&claimed) {
                Ok(posted) => {
                    self.shared.state.send_modify(crate::outgoing::State::restore);
                    self.start(posted, Some(claim), false);
                }
                Err(error) => {
                    tracing::error!(kind = claimed.kind, error, "mail given up");
                    self.note(&claim, error, After::Over).await;
                }
            }
        }
    }

    /// The letter of a row.
    fn read(&self, claimed: &Claimed) -> Result<Posted, &'static str> {
        Kind::parse(&claimed.kind).ok_or("its kind is not known to this version")?;
        let place = Place { id: &claimed.claim.id, kind: &claimed.kind, recipient: &claimed.recipient };
        let mut letter = self
            .keys
            .open(&claimed.sealed, place)
            .ok_or("it cannot be opened: was `auth.jwt_secret` changed without keeping the previous one?")?;
        let lifetime = claimed.expires_at.duration_since(claimed.created_at);
        letter.lifetime = Duration::try_from(lifetime).unwrap_or_default();
        let id = claimed.claim.id.parse().map_err(|_| "its id is not a UUID")?;
        let before = u32::try_from(claimed.attempts.saturating_sub(1)).unwrap_or(u32::MAX);
        let mut posted = Posted::new(letter, claimed.created_at);
        posted.identify(id, claimed.created_at);
        posted.attempts = before;
        Ok(posted)
    }

    fn start(&mut self, posted: Posted, claim: Option<Claim>, is_fresh: bool) {
        let (sender, templates, ambient) = (self.sender.clone(), self.templates.clone(), self.shared.ambient.clone());
        let sender: Arc<dyn Sender> = Arc::new(Timed(sender));
        self.running.spawn(async move {
            let (posted, result) = posted.attempt(sender, templates, ambient).await;
            (Sent { posted, claim, is_fresh }, result)
        });
    }

    async fn settle(&mut self, sent: Sent, result: Result<(), SendError>) {
        let Sent { posted, claim, is_fresh } = sent;
        let only_once = claim.is_none().then_some("it could not be stored");
        let next = self.shared.decide(&posted, &result, only_once);
        let reason = result.err().map(|error| error.to_string()).unwrap_or_default();
        let outcome = match (next, &claim) {
            (Next::Done, claim) => {
                if let Some(claim) = claim
                    && let Err(error) = self.queue.sent(claim).await
                {
                    tracing::error!(%error, "mail sent but not removed from the queue; it may be sent again");
                }
                Outcome::Sent
            }
            (Next::GiveUp(_) | Next::Again(_), None) => Outcome::Failed,
            (Next::GiveUp(_), Some(claim)) => {
                let is_over = self.shared.ambient.now() >= posted.expires_at;
                self.note(claim, &reason, if is_over { After::Over } else { After::GivenUp }).await;
                Outcome::Failed
            }
            (Next::Again(pause), Some(claim)) => {
                let signed = SignedDuration::try_from(pause).unwrap_or(SignedDuration::MAX);
                let at = self.shared.ambient.now().checked_add(signed).unwrap_or(Timestamp::MAX);
                self.note(claim, &reason, After::Again(at)).await;
                self.look_at = self.look_at.min(Instant::now() + pause);
                Outcome::Kept
            }
        };
        if self.has_backlog {
            self.look_at = Instant::now();
        }
        self.count(is_fresh, outcome);
    }

    async fn note(&self, claim: &Claim, reason: &str, after: After) {
        if let Err(error) = self.queue.failed(claim, reason, after).await {
            // The lease ends, and the letter is tried again.
            tracing::warn!(%error, "cannot store a failed attempt in the mail queue");
        }
    }

    fn count(&self, is_first: bool, outcome: Outcome) {
        self.shared.state.send_modify(|state| state.settle(is_first, outcome));
    }
}

impl NewRow {
    fn new(letter: &Letter, id: &str, (created_at, expires_at): (Timestamp, Timestamp), keys: &MailKeys) -> Self {
        let (kind, recipient) = (letter.kind.name(), letter.to.to_string());
        let sealed = keys.seal(letter, Place { id, kind, recipient: &recipient });
        Self { id: id.to_owned(), kind, recipient, created_at, expires_at, sealed, lease: None }
    }
}

impl MailQueue {
    /// Stores a letter, which is then sent by any server; `false` if there is no room.
    pub(crate) async fn store(&self, posted: &Posted, keys: &MailKeys) -> Result<bool, gatewright_db::Error> {
        let id = self.ambient().uuid().to_string();
        let is_stored =
            self.add(NewRow::new(posted.letter(), &id, (self.ambient().now(), posted.expires_at), keys)).await?;
        self.wake.notify_one();
        Ok(is_stored)
    }
}

fn leased_until(now: Timestamp) -> Timestamp {
    now.checked_add(LEASE).unwrap_or(Timestamp::MAX)
}

/// A sender whose attempts end before their lease.
struct Timed(Arc<dyn Sender>);

#[async_trait::async_trait]
impl Sender for Timed {
    async fn send(&self, mail: &crate::Mail) -> Result<(), SendError> {
        match timeout(ATTEMPT, self.0.send(mail)).await {
            Ok(result) => result,
            Err(_) => Err(SendError::temporary(format!("the attempt took longer than {} s", ATTEMPT.as_secs()))),
        }
    }
}
