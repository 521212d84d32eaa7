//! Postgres in a build without the feature `postgres`.

use std::time::Duration;

use crate::row::{RowRef, ValueRef};
use crate::{Error, Lane, OpenError, Options, Row, Share, Sql, Tx, Value};

pub(crate) enum Postgres {}
pub(crate) enum Open {}
pub(crate) enum DriverRow {}
pub(crate) enum Pieces {}

impl Pieces {
    pub(crate) async fn next(&mut self) -> Result<Option<Vec<u8>>, Error> {
        match *self {}
    }
}

/// Notifications between replicas. There are none without the feature `postgres`.
#[derive(Debug)]
pub enum Listener {}

impl Listener {
    /// The next message.
    pub async fn next(&mut self) -> Result<String, Error> {
        match *self {}
    }
}

pub(crate) fn check_url(_: &str) -> Result<(), OpenError> {
    Err(absent())
}

#[expect(clippy::unused_async, reason = "the signature of the engine")]
pub(crate) async fn check_encoding(_: &str, _: &Options) -> Result<(), OpenError> {
    Ok(())
}

pub(crate) fn is_exposed(_: &str) -> bool {
    false
}

pub(crate) fn value(row: &DriverRow, _: usize) -> Result<ValueRef<'_>, Error> {
    match *row {}
}

pub(crate) fn columns(row: &DriverRow) -> Vec<&str> {
    match *row {}
}

fn absent() -> OpenError {
    OpenError::Url("this program was built without Postgres (the feature `postgres`)".to_owned())
}

impl Postgres {
    pub(crate) async fn open(_: &str, _: &Options) -> Result<Self, OpenError> {
        Err(absent())
    }

    pub(crate) async fn write<T, E, F: AsyncFn(&Tx) -> Result<T, E>>(&self, _: Share, _: F) -> Result<T, E> {
        match *self {}
    }

    pub(crate) async fn read<T, E, F: AsyncFn(&Tx) -> Result<T, E>>(&self, _: Lane, _: F) -> Result<T, E> {
        match *self {}
    }

    pub(crate) fn export<F>(&self, _: Sql, _: Vec<Value>, _: Duration, _: F) -> Pieces
    where
        F: FnMut(&RowRef<'_>, &mut Vec<u8>) -> Result<(), Error>,
    {
        match *self {}
    }

    pub(crate) fn close(&self) {
        match *self {}
    }

    pub(crate) async fn listen(&self, _: &str) -> Result<Listener, Error> {
        match *self {}
    }

    pub(crate) async fn execute(&self, _: Share, _: &Sql, _: &[Value]) -> Result<u64, Error> {
        match *self {}
    }

    pub(crate) async fn write_rows(&self, _: Share, _: &Sql, _: &[Value]) -> Result<Vec<Row>, Error> {
        match *self {}
    }

    pub(crate) async fn query(&self, _: Lane, _: &Sql, _: &[Value]) -> Result<Vec<Row>, Error> {
        match *self {}
    }

    pub(crate) async fn write_fold<A, F, C>(
        &self,
        _: Share,
        _: Sql,
        _: Vec<Value>,
        _: A,
        _: F,
        _: C,
    ) -> Result<A, Error>
    where
        F: FnMut(&mut A, &RowRef<'_>) -> Result<(), Error>,
        C: FnOnce(&A),
    {
        match *self {}
    }

    pub(crate) async fn fold<A, F>(&self, _: Lane, _: &Sql, _: &[Value], _: A, _: F) -> Result<A, Error>
    where
        F: FnMut(&mut A, &RowRef<'_>) -> Result<(), Error>,
    {
        match *self {}
    }
}

impl Open {
    pub(crate) async fn execute(&self, _: &Sql, _: &[Value]) -> Result<u64, Error> {
        match *self {}
    }

    pub(crate) async fn query(&self, _: &Sql, _: &[Value]) -> Result<Vec<Row>, Error> {
        match *self {}
    }

    pub(crate) async fn fold<A, F>(&self, _: &Sql, _: &[Value], _: A, _: F) -> Result<A, Error>
    where
        F: FnMut(&mut A, &RowRef<'_>) -> Result<(), Error>,
    {
        match *self {}
    }

    pub(crate) async fn fold_and_count<A, F>(
        &self,
        _: (&Sql, &[Value]),
        _: A,
        _: F,
        _: (&Sql, &[Value]),
    ) -> Result<(A, i64), Error>
    where
        F: FnMut(&mut A, &RowRef<'_>) -> Result<(), Error>,
    {
        match *self {}
    }

    pub(crate) async fn count(&self, _: &Sql, _: &[Value]) -> Result<i64, Error> {
        match *self {}
    }

    pub(crate) async fn fold_within<F>(
        &self,
        _: Duration,
        _: &Sql,
        _: &[Value],
        _: F,
    ) -> Result<Result<(), Error>, Error>
    where
        F: FnMut(&RowRef<'_>) -> Result<(), Error>,
    {
        match *self {}
    }

    pub(crate) async fn number(&self, _: &Sql, _: &[Value]) -> Result<i64, Error> {
        match *self {}
    }

    pub(crate) async fn execute_script(&self, _: &str) -> Result<(), Error> {
        match *self {}
    }

    pub(crate) fn one_snapshot(&self) {
        match *self {}
    }
}
