//! The mail queue in a database: letters that wait for a server, or that no server accepted.
//!
//! A letter is stored before its first attempt and removed after it was sent, so that it survives a restart. Several
//! servers may share the table: each letter is claimed by a lease, and only the holder of the lease settles it. The
//! letter's link and code are encrypted with the server's key ([`MailKeys`]), never shown, and removed when the link
//! expires.
//!
//! [`MailQueue`] is the operator's side: it lists, retries and discards. [`Outgoing::start_stored`](crate::Outgoing) sends.

mod rows;
mod sealed;
mod steps;
mod worker;

use std::sync::Arc;

use gatewright_base::Ambient;
use gatewright_db::{Db, Lane, MigrateError, Share};
use jiff::Timestamp;
use serde::Serialize;
use tokio::sync::Notify;

pub use sealed::MailKeys;
pub use steps::{COMPONENT, STEPS};
pub(crate) use worker::Worker;

/// The stored letters. Cheap to clone; a retry through any clone wakes the sender of this process.
#[derive(Debug, Clone)]
pub struct MailQueue {
    db: Db,
    ambient: Ambient,
    wake: Arc<Notify>,
}

/// The queue cannot be opened.
#[derive(Debug, thiserror::Error)]
pub enum MailQueueInitError {
    /// The table is missing, and the operator must create it.
    #[error("the table of the mail queue is missing or outdated; run `gatewright migrate`")]
    Missing,
    /// The table could not be prepared.
    #[error("the table of the mail queue could not be prepared: {0}")]
    Database(#[from] MigrateError),
}

/// The state of a stored letter.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum MailStatus {
    /// It waits for its next attempt.
    Pending,
    /// A server is sending it now.
    Sending,
    /// It was given up. An operator can retry it until its link expires.
    Failed,
    /// Its link has expired. It is kept for a while to be seen, without its link.
    Expired,
}

impl MailStatus {
    /// The word in the admin API and in the table; the table has no `sending`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Pending => "pending",
            Self::Sending => "sending",
            Self::Failed => "failed",
            Self::Expired => "expired",
        }
    }

    /// Reads the word.
    pub fn parse(word: &str) -> Option<Self> {
        [Self::Pending, Self::Sending, Self::Failed, Self::Expired].into_iter().find(|status| status.as_str() == word)
    }
}

/// A stored letter as an operator sees it: without its link and its code.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct QueuedMail {
    /// Its id, a UUID v7.
    pub id: String,
    /// The purpose: the name of a [`Kind`](crate::Kind).
    pub kind: String,
    /// The recipient's address.
    pub recipient: String,
    /// Its state.
    pub status: MailStatus,
    /// How often sending was tried.
    pub attempts: i64,
    /// Why the last attempt failed, without addresses, links and codes.
    pub last_error: Option<String>,
    /// When it was written.
    pub created_at: Timestamp,
    /// The time of the next attempt; `None` unless it is pending.
    pub next_attempt_at: Option<Timestamp>,
    /// When its link expires.
    pub expires_at: Timestamp,
}

/// A filter for letters. All given conditions must hold.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ListMails {
    /// Letters with this status.
    pub status: Option<MailStatus>,
    /// Letters to this address.
    pub recipient: Option<String>,
    /// Letters after this id in the list.
    pub after: Option<String>,
    /// At most this many, 1 to 200.
    pub limit: u32,
}

/// How many letters the table has.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct StoredCounts {
    /// Pending ones, including those being sent.
    pub pending: i64,
    /// Given up.
    pub failed: i64,
    /// Expired.
    pub expired: i64,
}

/// The result of an operator's retry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Retry {
    /// The letter is due now, with the full number of attempts.
    Due(QueuedMail),
    /// A server is sending it at this moment.
    Sending,
    /// Its link has expired, so it would be useless.
    Expired,
    /// The letter does not exist: it was sent, discarded, or never there.
    Missing,
}

impl MailQueue {
    /// The queue in `db`. A missing table is made with `create`, and refused without.
    pub async fn open(db: Db, ambient: Ambient, create: bool) -> Result<Self, MailQueueInitError> {
        if create {
            gatewright_db::migrate(&db, COMPONENT, STEPS).await?;
        } else if !gatewright_db::pending(&db, COMPONENT, STEPS).await?.is_empty() {
            return Err(MailQueueInitError::Missing);
        }
        // Reads of the queue delay no sign-in.
        Ok(Self { db: db.lane(Lane::Lists(Share(u64::MAX))), ambient, wake: Arc::new(Notify::new()) })
    }

    pub(crate) fn ambient(&self) -> &Ambient {
        &self.ambient
    }
}
