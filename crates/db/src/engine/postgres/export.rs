//! Exports: one statement each, on a connection of its own. The server waits for the reader.

use std::pin::pin;
use std::time::Duration;

use futures_util::TryStreamExt;
use futures_util::future::{Either, select};
use tokio::sync::mpsc;

use super::connect::Connector;
use super::connection::{Connection, TIMEOUT};
use super::error::classify;
use crate::export::PIECE;
use crate::row::{RowRef, Source};
use crate::{Error, Sql, Value};

/// How many pieces wait for the reader.
const WAITING: usize = 4;

/// What an export has produced. Dropping it stops the statement.
pub(crate) struct Pieces(mpsc::Receiver<Piece>);

/// `None` after the last row.
type Piece = Result<Option<Vec<u8>>, Error>;

impl Pieces {
    pub(crate) async fn next(&mut self) -> Piece {
        self.0.recv().await.unwrap_or(Err(Error::Closed))
    }
}

/// A connection that is closed, with its statement, if it is dropped.
struct Own(Option<Connection>);

impl Drop for Own {
    fn drop(&mut self) {
        if let Some(connection) = self.0.take() {
            connection.abandon();
        }
    }
}

pub(super) fn export<F>(connector: Connector, sql: Sql, params: Vec<Value>, time: Duration, write: F) -> Pieces
where
    F: FnMut(&RowRef<'_>, &mut Vec<u8>) -> Result<(), Error> + Send + 'static,
{
    let (sender, receiver) = mpsc::channel(WAITING);
    tokio::spawn(async move {
        let running = pin!(run(&connector, (&sql, &params), time, write, &sender));
        let gone = pin!(sender.closed());
        if let Either::Left((ended, _)) = select(running, gone).await {
            let _gone = sender.send(ended.map(|()| None)).await;
        }
    });
    Pieces(receiver)
}

async fn run(
    connector: &Connector,
    (sql, params): (&Sql, &[Value]),
    time: Duration,
    mut write: impl FnMut(&RowRef<'_>, &mut Vec<u8>) -> Result<(), Error> + Send,
    sender: &mpsc::Sender<Piece>,
) -> Result<(), Error> {
    let connected = tokio::time::timeout(TIMEOUT, connector.connect()).await;
    let lost = |_| Error::ConnectionLost("the server did not answer in time".to_owned());
    let own = Own(Some(connected.map_err(lost)??));
    let Some(connection) = &own.0 else { return Err(Error::Closed) };
    connection.begin_snapshot(&format!("SET LOCAL statement_timeout = {}", time.as_millis())).await?;
    let mut rows = pin!(connection.stream(sql, params).await?);
    let mut piece = Vec::new();
    while let Some(row) = rows.try_next().await.map_err(|error| classify(error, sql.as_str()))? {
        write(&RowRef(Source::Postgres(&row)), &mut piece)?;
        if piece.len() >= PIECE {
            sender.send(Ok(Some(std::mem::take(&mut piece)))).await.map_err(|_| Error::Closed)?;
        }
    }
    if !piece.is_empty() {
        sender.send(Ok(Some(piece))).await.map_err(|_| Error::Closed)?;
    }
    Ok(())
}
