//! The tokens of providers, stored for calls of their APIs on a user's behalf. Optional.
//!
//! A program uses [`OAuthTokens`]: it encrypts the tokens of each sign-in ([`OAuthTokens::save`]) and returns a valid
//! access token ([`OAuthTokens::valid_oauth_token`]), which it refreshes at the provider if needed. Tokens are
//! encrypted before they reach an [`OAuthTokenStore`] (`seal.rs`), so that a host's own store never sees a token.
//!
//! There is one record per user and provider. Concurrent calls share one refresh (`flights.rs`), because many providers
//! accept a refresh token once and treat a second use as theft. The result replaces only the record that was read:
//! tokens that a sign-in has stored meanwhile stay, and removed records are not restored.

mod flights;
mod memory;
mod seal;
mod sql;
mod store;
mod vault;

pub use memory::MemoryOAuthTokenStore;
pub use seal::{Sealed, TokenKeys};
pub use sql::{OAUTH_TOKENS_SCHEMA, SqlOAuthTokenStore};
pub use store::{OAuthTokenRecord, OAuthTokenStore, OAuthTokenStoreError};
pub use vault::{OAuthTokenError, OAuthTokens};
