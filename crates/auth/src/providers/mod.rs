//! Sign-in with somebody else's accounts: the providers, and the store of their tokens.
//!
//! A [`Provider`] sends a browser away and turns the code that it comes back with into a [`ProviderIdentity`]. What the
//! identity may do here is for the flow to decide.
//!
//! # The path of a sign-in
//!
//! `client.rs` writes the address that the browser is sent to and exchanges the code at the token endpoint; [`Google`]
//! and [`GitHub`] (`code_flow.rs` is what they share) then ask who it is, while an [`oidc`] issuer has said so in a signed
//! `id_token`. Every call goes by [`ProviderHttp`], and only to an address that `endpoint.rs` lets pass. `fields.rs` reads
//! what came.
//!
//! What a provider sends is never shown: errors say which step failed, and hold nothing of an answer but an error code.

mod client;
mod code_flow;
mod endpoint;
mod error;
mod fields;
mod github;
mod google;
mod http;
pub mod oidc;
mod provider;
mod setting;
pub mod tokens;

pub use client::OAuthClient;
pub use endpoint::is_provider_address;
pub use error::ProviderError;
pub use github::{GitHub, GitHubConfig};
pub use google::{Google, GoogleConfig};
pub use http::ProviderHttp;
pub use provider::{Identified, Provider, ProviderIdentity, ProviderTokens, is_provider_name};
