//! SQLite in a build without the feature `sqlite`.

use std::marker::PhantomData;
use std::time::Duration;

use crate::row::{RowRef, ValueRef};
use crate::{Changes, Error, Lane, OpenError, Options, Row, Share, Sql, Tx, Value};

pub(crate) enum Sqlite {}
pub(crate) enum Pieces {}

impl Pieces {
    pub(crate) async fn next(&mut self) -> Result<Option<Vec<u8>>, Error> {
        match *self {}
    }
}

#[derive(Clone, Copy)]
pub(crate) enum OnThread {}
pub(crate) struct DriverRow<'a>(Never, PhantomData<&'a ()>);
enum Never {}

pub(crate) fn check_url(_: &str) -> Result<(), OpenError> {
    Err(absent())
}

pub(crate) fn value<'a>(row: &'a DriverRow<'_>, _: usize) -> Result<ValueRef<'a>, Error> {
    match row.0 {}
}

pub(crate) fn text_bytes<'a>(row: &'a DriverRow<'_>, _: usize) -> Option<&'a [u8]> {
    match row.0 {}
}

pub(crate) fn columns<'a>(row: &'a DriverRow<'_>) -> Vec<&'a str> {
    match row.0 {}
}

fn absent() -> OpenError {
    OpenError::Url("this program was built without SQLite (the feature `sqlite`)".to_owned())
}

impl Sqlite {
    pub(crate) async fn open(_: &str, _: &Options) -> Result<Self, OpenError> {
        Err(absent())
    }

    pub(crate) fn export<F>(&self, _: Sql, _: Vec<Value>, _: Duration, _: F) -> Pieces
    where
        F: FnMut(&RowRef<'_>, &mut Vec<u8>) -> Result<(), Error>,
    {
        match *self {}
    }

    pub(crate) fn claim(&self) -> Result<(), OpenError> {
        match *self {}
    }

    pub(crate) fn check_files(&self) -> Result<(), Error> {
        match *self {}
    }

    pub(crate) async fn close(&self) {
        match *self {}
    }

    pub(crate) async fn write<T, E, F: AsyncFn(&Tx) -> Result<T, E>>(&self, _: Share, _: F) -> Result<T, E> {
        match *self {}
    }

    pub(crate) async fn read<T, E, F: AsyncFn(&Tx) -> Result<T, E>>(&self, _: Lane, _: F) -> Result<T, E> {
        match *self {}
    }

    pub(crate) async fn execute(&self, _: Share, _: Sql, _: Vec<Value>) -> Result<u64, Error> {
        match *self {}
    }

    pub(crate) async fn query(&self, _: Lane, _: Sql, _: Vec<Value>) -> Result<Vec<Row>, Error> {
        match *self {}
    }

    pub(crate) async fn write_rows(&self, _: Share, _: Sql, _: Vec<Value>) -> Result<Vec<Row>, Error> {
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
        F: Fn(&mut A, &RowRef<'_>) -> Result<(), Error>,
        C: FnOnce(&A),
    {
        match *self {}
    }

    pub(crate) async fn fold<A, F>(&self, _: Lane, _: Sql, _: Vec<Value>, _: A, _: F) -> Result<A, Error>
    where
        F: Fn(&mut A, &RowRef<'_>) -> Result<(), Error>,
    {
        match *self {}
    }
}

impl OnThread {
    pub(crate) fn execute(self, _: &Sql, _: &[Value]) -> Result<u64, Error> {
        match self {}
    }

    pub(crate) fn query(self, _: &Sql, _: &[Value]) -> Result<Vec<Row>, Error> {
        match self {}
    }

    pub(crate) fn fold<A, F>(self, _: &Sql, _: &[Value], _: A, _: F) -> Result<A, Error>
    where
        F: FnMut(&mut A, &RowRef<'_>) -> Result<(), Error>,
    {
        match self {}
    }

    pub(crate) fn fold_within<F>(self, _: Duration, _: &Sql, _: &[Value], _: F) -> Result<(), Error>
    where
        F: FnMut(&RowRef<'_>) -> Result<(), Error>,
    {
        match self {}
    }

    pub(crate) fn count(self, _: &Sql, _: &[Value], _: Option<&Changes>) -> Result<i64, Error> {
        match self {}
    }

    pub(crate) fn last_number(self) -> Result<i64, Error> {
        match self {}
    }

    pub(crate) fn execute_script(self, _: &str) -> Result<(), Error> {
        match self {}
    }
}
