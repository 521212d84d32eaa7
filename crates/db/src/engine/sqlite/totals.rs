//! Counts cached by readers' connections. `PRAGMA data_version` shows whether another connection, also of another
//! process, has committed since the last count.
//!
//! Where writes never pause, that is always so. The count of a large table is then the last one and the [`Changes`] since, for
//! about a second: then the rows are counted again, because a program that writes around the log may have changed their number.

use std::cell::RefCell;
use std::collections::HashMap;
use std::time::{Duration, Instant};

use super::connection::OnThread;
use super::task;
use crate::changes::Changes;
use crate::engine::totals::{self, Key, Totals};
use crate::row::{RowRef, ValueRef};
use crate::{Error, Sql, Value};

/// From this count on, the log is read in place of the rows. Below, counting them takes a fraction of a millisecond.
const WORTH_FOLLOWING: i64 = 10_000;
/// How long the log is followed until the rows are counted again: at least, and as a multiple of the time that counting took.
const FOLLOWED: Duration = Duration::from_secs(1);
const TIMES: u32 = 20;
/// The most changes that are read in place of the rows.
const CHANGES: i64 = 2_000;
/// The most counts that a connection follows. Past it, any one makes room.
const KEPT: usize = 64;

/// A count, and where the log was.
#[derive(Debug, Clone, Copy)]
struct Followed {
    count: i64,
    position: i64,
    /// When the rows are counted again.
    until: Instant,
}

thread_local! {
    static TOTALS: RefCell<Totals<i64>> = RefCell::default();
    static FOLLOWING: RefCell<HashMap<Key, Followed>> = RefCell::default();
}

impl OnThread {
    /// The one number that `sql` selects.
    pub(crate) fn count(self, sql: &Sql, params: &[Value], changes: Option<&Changes>) -> Result<i64, Error> {
        // A writer's own changes do not show in its version. Without a transaction, each statement has its own snapshot.
        let is_kept = task::is_reader() && !self.is_autocommit();
        let Some(key) = is_kept.then(|| totals::key(sql, params)).flatten() else {
            return number(self, sql, params);
        };
        // Within the read transaction, so that the version is the one that is counted.
        let version = number(self, &"PRAGMA data_version".into(), &[])?;
        let known = TOTALS.with_borrow(|totals| totals.known(&key).filter(|(of, _)| **of == version).map(|(_, n)| n));
        if let Some(count) = known {
            return Ok(count);
        }
        let count = match changes {
            Some(changes) => self.followed(&key, (sql, params), changes)?,
            None => number(self, sql, params)?,
        };
        TOTALS.with_borrow_mut(|totals| totals.keep(version, key, count));
        Ok(count)
    }

    /// The last count with the changes since, or else a new one.
    fn followed(self, key: &Key, (sql, params): (&Sql, &[Value]), changes: &Changes) -> Result<i64, Error> {
        let last = FOLLOWING.with_borrow(|following| following.get(key).copied());
        if let Some(last) = last.filter(|last| Instant::now() < last.until)
            && let Some(next) = self.follow(last, changes)?
        {
            keep(key, next);
            return Ok(next.count);
        }
        let position = self.fold(&changes.newest, &[], None, |position, row| {
            *position = integer(row, 0)?;
            Ok(())
        })?;
        let begun = Instant::now();
        let count = number(self, sql, params)?;
        let until = Instant::now() + FOLLOWED.max(begun.elapsed() * TIMES);
        match position.filter(|_| count >= WORTH_FOLLOWING) {
            Some(position) => keep(key, Followed { count, position, until }),
            None => {
                FOLLOWING.with_borrow_mut(|following| following.remove(key));
            }
        }
        Ok(count)
    }

    /// The count after the changes since; `None` if the log does not tell.
    fn follow(self, last: Followed, changes: &Changes) -> Result<Option<Followed>, Error> {
        let mut params = changes.params.clone();
        params.extend([Value::Int(last.position), Value::Int(CHANGES)]);
        let read = self.fold(&changes.since, &params, None, |read, row| {
            *read = integer(row, 0)?.zip(integer(row, 1)?);
            Ok(())
        })?;
        Ok(read.map(|(more, position)| Followed { count: last.count + more, position, ..last }))
    }
}

fn keep(key: &Key, count: Followed) {
    FOLLOWING.with_borrow_mut(|following| {
        if following.len() >= KEPT
            && !following.contains_key(key)
            && let Some(any) = following.keys().next().cloned()
        {
            following.remove(&any);
        }
        following.insert(key.clone(), count);
    });
}

fn number(on_thread: OnThread, sql: &Sql, params: &[Value]) -> Result<i64, Error> {
    on_thread.fold(sql, params, 0, |number, row| {
        *number = integer(row, 0)?.unwrap_or(*number);
        Ok(())
    })
}

/// `None` for NULL.
fn integer(row: &RowRef<'_>, column: usize) -> Result<Option<i64>, Error> {
    Ok(if let ValueRef::Int(value) = row.value(column)? { Some(value) } else { None })
}
