//! What a program says about its entities, and the checks that it must pass.
//!
//! [`Entity`] and [`Field`] are plain data: a Rust program chains their methods, a configuration file's reader calls
//! the same ones. Nothing is checked until [`Declarations::check`], which then says all that is wrong at once, each
//! error with its place ([`DeclarationError::location`]), and turns what is right into models that need no further
//! checks. Declarations that passed are what schemas are compared with and plans are compiled from.

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
