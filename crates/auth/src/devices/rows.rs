use gatewright_base::UserId;
use gatewright_db::{Db, Error, Lane, Row, Share, Sql, Step, Tx, dialect, params, readable};
use jiff::Timestamp;
use uuid::Uuid;

use super::cookie::TokenHash;
use crate::session::Client;

/// The tables `known_devices` and `device_owners`.
#[derive(Debug, Clone)]
pub(super) struct Rows {
    db: Db,
    sweep: Sql,
}

/// A device as it is listed. Holds no secret.
#[derive(Debug, Clone)]
pub(crate) struct StoredDevice {
    pub(crate) id: Uuid,
    pub(crate) first_used_at: Timestamp,
    pub(crate) last_used_at: Timestamp,
    /// The client that used it last.
    pub(crate) client: Client,
}

/// A sign-in.
#[derive(Debug, Clone)]
pub(super) struct Arrival {
    /// Of the device, if it is a new one.
    pub(super) id: Uuid,
    pub(super) user: UserId,
    /// Of the token that the browser gets.
    pub(super) hash: TokenHash,
    pub(super) client: Client,
    pub(super) at: Timestamp,
}

/// The kind of device that signed in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Arrived {
    /// From a known device.
    Known,
    /// From a device that was not known.
    New,
    /// The same, and it is the account's first sign-in since devices are recorded.
    First,
}

/// The name under which the steps are remembered.
pub(crate) const COMPONENT: &str = "devices";

/// The steps that create the tables. There is no foreign key: users may be in a program's own store.
pub(crate) const MIGRATIONS: &[Step] = &[Step {
    version: 1,
    name: "known devices",
    sql: "CREATE TABLE known_devices (
            id {text} PRIMARY KEY,
            user_id {text} NOT NULL,
            token_hash {bytes} NOT NULL,
            first_used_at {time} NOT NULL,
            last_used_at {time} NOT NULL,
            address {text},
            user_agent {text}
          );
          CREATE UNIQUE INDEX known_devices_token ON known_devices (user_id, token_hash);
          CREATE INDEX known_devices_last_used_at ON known_devices (last_used_at);
          CREATE TABLE device_owners (
            user_id {text} PRIMARY KEY,
            last_arrival_at {time} NOT NULL
          )",
}];

/// The name under which the owners of before are remembered.
pub(crate) const OWNERS: &str = "device_owners";

/// Accounts that are older than this table have signed in before: their next sign-in is not the first. Runs after the steps
/// of users, if those are in the same database.
pub(crate) const OWNERS_OF_BEFORE: &[Step] = &[Step {
    version: 1,
    name: "accounts of before",
    sql: "INSERT INTO device_owners (user_id, last_arrival_at) SELECT id, created_at FROM users WHERE 1 = 1 \
          ON CONFLICT (user_id) DO NOTHING",
}];

/// Devices of one account. A further one replaces the one that was not used for the longest time.
const MAX_PER_USER: i64 = 20;

const BEYOND_THE_MOST: &str = "DELETE FROM known_devices WHERE user_id = ?1 AND id IN \
     (SELECT id FROM known_devices WHERE user_id = ?1 ORDER BY last_used_at DESC, id DESC LIMIT 1000 OFFSET ?2)";

impl Rows {
    pub(super) fn new(db: Db) -> Self {
        let sweep = dialect::delete_oldest(db.engine(), "known_devices", "id", "last_used_at").into();
        Self { db, sweep }
    }

    /// The device of `user` whose token has this hash, if it was used since `oldest`.
    pub(super) async fn find(&self, user: &UserId, hash: &TokenHash, oldest: Timestamp) -> Result<Option<Uuid>, Error> {
        let sql = "SELECT id FROM known_devices WHERE user_id = ?1 AND token_hash = ?2 AND last_used_at > ?3";
        let records = self.db.clone().lane(Lane::Records(Share::of_user(user)));
        let row = records.query_opt(sql, params![user, hash.0.to_vec(), oldest]).await?;
        row.map(|row| id(&row)).transpose()
    }

