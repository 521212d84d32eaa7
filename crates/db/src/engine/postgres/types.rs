//! The types of a statement's placeholders, for connections through a pooler.
//!
//! Values are written in the format of the type that the server assigns to a placeholder, so this type has to be queried
//! once. The server returns it only for a prepared statement. A pooler in transaction mode gives the connection to another
//! client after each transaction, so the query uses the transaction's own connection, or a connection that bypasses the
//! pooler.

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::Mutex;
use tokio_postgres::Client;
use tokio_postgres::types::Type;

use super::connect::Connector;
use super::error::classify;
use super::lanes::Lane;
use crate::sql::to_postgres;
use crate::{Error, OpenError, Sql};

/// Limit of statements whose types are cached. When it is reached, all are dropped.
const KNOWN: usize = 2048;
/// A query whose result is equal only on connections to one database of one running server.
const WHERE: &str = "SELECT current_database(), pg_postmaster_start_time()";

pub(super) struct Types {
    direct: Lane,
    known: Mutex<HashMap<Sql, Arc<[Type]>>>,
}

impl Types {
    pub(super) fn new(direct: Connector) -> Self {
        Self { direct: Lane::new(direct), known: Mutex::default() }
    }

    /// Refuses a direct URL that leads to another database than the pooler.
    pub(super) async fn check_same_database(&self, pooled: &Lane) -> Result<(), OpenError> {
        let location = self.direct.connector().location();
        let failed = |error: Error| OpenError::Unreachable { location: location.to_owned(), reason: error.to_string() };
        let mut found = Vec::new();
        for lane in [&self.direct, pooled] {
            let rows = lane.connection().await.map_err(failed)?.simple(WHERE).await.map_err(failed)?;
            found.push(rows);
        }
        if found[0] == found[1] {
            Ok(())
        } else {
            Err(OpenError::Url(format!("the direct URL leads to another database: {location}")))
        }
    }

    /// The types of a statement's placeholders. `own` is the connection of a transaction that is open.
    pub(super) async fn of(&self, sql: &Sql, own: Option<&Client>) -> Result<Arc<[Type]>, Error> {
        if let Some(types) = self.known.lock().get(sql) {
            return Ok(types.clone());
        }
        let text = to_postgres(sql.as_str());
        let prepared = match own {
            Some(client) => client.prepare(&text).await,
            None => self.direct.connection().await?.describe(&text).await,
        };
        // Dropping the statement closes it at the server, before the next statement of this connection.
        let types: Arc<[Type]> = prepared.map_err(|error| classify(error, sql.as_str()))?.params().into();
        if sql.is_worth_keeping() {
            let mut known = self.known.lock();
            if known.len() >= KNOWN {
                known.clear();
            }
            known.insert(sql.clone(), types.clone());
        }
        Ok(types)
    }

    /// Forgets the types of a statement that the server did not understand: its tables may have changed.
    pub(super) fn failed(&self, error: &tokio_postgres::Error, sql: &Sql) {
        let misunderstood = |code: &str| code.starts_with("42") || code.starts_with("22P") || code.starts_with("08P");
        if error.code().is_some_and(|code| misunderstood(code.code())) {
            self.known.lock().remove(sql);
        }
    }

    pub(super) fn direct(&self) -> &Connector {
        self.direct.connector()
    }
}
