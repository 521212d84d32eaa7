//! Hooks: a program's own code in writes and reads.
//!
//! [`EntityHooks`] run before and after the operations on one entity. A [`ChangeHook`] sees every change to any record,
//! of all entities. An [`OutsideHook`] waits for another system, outside of transactions.
//!
//! ```
//! use async_trait::async_trait;
//! use gatewright_entities::hooks::{EntityHooks, Values, Writing};
//! use gatewright_entities::operations::Error;
//! use gatewright_http::Problem;
//!
//! struct Slugs;
//!
//! #[async_trait]
//! impl EntityHooks for Slugs {
//!     async fn before_create(&self, _: Writing<'_>, values: &mut Values) -> Result<(), Error> {
//!         let title = values.get("title");
//!         let title = title.as_ref().and_then(|title| title.as_str()).unwrap_or_default();
//!         if title.contains("spam") {
//!             return Err(Error::from(Problem::forbidden("not here")));
//!         }
//!         let slug = title.to_lowercase().replace(' ', "-");
//!         values.set("slug", slug)
//!     }
//! }
//! ```

pub(crate) mod change;
pub(crate) mod entity;
pub(crate) mod outside;
mod values;

pub use change::{Change, ChangeHook};
pub use entity::{EntityHooks, Object, Writing};
pub use outside::{Asked, OutsideFailed, OutsideHook};
pub use values::Values;
