//! Changes of email addresses that can be undone. The [plugin](crate::plugins::email_change) makes and undoes them.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use gatewright_base::{Secret, UserId, time};
use gatewright_db::{Db, Error, Row, Sql, Step, Tx, dialect, params};
use jiff::{SignedDuration, Timestamp};
use serde_json::json;

use crate::core::Core;
use crate::email::EmailAddress;
use crate::mail::notices;
use crate::mailbox::Holder;
use crate::single_use::links::Links;
use crate::single_use::{SingleUseToken, TokenKey, before_claims};
use crate::users::{User, UserStore, UserStoreError};

/// The changes that can be undone, in the table `users_email_changes`. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Changes {
    db: Db,
    sweep: Sql,
    /// Everything before the token of a link that undoes a change.
    before_token: Arc<str>,
}

/// A change that can be undone.
#[derive(Debug, Clone)]
pub(crate) struct Change {
    /// The hash of the token of its notice.
    pub(crate) key: Vec<u8>,
    /// Its position among the account's changes, which orders changes in the same microsecond. 0 for a change from before
    /// there were positions, or one that is not stored yet.
    position: i64,
    pub(crate) user: UserId,
    pub(crate) old: EmailAddress,
    /// Whether its mailbox was proven to be the account's.
    pub(crate) old_was_proven: bool,
    pub(crate) changed_at: Timestamp,
    /// Whether it is being undone.
    pub(crate) is_claimed: bool,
}

/// How long a change can be undone.
pub(crate) const UNDOABLE: SignedDuration = SignedDuration::from_hours(7 * 24);
/// How long before a change a thief may have added credentials, which an undo removes.
const SUSPECT: SignedDuration = SignedDuration::from_hours(7 * 24);

