//! The tokens that providers gave, kept for calling their interfaces on a user's behalf. Optional.
//!
//! [`OAuthTokens`] is what a program holds: it seals the tokens of each sign-in ([`OAuthTokens::save`]) and gives a
//! valid access token when asked ([`OAuthTokens::valid_oauth_token`]), refreshing it at the provider where it must.
//! What lies in an [`OAuthTokenStore`] is sealed before it gets there (`seal.rs`), so that a host's own store never sees
//! a token.
//!
//! One record per user and provider. Two calls that need a refresh make one (`flights.rs`), for many providers take a
//! refresh token once and treat its second use as theft. The result is written only over the record that was read: tokens
//! that a sign-in has stored meanwhile stay, and what was removed does not come back.

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
