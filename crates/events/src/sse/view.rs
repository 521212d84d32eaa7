use std::fmt;
use std::sync::Arc;

use crate::EntityEvent;

/// What is shown of a record: JSON to JSON.
type Show = dyn Fn(&[u8]) -> Vec<u8> + Send + Sync;

/// What a stream shows of records: fewer of their fields.
///
/// Streams of one table whose views have the same key get the same frames.
#[derive(Clone)]
pub struct RecordView(Arc<Inner>);

struct Inner {
    key: String,
    show: Box<Show>,
}

impl RecordView {
    /// A view. Two with the same `key` on the same table must show the same. `show` gets a record in wire form, a JSON object,
    /// and returns one.
    pub fn new(key: impl Into<String>, show: impl Fn(&[u8]) -> Vec<u8> + Send + Sync + 'static) -> Self {
        Self(Arc::new(Inner { key: key.into(), show: Box::new(show) }))
    }

    pub(super) fn key(&self) -> &str {
        &self.0.key
    }

    /// The event with its record as the stream shows it.
    pub(super) fn of(&self, event: &EntityEvent) -> EntityEvent {
        event.showing((self.0.show)(event.record()))
    }
}

impl fmt::Debug for RecordView {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RecordView").field("key", &self.0.key).finish_non_exhaustive()
    }
}
