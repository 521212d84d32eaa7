//! OpenID Connect: any issuer that follows the standard, found by discovery.

mod refusal;

pub use refusal::InvalidIdToken;
