//! Request bodies: bounded, then parsed into one shape, then into the handler's own type.
//!
//! [`read`] takes the bytes within the limit. JSON objects, form posts and multipart forms all become [`Fields`]: names
//! in `snake_case`, whichever case they came in, each with its value. The handler's type is deserialised from there, so
//! that a flow is written once for scripts and for browsers. [`RawJson`] stops at the bytes.

mod content_type;
mod deserialize;
mod error;
mod fields;
pub(crate) mod form;
mod json;
mod multipart;
mod read;
mod submission;
pub(crate) mod unreadable;

pub use content_type::ContentType;
pub use error::FieldsError;
pub use fields::Fields;
pub use json::{JsonBody, RawJson};
pub use submission::{Kind, Submission};
