use std::fmt;
use std::sync::Arc;

use bytes::Bytes;

use super::{Claim, KeptAnswer};
use crate::encode::Record;

/// What a write has done.
#[derive(Debug)]
pub enum Written<'a> {
    /// A record was created (true) or changed.
    Record(&'a Record, bool),
    /// A record was deleted.
    Deleted(&'a Record),
    /// All items of a batch were written. The results in the order of the items.
    Batch(&'a [Bytes]),
}

/// The answer of an interface to a write.
pub type Render = Arc<dyn Fn(&Written<'_>) -> KeptAnswer + Send + Sync>;

/// What belongs to a call whose answer is kept.
#[derive(Clone)]
pub(crate) struct Keeping {
    pub(crate) claim: Claim,
    pub(crate) render: Render,
}

impl fmt::Debug for Keeping {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Keeping").finish_non_exhaustive()
    }
}
