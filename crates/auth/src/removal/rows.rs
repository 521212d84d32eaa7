use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use gatewright_base::UserId;
use gatewright_db::{Db, Error, Row, Share, Step, Tx, Value, dialect, params};
use jiff::{SignedDuration, Timestamp};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::email::EmailAddress;
use crate::open_session::OpenSession;

/// The accounts that are being deleted, in the table `users_deletions`. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Deletions {
    db: Db,
    sweeping: Arc<Semaphore>,
}

/// The name under which the table is brought up to date.
pub(crate) const COMPONENT: &str = "account_deletions";

/// The steps that create the table. There is no foreign key: a row outlives its account.
pub(crate) const MIGRATIONS: &[Step] = &[
    NOTES,
    Step { version: 2, name: "closed accounts", sql: "ALTER TABLE users_deletions ADD COLUMN closed_at {time}" },
];

const NOTES: Step = Step {
    version: 1,
    name: "account deletions",
    sql: "CREATE TABLE users_deletions (
            user_id {text} PRIMARY KEY,
            email {text},
            method {text} NOT NULL,
            begun_at {time} NOT NULL,
            next_at {time} NOT NULL
          );
          CREATE INDEX users_deletions_next_at ON users_deletions (next_at)",
};

/// An account that is being deleted.
#[derive(Debug, Clone)]
pub(crate) struct Deletion {
    pub(crate) user: UserId,
    /// Its address, if it was proven and as long as it may still be needed to find data.
    pub(super) email: Option<EmailAddress>,
    pub(super) requested_by: RequestedBy,
    /// Whether nothing prevents it now.
    pub(super) is_closed: bool,
}

/// The result of a request to delete an account.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Noted {
    Done,
    ClosedAlready,
    /// The session that requested it has ended.
    SessionEnded,
}

/// The requester of a deletion.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RequestedBy {
    /// The owner of the account. A tenant keeps its last owner.
    Owner,
    /// An operator. Tenants may lose their last owner.
    Operator,
}

/// How long requests that were in progress at the beginning may still write something for the account.
const SETTLED: SignedDuration = SignedDuration::from_secs(60);
/// How long a server has for one pass before another one tries too.
const LEASE: SignedDuration = SignedDuration::from_mins(5);
/// How often a long pass extends its lease.
pub(super) const RENEWED: Duration = Duration::from_mins(1);

impl Deletions {
    pub(crate) fn new(db: Db) -> Self {
        Self { db, sweeping: Arc::new(Semaphore::new(1)) }
    }

    /// The permission to sweep, if no other task of this process does.
    pub(super) fn sweep_turn(&self) -> Option<OwnedSemaphorePermit> {
        self.sweeping.clone().try_acquire_owned().ok()
    }

    /// The database that they are in.
    pub(super) fn database(&self) -> &Db {
        &self.db
    }

    /// Notes the request to delete an account. That of a session is noted only if the session may still act: what ends it takes
    /// the account's lock.
    pub(super) async fn note(
        &self,
        deletion: &Deletion,
        open: Option<OpenSession>,
        now: Timestamp,
    ) -> Result<Noted, Error> {
        let sql = "INSERT INTO users_deletions (user_id, email, method, begun_at, next_at) VALUES (?1, ?2, ?3, ?4, ?5) \
                   ON CONFLICT (user_id) DO UPDATE \
                   SET email = excluded.email, method = excluded.method, next_at = excluded.next_at \
                   WHERE users_deletions.closed_at IS NULL";
        let values = values(deletion, now);
        let note = async move |tx: &Tx| -> Result<Noted, Error> {
            if let Some(open) = &open
                && !open.holds(tx).await?
            {
                return Ok(Noted::SessionEnded);
            }
            Ok(if tx.execute(sql, values.clone()).await? > 0 { Noted::Done } else { Noted::ClosedAlready })
        };
        self.db.writing_for(Share::of_user(&deletion.user)).write(note).await
    }

