//! Entities: declared once, served with endpoints, rules, events and tables.
//!
//! A program declares [`Entity`]s; [`Entities::builder`] checks them ([`Declarations`]), migrates the database's tables
//! ([`schema`]) and compiles each into a plan. Then each request takes these steps:
//!
//! 1. `rest` reads it, and calls one method of [`Table`];
//! 2. [`access`] decides which records the caller reaches;
//! 3. `value` converts the body into typed values, or reports all its errors;
//! 4. the operation runs SQL that is limited to these records, as one transaction;
//! 5. `encode` writes the row as JSON directly from the driver: the answer and the event contain the same bytes.
//!
//! A program calls the same methods without HTTP: [`Entities::table`].
//!
//! Authentication and this crate do not depend on each other: the caller is a [`gatewright_base::Identity`] in the
//! request's extensions.

pub mod access;
pub mod answers;
mod audience;
mod before;
mod builder;
mod call;
mod condition;
mod context;
mod declare;
mod encode;
mod error;
pub mod files;
mod filter;
mod fragment;
pub mod hooks;
mod ids;
pub mod operations;
mod plan;
mod problem;
mod profile;
mod query;
mod readable;
mod rest;
pub mod schema;
mod search;
mod streams;
pub mod tenancy;
mod value;

pub use access::Action;
pub use builder::{BuildError, Builder, Tables};
pub use call::{Call, Surface};
pub use context::entities::Entities;
pub use context::exports::ExportLimits;
pub use context::gate::{ListLimits, share};
pub use context::table::Table;
pub use declare::{
    DEFAULT_MAX_LIST_LIMIT, DeclarationError, DeclarationErrors, Declarations, Entity, Field, Kind, Language, Literal,
    Location, OnDelete, Query, RecordCheck, TextPlace, Unique, UnknownKind, UnknownLanguage, UnknownOnDelete,
};
pub use encode::Record;
pub use error::UnknownTable;
pub use files::FileRules;
pub use operations::{ExportFormat, MAX_ITEMS};
pub use plan::{Bound, Constraints, Field as PlanField, Includable, Items, Plan};
pub use profile::{MAX_PROFILE_BYTES, Profile, ProfileField};
pub use query::{Count, ListQuery, RecordQuery};
pub use readable::SeenFields;
pub use rest::once::{IdempotencyKey, Repeatable};
pub use schema::Users;
pub use tenancy::TENANT_HEADER;
pub use value::{BodyError, FieldError, code};
