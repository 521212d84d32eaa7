//! The whole backend, to mount or to serve.
//!
//! [`Config`] describes the backend, and [`App`] runs it. The server of the command line is no more than this:
//!
//! ```no_run
//! use gatewright::{App, Config};
//! use tokio::net::TcpListener;
//!
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! let config = Config::from_toml("gatewright.toml", &std::fs::read_to_string("gatewright.toml")?)?;
//! let listener = TcpListener::bind(config.server.address()).await?;
//! let app = App::builder(config).build().await?;
//! app.serve(listener, async {
//!     let _interrupted = tokio::signal::ctrl_c().await;
//! })
//! .await;
//! # Ok(()) }
//! ```
//!
//! A program with its own router mounts [`App::router`] into it instead, and serves both itself.
//!
//! A request passes `serve` (the connection), `gatewright_http::layers` (id, headers, deadline, body limit), the
//! credentials of `gatewright_auth`, and then the routes of auth, of the entities, or of this crate (`health`,
//! `metrics`).

mod accounts;
mod admin;
mod app;
mod backups;
mod carriers;
pub mod config;
mod consumers;
#[cfg(feature = "docs")]
mod docs;
mod explain;
mod function_info;
#[cfg(feature = "functions")]
mod functions;
#[cfg(not(feature = "functions"))]
#[path = "no_functions.rs"]
mod functions;
mod health;
mod home;
mod hooks;
mod inviting;
mod jobs;
#[cfg(feature = "mail")]
mod mails;
#[cfg(feature = "mcp")]
mod mcp;
mod metrics;
pub mod openapi;
mod outbox;
mod picture;
mod promote;
mod replicas;
pub mod schema;
mod serve;
mod signed;
mod tenants;
pub mod types;
mod verify;

pub use accounts::{AccountsError, DeleteAccountError, accounts, delete_account, management};
pub use app::{App, AppBuilder, BuildError, ReloadError, Reloaded, Reloader};
pub use backups::{BackupFiles, CreateBackupError, RestoreError, Restored, Written, backup, restore};
pub use config::Config;
pub use explain::{ExplainAs, ExplainError, Question, explain, explain_offline};
pub use function_info::FunctionInfo;
pub use functions::{check_functions, functions};
/// Accounts and sign-in.
pub use gatewright_auth as auth;
/// Identity, time and randomness.
pub use gatewright_base as base;
/// The database.
pub use gatewright_db as db;
/// Declared entities.
pub use gatewright_entities as entities;
/// The bus and the streams of entity writes.
pub use gatewright_events as events;
/// Problems, extractors and layers.
pub use gatewright_http as http;
/// Lockout limiters.
pub use gatewright_limits as limits;
/// Mails: their queue, templates and senders.
#[cfg(feature = "mail")]
pub use gatewright_mail as mail;
pub use inviting::{InviteError, invite};
pub use jobs::{JobError, JobRun, JobStatus, Jobs, JobsError, JobsInitError, jobs};
#[cfg(feature = "mail")]
pub use mails::{MailQueueError, mail_queue};
pub use outbox::{OutboxError, outbox};
pub use promote::{Copied, PromoteError, promote};
pub use replicas::{Replicas, ReplicasError, replicas};
pub use serve::{ListenError, Listeners};
pub use tenants::{MemberName, TenantMember, Tenants, TenantsError, tenant_id, tenants};
pub use verify::{Finding, VerifyError, check_encoding, verify};
