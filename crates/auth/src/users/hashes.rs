//! The stored hashes of all accounts, without reading those that the service itself wrote.

use gatewright_base::UserId;
use gatewright_db::{Db, Error, params};

use crate::password::{HashSetting, StoredHashes};

/// The hashes that the service writes: 60 characters of bcrypt; Argon2 with a salt of 16 bytes and an output of 32.
macro_rules! own {
    () => {
        "((password_hash LIKE '$2_$__$%' AND length(password_hash) = 60) OR (password_hash LIKE '$argon2%' \
         AND length(password_hash) > 67 AND substr(password_hash, length(password_hash) - 66, 1) = '$'))"
    };
}

/// The part before the salt: 7 characters of a bcrypt hash; all except the last 67 of an Argon2 hash.
const SETTINGS: &str = concat!(
    "SELECT DISTINCT CASE WHEN password_hash LIKE '$2%' THEN substr(password_hash, 1, 7) ",
    "ELSE substr(password_hash, 1, length(password_hash) - 67) END AS setting FROM users WHERE ",
    own!(),
    " LIMIT 64"
);

/// One page of the others, which imports have brought.
// Bytes: a longer hash than this is in no known format.
const OTHERS: &str = concat!(
    "SELECT id, substr(password_hash, 1, 4097) AS hash FROM users WHERE password_hash IS NOT NULL AND NOT ",
    own!(),
    " AND id > ?1 ORDER BY id LIMIT 500"
);

/// Their settings, and the accounts whose hash is unusable.
pub(super) async fn survey(db: &Db) -> Result<StoredHashes, Error> {
    let mut stored = StoredHashes::default();
    for row in db.query(SETTINGS, params![]).await? {
        stored.settings.extend(HashSetting::of_stored(&row.get::<String>("setting")?));
    }
    let mut last = String::new();
    loop {
        let rows = db.query(OTHERS, params![last]).await?;
        let Some(end) = rows.last() else { return Ok(stored) };
        last = end.get("id")?;
        for row in &rows {
            // An id that is none is of a row that no account can be read from.
            if let Ok(id) = UserId::parse(&row.get::<String>("id")?) {
                stored.add(&id, &row.get::<String>("hash")?);
            }
        }
    }
}
