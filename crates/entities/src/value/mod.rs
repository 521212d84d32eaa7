//! Converts JSON into typed values, and reports all errors.
//!
//! A body is split into its members without being built ([`json`]); each member's text is read by its field's type
//! ([`types`]), so that a 19-digit integer or a 38-digit decimal never passes through a float; [`body`] brings the
//! members and the fields together and collects every error.

pub(crate) mod body;
pub(crate) mod decimal;
mod error;
pub(crate) mod json;
pub(crate) mod list;
pub(crate) mod merge;
pub(crate) mod operator;
pub(crate) mod types;

pub(crate) use body::Draft;
pub(crate) use error::Fault;
pub use error::{BodyError, FieldError, code};
pub(crate) use types::Type;
