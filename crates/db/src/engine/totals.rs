//! Cached counts, valid until the next write.
//!
//! A list of a million records counts them all for its `total`, page after page. A connection caches its counts together
//! with the state of the database that they belong to: SQLite's `data_version`, or Postgres' snapshot. They are valid until
//! it changes.

use std::collections::HashMap;

use crate::{Sql, Value};

/// The most counts that a connection keeps. Past it, any one makes room: then that one is counted again.
const KEPT: usize = 1_024;
/// Statements with longer parameters are counted each time.
const LONGEST: usize = 2_048;

/// A statement and the bytes of its parameters.
pub(crate) type Key = (Sql, Vec<u8>);

/// The counts of one state of the database.
#[derive(Debug, Default)]
pub(crate) struct Totals<S> {
    state: S,
    counts: HashMap<Key, i64>,
}

impl<S: PartialEq> Totals<S> {
    /// The count, if it is known, and the state that it is of.
    pub(crate) fn known(&self, key: &Key) -> Option<(&S, i64)> {
        self.counts.get(key).map(|count| (&self.state, *count))
    }

    /// Caches a count of a state, and drops those of another state.
    pub(crate) fn keep(&mut self, state: S, key: Key, count: i64) {
        if self.state != state {
            self.state = state;
            self.counts.clear();
        }
        if self.counts.len() >= KEPT
            && let Some(any) = self.counts.keys().next().cloned()
        {
            self.counts.remove(&any);
        }
        self.counts.insert(key, count);
    }
}

/// The key of a count: each parameter with its kind and its length. `None` if they are long.
pub(crate) fn key(sql: &Sql, params: &[Value]) -> Option<Key> {
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
            Value::Json(value) => put(7, value.as_str().as_bytes()),
            Value::Bytes(value) => put(5, value),
            Value::Time(value) => put(6, &value.as_nanosecond().to_le_bytes()),
        }
    }
    (key.len() < LONGEST).then(|| (sql.clone(), key))
}
