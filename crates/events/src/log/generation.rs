use std::sync::Arc;

/// The time for which the positions of a log belong to the same events.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Generation {
    /// The log's name, the same in every process.
    pub(crate) name: Arc<str>,
    /// Counts the generations in this process.
    pub(crate) number: u64,
}

impl Generation {
    pub(super) fn first(name: String) -> Self {
        Self { name: name.into(), number: 1 }
    }

    pub(super) fn next(&self, name: String) -> Self {
        Self { name: name.into(), number: self.number + 1 }
    }
}
