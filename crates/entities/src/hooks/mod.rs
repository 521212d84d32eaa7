//! A program's own part in writes and reads.

pub(crate) mod change;
pub(crate) mod entity;
mod values;

pub use change::{Change, HookFuture, WriteHook};
pub use entity::{Hooks, Object, ReadFuture, Writing};
pub use values::Values;
