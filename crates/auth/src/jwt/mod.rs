//! JSON web tokens, for programs without cookies (RFC 7519).
//!
//! A token says who signed in and when; it does not decide what they may do. Each use loads the current user
//! (`schemes/jwt.rs`). So roles are up to date, tokens of a deleted account are refused, and a password reset or a
//! logout everywhere refuses earlier tokens.
//!
//! `iat` counts whole seconds (RFC 7519 allows fractions, many readers do not), which is too coarse to distinguish a
//! token from before a logout from one after it. `jti` is a UUID of version 7 with a time in milliseconds; that time is
//! compared.

mod claims;
pub(crate) mod id_tokens;
pub(crate) mod keys;
mod published;
mod signer;

pub use claims::Claims;
pub use keys::{JwtAlgorithm, JwtKeys, KeyError, KeyState, ListedKey, RotateError, SigningKeys, UnknownAlgorithm};
pub(crate) use published::routes;
pub use signer::{InvalidJwt, JwtConfig, Jwts};
