//! What operations share: the compiled entities with all that they were built with, one entity of them as a [`Table`], and
//! the decision who is let in.

pub(crate) mod admission;
pub(crate) mod cursor;
pub(crate) mod entities;
pub(crate) mod gate;
pub(crate) mod table;
