use std::sync::Arc;

use async_trait::async_trait;
use gatewright_base::UserId;
use gatewright_db::{Db, Error, Lane, Row, Share, Step, Tx, dialect, params, readable};
use jiff::Timestamp;

use super::{Added, Passkey, PasskeyStore, PasskeyStoreError, PasskeysWithin};
use crate::label::Label;

/// Passkeys in the tables `passkeys` and `passkey_challenges` of a SQLite or Postgres database.
#[derive(Debug, Clone)]
pub struct SqlPasskeyStore {
    db: Db,
}

/// The steps that create the tables. There is no foreign key: users may be in a program's own store.
pub(super) const MIGRATIONS: &[Step] = &[Step {
    version: 1,
    name: "passkeys",
    sql: "CREATE TABLE passkeys (
            id {text} PRIMARY KEY,
            user_id {text} NOT NULL,
            name {text} NOT NULL,
            credential_id {bytes} NOT NULL UNIQUE,
            public_key {bytes} NOT NULL,
            algorithm {int} NOT NULL,
            counter {int} NOT NULL,
            transports {text} NOT NULL,
            backed_up {bool} NOT NULL,
            created_at {time} NOT NULL,
            last_used_at {time}
          );
          CREATE INDEX passkeys_user_id ON passkeys (user_id);
          CREATE TABLE passkey_challenges (
            hash {bytes} PRIMARY KEY,
            expires_at {time} NOT NULL
          );
          CREATE INDEX passkey_challenges_expires_at ON passkey_challenges (expires_at)",
}];

macro_rules! select {
    ($rest:literal) => {
        concat!(
            "SELECT id, user_id, name, credential_id, public_key, algorithm, counter, transports, backed_up, \
             created_at, last_used_at FROM passkeys ",
            $rest
        )
    };
}

impl SqlPasskeyStore {
    /// A store over `db`. [`Auth`](crate::Auth) creates its tables.
    pub fn new(db: Db) -> Self {
        Self { db: db.lane(Lane::Identity) }
    }
}

#[async_trait]
impl PasskeyStore for SqlPasskeyStore {
    async fn find(&self, credential_id: &[u8]) -> Result<Option<Passkey>, PasskeyStoreError> {
        let row = self.db.query_opt(select!("WHERE credential_id = ?1"), params![credential_id]).await?;
        Ok(row.as_ref().map(read).transpose()?)
    }

    async fn list(&self, user: &UserId) -> Result<Vec<Passkey>, PasskeyStoreError> {
        let sql = select!("WHERE user_id = ?1 ORDER BY created_at, id");
        let rows = self.db.listing_for(Share::of_user(user)).query(sql, params![user]).await?;
        Ok(readable("passkeys", &rows, read)?)
    }

    async fn add(&self, passkey: &Passkey, most: u32) -> Result<Added, PasskeyStoreError> {
        let (within, passkey, share) = (self.clone(), passkey.clone(), Share::of_user(&passkey.user));
        let add = async move |tx: &Tx| PasskeysWithin::add(&within, tx, &passkey, most).await;
        Ok(self.db.writing_for(share).write(add).await?)
    }

    async fn used(&self, id: &str, counter: u32, backed_up: bool, at: Timestamp) -> Result<bool, PasskeyStoreError> {
        let sql = "UPDATE passkeys SET counter = ?2, backed_up = ?3, last_used_at = ?4 \
                   WHERE id = ?1 AND (counter < ?2 OR (counter = 0 AND ?2 = 0))";
        Ok(self.db.execute(sql, params![id, counter, backed_up, at]).await? > 0)
    }

    async fn rename(&self, user: &UserId, id: &str, name: &Label) -> Result<bool, PasskeyStoreError> {
        let sql = "UPDATE passkeys SET name = ?3 WHERE user_id = ?1 AND id = ?2";
        Ok(self.db.execute(sql, params![user, id, name.as_str()]).await? > 0)
    }

    async fn remove(&self, user: &UserId, id: &str) -> Result<Option<Passkey>, PasskeyStoreError> {
        let (within, user, id) = (self.clone(), user.clone(), id.to_owned());
        let remove = async move |tx: &Tx| -> Result<Option<Passkey>, Error> {
            let found = PasskeysWithin::find(&within, tx, &user, &id).await?;
            PasskeysWithin::remove(&within, tx, &user, &id).await?;
            Ok(found)
        };
        Ok(self.db.write(remove).await?)
    }

