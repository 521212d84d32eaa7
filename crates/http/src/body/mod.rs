//! Request bodies: limited, then parsed into one form, then into the handler's own type.
//!
//! [`read`] reads the bytes within the limit. JSON objects, form posts and multipart forms all become [`Fields`]: names
//! in `snake_case`, whichever case the caller used, each with its value. The handler's type is deserialised from them,
//! so that one handler serves scripts and browsers. [`RawJson`] and [`PatchJson`] return the bytes.

mod content_type;
mod deserialize;
mod error;
mod fields;
pub(crate) mod form;
mod json;
mod multipart;
mod patch;
mod read;
mod submission;
pub(crate) mod unreadable;

pub use content_type::ContentType;
pub use error::FieldsError;
pub use fields::Fields;
pub use json::{JsonBody, RawJson};
pub use patch::PatchJson;
pub use submission::{Kind, Submission};