    /// Replaces the token of the device whose token has the hash `held`; without such a device, stores a new one. Of
    /// concurrent calls with one token, one finds a known device.
    pub(super) async fn arrive(
        &self,
        arrival: &Arrival,
        held: Option<&TokenHash>,
        oldest: Timestamp,
    ) -> Result<Arrived, Error> {
        let (arrival, held) = (arrival.clone(), held.copied());
        self.db
            .write(async move |tx: &Tx| {
                let Arrival { id, user, hash, client, at } = &arrival;
                let (address, agent) = (client.address().map(|address| address.to_string()), client.user_agent());
                let sql = "INSERT INTO device_owners (user_id, last_arrival_at) VALUES (?1, ?2) ON CONFLICT DO NOTHING";
                let is_first = tx.execute(sql, params![user, *at]).await? > 0;
                if !is_first {
                    // Sign-ins of one account follow one another from here on.
                    let sql = "UPDATE device_owners SET last_arrival_at = ?2 WHERE user_id = ?1";
                    tx.execute(sql, params![user, *at]).await?;
                }
                if let Some(held) = held {
                    let sql = "UPDATE known_devices SET token_hash = ?3, last_used_at = ?4, address = ?5, user_agent = ?6 \
                               WHERE user_id = ?1 AND token_hash = ?2 AND last_used_at > ?7";
                    let values = params![
                        user,
                        held.0.to_vec(),
                        hash.0.to_vec(),
                        *at,
                        address.clone(),
                        agent.map(str::to_owned),
                        oldest
                    ];
                    if tx.execute(sql, values).await? > 0 {
                        return Ok::<_, Error>(Arrived::Known);
                    }
                }
                let sql = "INSERT INTO known_devices \
                           (id, user_id, token_hash, first_used_at, last_used_at, address, user_agent) \
                           VALUES (?1, ?2, ?3, ?4, ?4, ?5, ?6)";
                let values =
                    params![id.to_string(), user, hash.0.to_vec(), *at, address, agent.map(str::to_owned)];
                tx.execute(sql, values).await?;
                tx.execute(BEYOND_THE_MOST, params![user, MAX_PER_USER]).await?;
                Ok(if is_first { Arrived::First } else { Arrived::New })
            })
            .await
    }

    pub(super) async fn list(&self, user: &UserId, oldest: Timestamp) -> Result<Vec<StoredDevice>, Error> {
        let sql = "SELECT id, first_used_at, last_used_at, address, user_agent FROM known_devices \
                   WHERE user_id = ?1 AND last_used_at > ?2 ORDER BY last_used_at DESC, id DESC";
        let rows = self.db.listing_for(Share::of_user(user)).query(sql, params![user, oldest]).await?;
        readable("known_devices", &rows, read)
    }

    pub(super) async fn remove(&self, user: &UserId, id: Uuid) -> Result<bool, Error> {
        let sql = "DELETE FROM known_devices WHERE user_id = ?1 AND id = ?2";
        Ok(self.db.execute(sql, params![user, id.to_string()]).await? > 0)
    }

    pub(super) async fn remove_all(&self, user: &UserId, keep: Option<Uuid>) -> Result<u64, Error> {
        let sql = "DELETE FROM known_devices WHERE user_id = ?1 AND id <> ?2";
        self.db.execute(sql, params![user, keep.map_or_else(String::new, |id| id.to_string())]).await
    }

    pub(super) async fn remove_account(&self, user: &UserId) -> Result<(), Error> {
        self.remove_all(user, None).await?;
        self.db.execute("DELETE FROM device_owners WHERE user_id = ?1", params![user]).await.map(|_| ())
    }

    pub(super) async fn sweep(&self, oldest: Timestamp, limit: u32) -> Result<u64, Error> {
        self.db.execute(&self.sweep, params![oldest, limit]).await
    }
}

fn read(row: &Row) -> Result<StoredDevice, Error> {
    let address = row.get::<Option<String>>("address")?;
    let agent = row.get::<Option<String>>("user_agent")?;
    Ok(StoredDevice {
        id: id(row)?,
        first_used_at: row.get("first_used_at")?,
        last_used_at: row.get("last_used_at")?,
        client: Client::new(address.and_then(|text| text.parse().ok()), agent.as_deref()),
    })
}

fn id(row: &Row) -> Result<Uuid, Error> {
    Uuid::parse_str(&row.get::<String>("id")?).map_err(|_| Error::Corrupt {
        statement: "a read of known_devices".to_owned(),
        column: "id".to_owned(),
        found: "text",
        expected: "a UUID",
    })
}