    async fn remove_all(&self, user: &UserId, since: Option<Timestamp>) -> Result<u64, PasskeyStoreError> {
        let (sql, params) = match since {
            Some(since) => ("DELETE FROM passkeys WHERE user_id = ?1 AND created_at >= ?2", params![user, since]),
            None => ("DELETE FROM passkeys WHERE user_id = ?1", params![user]),
        };
        Ok(self.db.execute(sql, params).await?)
    }

    async fn spend(
        &self,
        challenge: &[u8; 32],
        expires_at: Timestamp,
        now: Timestamp,
    ) -> Result<bool, PasskeyStoreError> {
        let hash = *challenge;
        let spend = async move |tx: &Tx| -> Result<bool, Error> {
            let sql = "DELETE FROM passkey_challenges WHERE hash IN \
                       (SELECT hash FROM passkey_challenges WHERE expires_at <= ?1 LIMIT 100)";
            tx.execute(sql, params![now]).await?;
            let sql = "INSERT INTO passkey_challenges (hash, expires_at) VALUES (?1, ?2) ON CONFLICT (hash) DO NOTHING";
            Ok(tx.execute(sql, params![hash, expires_at]).await? > 0)
        };
        Ok(self.db.write(spend).await?)
    }

    fn within(self: Arc<Self>) -> Option<Arc<dyn PasskeysWithin>> {
        Some(self)
    }
}

#[async_trait]
impl PasskeysWithin for SqlPasskeyStore {
    fn database(&self) -> &Db {
        &self.db
    }

    async fn count(&self, tx: &Tx, user: &UserId) -> Result<u64, Error> {
        let row = tx.query_opt("SELECT COUNT(*) AS n FROM passkeys WHERE user_id = ?1", params![user]).await?;
        let count = row.map_or(Ok(0), |row| row.get::<i64>("n"))?;
        Ok(u64::try_from(count).unwrap_or(0))
    }

    async fn add(&self, tx: &Tx, passkey: &Passkey, most: u32) -> Result<Added, Error> {
        // Concurrent calls for one user run one after the other, so that the count is correct.
        dialect::hold_name(tx, &format!("passkeys of {}", passkey.user)).await?;
        if self.count(tx, &passkey.user).await? >= u64::from(most) {
            return Ok(Added::TooMany);
        }
        let sql = "INSERT INTO passkeys (id, user_id, name, credential_id, public_key, algorithm, counter, \
                   transports, backed_up, created_at, last_used_at) \
                   VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11) ON CONFLICT (credential_id) DO NOTHING";
        let params = params![
            &passkey.id,
            &passkey.user,
            passkey.name.as_str(),
            &passkey.credential_id[..],
            &passkey.public_key[..],
            passkey.algorithm,
            passkey.counter,
            &passkey.transports,
            passkey.backed_up,
            passkey.created_at,
            passkey.last_used_at
        ];
        Ok(if tx.execute(sql, params).await? > 0 { Added::Done } else { Added::Taken })
    }

    async fn find(&self, tx: &Tx, user: &UserId, id: &str) -> Result<Option<Passkey>, Error> {
        let row = tx.query_opt(select!("WHERE user_id = ?1 AND id = ?2"), params![user, id]).await?;
        row.as_ref().map(read).transpose()
    }

    async fn remove(&self, tx: &Tx, user: &UserId, id: &str) -> Result<(), Error> {
        let sql = "DELETE FROM passkeys WHERE user_id = ?1 AND id = ?2";
        tx.execute(sql, params![user, id]).await.map(|_| ())
    }
}

fn read(row: &Row) -> Result<Passkey, Error> {
    let corrupt = |column: &str, expected| Error::Corrupt {
        statement: "a read of passkeys".to_owned(),
        column: column.to_owned(),
        found: "something else",
        expected,
    };
    Ok(Passkey {
        id: row.get("id")?,
        user: row.get("user_id")?,
        name: Label::stored(&row.get::<String>("name")?),
        credential_id: row.get("credential_id")?,
        public_key: row.get("public_key")?,
        algorithm: i32::try_from(row.get::<i64>("algorithm")?).map_err(|_| corrupt("algorithm", "a small number"))?,
        counter: u32::try_from(row.get::<i64>("counter")?).map_err(|_| corrupt("counter", "32 bits"))?,
        transports: row.get("transports")?,
        backed_up: row.get("backed_up")?,
        created_at: row.get("created_at")?,
        last_used_at: row.get("last_used_at")?,
    })
}
