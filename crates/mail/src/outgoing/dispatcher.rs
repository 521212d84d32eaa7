use std::collections::BinaryHeap;
use std::sync::Arc;

use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep_until};

use super::Shared;
use super::counts::Outcome;
use super::drops::Drops;
use super::letter::{Paused, Posted};
use super::verdict::Next;
use crate::{SendError, Sender, Templates};

/// The task that empties the queue.
pub(super) struct Dispatcher {
    shared: Arc<Shared>,
    inbox: mpsc::UnboundedReceiver<Posted>,
    paused: BinaryHeap<Paused>,
    running: JoinSet<(Posted, Result<(), SendError>)>,
    sender: Arc<dyn Sender>,
    templates: Templates,
    /// Counts pauses, to order those that end at the same time.
    pauses: u64,
    drops: Drops,
}

impl Dispatcher {
    pub(super) fn new(
        shared: Arc<Shared>,
        inbox: mpsc::UnboundedReceiver<Posted>,
        sender: Arc<dyn Sender>,
        templates: Templates,
    ) -> Self {
        let (paused, running, drops) = (BinaryHeap::new(), JoinSet::new(), Drops::default());
        Self { shared, inbox, paused, running, sender, templates, pauses: 0, drops }
    }

    /// Runs until every handle is dropped and no letter is left.
    pub(super) async fn run(mut self) {
        let shared = self.shared.clone();
        let mut is_closing = false;
        let mut is_open = true;
        while is_open || !self.paused.is_empty() || !self.running.is_empty() {
            let has_room = self.running.len() < shared.policy.concurrency.max(1);
            let next = self.paused.peek().map(|paused| if is_closing { Instant::now() } else { paused.due });
            let has_news = self.drops.has_news(&shared);
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
                () = sleep_until(self.drops.next_report), if has_news => self.drops.report(&shared),
                () = shared.dropped.notified(), if !has_news => {}
                () = sleep_until(next.unwrap_or(self.drops.next_report)), if has_room && next.is_some() => {
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
        self.drops.report(&shared);
    }

    fn start(&mut self, posted: Posted) {
        let (sender, templates) = (self.sender.clone(), self.templates.clone());
        self.running.spawn(posted.attempt(sender, templates, self.shared.ambient.clone()));
    }

    fn settle(&mut self, posted: Posted, result: &Result<(), SendError>, is_closing: bool) {
        let is_first = posted.attempts == 1;
        let last = is_closing.then_some("the program ends");
        let outcome = match self.shared.decide(&posted, result, last) {
            Next::Done => Outcome::Sent,
            Next::GiveUp(_) => Outcome::Failed,
            Next::Again(pause) => {
                self.pauses += 1;
                self.paused.push(Paused { due: Instant::now() + pause, number: self.pauses, posted });
                Outcome::Again
            }
        };
        self.shared.state.send_modify(|state| state.settle(is_first, outcome));
    }
}
