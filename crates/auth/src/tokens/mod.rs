//! API tokens: credentials with which a program acts for their owner, a user or a service account.
//!
//! `draft.rs` checks name, scopes and lifetime, and `issuing.rs` draws the plaintext (`plaintext.rs`) and stores its
//! hash. For a request with the plaintext, [`TokenScheme`](crate::schemes) looks up the hash, checks whether the token
//! and its owner are still valid, and records the use (`uses.rs`), which is written later, together with others.
//!
//! # Invariants
//!
//! Tokens are managed with sessions (the [plugin](crate::plugins::tokens)) and by trusted server code ([`ApiTokens`],
//! the command line). A token, a JWT or an embedded surface's grant cannot create a token, because it is not a
//! [`Session`](crate::session::Session).
//!
//! A revoked token is kept for 90 days, so that the audit log distinguishes its further use from guessing. All failures
//! get the same answer.

mod draft;
mod flow;
mod issuing;
mod memory;
mod plaintext;
mod resource;
mod rows;
mod store;
mod trusted;
mod uses;

use std::sync::Arc;

use jiff::SignedDuration;

use crate::service_accounts::ServiceAccountStore;

/// How long a revoked token is kept, so that its further use can be distinguished from guessing.
pub(crate) const REMEMBERED: SignedDuration = SignedDuration::from_hours(90 * 24);

pub use draft::{InvalidTokenDraft, TokenDraft};
pub(crate) use flow::IssueError;
pub use issuing::{Issued, TokenError};
pub use memory::MemoryTokenStore;
pub(crate) use plaintext::{PREFIX, shown};
pub use plaintext::{Plaintext, TokenHash};
#[cfg(feature = "authorization-server")]
pub(crate) use resource::Resource;
pub(crate) use resource::Resources;
pub(crate) use rows::MIGRATIONS;
pub use rows::SqlTokenStore;
pub use store::{DelegatedTokens, Delegation, StoredToken, TokenStore, TokenStoreError, TokensWithin};
pub use trusted::ApiTokens;
pub(crate) use uses::Uses;

/// API tokens, as their owner manages them from a session: [`Core::tokens`](crate::Core), where the plugin is there.
#[derive(Clone)]
pub(crate) struct Tokens {
    pub(crate) store: Arc<dyn TokenStore>,
    pub(crate) services: Arc<dyn ServiceAccountStore>,
    pub(crate) uses: Uses,
}
