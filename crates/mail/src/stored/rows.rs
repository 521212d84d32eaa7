//! The statements of the mail queue. Each transition is one statement that names the state it expects, so that of several
//! servers and operators one wins.

use gatewright_db::{Error, ReadablePage, Row, Tx, Value, params};
use jiff::{SignedDuration, Timestamp};

use super::{ListMails, MailQueue, MailStatus, QueuedMail, Retry, StoredCounts};
use crate::Kind;

/// Limit of waiting letters. Further ones are dropped.
const MAX_PENDING: i64 = 10_000;
/// Most letters of one kind for one recipient, except those of functions. A new one takes the place of the oldest, so that the newest link arrives.
const MAX_ALIKE: i64 = 10;
/// Most letters that failed or expired.
const MOST_OVER: i64 = 10_000;
/// How long letters that failed or expired are kept.
const KEEP: SignedDuration = SignedDuration::from_hours(14 * 24);
/// Most characters of an error that are stored.
const LONGEST_ERROR: usize = 300;

/// The right to settle a letter.
#[derive(Debug, Clone)]
pub(super) struct Claim {
    pub(super) id: String,
    pub(super) lease: String,
}

/// A letter to store.
#[derive(Debug, Clone)]
pub(super) struct NewRow {
    pub(super) id: String,
    pub(super) kind: &'static str,
    pub(super) recipient: String,
    pub(super) created_at: Timestamp,
    pub(super) expires_at: Timestamp,
    pub(super) sealed: Vec<u8>,
    /// The server that stores it sends it at once, and has until then.
    pub(super) lease: Option<(String, Timestamp)>,
}

/// A letter that this server is to send.
#[derive(Debug)]
pub(super) struct Claimed {
    pub(super) claim: Claim,
    pub(super) kind: String,
    pub(super) recipient: String,
    /// This attempt included.
    pub(super) attempts: i64,
    pub(super) created_at: Timestamp,
    pub(super) expires_at: Timestamp,
    pub(super) sealed: Vec<u8>,
}

/// What happens to a letter whose attempt failed.
#[derive(Debug, Clone, Copy)]
pub(super) enum After {
    /// It is tried again at this moment.
    Again(Timestamp),
    /// It is not tried again, except on an operator's request.
    GivenUp,
    /// It can never be sent.
    Over,
}

const SHOWN: &str = "id, kind, recipient, status, attempts, last_error, created_at, next_attempt_at, expires_at, \
                     lease IS NOT NULL AS is_leased";

impl MailQueue {
    /// Stores a letter; `false` if there is no room.
    pub(super) async fn add(&self, row: NewRow) -> Result<bool, Error> {
        self.db
            .write(async move |tx: &Tx| -> Result<bool, Error> {
                let pending = "SELECT COUNT(*) FROM mail_queue WHERE status = 'pending'";
                let is_functions = row.kind == Kind::Function.name();
                // Functions leave room for the mails of signing in.
                let most = if is_functions { MAX_PENDING / 2 } else { MAX_PENDING };
                if tx.count(pending, Vec::new()).await? >= most {
                    return Ok(false);
                }
                let oldest = "SELECT id FROM mail_queue WHERE recipient = ?1 AND kind = ?2 ORDER BY id DESC \
                              LIMIT 1 OFFSET ?3";
                let alike = params![&row.recipient, row.kind, MAX_ALIKE - 1];
                if !is_functions && let Some(oldest) = tx.query_opt(oldest, alike).await? {
                    let surplus = "DELETE FROM mail_queue WHERE recipient = ?1 AND kind = ?2 AND id <= ?3";
                    let oldest: String = oldest.get("id")?;
                    tx.execute(surplus, params![&row.recipient, row.kind, oldest]).await?;
                }
                let insert = "INSERT INTO mail_queue (id, kind, recipient, status, attempts, created_at, \
                              next_attempt_at, expires_at, lease, sealed) \
                              VALUES (?1, ?2, ?3, 'pending', ?4, ?5, ?6, ?7, ?8, ?9)";
                let (lease, due) = row.lease.clone().unzip();
                let values = params![
                    &row.id,
                    row.kind,
                    &row.recipient,
                    i64::from(lease.is_some()),
                    row.created_at,
                    due.unwrap_or(row.created_at),
                    row.expires_at,
                    lease,
                    row.sealed.clone(),
                ];
                tx.execute(insert, values).await?;
                Ok(true)
            })
            .await
    }

