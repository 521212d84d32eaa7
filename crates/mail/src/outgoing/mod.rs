//! The queue between the request that needs a mail and the mail server.
//!
//! [`Outgoing`] is the request's side: [`post`](Outgoing::post) only counts the letter and puts it into a channel. The
//! dispatcher is the other side, one task: it starts a few attempts at a time, each in a separate task, and keeps
//! letters that failed temporarily until their pause is over ([`RetryPolicy`]).
//!
//! This queue is in memory, and is lost with the process. A queue in a database ([`Outgoing::start_stored`]) uses another
//! task behind the same handle.

mod counts;
mod dispatcher;
mod drops;
mod letter;
mod retry;
mod verdict;

use std::sync::Arc;
use std::time::Duration;

use gatewright_base::Ambient;
use tokio::sync::{Notify, mpsc, watch};
use tokio::task::AbortHandle;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

pub use counts::Counts;
#[cfg(feature = "sql")]
pub(crate) use counts::Outcome;
pub(crate) use counts::State;
#[cfg(feature = "sql")]
pub(crate) use drops::Drops;
pub(crate) use letter::Posted;
pub use retry::RetryPolicy;
#[cfg(feature = "sql")]
pub(crate) use verdict::Next;

use self::dispatcher::Dispatcher;
use crate::{Letter, Sender, Templates};

/// The size and the retries of the queue.
#[derive(Debug, Clone, Copy)]
pub struct QueuePolicy {
    /// How many letters may wait, including those between two attempts: 1,000. Further ones are dropped.
    pub capacity: usize,
    /// How many attempts run at the same time: 4.
    pub concurrency: usize,
    /// What happens after a temporary failure.
    pub retry: RetryPolicy,
}

impl Default for QueuePolicy {
    fn default() -> Self {
        Self { capacity: 1000, concurrency: 4, retry: RetryPolicy::default() }
    }
}

/// The outgoing queue. Cheap to clone; all clones are one queue.
///
/// After the last clone is dropped, the queue still sends its letters. To stop it in order, [`drain`](Self::drain) it.
#[derive(Debug, Clone)]
pub struct Outgoing {
    shared: Arc<Shared>,
    letters: mpsc::UnboundedSender<Posted>,
    /// The queue in a database.
    #[cfg(feature = "sql")]
    stored: Option<(crate::stored::MailQueue, Arc<crate::stored::MailKeys>)>,
    /// Closed when the dispatcher has ended.
    ended: watch::Receiver<()>,
    dispatcher: AbortHandle,
}

/// Why a letter is not in the queue.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum NotQueued {
    /// Too many letters wait, or the queue is closed.
    #[error("the mail queue is full")]
    Full,
    /// The database failed.
    #[error("the mail could not be stored: {0}")]
    Storing(String),
}

/// State that both sides of the queue share.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) policy: QueuePolicy,
    pub(crate) ambient: Ambient,
    pub(crate) state: watch::Sender<State>,
    /// A letter was dropped, which the dispatcher is to log.
    pub(crate) dropped: Notify,
    pub(crate) closing: CancellationToken,
}

impl Outgoing {
    /// Starts a queue whose mails `sender` sends.
    ///
    /// # Panics
    /// Outside a Tokio runtime.
    pub fn start(sender: Arc<dyn Sender>, templates: Templates, ambient: Ambient, policy: QueuePolicy) -> Self {
        Self::run(ambient, policy, |shared, inbox| Dispatcher::new(shared, inbox, sender, templates).run())
    }

    /// Starts a queue that keeps its letters in a database until `sender` has taken them away.
    ///
    /// # Panics
    /// Outside a Tokio runtime.
    #[cfg(feature = "sql")]
    pub fn start_stored(
        sender: Arc<dyn Sender>,
        templates: Templates,
        policy: QueuePolicy,
        queue: crate::stored::MailQueue,
        keys: crate::stored::MailKeys,
    ) -> Self {
        let keys = Arc::new(keys);
        let stored = Some((queue.clone(), keys.clone()));
        let outgoing = Self::run(queue.ambient().clone(), policy, |shared, inbox| {
            crate::stored::Worker::new(shared, inbox, sender, templates, queue, keys).run()
        });
        Self { stored, ..outgoing }
    }

