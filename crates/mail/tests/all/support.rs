use std::collections::VecDeque;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use gatewright_base::{Ambient, Clock, Secret, SeededRng};
use gatewright_mail::{
    Kind, Letter, Mail, Mailbox, Outgoing, QueuePolicy, RetryPolicy, SendError, Sender, Smtp, SmtpSettings, SmtpUrl,
    Templates,
};
use jiff::{SignedDuration, Timestamp};
use tokio::sync::Semaphore;
use tokio::time::Instant;

/// A word that must be in no log.
pub(crate) const CANARY: &str = "canary-4f2a9c";

/// A sign-in letter to this address, with [`CANARY`] in its link, good for 15 minutes.
pub(crate) fn letter(to: &str) -> Letter {
    let link = Secret::new(format!("https://app.example.com/auth/magic-link/verify?token={CANARY}"));
    Letter::new(Kind::MagicLink, to, link, Duration::from_mins(15))
}

pub(crate) fn templates() -> Templates {
    Templates::load("Example", None).unwrap()
}

/// A queue for this sender whose time is Tokio's, so that a paused runtime has one clock.
pub(crate) fn queue(sender: impl Sender, policy: QueuePolicy) -> Outgoing {
    Outgoing::start(Arc::new(sender), templates(), ambient(), policy)
}

pub(crate) fn ambient() -> Ambient {
    Ambient::new(Arc::new(TokioClock(Instant::now())), Arc::new(SeededRng::new(7)))
}

/// 2026-01-02 03:04:05 UTC, and then as much later as Tokio's clock says.
struct TokioClock(Instant);

impl Clock for TokioClock {
    fn now(&self) -> Timestamp {
        let start: Timestamp = "2026-01-02T03:04:05Z".parse().unwrap();
        start + SignedDuration::try_from(self.0.elapsed()).unwrap()
    }
}

/// A queue for the server at this URL, with short pauses.
pub(crate) fn smtp_queue(url: &str) -> Outgoing {
    let url = SmtpUrl::parse(&Secret::new(url)).unwrap();
    let from = Mailbox::parse("Example <noreply@example.com>").unwrap();
    queue(Smtp::new(SmtpSettings::new(url, from)).unwrap(), impatient())
}

/// Waits for something that depends on another program, up to a limit.
pub(crate) async fn soon<T>(what: impl Future<Output = T>) -> T {
    tokio::time::timeout(Duration::from_mins(1), what).await.expect("it happens within a minute")
}

pub(crate) fn impatient() -> QueuePolicy {
    let retry = RetryPolicy { max_attempts: 1000, base: Duration::from_millis(5), longest: Duration::from_millis(20) };
    QueuePolicy { retry, ..QueuePolicy::default() }
}

/// A scripted sender that records its calls.
#[derive(Clone)]
pub(crate) struct Scripted(Arc<Inner>);

struct Inner {
    answers: Mutex<VecDeque<Answer>>,
    otherwise: Answer,
    /// A permit for every attempt that may end.
    gate: Semaphore,
    attempts: Mutex<Vec<(Instant, Mail)>>,
    running: AtomicUsize,
    most_running: AtomicUsize,
}

#[derive(Debug, Clone)]
pub(crate) enum Answer {
    Sent,
    Later,
    Never,
    Panic,
}

impl Scripted {
    /// Gives these answers, and then `otherwise`.
    pub(crate) fn new(answers: impl IntoIterator<Item = Answer>, otherwise: Answer) -> Self {
        Self(Arc::new(Inner {
            answers: Mutex::new(answers.into_iter().collect()),
            otherwise,
            gate: Semaphore::new(Semaphore::MAX_PERMITS),
            attempts: Mutex::default(),
            running: AtomicUsize::new(0),
            most_running: AtomicUsize::new(0),
        }))
    }

    /// Sends everything, each mail only when [`release`](Self::release)d.
    pub(crate) fn held() -> Self {
        let scripted = Self::new([], Answer::Sent);
        scripted.0.gate.forget_permits(Semaphore::MAX_PERMITS);
        scripted
    }

    pub(crate) fn release(&self, attempts: usize) {
        self.0.gate.add_permits(attempts);
    }

    /// When attempts began, and with which mail.
    pub(crate) fn attempts(&self) -> Vec<(Instant, Mail)> {
        self.0.attempts.lock().unwrap().clone()
    }

    pub(crate) fn recipients(&self) -> Vec<String> {
        self.attempts().iter().map(|(_, mail)| mail.to.to_string()).collect()
    }

    pub(crate) fn most_running(&self) -> usize {
        self.0.most_running.load(Ordering::SeqCst)
    }
}

#[async_trait]
impl Sender for Scripted {
    async fn send(&self, mail: &Mail) -> Result<(), SendError> {
        self.0.attempts.lock().unwrap().push((Instant::now(), mail.clone()));
        let running = self.0.running.fetch_add(1, Ordering::SeqCst) + 1;
        self.0.most_running.fetch_max(running, Ordering::SeqCst);
        self.0.gate.acquire().await.unwrap().forget();
        self.0.running.fetch_sub(1, Ordering::SeqCst);
        let answer = self.0.answers.lock().unwrap().pop_front().unwrap_or_else(|| self.0.otherwise.clone());
        match answer {
            Answer::Sent => Ok(()),
            Answer::Later => Err(SendError::temporary("not now")),
            Answer::Never => Err(SendError::permanent("never")),
            Answer::Panic => panic!("the sender fell over"),
        }
    }
}
