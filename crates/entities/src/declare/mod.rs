//! Declarations of entities, and their checks.
//!
//! [`Entity`] and [`Field`] are plain data: a Rust program chains their methods, a configuration file's reader calls
//! the same ones. Nothing is checked until [`Declarations::check`], which reports all errors together, each with its
//! place ([`DeclarationError::location`]), and converts valid declarations into models that need no further checks.
//! Schemas are compared with them, and plans are compiled from them.

mod check;
mod entity;
mod error;
mod field;
mod kind;
mod literal;
pub(crate) mod model;
pub(crate) mod names;
mod row_rules;
mod rules;
mod warnings;

pub use check::Declarations;
pub(crate) use entity::ByAction;
pub use entity::{DEFAULT_MAX_LIST_LIMIT, Entity};
pub use error::{DeclarationError, DeclarationErrors, Location, TextPlace};
pub use field::Field;
pub use kind::{Kind, OnDelete, UnknownKind, UnknownOnDelete};
pub use literal::Literal;
pub(crate) use model::{Model, ModelField, Relation, Target};
