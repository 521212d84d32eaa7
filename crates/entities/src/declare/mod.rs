//! Declarations of entities, and their checks.
//!
//! [`Entity`] and [`Field`] are plain data: a Rust program chains their methods, a configuration file's reader calls
//! the same ones. Nothing is checked until [`Declarations::check`], which reports all errors together, each with its
//! place ([`DeclarationError::location`]), and converts valid declarations into models that need no further checks.
//! Schemas are compared with them, and plans are compiled from them.

mod check;
mod checked;
mod entity;
mod error;
mod field;
mod keys;
mod kind;
mod language;
mod literal;
pub(crate) mod model;
pub(crate) mod names;
mod query;
mod read;
mod row_rules;
mod rules;
mod warnings;
mod word;
pub(crate) mod written;

pub use check::Declarations;
pub use checked::RecordCheck;
pub(crate) use entity::ByAction;
pub use entity::{DEFAULT_MAX_LIST_LIMIT, Entity};
pub use error::{DeclarationError, DeclarationErrors, Location, TextPlace};
pub use field::Field;
pub use keys::Unique;
pub use kind::{Kind, OnDelete, UnknownKind, UnknownOnDelete};
pub use language::{Language, UnknownLanguage};
pub use literal::Literal;
pub(crate) use model::{Key, KeyField, Model, ModelField, Relation, Sequence, Target};
pub(crate) use query::Origin;
pub use query::Query;
pub(crate) use word::DefaultWord;
