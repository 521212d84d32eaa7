//! Changes of email addresses that can be undone. The [plugin](crate::plugins::email_change) makes and undoes them.

use gatewright_base::{UserId, time};
use gatewright_db::{Db, Error, Row, Sql, Step, dialect, params};
use jiff::{SignedDuration, Timestamp};
use serde_json::json;

use crate::email::EmailAddress;
use crate::single_use::TokenKey;

/// The changes that can be undone, in the table `users_email_changes`. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Changes {
    db: Db,
    sweep: Sql,
}

/// A change that can be undone.
#[derive(Debug, Clone)]
pub(crate) struct Change {
    pub(crate) key: TokenKey,
    pub(crate) user: UserId,
    pub(crate) old: EmailAddress,
    /// Whether its mailbox was proven to be the account's.
    pub(crate) old_was_proven: bool,
    /// Whether there was a second factor, which the undoing leaves.
    pub(crate) had_second_factor: bool,
    pub(crate) changed_at: Timestamp,
}

/// How long a change can be undone.
pub(crate) const UNDOABLE: SignedDuration = SignedDuration::from_hours(7 * 24);

/// The steps that make the table. There is no foreign key: users may live in a host's own store.
pub(crate) const MIGRATIONS: &[Step] = &[
    TABLE,
    Step {
        version: 2,
        name: "proven addresses",
        sql: "ALTER TABLE users_email_changes ADD COLUMN old_was_proven {bool}",
    },
];

const TABLE: Step = Step {
    version: 1,
    name: "email changes",
    sql: "CREATE TABLE users_email_changes (
            token_hash {bytes} PRIMARY KEY,
            user_id {text} NOT NULL,
            old_email {text} NOT NULL,
            had_second_factor {bool} NOT NULL,
            changed_at {time} NOT NULL,
            expires_at {time} NOT NULL
          );
          CREATE INDEX users_email_changes_user_id ON users_email_changes (user_id);
          CREATE INDEX users_email_changes_expires_at ON users_email_changes (expires_at)",
};

impl Changes {
    pub(crate) fn new(db: Db) -> Self {
        let sweep = dialect::delete_oldest(db.engine(), "users_email_changes", "token_hash", "expires_at").into();
        Self { db, sweep }
    }

    pub(crate) async fn put(&self, change: &Change) -> Result<(), Error> {
        let sql = "INSERT INTO users_email_changes \
                   (token_hash, user_id, old_email, had_second_factor, changed_at, expires_at, old_was_proven) \
                   VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)";
        let until = change.changed_at.saturating_add(UNDOABLE).unwrap_or(Timestamp::MAX);
        let values = params![
            change.key.as_bytes().to_vec(),
            &change.user,
            change.old.as_str(),
            change.had_second_factor,
            change.changed_at,
            until,
            change.old_was_proven
        ];
        self.db.execute(sql, values).await.map(|_| ())
    }

    /// The change with this key, if it can still be undone.
    pub(crate) async fn find(&self, key: TokenKey, now: Timestamp) -> Result<Option<Change>, Error> {
        let sql = "SELECT user_id, old_email, had_second_factor, changed_at, old_was_proven FROM users_email_changes \
                   WHERE token_hash = ?1 AND expires_at > ?2";
        let row = self.db.query_opt(sql, params![key.as_bytes().to_vec(), now]).await?;
        row.map(|row| read(key, &row)).transpose()
    }

    /// How many changes of an account can be undone.
    pub(crate) async fn count(&self, user: &UserId, now: Timestamp) -> Result<i64, Error> {
        let sql = "SELECT COUNT(*) AS found FROM users_email_changes WHERE user_id = ?1 AND expires_at > ?2";
        self.db.query_opt(sql, params![user, now]).await?.map_or(Ok(0), |row| row.get("found"))
    }

    /// Takes it: of concurrent callers one gets `true`.
    pub(crate) async fn take(&self, key: TokenKey) -> Result<bool, Error> {
        let sql = "DELETE FROM users_email_changes WHERE token_hash = ?1";
        Ok(self.db.execute(sql, params![key.as_bytes().to_vec()]).await? > 0)
    }

    /// The addresses that an account had before and could have again, for its export.
    pub(crate) async fn describe(&self, user: &UserId) -> Result<Vec<serde_json::Value>, Error> {
        let sql = "SELECT old_email, changed_at FROM users_email_changes WHERE user_id = ?1 ORDER BY changed_at";
        let change = |row: &Row| {
            let at: Timestamp = row.get("changed_at")?;
            Ok(json!({ "email": row.get::<String>("old_email")?, "changed_at": time::format(at) }))
        };
        self.db.query(sql, params![user]).await?.iter().map(change).collect()
    }

    /// The addresses that an account had before and could have again, and had proven to be its own.
    pub(crate) async fn proven_addresses(&self, user: &UserId) -> Result<Vec<EmailAddress>, Error> {
        let sql = "SELECT old_email FROM users_email_changes WHERE user_id = ?1 AND old_was_proven = ?2";
        let rows = self.db.query(sql, params![user, true]).await?;
        let texts = rows.iter().map(|row| row.get("old_email")).collect::<Result<Vec<String>, _>>()?;
        Ok(texts.iter().filter_map(|text| EmailAddress::parse(text).ok()).collect())
    }

    /// Removes all of an account: an undone change leaves no other to be undone.
    pub(crate) async fn forget(&self, user: &UserId) -> Result<(), Error> {
        self.db.execute("DELETE FROM users_email_changes WHERE user_id = ?1", params![user]).await.map(|_| ())
    }

    /// Removes those that can be undone no more.
    pub(crate) async fn sweep(&self, now: Timestamp, limit: u32) -> Result<u64, Error> {
        self.db.execute(&self.sweep, params![now, limit]).await
    }
}

fn read(key: TokenKey, row: &Row) -> Result<Change, Error> {
    let corrupt = |_| Error::Corrupt {
        statement: "a read of users_email_changes".to_owned(),
        column: "old_email".to_owned(),
        found: "text",
        expected: "an email address",
    };
    Ok(Change {
        key,
        user: row.get("user_id")?,
        old: EmailAddress::parse(&row.get::<String>("old_email")?).map_err(corrupt)?,
        old_was_proven: row.get::<Option<bool>>("old_was_proven")?.unwrap_or_default(),
        had_second_factor: row.get("had_second_factor")?,
        changed_at: row.get("changed_at")?,
    })
}
