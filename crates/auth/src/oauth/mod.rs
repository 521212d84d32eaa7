//! Sign-in with somebody else's accounts: the providers, and the store of their tokens.
//!
//! A [`Provider`] sends a browser away and turns the code that it comes back with into a [`ProviderIdentity`]. What the
//! identity may do here is for the flow to decide.

mod error;
pub mod oidc;
mod provider;

pub use error::ProviderError;
pub use provider::{Identified, Provider, ProviderIdentity, ProviderTokens};