/// The steps that create the table. There is no foreign key: users may be in a program's own store.
pub(crate) const MIGRATIONS: &[Step] = &[
    TABLE,
    Step {
        version: 2,
        name: "proven addresses",
        sql: "ALTER TABLE users_email_changes ADD COLUMN old_was_proven {bool}",
    },
    Step {
        version: 3,
        name: "order and reminders",
        sql: "ALTER TABLE users_email_changes ADD COLUMN position {int};
          ALTER TABLE users_email_changes ADD COLUMN reminder_hash {bytes};
          ALTER TABLE users_email_changes ADD COLUMN claimed_at {time};
          CREATE INDEX users_email_changes_reminder_hash ON users_email_changes (reminder_hash);
          CREATE INDEX users_email_changes_old_email ON users_email_changes (old_email)",
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

const COLUMNS: &str = "token_hash, COALESCE(position, 0) AS position, user_id, old_email, changed_at, \
                       old_was_proven, claimed_at";

const COUNT: &str = "SELECT COUNT(*) AS found FROM users_email_changes WHERE user_id = ?1 AND expires_at > ?2";

/// The changes of an account from one on: ?2 is its position, and ?3 its time, which orders those without positions.
const FROM_ON: &str =
    "user_id = ?1 AND (COALESCE(position, 0) > ?2 OR (COALESCE(position, 0) = ?2 AND changed_at >= ?3))";

impl Change {
    /// A change before it is applied.
    pub(crate) fn new(key: TokenKey, user: &User, changed_at: Timestamp) -> Self {
        Self {
            key: key.as_bytes().to_vec(),
            position: 0,
            user: user.id.clone(),
            old: user.email.clone(),
            old_was_proven: user.email_verified,
            changed_at,
            is_claimed: false,
        }
    }

    /// The moment since which a thief may have added credentials. Whoever never proved the old mailbox may have added all
    /// of them.
    pub(crate) fn suspect_since(&self) -> Timestamp {
        let since = self.changed_at.saturating_sub(SUSPECT).unwrap_or(Timestamp::MIN);
        if self.old_was_proven { since } else { Timestamp::MIN }
    }

    /// The kind of the person who undoes it, with the mail to the old address.
    pub(crate) fn undoer(&self) -> Holder {
        if self.old_was_proven { Holder::FormerMailbox { since: self.suspect_since() } } else { Holder::Mailbox }
    }
}

impl Changes {
    pub(crate) fn new(db: Db, links: &Links) -> Self {
        let sweep = dialect::delete_oldest(db.engine(), "users_email_changes", "token_hash", "expires_at").into();
        Self { db, sweep, before_token: links.before_token_beside("change-email/confirm", "change-email/undo").into() }
    }

    /// The link that undoes a change.
    pub(crate) fn link(&self, token: &SingleUseToken) -> Secret {
        Secret::new(format!("{}{}", self.before_token, token.to_text().expose()))
    }

    /// The database that they are in.
    pub(crate) fn database(&self) -> &Db {
        &self.db
    }

    /// Stores it, after the account's other changes.
    pub(crate) async fn put(&self, change: &Change) -> Result<(), Error> {
        let change = change.clone();
        self.db.write(async move |tx: &Tx| Self::put_within(tx, &change).await).await
    }

    /// [`put`](Self::put) in a transaction.
    pub(crate) async fn put_within(tx: &Tx, change: &Change) -> Result<(), Error> {
        let sql = "INSERT INTO users_email_changes \
                   (token_hash, user_id, old_email, had_second_factor, changed_at, expires_at, old_was_proven, \
                   position) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)";
        let last = "SELECT COALESCE(MAX(position), 0) AS last FROM users_email_changes WHERE user_id = ?1";
        let last: i64 = tx.query_opt(last, params![&change.user]).await?.map_or(Ok(0), |row| row.get("last"))?;
        let position = last + 1;
        let until = change.changed_at.saturating_add(UNDOABLE).unwrap_or(Timestamp::MAX);
        let values = params![
            change.key.clone(),
            &change.user,
            change.old.as_str(),
            // Earlier versions read it: with it, an undo keeps the factor.
            false,
            change.changed_at,
            until,
            change.old_was_proven,
            position
        ];
        tx.execute(sql, values).await.map(|_| ())
    }

    /// The change that this key undoes, if it can still be undone.
    pub(crate) async fn find(&self, key: TokenKey, now: Timestamp) -> Result<Option<Change>, Error> {
        let sql = format!(
            "SELECT {COLUMNS} FROM users_email_changes \
             WHERE (token_hash = ?1 OR reminder_hash = ?1) AND expires_at > ?2"
        );
        let row = self.db.query_opt(sql, params![key.as_bytes().to_vec(), now]).await?;
        row.map(|row| read(&row, now)).transpose()
    }

    /// Whether it is still there.
    pub(crate) async fn has(&self, change: &Change) -> Result<bool, Error> {
        let sql = "SELECT 1 AS found FROM users_email_changes WHERE token_hash = ?1";
        Ok(self.db.query_opt(sql, params![change.key.clone()]).await?.is_some())
    }

    /// The changes of an account before `change`, the first one first.
    pub(crate) async fn before(&self, change: &Change, now: Timestamp) -> Result<Vec<Change>, Error> {
        let sql = format!(
            "SELECT {COLUMNS} FROM users_email_changes WHERE user_id = ?1 AND NOT ({FROM_ON}) \
             ORDER BY COALESCE(position, 0), changed_at"
        );
        let rows = self.db.query(sql, params![&change.user, change.position, change.changed_at]).await?;
        rows.iter().map(|row| read(row, now)).collect()
    }

    /// How many changes of an account can be undone.
    pub(crate) async fn count(&self, user: &UserId, now: Timestamp) -> Result<i64, Error> {
        self.db.query_opt(COUNT, params![user, now]).await?.map_or(Ok(0), |row| row.get("found"))
    }

    /// [`count`](Self::count) in a transaction.
    pub(crate) async fn count_within(tx: &Tx, user: &UserId, now: Timestamp) -> Result<i64, Error> {
        tx.query_opt(COUNT, params![user, now]).await?.map_or(Ok(0), |row| row.get("found"))
    }

    /// Claims it for an undoing: of concurrent callers one gets `true`. It is kept until [`forget_from`](Self::forget_from), so
    /// that undoings of later changes see it.
    pub(crate) async fn claim(&self, change: &Change, now: Timestamp) -> Result<bool, Error> {
        let sql = "UPDATE users_email_changes SET claimed_at = ?2 \
                   WHERE token_hash = ?1 AND (claimed_at IS NULL OR claimed_at <= ?3)";
        Ok(self.db.execute(sql, params![change.key.clone(), now, before_claims(now)]).await? > 0)
    }

    /// Has its link work again, after an undoing that failed.
    pub(crate) async fn release(&self, change: &Change) -> Result<(), Error> {
        let sql = "UPDATE users_email_changes SET claimed_at = NULL WHERE token_hash = ?1";
        self.db.execute(sql, params![change.key.clone()]).await.map(|_| ())
    }

    /// Removes a change that was not applied.
    pub(crate) async fn remove(&self, change: &Change) -> Result<(), Error> {
        let sql = "DELETE FROM users_email_changes WHERE token_hash = ?1";
        self.db.execute(sql, params![change.key.clone()]).await.map(|_| ())
    }

    /// Removes an undone change and all later ones. Earlier ones stay: the holder at that time may still undo them, and a
    /// thief who changed the address twice cannot prevent that.
    pub(crate) async fn forget_from(&self, change: &Change) -> Result<(), Error> {
        let sql = format!("DELETE FROM users_email_changes WHERE {FROM_ON}");
        self.db.execute(sql, params![&change.user, change.position, change.changed_at]).await.map(|_| ())
    }

    /// The account, if there is one, whose owner can get this address back. Until then no other account may take it. Addresses
    /// that were never proven are not reserved, so that registering a stranger's address does not block it.
    pub(crate) async fn reserved_for(
        &self,
        users: &dyn UserStore,
        email: &EmailAddress,
        now: Timestamp,
    ) -> Result<Option<UserId>, UserStoreError> {
        Ok(self.reservation(users, email, now).await?.map(|change| change.user))
    }

    /// Mails the link that gets this address back once more, when somebody requests a sign-in or reset link for this
    /// address. `false`: the address is not [reserved](Self::reserved_for).
    pub(crate) async fn remind(
        &self,
        core: &Core,
        email: &EmailAddress,
        requester: Option<IpAddr>,
    ) -> Result<bool, UserStoreError> {
        let now = core.ambient.now();
        let Some(change) = self.reservation(&*core.users.store, email, now).await? else { return Ok(false) };
        let Some(mail) = core.notices.undo_again(email, requester).await else { return Ok(true) };
        let token = SingleUseToken::generate(&core.ambient);
        let sql = "UPDATE users_email_changes SET reminder_hash = ?2 WHERE token_hash = ?1";
        let keys = params![change.key.clone(), token.key().as_bytes().to_vec()];
        self.db.execute(sql, keys).await.map_err(UserStoreError::transport)?;
        let until = change.changed_at.saturating_add(UNDOABLE).unwrap_or(Timestamp::MAX);
        let lifetime = Duration::try_from(until.duration_since(now)).unwrap_or_default();
        let added = notices::added_since(core, &change.user, change.suspect_since()).await;
        mail.send(core, self.link(&token), lifetime, &added.map_err(UserStoreError::transport)?);
        Ok(true)
    }

    async fn reservation(
        &self,
        users: &dyn UserStore,
        email: &EmailAddress,
        now: Timestamp,
    ) -> Result<Option<Change>, UserStoreError> {
        let sql = format!(
            "SELECT {COLUMNS} FROM users_email_changes WHERE old_email = ?1 AND old_was_proven = ?2 AND expires_at > ?3 \
             ORDER BY changed_at, COALESCE(position, 0) LIMIT 1"
        );
        let row =
            self.db.query_opt(sql, params![email.as_str(), true, now]).await.map_err(UserStoreError::transport)?;
        let change = row.map(|row| read(&row, now)).transpose().map_err(UserStoreError::transport)?;
        let Some(change) = change else { return Ok(None) };
        match users.find_by_id(&change.user).await {
            // The account has it again.
            Ok(user) if user.email == *email => return Ok(None),
            Ok(_) => {}
            Err(UserStoreError::NotFound) => return Ok(None),
            Err(error) => return Err(error),
        }
        match users.find_by_email(email).await {
            // An operator has given it to another one.
            Ok(_) => Ok(None),
            Err(UserStoreError::NotFound) => Ok(Some(change)),
            Err(error) => Err(error),
        }
    }

    /// The addresses that an account had before and could get back, for its export.
    pub(crate) async fn describe(&self, user: &UserId) -> Result<Vec<serde_json::Value>, Error> {
        let sql = "SELECT old_email, changed_at FROM users_email_changes WHERE user_id = ?1 ORDER BY changed_at";
        let change = |row: &Row| {
            let at: Timestamp = row.get("changed_at")?;
            Ok(json!({ "email": row.get::<String>("old_email")?, "changed_at": time::format(at) }))
        };
        self.db.query(sql, params![user]).await?.iter().map(change).collect()
    }

    /// The addresses that an account had before and could get back, and had proven.
    pub(crate) async fn proven_addresses(&self, user: &UserId) -> Result<Vec<EmailAddress>, Error> {
        let sql = "SELECT old_email FROM users_email_changes WHERE user_id = ?1 AND old_was_proven = ?2";
        let rows = self.db.query(sql, params![user, true]).await?;
        let texts = rows.iter().map(|row| row.get("old_email")).collect::<Result<Vec<String>, _>>()?;
        Ok(texts.iter().filter_map(|text| EmailAddress::parse(text).ok()).collect())
    }

    /// Removes all of an account that is deleted.
    pub(crate) async fn forget(&self, user: &UserId) -> Result<(), Error> {
        self.db.execute("DELETE FROM users_email_changes WHERE user_id = ?1", params![user]).await.map(|_| ())
    }

    /// Removes changes that can no longer be undone.
    pub(crate) async fn sweep(&self, now: Timestamp, limit: u32) -> Result<u64, Error> {
        self.db.execute(&self.sweep, params![now, limit]).await
    }
}

fn read(row: &Row, now: Timestamp) -> Result<Change, Error> {
    let corrupt = |_| Error::Corrupt {
        statement: "a read of users_email_changes".to_owned(),
        column: "old_email".to_owned(),
        found: "text",
        expected: "an email address",
    };
    let old = EmailAddress::parse(&row.get::<String>("old_email")?);
    Ok(Change {
        key: row.get("token_hash")?,
        position: row.get("position")?,
        user: row.get("user_id")?,
        old: old.map_err(corrupt)?,
        old_was_proven: row.get::<Option<bool>>("old_was_proven")?.unwrap_or_default(),
        changed_at: row.get("changed_at")?,
        is_claimed: row.get::<Option<Timestamp>>("claimed_at")?.is_some_and(|claimed| claimed > before_claims(now)),
    })
}
