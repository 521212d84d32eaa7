//! Reading: TOML text and environment variables become one tree whose values know where they were written ([`node`],
//! [`parse`], [`environment`]); a [`Section`] returns a tree's values as typed settings and reports unknown keys
//! ([`section`], [`scalar`]). Secrets may be in files ([`secret`]). Reading is also the description of what can be set ([`setting`]).

mod environment;
mod node;
mod parse;
mod report;
mod scalar;
mod secret;
mod section;
mod setting;
mod to_toml;

pub(super) use environment::{PREFIX, SecretPaths, almost, overlay};
pub(super) use node::{Node, Table, Value};
pub(super) use parse::parse;
pub(super) use report::{Finding, Report};
pub(super) use scalar::{FromNode, Keyword, json, words};
pub use scalar::{LISTEN_ADDRESS, listen_address};
pub(super) use secret::SecretSources;
pub(super) use section::Section;
pub use setting::{Absent, Setting};
pub(super) use to_toml::ToToml;
