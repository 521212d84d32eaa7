//! A letter in the queue, and one attempt to send it.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use futures_util::FutureExt as _;
use gatewright_base::Ambient;
use jiff::{SignedDuration, Timestamp};
use tokio::time::Instant;
use uuid::Uuid;

use crate::{Address, Letter, Mail, SendError, Sender, Templates};

/// A letter in the queue.
pub(crate) struct Posted {
    letter: Letter,
    /// Its id and when it was written, once they are known.
    identity: Option<(Uuid, Timestamp)>,
    /// The time at which its link stops working.
    pub(crate) expires_at: Timestamp,
    /// How often it was tried.
    pub(crate) attempts: u32,
    /// The mail, once it is written. Later attempts send the same one.
    mail: Option<Arc<Mail>>,
}

/// A letter that waits for its next attempt. The one that is due first is the greatest.
pub(super) struct Paused {
    pub(super) due: Instant,
    /// Breaks ties in order of arrival.
    pub(super) number: u64,
    pub(super) posted: Posted,
}

impl Posted {
    pub(crate) fn new(letter: Letter, now: Timestamp) -> Self {
        let lifetime = SignedDuration::try_from(letter.lifetime).unwrap_or(SignedDuration::MAX);
        let expires_at = now.checked_add(lifetime).unwrap_or(Timestamp::MAX);
        Self { letter, identity: None, expires_at, attempts: 0, mail: None }
    }

    /// Gives it the id and the time that all attempts use, on every server.
    #[cfg(feature = "sql")]
    pub(crate) fn identify(&mut self, id: Uuid, written_at: Timestamp) {
        self.identity = Some((id, written_at));
    }

    #[cfg(feature = "sql")]
    pub(crate) fn letter(&self) -> &Letter {
        &self.letter
    }

    /// The kind's name, for logs.
    pub(crate) fn kind(&self) -> &'static str {
        self.letter.kind.name()
    }

    /// The recipient's domain, for logs.
    pub(crate) fn domain(&self) -> &str {
        self.mail.as_ref().map_or("", |mail| mail.to.domain())
    }

    /// Tries once, and writes the mail first if necessary. Never panics, even if the sender does.
    pub(crate) async fn attempt(
        mut self,
        sender: Arc<dyn Sender>,
        templates: Templates,
        ambient: Ambient,
    ) -> (Self, Result<(), SendError>) {
        self.attempts += 1;
        if ambient.now() >= self.expires_at {
            return (self, Err(SendError::permanent("its link has expired")));
        }
        let mail = match self.written(&templates, &ambient) {
            Ok(mail) => mail,
            Err(error) => return (self, Err(error)),
        };
        let sent = AssertUnwindSafe(async { sender.send(&mail).await }).catch_unwind().await;
        (self, sent.unwrap_or_else(|_| Err(SendError::permanent("the sender panicked"))))
    }

    fn written(&mut self, templates: &Templates, ambient: &Ambient) -> Result<Arc<Mail>, SendError> {
        if let Some(mail) = &self.mail {
            return Ok(mail.clone());
        }
        let to = Address::parse(&self.letter.to).map_err(|error| SendError::permanent(error.to_string()))?;
        let (id, written_at) = *self.identity.get_or_insert_with(|| (ambient.uuid(), ambient.now()));
        let mail = Arc::new(templates.write(&self.letter, to, id, written_at)?);
        self.mail = Some(mail.clone());
        Ok(mail)
    }
}

impl Ord for Paused {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        (other.due, other.number).cmp(&(self.due, self.number))
    }
}

impl PartialOrd for Paused {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Paused {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Paused {}
