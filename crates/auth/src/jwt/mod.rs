//! JSON web tokens: what a program without cookies carries (RFC 7519, HS256 alone).
//!
//! A token says who signed in and when; it does not decide what they may do. Each use loads the live user
//! (`schemes/jwt.rs`), so that roles are the present ones, a deleted account is nobody, and a password reset or a
//! logout everywhere refuses what was issued before.
//!
//! `iat` counts whole seconds (RFC 7519 allows fractions, many readers do not), too coarse to tell a token of before a
//! logout from one of after it. `jti` is a UUID of version 7, whose own time has milliseconds; that one is compared.

mod claims;
mod signer;

pub use claims::Claims;
pub use signer::{InvalidJwt, JwtConfig, Jwts};
