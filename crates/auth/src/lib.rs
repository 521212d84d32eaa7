//! Users, sessions and sign-in.
//!
//! A host builds an [`Auth`] once ([`Auth::builder`]) and mounts three things of it: [`Auth::router`], the routes under
//! `/auth`; [`Auth::middleware`], which tells every request who it is from; and, if it wants them, [`Auth::screens`].
//! Nothing else of a request is anybody's business but this crate's: the rest of a program reads
//! [`gatewright_base::Identity`].
//!
//! # The path of a request
//!
//! `middleware.rs` shows its credentials to the [`schemes`], of which each knows one kind. What they found becomes one
//! identity. A handler takes `gatewright_http::Caller`, or [`session::Session`] where only a person at a browser will do.
//!
//! # The path of a sign-in
//!
//! It is told at [`plugins::password`]. Whatever the way in, it ends at [`session::Mint`], the one door to a session, which
//! alone decides whether a second factor is owed.
//!
//! # What lies where
//!
//! [`users`], [`service_accounts`], [`session`] and [`tokens`] hold the stores and the types around them, [`single_use`] that of
//! mailed links; [`password`] and [`jwt`] the tools; `providers` the clients of identity providers; [`plugins`] the ways in,
//! each a folder with its screens; [`guards`] the layers by which a host holds callers to scopes and roles; [`audit`] what is
//! told to those who keep watch; [`screens`] the layout of pages and the account page that plugins add to. `foundation.rs` is
//! what plugins build on, `core.rs` what their routes work with, `problem.rs` what callers are told when it fails.

mod accounts;
mod assurance;
pub mod audit;
mod auth;
mod background;
mod builder;
mod config;
mod core;
mod devices;
mod disabling;
mod email;
mod foundation;
mod fresh;
pub mod guards;
mod housekeeping;
mod init_error;
pub mod jwt;
mod label;
mod legacy;
mod lockouts;
mod mail;
mod mailbox;
mod middleware;
mod operator;
pub mod password;
pub mod plugins;
mod problem;
#[cfg(feature = "oauth")]
pub mod providers;
mod registration;
mod removal;
mod returning;
pub mod schemes;
pub mod screen_policy;
pub mod screens;
pub mod service_accounts;
pub mod session;
pub mod single_use;
mod step_up;
mod stream_tickets;
pub mod tokens;
pub mod users;
mod witness;

pub use accounts::{AccountError, Accounts};
pub use assurance::Assurance;
pub use auth::Auth;
pub use builder::AuthBuilder;
pub use config::{AuthConfig, Limit, Limits, Registration};
pub use core::Core;
pub use email::{EmailAddress, InvalidEmail};
pub use foundation::{Foundation, Tools, Users};
/// Identity, time and randomness.
pub use gatewright_base as base;
/// The database.
pub use gatewright_db as db;
/// Problems, extractors and layers.
pub use gatewright_http as http;
/// Lockout limiters.
pub use gatewright_limits as limits;
pub use init_error::AuthInitError;
pub use label::{InvalidLabel, Label};
pub use legacy::legacy_booleans;
pub use lockouts::Lockouts;
pub use mail::{Mail, MailKind, Mailer, NewDevice};
pub use mailbox::Credentials;
pub use middleware::{AuthenticateLayer, Delegated};
pub use removal::{AccountRecords, DeletionProgress, RecordsAt, RecordsPage};
pub use screen_policy::ScreenPolicy;
pub use step_up::StepUpLayer;
