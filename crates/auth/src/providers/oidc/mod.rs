//! OpenID Connect: any issuer that follows the standard, found by discovery.
//!
//! [`Oidc`] discovers the issuer's endpoints at the first sign-in (`discovery.rs`) and exchanges the code for tokens.
//! One of them, the `id_token`, identifies the person. `id_token.rs` checks it against the issuer's keys (`keys.rs`),
//! and `claims.rs` reads it. `fetched.rs` caches fetched documents.
//!
//! # Threats that the checks prevent
//!
//! The token comes directly from the issuer over TLS, but is checked as if it did not: against an algorithm of the
//! sender's choice (`none`, or a MAC with the public key), the signature of another key, a token for another client or
//! from another issuer, an expired token, and a token of another browser's flow (the nonce). The algorithm is checked
//! before a key is looked up, and a key fits one algorithm. For an unknown key id, the keys are fetched again at most once a
//! minute, so that forged ids do not cause load at the issuer.

mod claims;
mod discovery;
mod fetched;
mod id_token;
mod issuer;
mod keys;
mod refusal;
mod tenants;

pub use claims::ClaimNames;
pub use discovery::is_issuer;
pub(in crate::providers) use issuer::Variant;
pub use issuer::{Oidc, OidcConfig};
pub use refusal::InvalidIdToken;
pub use tenants::MicrosoftTenant;
pub(in crate::providers) use tenants::{SUBJECT, Tenants};
