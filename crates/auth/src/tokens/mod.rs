//! API tokens: credentials that a program carries in place of its owner, a user or a service account.
//!
//! The journey of a token: `draft.rs` checks name, scopes and lifetime, `issuing.rs` draws the plaintext (`plaintext.rs`)
//! and has the store keep its hash. A request that carries the plaintext goes by [`TokenScheme`](crate::schemes), which
//! finds the hash, asks whether the token and its owner are still good, and notes the use (`uses.rs`), which is written down
//! later, together with others.
//!
//! # What must hold
//!
//! Tokens are managed by sessions (the [plugin](crate::plugins::tokens)) and by trusted server code ([`ApiTokens`], the
//! command line). A token cannot make another, nor can a JWT or an embedded surface's grant: they are no
//! [`Session`](crate::session::Session).
//!
//! A revoked token is kept for a while, so that who goes on using it is told apart, in the audit, from who guesses. All
//! failures look the same from outside.

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

/// How long a revoked token is remembered, so that its further use is told apart from guessing.
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
pub use store::{DelegatedTokens, Delegation, StoredToken, TokenStore, TokenStoreError};
pub use trusted::ApiTokens;
pub(crate) use uses::Uses;

/// API tokens, as their owner manages them from a session: [`Core::tokens`](crate::Core), where the plugin is there.
#[derive(Clone)]
pub(crate) struct Tokens {
    pub(crate) store: Arc<dyn TokenStore>,
    pub(crate) services: Arc<dyn ServiceAccountStore>,
    pub(crate) uses: Uses,
}
