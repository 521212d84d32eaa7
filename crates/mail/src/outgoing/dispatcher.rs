use std::collections::BinaryHeap;
use std::sync::Arc;
use std::time::Duration;

use jiff::SignedDuration;
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep_until};

use super::Shared;
use super::counts::Outcome;
use super::letter::{Paused, Posted};
use crate::{SendError, Sender, Templates};

/// The shortest time between two log lines about dropped letters.
const BETWEEN_REPORTS: Duration = Duration::from_secs(10);

/// The task that empties the queue.
pub(super) struct Dispatcher {
    shared: Arc<Shared>,
    inbox: mpsc::UnboundedReceiver<Posted>,
    paused: BinaryHeap<Paused>,
    running: JoinSet<(Posted, Result<(), SendError>)>,
    sender: Arc<dyn Sender>,
    templates: Templates,
    /// Counts pauses, to keep those that end together in order.
    pauses: u64,
    /// How many dropped letters the log knows of.
    reported: u64,
    next_report: Instant,
}

/// What the log says of an attempt, and what it leads to.
enum Next {
    Done,
    GiveUp(&'static str),
    Again(Duration),
}

impl Dispatcher {
    pub(super) fn new(
        shared: Arc<Shared>,
        inbox: mpsc::UnboundedReceiver<Posted>,
        sender: Arc<dyn Sender>,
        templates: Templates,
    ) -> Self {
        let (paused, running, next_report) = (BinaryHeap::new(), JoinSet::new(), Instant::now());
        Self { shared, inbox, paused, running, sender, templates, pauses: 0, reported: 0, next_report }
    }

    /// Works until nobody can post any more and nothing is left.
    pub(super) async fn run(mut self) {
        let shared = self.shared.clone();
        let mut is_closing = false;
        let mut is_open = true;
        while is_open || !self.paused.is_empty() || !self.running.is_empty() {
            let has_room = self.running.len() < shared.policy.concurrency.max(1);
            let next = self.paused.peek().map(|paused| if is_closing { Instant::now() } else { paused.due });
            let has_news = shared.state.borrow().counts.dropped > self.reported;
            tokio::select! {
                biased;
                Some(attempt) = self.running.join_next(), if !self.running.is_empty() => {
                    let (posted, result) = attempt.expect("an attempt catches panics and nobody cancels it");
                    self.settle(posted, &result, is_closing);
                }
                () = shared.closing.cancelled(), if !is_closing => {
                    is_closing = true;
                    self.inbox.close();
                }
                () = sleep_until(self.next_report), if has_news => self.report_drops(),
                () = shared.dropped.notified(), if !has_news => {}
                () = sleep_until(next.unwrap_or(self.next_report)), if has_room && next.is_some() => {
                    if let Some(paused) = self.paused.pop() {
                        self.start(paused.posted);
                    }
                }
                posted = self.inbox.recv(), if has_room && is_open => match posted {
                    Some(posted) => self.start(posted),
                    None => is_open = false,
                },
            }
        }
        self.report_drops();
    }

    fn start(&mut self, posted: Posted) {
        let (sender, templates) = (self.sender.clone(), self.templates.clone());
        self.running.spawn(posted.attempt(sender, templates, self.shared.ambient.clone()));
    }

    /// Decides what becomes of a letter after an attempt, and logs it: never more of the address than its domain.
    fn settle(&mut self, posted: Posted, result: &Result<(), SendError>, is_closing: bool) {
        let next = match result {
            Ok(()) => Next::Done,
            Err(error) if error.is_permanent() => Next::GiveUp("it cannot be sent"),
            Err(_) if is_closing => Next::GiveUp("the program ends"),
            Err(_) => self.pause(&posted).map_or_else(Next::GiveUp, Next::Again),
        };
        let (kind, domain, attempt) = (posted.kind(), posted.domain(), posted.attempts);
        let is_first = attempt == 1;
        let reason = result.as_ref().err().map(tracing::field::display);
        let outcome = match next {
            Next::Done => {
                tracing::debug!(kind, domain, attempt, "mail sent");
                Outcome::Sent
            }
            Next::GiveUp(why) => {
                tracing::error!(kind, domain, attempt, reason, "mail given up: {why}");
                Outcome::Failed
            }
            Next::Again(pause) => {
                tracing::warn!(kind, domain, attempt, reason, ?pause, "mail not sent, trying again after a pause");
                self.pauses += 1;
                self.paused.push(Paused { due: Instant::now() + pause, number: self.pauses, posted });
                Outcome::Again
            }
        };
        self.shared.state.send_modify(|state| state.settle(is_first, outcome));
    }

    /// How long to wait before the next attempt, or why there is none.
    fn pause(&self, posted: &Posted) -> Result<Duration, &'static str> {
        let Shared { policy, ambient, .. } = &*self.shared;
        let random = u32::from_le_bytes(ambient.bytes());
        let pause = policy.retry.pause(posted.attempts, random).ok_or("it was tried too often")?;
        let signed = SignedDuration::try_from(pause).unwrap_or(SignedDuration::MAX);
        let is_in_time = ambient.now().checked_add(signed).is_ok_and(|at| at < posted.expires_at);
        if is_in_time { Ok(pause) } else { Err("its link would have expired") }
    }

    /// Says how many letters were dropped since the last time. Here and not where they are dropped, so that a full
    /// queue answers as fast as one with room, and a flood makes few lines.
    fn report_drops(&mut self) {
        let total = self.shared.state.borrow().counts.dropped;
        let (dropped, capacity) = (total - self.reported, self.shared.policy.capacity);
        if dropped > 0 {
            tracing::error!(dropped, capacity, "mails dropped: the outgoing queue is full or closed");
        }
        self.reported = total;
        self.next_report = Instant::now() + BETWEEN_REPORTS;
    }
}