    /// Claims due letters, at most `most`, for this server until `until`.
    pub(super) async fn claim(&self, most: usize, until: Timestamp) -> Result<Vec<Claimed>, Error> {
        let now = self.ambient.now();
        let due = "SELECT id FROM mail_queue WHERE status = 'pending' AND next_attempt_at <= ?1 \
                   ORDER BY next_attempt_at LIMIT ?2";
        let most = i64::try_from(most).unwrap_or(i64::MAX);
        let due = self.db.query(due, params![now, most]).await?;
        let mut claimed = Vec::with_capacity(due.len());
        for row in &due {
            let id: String = row.get("id")?;
            let lease = self.ambient.uuid().to_string();
            // Bytes: of one letter, which has a link and no contents of callers.
            let take = "UPDATE mail_queue SET lease = ?3, next_attempt_at = ?4, attempts = attempts + 1 \
                        WHERE id = ?1 AND status = 'pending' AND next_attempt_at <= ?2 AND sealed IS NOT NULL \
                        RETURNING kind, recipient, attempts, created_at, expires_at, sealed";
            let taken = self.db.write_rows(take, params![&id, now, &lease, until]).await?;
            let Some(row) = taken.first() else { continue };
            claimed.push(Claimed {
                claim: Claim { id, lease },
                kind: row.get("kind")?,
                recipient: row.get("recipient")?,
                attempts: row.get("attempts")?,
                created_at: row.get("created_at")?,
                expires_at: row.get("expires_at")?,
                sealed: row.get("sealed")?,
            });
        }
        Ok(claimed)
    }

    /// Removes a letter that was sent, with its link.
    pub(super) async fn sent(&self, claim: &Claim) -> Result<(), Error> {
        let sql = "DELETE FROM mail_queue WHERE id = ?1 AND lease = ?2";
        self.db.execute(sql, params![&claim.id, &claim.lease]).await.map(|_| ())
    }

    /// Notes a failed attempt.
    pub(super) async fn failed(&self, claim: &Claim, error: &str, after: After) -> Result<(), Error> {
        let error: String = error.chars().take(LONGEST_ERROR).collect();
        let now = self.ambient.now();
        let (status, next, forget) = match after {
            After::Again(at) => ("pending", at, ""),
            After::GivenUp => ("failed", now, ""),
            After::Over => ("expired", now, ", sealed = NULL"),
        };
        let sql = format!(
            "UPDATE mail_queue SET status = ?3, next_attempt_at = ?4, last_error = ?5, lease = NULL{forget} \
             WHERE id = ?1 AND lease = ?2"
        );
        self.db.execute(sql, params![&claim.id, &claim.lease, status, next, error]).await.map(|_| ())
    }

    /// Removes the links that have expired, and the letters that were kept long enough.
    pub(super) async fn sweep(&self) -> Result<u64, Error> {
        let now = self.ambient.now();
        let expired = "UPDATE mail_queue SET status = 'expired', sealed = NULL, lease = NULL \
                       WHERE sealed IS NOT NULL AND expires_at <= ?1 AND (lease IS NULL OR next_attempt_at <= ?1)";
        let mut changed = self.db.execute(expired, params![now]).await?;
        let old = "DELETE FROM mail_queue WHERE status IN ('failed', 'expired') AND created_at <= ?1";
        changed += self.db.execute(old, params![now.checked_sub(KEEP).unwrap_or(Timestamp::MIN)]).await?;
        let surplus = "DELETE FROM mail_queue WHERE status IN ('failed', 'expired') AND id <= \
                       (SELECT id FROM mail_queue WHERE status IN ('failed', 'expired') \
                        ORDER BY id DESC LIMIT 1 OFFSET ?1)";
        changed += self.db.execute(surplus, params![MOST_OVER]).await?;
        Ok(changed)
    }

