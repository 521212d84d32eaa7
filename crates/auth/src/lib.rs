//! Users, sessions and sign-in.
//!
//! A host builds an [`Auth`] once ([`Auth::builder`]) and mounts three parts of it: [`Auth::router`], the routes under
//! `/auth`; [`Auth::middleware`], which identifies the caller of every request; and, optionally, [`Auth::screens`].
//! The rest of a program reads only [`gatewright_base::Identity`].
//!
//! # The path of a request
//!
//! `middleware.rs` passes the request's credentials to the [`schemes`]. Each scheme knows one kind of credential. Their results
//! become one identity. A handler takes `gatewright_http::Caller`, or [`session::Session`] if only a browser session is
//! accepted.
//!
//! # The path of a sign-in
//!
//! [`plugins::password`] describes it. Every method of sign-in ends at [`session::Mint`], the only code that creates sessions
//! and decides whether a second factor is required.
//!
//! # Modules
//!
//! | Module | Contents |
//! |---|---|
//! | [`users`], [`service_accounts`], [`session`], [`tokens`] | the stores and the types around them |
//! | [`single_use`] | mailed links and codes |
//! | [`password`], [`jwt`] | hashing and tokens |
//! | `providers` | clients of identity providers |
//! | [`presets`] | what is known of the providers that a configuration can name |
//! | [`plugins`] | the methods of sign-in and what belongs to them, a folder each |
//! | [`guards`] | layers that require scopes and roles |
//! | [`audit`] | audit events and their sinks |
//! | [`screens`] | the layout of pages, and the account page to which plugins add sections |
//!
//! `foundation.rs` is the basis of plugins, `core.rs` that of their routes, `web.rs` that of their handlers, and
//! `problem.rs` turns errors into responses.

mod account_events;
mod accounts;
mod assurance;
pub mod audit;
mod auth;
mod background;
mod builder;
mod config;
mod core;
mod credentials;
mod devices;
pub mod directory;
mod disabling;
mod email;
mod email_changes;
mod foundation;
mod fresh;
pub mod guards;
mod guests;
mod housekeeping;
mod impersonation;
mod init_error;
mod invitations;
pub mod jwt;
mod label;
mod legacy;
mod live_limits;
mod lockouts;
mod mail;
mod mailbox;
mod middleware;
mod open_session;
mod operator;
mod operators;
pub mod password;
mod password_marker;
pub mod plugins;
pub mod presets;
mod problem;
mod profiles;
#[cfg(feature = "oauth")]
pub mod providers;
mod removal;
mod restricted;
mod returning;
pub mod schemes;
pub mod screen_policy;
pub mod screens;
pub mod service_accounts;
pub mod session;
mod session_limit;
mod sign_in_methods;
pub mod single_use;
mod step_up;
mod stream_tickets;
pub mod tokens;
mod typed;
pub mod users;
mod web;

pub use account_events::{Account, AccountEventKind, AccountEventSink};
pub use accounts::{AccountError, Accounts};
pub use assurance::Assurance;
pub use auth::Auth;
pub use builder::AuthBuilder;
pub use config::{AuthConfig, Guests, Impersonation, Limit, Limits, Registration};
pub use core::Core;
pub use credentials::Credentials;
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
pub use impersonation::{Impersonated, ImpersonationError};
pub use init_error::AuthInitError;
pub use label::{InvalidLabel, Label};
pub use legacy::legacy_booleans;
pub use lockouts::Lockouts;
pub use mail::{Invited, Mail, MailKind, Mailer, NewDevice};
pub use middleware::{AuthenticateLayer, Delegated};
pub use operators::{AccountName, Unverified};
pub use removal::{AccountRecords, DeletionProgress, RecordsAt, RecordsPage};
pub use screen_policy::ScreenPolicy;
pub use screens::account::AccountPage;
pub use step_up::StepUpLayer;
