//! Reads on connections of their own: lists, and single reads that are too slow or too large for shared connections.

use std::sync::Arc;
use std::time::Duration;

use deadpool::managed::{Object, Pool};
use futures_util::future::BoxFuture;
use gatewright_base::{Shares, Turn};

use super::connect::{Connector, by_index};
use super::transaction::Open;
use super::writes::Transactions;
use super::{connection_of, pool};
use crate::{Error, OpenError, Options, Share};

pub(super) struct Lists {
    pool: Pool<Connector>,
    shares: Shares<Share>,
    /// How long a single read waits for its turn: as long as it may take.
    patience: Duration,
    /// For a single read: those of shared connections, with the ordinary time limit.
    settings: String,
    transactions: Arc<Transactions>,
}

impl Lists {
    pub(super) fn new(
        connector: Connector,
        connections: usize,
        transactions: Arc<Transactions>,
        options: &Options,
    ) -> Result<Self, OpenError> {
        let limit = options.statement_timeout.as_millis();
        Ok(Self {
            pool: pool(connector, connections, options)?,
            // A share leaves one connection for other shares.
            shares: Shares::within(connections - 1, connections),
            patience: options.statement_timeout,
            settings: format!("SET LOCAL statement_timeout = {limit}; {}", by_index(true)),
            transactions,
        })
    }

    /// A connection for a list.
    pub(super) fn open(&self, share: Share) -> BoxFuture<'_, Result<Open, Error>> {
        Box::pin(async move {
            let turn = self.shares.take(share).await;
            Ok(Open::listing(connection_of(&self.pool).await?, Some(turn)))
        })
    }

    /// A connection for single reads that others must not wait for. The program's own reads do not wait for callers' lists.
    pub(super) async fn single(&self, share: Share) -> Result<(Object<Connector>, Option<Turn>), Error> {
        if share == Share::default() {
            return Ok((self.transactions.connection().await?, None));
        }
        let turn = tokio::time::timeout(self.patience, self.shares.take(share)).await.map_err(|_| Error::Busy)?;
        Ok((connection_of(&self.pool).await?, Some(turn)))
    }

    /// The settings of a single read's transaction.
    pub(super) fn settings(&self) -> &str {
        &self.settings
    }

    pub(super) fn close(&self) {
        self.pool.close();
    }
}
