//! Entities: declared once, served with endpoints, rules, events and tables.
//!
//! A program declares [`Entity`]s; [`Entities::builder`] checks them ([`Declarations`]), brings the database's tables in line
//! ([`schema`]) and compiles each into a plan. From then on a request takes this way:
//!
//! 1. `rest` reads it, and calls one method of [`Table`];
//! 2. [`access`] decides how far the caller reaches;
//! 3. `value` turns the body into typed values, or says all that is wrong with it;
//! 4. the operation runs SQL that is bounded by that reach, as one transaction;
//! 5. `encode` writes the row as JSON, straight from the driver: those bytes answer the caller and ride the bus.
//!
//! A program calls the same methods without HTTP: [`Entities::table`].
//!
//! Authentication and this crate do not know each other: who is calling is a [`gatewright_base::Identity`] in the
//! request's extensions.

pub mod access;
mod audience;
mod before;
mod builder;
mod call;
mod condition;
mod context;
mod declare;
mod encode;
mod error;
mod filter;
mod fragment;
pub mod hooks;
mod ids;
pub mod operations;
mod plan;
mod problem;
mod profile;
mod query;
mod rest;
pub mod schema;
pub mod tenancy;
mod value;

pub use access::Action;
pub use builder::{BuildError, Builder, Tables};
pub use call::{Call, Surface};
pub use context::entities::Entities;
pub use context::gate::ListLimits;
pub use context::table::Table;
pub use declare::{
    DEFAULT_MAX_LIST_LIMIT, DeclarationError, DeclarationErrors, Declarations, Entity, Field, Kind, Literal, Location,
    OnDelete, TextPlace, UnknownKind, UnknownOnDelete,
};
pub use encode::Record;
pub use error::UnknownTable;
pub use operations::MOST_ITEMS;
pub use plan::{Bound, Constraints, Field as PlanField, Plan};
pub use profile::{MOST_PROFILE_BYTES, Profile, ProfileField};
pub use query::{Count, ListQuery, RecordQuery};
pub use schema::Users;
pub use tenancy::TENANT_HEADER;
pub use value::{BodyError, FieldError, code};
