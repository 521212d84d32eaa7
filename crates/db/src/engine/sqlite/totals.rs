//! Counts cached by readers' connections. `PRAGMA data_version` shows whether another connection, also of another
//! process, has committed since the last count.

use std::cell::RefCell;

use super::connection::OnThread;
use super::task;
use crate::engine::totals::{self, Totals};
use crate::row::ValueRef;
use crate::{Error, Sql, Value};

thread_local! {
    static TOTALS: RefCell<Totals<i64>> = RefCell::default();
}

impl OnThread {
    /// The one number that `sql` selects.
    pub(crate) fn count(self, sql: &Sql, params: &[Value]) -> Result<i64, Error> {
        // A writer's own changes do not show in its version.
        let Some(key) = task::is_reader().then(|| totals::key(sql, params)).flatten() else {
            return number(self, sql, params);
        };
        // Within the read transaction, so that the version is the one that is counted.
        let version = number(self, &"PRAGMA data_version".into(), &[])?;
        let known = TOTALS.with_borrow(|totals| totals.known(&key).filter(|(of, _)| **of == version).map(|(_, n)| n));
        if let Some(count) = known {
            return Ok(count);
        }
        let count = number(self, sql, params)?;
        TOTALS.with_borrow_mut(|totals| totals.keep(version, key, count));
        Ok(count)
    }
}

fn number(on_thread: OnThread, sql: &Sql, params: &[Value]) -> Result<i64, Error> {
    on_thread.fold(sql, params, 0, |number, row| {
        if let ValueRef::Int(value) = row.value(0)? {
            *number = value;
        }
        Ok(())
    })
}
