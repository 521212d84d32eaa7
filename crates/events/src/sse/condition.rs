use std::collections::HashMap;
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};

use crate::EntityEvent;

/// The condition of a stream on its records: its `filter=`.
///
/// Streams of one table whose conditions have the same key share one, which is tested once for each event.
#[derive(Clone)]
pub struct Condition(Arc<Inner>);

struct Inner {
    id: u64,
    key: String,
    test: Box<dyn Fn(&EntityEvent) -> bool + Send + Sync>,
}

impl Condition {
    /// A condition. Two with the same `key` on the same table must give the same answers. One that panics ends its
    /// streams.
    pub fn new(key: impl Into<String>, test: impl Fn(&EntityEvent) -> bool + Send + Sync + 'static) -> Self {
        static LAST: AtomicU64 = AtomicU64::new(0);
        let id = LAST.fetch_add(1, Ordering::Relaxed);
        Self(Arc::new(Inner { id, key: key.into(), test: Box::new(test) }))
    }

    /// The condition that an event meets the one of its table, if that has one. `None` if none has.
    pub fn by_table(conditions: Vec<(Arc<str>, Self)>) -> Option<Self> {
        if conditions.is_empty() {
            return None;
        }
        let keys: Vec<_> =
            conditions.iter().map(|(table, condition)| format!("{table:?} {:?}", condition.0.key)).collect();
        Some(Self::new(keys.join(" "), move |event| {
            let of_table = conditions.iter().find(|(table, _)| **table == *event.table());
            of_table.is_none_or(|(_, condition)| condition.holds(event))
        }))
    }

    pub(super) fn id(&self) -> u64 {
        self.0.id
    }

    pub(super) fn holds(&self, event: &EntityEvent) -> bool {
        (self.0.test)(event)
    }
}

impl fmt::Debug for Condition {
    /// Without the key, which contains search terms of users.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Condition").field("id", &self.0.id).finish_non_exhaustive()
    }
}

/// The conditions of a table's open streams, one for each key.
#[derive(Default)]
pub(super) struct Conditions(HashMap<String, Weak<Inner>>);

impl Conditions {
    /// The condition that open streams share, or this one if it is the first with its key.
    pub(super) fn share(&mut self, condition: Condition) -> Condition {
        if let Some(shared) = self.0.get(&condition.0.key).and_then(Weak::upgrade) {
            return Condition(shared);
        }
        if self.0.len() == self.0.capacity() {
            self.0.retain(|_, shared| shared.strong_count() > 0);
        }
        self.0.insert(condition.0.key.clone(), Arc::downgrade(&condition.0));
        condition
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_keys_share_one_condition_for_as_long_as_a_stream_has_it() {
        let mut conditions = Conditions::default();
        let first = conditions.share(Condition::new("a", |_| true));
        let second = conditions.share(Condition::new("a", |_| true));
        let other = conditions.share(Condition::new("b", |_| true));
        assert_eq!(first.id(), second.id());
        assert_ne!(first.id(), other.id());
        let before = first.id();
        drop((first, second));
        assert_ne!(conditions.share(Condition::new("a", |_| true)).id(), before);
        for n in 0..10_000 {
            conditions.share(Condition::new(format!("gone {n}"), |_| true));
        }
        assert!(conditions.0.len() < 100);
    }
}
