//! The shared context of operations: the compiled entities with their parts, one entity of them as a [`Table`], and the
//! access check.

pub(crate) mod admission;
pub(crate) mod body_turns;
pub(crate) mod cursor;
pub(crate) mod entities;
pub(crate) mod exports;
pub(crate) mod gate;
pub(crate) mod table;
