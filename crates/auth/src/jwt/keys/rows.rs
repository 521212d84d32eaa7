use gatewright_db::{Db, Error, Step, params};
use jiff::{SignedDuration, Timestamp};

use super::JwtAlgorithm;

/// The name under which the table is brought up to date.
pub(crate) const COMPONENT: &str = "jwt_signers";

/// The steps that create the tables. `follows` is the id of the signer before: two servers cannot add a successor of one. The
/// first of a chain of `id_token`s follows the name of its algorithm.
pub(crate) const MIGRATIONS: &[Step] = &[
    Step {
        version: 1,
        name: "keys that sign JWTs",
        sql: "CREATE TABLE auth_jwt_signers (
            id {text} PRIMARY KEY,
            follows {text} NOT NULL UNIQUE,
            public_key {text},
            sealed {bytes},
            created_at {time} NOT NULL,
            signs_from {time} NOT NULL,
            token_seconds {int} NOT NULL
          )",
    },
    Step {
        version: 2,
        name: "keys that sign id_tokens",
        sql: "CREATE TABLE auth_id_token_signers (
            id {text} PRIMARY KEY,
            follows {text} NOT NULL UNIQUE,
            algorithm {text} NOT NULL,
            public_key {text},
            sealed {bytes},
            created_at {time} NOT NULL,
            signs_from {time} NOT NULL,
            token_seconds {int} NOT NULL
          )",
    },
];

/// What the signers of a chain sign. Tokens of one chain are never accepted as those of another.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::jwt) enum Chain {
    /// JWTs of this service.
    Jwts,
    /// `id_token`s of one algorithm, for other programs.
    IdTokens(JwtAlgorithm),
}

impl Chain {
    fn table(self) -> &'static str {
        match self {
            Self::Jwts => "auth_jwt_signers",
            Self::IdTokens(_) => "auth_id_token_signers",
        }
    }

    /// What the first signer follows.
    fn root(self) -> &'static str {
        match self {
            Self::Jwts => "",
            Self::IdTokens(algorithm) => algorithm.as_str(),
        }
    }
}

/// A row. Without a public key it is the secret of HS256.
pub(super) struct Stored {
    pub(super) id: String,
    pub(super) public_key: Option<String>,
    pub(super) sealed: Option<Vec<u8>>,
    pub(super) created_at: Timestamp,
    pub(super) signs_from: Timestamp,
    pub(super) lifetime: SignedDuration,
}

/// The rows of one chain.
#[derive(Debug, Clone)]
pub(super) struct Rows {
    db: Db,
    chain: Chain,
}

impl Rows {
    pub(super) fn new(db: Db, chain: Chain) -> Self {
        Self { db, chain }
    }

    /// All of them, in the order in which they sign.
    pub(super) async fn all(&self) -> Result<Vec<Stored>, Error> {
        let (table, only) = match self.chain {
            Chain::Jwts => (self.chain.table(), ""),
            Chain::IdTokens(_) => (self.chain.table(), " WHERE algorithm = ?1"),
        };
        // Bytes: the server alone writes this table, and a few rows are left.
        let sql = format!(
            "SELECT id, follows, public_key, sealed, created_at, signs_from, token_seconds FROM {table}{only} \
             ORDER BY signs_from, created_at, id"
        );
        let values = if only.is_empty() { params![] } else { params![self.chain.root()] };
        let rows = self.db.query(sql, values).await?;
        let read = |row: &gatewright_db::Row| -> Result<(String, Stored), Error> {
            let stored = Stored {
                id: row.get("id")?,
                public_key: row.get("public_key")?,
                sealed: row.get("sealed")?,
                created_at: row.get("created_at")?,
                signs_from: row.get("signs_from")?,
                lifetime: SignedDuration::from_secs(row.get("token_seconds")?),
            };
            Ok((row.get("follows")?, stored))
        };
        Ok(in_order(rows.iter().map(read).collect::<Result<_, _>>()?))
    }

    /// Adds a signer behind `follows`. `false` if another server has added one.
    pub(super) async fn add(&self, follows: Option<&str>, new: &Stored) -> Result<bool, Error> {
        let (column, value) = match self.chain {
            Chain::Jwts => ("", ""),
            Chain::IdTokens(_) => (", algorithm", ", ?8"),
        };
        let sql = format!(
            "INSERT INTO {} (id, follows, public_key, sealed, created_at, signs_from, token_seconds{column}) \
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7{value})",
            self.chain.table()
        );
        let follows = follows.unwrap_or_else(|| self.chain.root());
        let Stored { id, public_key, sealed, created_at, signs_from, lifetime } = new;
        let mut values = params![
            id.as_str(),
            follows,
            public_key.clone(),
            sealed.clone(),
            *created_at,
            *signs_from,
            lifetime.as_secs()
        ];
        if !column.is_empty() {
            values.extend(params![self.chain.root()]);
        }
        match self.db.execute(sql, values).await {
            Ok(_) => Ok(true),
            Err(Error::Unique { .. }) => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Stores a private key that was sealed anew.
    pub(super) async fn reseal(&self, id: &str, sealed: Vec<u8>) -> Result<(), Error> {
        let sql = format!("UPDATE {} SET sealed = ?2 WHERE id = ?1", self.chain.table());
        self.db.execute(sql, params![id, sealed]).await.map(|_| ())
    }

    /// Notes that tokens may live this long.
    pub(super) async fn lengthen(&self, id: &str, lifetime: SignedDuration) -> Result<(), Error> {
        let table = self.chain.table();
        let sql = format!("UPDATE {table} SET token_seconds = ?2 WHERE id = ?1 AND token_seconds < ?2");
        self.db.execute(sql, params![id, lifetime.as_secs()]).await.map(|_| ())
    }

    pub(super) async fn remove(&self, id: &str) -> Result<(), Error> {
        let sql = format!("DELETE FROM {} WHERE id = ?1", self.chain.table());
        self.db.execute(sql, params![id]).await.map(|_| ())
    }

    /// Whether there were accounts before this table.
    pub(super) async fn has_users(&self) -> Result<bool, Error> {
        Ok(self.db.query_opt("SELECT 1 AS one FROM users LIMIT 1", params![]).await?.is_some())
    }
}

/// Each behind the one that it follows. Times do not say it: two can be equal, and clocks differ.
fn in_order(mut rows: Vec<(String, Stored)>) -> Vec<Stored> {
    let mut ordered: Vec<Stored> = Vec::with_capacity(rows.len());
    while !rows.is_empty() {
        let behind = |row: &(String, Stored)| ordered.last().is_some_and(|last| last.id == row.0);
        // The first one follows a row that was removed, or none.
        let is_first = |row: &(String, Stored)| !rows.iter().any(|(_, other)| other.id == row.0);
        let next = rows.iter().position(behind).or_else(|| rows.iter().position(is_first)).unwrap_or(0);
        ordered.push(rows.remove(next).1);
    }
    ordered
}