    /// Letters, the newest first.
    pub async fn list(&self, list: &ListMails) -> Result<Vec<QueuedMail>, Error> {
        let mut params: Vec<Value> = Vec::new();
        let mut conditions = vec!["1 = 1".to_owned()];
        let mut condition = |sql: &str, value: Value| {
            params.push(value);
            conditions.push(sql.replace('$', &format!("?{}", params.len())));
        };
        if let Some(status) = list.status {
            let (word, and) = match status {
                MailStatus::Sending => ("pending", " AND lease IS NOT NULL"),
                other => (other.as_str(), ""),
            };
            condition(&format!("status = ${and}"), word.into());
        }
        if let Some(recipient) = &list.recipient {
            condition("recipient = $", recipient.into());
        }
        if let Some(after) = &list.after {
            condition("id < $", after.into());
        }
        let sql = format!(
            "SELECT {SHOWN} FROM mail_queue WHERE {} ORDER BY id DESC LIMIT ?{}",
            conditions.join(" AND "),
            params.len() + 1
        );
        let now = self.ambient.now();
        let mut page = ReadablePage::new("mail_queue", list.limit.clamp(1, 200));
        loop {
            let params = params.iter().cloned().chain([Value::Int(page.asked())]).collect();
            page.add_all(&self.db.query(sql.clone(), params).await?, |row| shown(row, now))?;
            match page.finish()? {
                Ok(found) => return Ok(found),
                Err(longer) => page = longer,
            }
        }
    }

    /// The number of letters.
    pub async fn counts(&self) -> Result<StoredCounts, Error> {
        let sql = "SELECT status, COUNT(*) AS letters FROM mail_queue GROUP BY status";
        let mut counts = StoredCounts::default();
        for row in &self.db.query(sql, Vec::new()).await? {
            let letters = row.get("letters")?;
            match row.get::<String>("status")?.as_str() {
                "pending" => counts.pending = letters,
                "failed" => counts.failed = letters,
                _ => counts.expired = letters,
            }
        }
        Ok(counts)
    }

    /// When the oldest pending letter was stored.
    pub async fn oldest_pending(&self) -> Result<Option<Timestamp>, Error> {
        let sql = "SELECT MIN(created_at) AS oldest FROM mail_queue WHERE status = 'pending'";
        self.db.query_opt(sql, Vec::new()).await?.map_or(Ok(None), |row| row.get("oldest"))
    }

    /// Makes a letter due now. Its attempts count from the start again.
    pub async fn retry(&self, id: &str) -> Result<Retry, Error> {
        let now = self.ambient.now();
        let sql = format!(
            "UPDATE mail_queue SET status = 'pending', attempts = 0, next_attempt_at = ?2, lease = NULL \
             WHERE id = ?1 AND sealed IS NOT NULL AND expires_at > ?2 AND (lease IS NULL OR next_attempt_at <= ?2) \
             RETURNING {SHOWN}"
        );
        let due = self.db.write_rows(sql, params![id, now]).await?;
        if let Some(row) = due.first() {
            self.wake.notify_one();
            return Ok(Retry::Due(shown(row, now)?));
        }
        let found = self.db.query_opt(format!("SELECT {SHOWN} FROM mail_queue WHERE id = ?1"), params![id]).await?;
        let Some(found) = found else { return Ok(Retry::Missing) };
        Ok(match shown(&found, now)?.status {
            MailStatus::Sending => Retry::Sending,
            // Pending or failed, and not claimed: its link has just expired.
            MailStatus::Pending | MailStatus::Failed | MailStatus::Expired => Retry::Expired,
        })
    }

    /// Removes a letter with its link. One that is being sent at this moment may still arrive.
    pub async fn discard(&self, id: &str) -> Result<Option<QueuedMail>, Error> {
        let sql = format!("DELETE FROM mail_queue WHERE id = ?1 RETURNING {SHOWN}");
        let now = self.ambient.now();
        self.db.write_rows(sql, params![id]).await?.first().map(|row| shown(row, now)).transpose()
    }

    /// Removes all letters to an address, as when its account is deleted.
    pub async fn forget(&self, recipient: &str) -> Result<u64, Error> {
        self.db.execute("DELETE FROM mail_queue WHERE recipient = ?1", params![recipient]).await
    }
}

fn shown(row: &Row, now: Timestamp) -> Result<QueuedMail, Error> {
    let next: Timestamp = row.get("next_attempt_at")?;
    let status = match row.get::<String>("status")?.as_str() {
        "pending" if row.get::<bool>("is_leased")? && next > now => MailStatus::Sending,
        "pending" => MailStatus::Pending,
        "failed" => MailStatus::Failed,
        _ => MailStatus::Expired,
    };
    Ok(QueuedMail {
        id: row.get("id")?,
        kind: row.get("kind")?,
        recipient: row.get("recipient")?,
        status,
        attempts: row.get("attempts")?,
        last_error: row.get("last_error")?,
        created_at: row.get("created_at")?,
        next_attempt_at: (status == MailStatus::Pending).then_some(next),
        expires_at: row.get("expires_at")?,
    })
}
