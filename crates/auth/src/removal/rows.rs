use gatewright_base::UserId;
use gatewright_db::{Db, Error, Row, Step, params};
use jiff::{SignedDuration, Timestamp};

use crate::EmailAddress;

/// The accounts that are being deleted, in the table `users_deletions`. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Deletions(Db);

/// The name under which the table is brought up to date.
pub(crate) const COMPONENT: &str = "account_deletions";

/// The steps that make the table. There is no foreign key: a row outlives its account.
pub(crate) const MIGRATIONS: &[Step] = &[Step {
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
}];

/// An account that is being deleted.
#[derive(Debug, Clone)]
pub(crate) struct Deletion {
    pub(crate) user: UserId,
    /// Its address, as long as something may still be found by it.
    pub(crate) email: Option<EmailAddress>,
    /// Who wants it: `owner` or `operator`.
    pub(crate) method: String,
}

/// How long requests that were under way when it began may still write something for the account.
pub(super) const SETTLED: SignedDuration = SignedDuration::from_secs(60);
/// How long a server has for one pass before another one tries too.
const LEASE: SignedDuration = SignedDuration::from_mins(5);

impl Deletions {
    pub(crate) fn new(db: Db) -> Self {
        Self(db)
    }

    /// Notes that an account goes: of any number of concurrent calls one gets `true`.
    pub(super) async fn begin(&self, deletion: &Deletion, now: Timestamp) -> Result<bool, Error> {
        let sql = "INSERT INTO users_deletions (user_id, email, method, begun_at, next_at) VALUES (?1, ?2, ?3, ?4, ?5) \
                   ON CONFLICT (user_id) DO NOTHING";
        let email = deletion.email.as_ref().map(EmailAddress::as_str);
        let params = params![&deletion.user, email, deletion.method.as_str(), now, later(now, SETTLED)];
        Ok(self.0.execute(sql, params).await? > 0)
    }

    /// The account stays.
    pub(super) async fn withdraw(&self, user: &UserId) -> Result<(), Error> {
        self.0.execute("DELETE FROM users_deletions WHERE user_id = ?1", params![user]).await.map(|_| ())
    }

    /// Takes the next one that has waited long enough, for this server alone.
    pub(super) async fn claim(&self, now: Timestamp) -> Result<Option<Deletion>, Error> {
        let sql = "SELECT user_id FROM users_deletions WHERE next_at <= ?1 ORDER BY next_at LIMIT 1";
        let Some(row) = self.0.query_opt(sql, params![now]).await? else { return Ok(None) };
        let user: UserId = row.get("user_id")?;
        let sql = "UPDATE users_deletions SET next_at = ?3 WHERE user_id = ?1 AND next_at <= ?2 \
                   RETURNING user_id, email, method";
        let claimed = self.0.write_rows(sql, params![user, now, later(now, LEASE)]).await?;
        claimed.first().map(read).transpose()
    }

    /// Forgets the address too: what is left to do needs the id alone.
    pub(super) async fn forget_address(&self, user: &UserId) -> Result<(), Error> {
        self.0.execute("UPDATE users_deletions SET email = NULL WHERE user_id = ?1", params![user]).await.map(|_| ())
    }

    /// Nothing is left of the account.
    pub(super) async fn end(&self, user: &UserId) -> Result<(), Error> {
        self.withdraw(user).await
    }
}

fn later(at: Timestamp, by: SignedDuration) -> Timestamp {
    at.checked_add(by).unwrap_or(Timestamp::MAX)
}

fn read(row: &Row) -> Result<Deletion, Error> {
    let email = row.get::<Option<String>>("email")?;
    Ok(Deletion {
        user: row.get("user_id")?,
        email: email.and_then(|email| EmailAddress::parse(&email).ok()),
        method: row.get("method")?,
    })
}