    /// Closes the account: of any number of concurrent calls, one gets `true`.
    pub(super) async fn close(&self, deletion: &Deletion, now: Timestamp) -> Result<bool, Error> {
        // The note may be gone: a concurrent request may have been refused a moment ago.
        let sql = "INSERT INTO users_deletions (user_id, email, method, begun_at, next_at, closed_at) \
                   VALUES (?1, ?2, ?3, ?4, ?5, ?4) \
                   ON CONFLICT (user_id) DO UPDATE SET closed_at = excluded.closed_at, next_at = excluded.next_at \
                   WHERE users_deletions.closed_at IS NULL";
        Ok(self.db.execute(sql, values(deletion, now)).await? > 0)
    }

    /// The account stays.
    pub(super) async fn drop_note(&self, user: &UserId) -> Result<(), Error> {
        let sql = "DELETE FROM users_deletions WHERE user_id = ?1 AND closed_at IS NULL";
        self.db.execute(sql, params![user]).await.map(|_| ())
    }

    /// Whether the account is closed.
    pub(crate) async fn is_closed(&self, user: &UserId) -> Result<bool, Error> {
        Ok(!self.closed_among(std::slice::from_ref(user)).await?.is_empty())
    }

    /// The closed ones among these.
    pub(super) async fn closed_among(&self, users: &[UserId]) -> Result<HashSet<UserId>, Error> {
        let among = dialect::is_among(self.db.engine(), "user_id", "?1");
        let ids: Vec<&str> = users.iter().map(UserId::as_str).collect();
        let sql = format!("SELECT user_id FROM users_deletions WHERE {among} AND closed_at IS NOT NULL");
        let rows = self.db.query(sql, params![serde_json::Value::from(ids).to_string()]).await?;
        rows.iter().map(|row| row.get("user_id")).collect()
    }

    /// Claims the next one that has waited long enough, for this server.
    pub(super) async fn claim(&self, now: Timestamp) -> Result<Option<Deletion>, Error> {
        let sql = "SELECT user_id FROM users_deletions WHERE next_at <= ?1 ORDER BY next_at LIMIT 1";
        let Some(row) = self.db.query_opt(sql, params![now]).await? else { return Ok(None) };
        let user: UserId = row.get("user_id")?;
        let sql = "UPDATE users_deletions SET next_at = ?3 WHERE user_id = ?1 AND next_at <= ?2 \
                   RETURNING user_id, email, method, closed_at";
        let claimed = self.db.write_rows(sql, params![user, now, later(now, LEASE)]).await?;
        claimed.first().map(read).transpose()
    }

    /// Extends the lease of this server.
    pub(super) async fn renew(&self, user: &UserId, now: Timestamp) -> Result<(), Error> {
        let sql = "UPDATE users_deletions SET next_at = ?2 WHERE user_id = ?1";
        self.db.execute(sql, params![user, later(now, LEASE)]).await.map(|_| ())
    }

    /// Removes the address too: the remaining steps only need the id.
    pub(super) async fn forget_address(&self, user: &UserId) -> Result<(), Error> {
        self.db.execute("UPDATE users_deletions SET email = NULL WHERE user_id = ?1", params![user]).await.map(|_| ())
    }

    /// All data of the account is removed.
    pub(super) async fn end(&self, user: &UserId) -> Result<(), Error> {
        self.db.execute("DELETE FROM users_deletions WHERE user_id = ?1", params![user]).await.map(|_| ())
    }
}

impl RequestedBy {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Owner => "owner",
            Self::Operator => "operator",
        }
    }
}

/// The values that both statements insert.
fn values(deletion: &Deletion, now: Timestamp) -> Vec<Value> {
    let email = deletion.email.as_ref().map(EmailAddress::as_str);
    params![&deletion.user, email, deletion.requested_by.name(), now, later(now, SETTLED)]
}

fn later(at: Timestamp, by: SignedDuration) -> Timestamp {
    at.checked_add(by).unwrap_or(Timestamp::MAX)
}

fn read(row: &Row) -> Result<Deletion, Error> {
    let email = row.get::<Option<String>>("email")?;
    let method = row.get::<String>("method")?;
    Ok(Deletion {
        user: row.get("user_id")?,
        email: email.and_then(|email| EmailAddress::parse(&email).ok()),
        requested_by: if method == RequestedBy::Operator.name() { RequestedBy::Operator } else { RequestedBy::Owner },
        is_closed: row.get::<Option<Timestamp>>("closed_at")?.is_some(),
    })
}
