//! Counts that are asked for again while nothing was written.
//!
//! A list of a million records counts them all for its `total`, page after page. A reader's connection knows whether
//! anybody, another process included, has committed since it last counted: `PRAGMA data_version`. Until then its counts
//! hold.

use std::cell::RefCell;
use std::collections::HashMap;

use super::connection::OnThread;
use super::task;
use crate::row::ValueRef;
use crate::{Error, Sql, Value};

/// Counts kept on each reader's thread. Past it, any one makes room: then that one is counted again.
const KEPT: usize = 1_024;
/// Statements with longer parameters are counted each time.
const LONGEST: usize = 2_048;

#[derive(Default)]
struct Kept {
    /// The version of the database that the counts are of.
    version: i64,
    counts: HashMap<(Sql, Vec<u8>), i64>,
}

thread_local! {
    static COUNTS: RefCell<Kept> = RefCell::default();
}

impl OnThread {
    /// The one number that `sql` selects.
    pub(crate) fn count(self, sql: &Sql, params: &[Value]) -> Result<i64, Error> {
        // A writer's own changes do not show in its version.
        let Some(key) = task::is_reader().then(|| key(params)).flatten() else {
            return number(self, sql, params);
        };
        // Within the read transaction, so that the version is the one that is counted.
        let version = number(self, &"PRAGMA data_version".into(), &[])?;
        let key = (sql.clone(), key);
        let kept = COUNTS.with_borrow_mut(|kept| {
            if kept.version != version {
                kept.version = version;
                kept.counts.clear();
            }
            kept.counts.get(&key).copied()
        });
        if let Some(count) = kept {
            return Ok(count);
        }
        let count = number(self, sql, params)?;
        COUNTS.with_borrow_mut(|kept| {
            if kept.counts.len() >= KEPT
                && let Some(any) = kept.counts.keys().next().cloned()
            {
                kept.counts.remove(&any);
            }
            kept.counts.insert(key, count);
        });
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

/// The parameters as bytes, each with its kind and its length. `None` when they are long.
fn key(params: &[Value]) -> Option<Vec<u8>> {
    let mut key = Vec::new();
    let mut put = |kind: u8, bytes: &[u8]| {
        key.push(kind);
        key.extend_from_slice(&bytes.len().to_le_bytes());
        key.extend_from_slice(bytes.get(..LONGEST).unwrap_or(bytes));
    };
    for param in params {
        match param {
            Value::Null => put(0, &[]),
            Value::Bool(value) => put(1, &[u8::from(*value)]),
            Value::Int(value) => put(2, &value.to_le_bytes()),
            Value::Float(value) => put(3, &value.to_le_bytes()),
            Value::Text(value) => put(4, value.as_bytes()),
            Value::Bytes(value) => put(5, value),
            Value::Time(value) => put(6, &value.as_nanosecond().to_le_bytes()),
        }
    }
    (key.len() < LONGEST).then_some(key)
}
