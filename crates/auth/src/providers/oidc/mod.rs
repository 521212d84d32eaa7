//! OpenID Connect: any issuer that follows the standard, found by discovery.
//!
//! [`Oidc`] finds the issuer's endpoints when somebody first signs in with it (`discovery.rs`) and exchanges the code for
//! tokens, of which one, the `id_token`, says who it is. `id_token.rs` checks it against the issuer's keys (`keys.rs`),
//! and `claims.rs` reads it. `fetched.rs` keeps what was fetched.
//!
//! # Against whom the checks stand
//!
//! The token comes straight from the issuer over TLS, and is checked as if it had not: an algorithm of the sender's
//! choosing (`none`, or a MAC with the public key), another key's signature, a token for another client or from another
//! issuer, one that is over. The algorithm is settled before a key is looked for, and a key is good for one algorithm.
//! An unknown key id has the keys fetched anew once a minute at most, so that forged ids cost the issuer nothing.

mod claims;
mod discovery;
mod fetched;
mod id_token;
mod issuer;
mod keys;
mod refusal;

pub use claims::ClaimNames;
pub use discovery::is_issuer;
pub use issuer::{Oidc, OidcConfig};
pub use refusal::InvalidIdToken;