    fn run<F>(
        ambient: Ambient,
        policy: QueuePolicy,
        work: impl FnOnce(Arc<Shared>, mpsc::UnboundedReceiver<Posted>) -> F,
    ) -> Self
    where
        F: Future<Output = ()> + Send + 'static,
    {
        let state = watch::Sender::new(State::default());
        let (dropped, closing) = (Notify::new(), CancellationToken::new());
        let shared = Arc::new(Shared { policy, ambient, state, dropped, closing });
        // Not a bounded channel: the limit also counts letters that wait for their next attempt.
        let (letters, inbox) = mpsc::unbounded_channel();
        let (end, ended) = watch::channel(());
        let work = work(shared.clone(), inbox);
        let task = tokio::spawn(async move {
            work.await;
            drop(end);
        });
        let dispatcher = task.abort_handle();
        Self {
            shared,
            letters,
            #[cfg(feature = "sql")]
            stored: None,
            ended,
            dispatcher,
        }
    }

    /// Puts a letter into the queue.
    ///
    /// Takes the same short time whatever happens to the letter, and returns nothing: a full (or closed) queue drops
    /// it, and logs this later.
    pub fn post(&self, letter: Letter) {
        let Shared { policy, ambient, state, dropped, .. } = &*self.shared;
        let posted = Posted::new(letter, ambient.now());
        let mut is_admitted = false;
        state.send_modify(|state| is_admitted = state.admit(policy.capacity));
        if !is_admitted {
            dropped.notify_one();
        } else if self.letters.send(posted).is_err() {
            // The dispatcher went away with its runtime.
            state.send_modify(State::abandon_one);
        }
    }

    /// Puts a letter of a function into the queue, which keeps half of its room for others. With a queue in a database, it is stored
    /// there when this returns.
    pub async fn offer(&self, letter: Letter) -> Result<(), NotQueued> {
        let Shared { policy, ambient, state, .. } = &*self.shared;
        let posted = Posted::new(letter, ambient.now());
        #[cfg(feature = "sql")]
        if let Some((queue, keys)) = &self.stored {
            return match queue.store(&posted, keys).await {
                Ok(true) => Ok(()),
                Ok(false) => Err(NotQueued::Full),
                Err(error) => Err(NotQueued::Storing(error.to_string())),
            };
        }
        let mut is_admitted = false;
        state.send_modify(|state| is_admitted = state.admit((policy.capacity / 2).max(1)));
        if !is_admitted {
            return Err(NotQueued::Full);
        }
        if self.letters.send(posted).is_err() {
            state.send_modify(State::abandon_one);
            return Err(NotQueued::Full);
        }
        Ok(())
    }

    /// The counts so far.
    pub fn counts(&self) -> Counts {
        self.shared.state.borrow().counts
    }

    /// Returns when `reached` is true for the counts.
    pub async fn until(&self, mut reached: impl FnMut(&Counts) -> bool) {
        let mut state = self.shared.state.subscribe();
        // The state lives as long as this handle does.
        let _ = state.wait_for(|state| reached(&state.counts)).await;
    }

    /// Returns after every letter had its first attempt, or after `at_most`. The development mailbox then has the mails
    /// that were just requested.
    pub async fn settle(&self, at_most: Duration) {
        let _ = timeout(at_most, self.until(|counts| counts.untried == 0)).await;
    }

    /// Stops the queue: accepts no more letters, tries once more to send the queued ones, and drops the rest after
    /// `within`. Returns how many were dropped. Letters in a database stay there for the next server.
    pub async fn drain(&self, within: Duration) -> u64 {
        self.shared.closing.cancel();
        self.shared.state.send_modify(State::close);
        let mut ended = self.ended.clone();
        let _ = timeout(within, async { while ended.changed().await.is_ok() {} }).await;
        self.dispatcher.abort();
        let mut abandoned = 0;
        self.shared.state.send_modify(|state| abandoned = state.abandon_all());
        if abandoned > 0 {
            tracing::warn!(abandoned, "mails were not sent before the program ended");
        }
        abandoned
    }
}
