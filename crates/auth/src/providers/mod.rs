//! Identity providers, and the store of their tokens.
//!
//! A [`Provider`] redirects a browser and exchanges the code of the callback for a [`ProviderIdentity`]. The flow
//! decides what the identity may do.
//!
//! # The path of a sign-in
//!
//! `client.rs` builds the URL of the redirect and exchanges the code at the token endpoint. [`Google`] and [`GitHub`]
//! (which share `code_flow.rs` with [`OAuth2`], any service of the kind) then query the user's profile; an [`oidc`] issuer sends
//! a signed `id_token`. `preset.rs` makes one of the two from each of the [`presets`](crate::presets). [`Proofs`] bind
//! both halves to the browser that began: PKCE for every provider, and a nonce for every `id_token`. Every call
//! uses [`ProviderHttp`], and only for a URL that `endpoint.rs` allows. `fields.rs` parses the answers.
//!
//! Answers of a provider are never shown. Errors say which step failed, and contain nothing of an answer except an
//! error code.

mod apple;
mod client;
mod code_flow;
mod endpoint;
mod error;
mod fields;
mod github;
mod google;
mod http;
mod oauth2;
pub mod oidc;
mod preset;
mod proofs;
mod provider;
mod setting;
pub mod tokens;

pub use apple::{AppleConfig, is_apple_id, is_apple_key};
pub use client::OAuthClient;
pub use endpoint::is_provider_address;
pub use error::ProviderError;
pub use github::{GitHub, GitHubConfig};
pub use google::{Google, GoogleConfig};
pub use http::ProviderHttp;
pub use oauth2::{OAuth2, OAuth2Config, UserClaims};
pub use preset::{PresetAccount, PresetConfig};
pub use proofs::Proofs;
pub use provider::{Authorization, Callback, Identified, Provider, ProviderIdentity, ProviderTokens, is_provider_name};
