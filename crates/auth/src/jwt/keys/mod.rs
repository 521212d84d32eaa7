//! Key pairs for JWTs, so that whoever verifies a token cannot sign one.
//!
//! The table `auth_jwt_signers` says which signer signs from when on: the secret of HS256, or a key pair. Every server reads it
//! each minute, and when a token names a key that it does not know. A new signer is added some minutes before it signs,
//! so that by then every server knows it, and verifiers that keep the published set for its `max-age` have it too. A
//! signer's tokens are accepted until the last of them expires. So a change of keys, of algorithms, or of both refuses no
//! token, in whatever order servers restart.
//!
//! Private keys are stored sealed. A server that cannot open a key verifies its tokens all the same.

mod algorithm;
mod pair;
mod public;
mod rows;
mod schedule;
mod signing_keys;
mod store;

use std::sync::Arc;
use std::time::Duration;

use aws_lc_rs::error::Unspecified;
use gatewright_base::Secret;
use gatewright_db::Error;

pub use algorithm::{JwtAlgorithm, UnknownAlgorithm};
pub(crate) use rows::{COMPONENT, MIGRATIONS};
pub(super) use schedule::Signer;
pub use signing_keys::{KeyState, ListedKey, RotateError, SigningKeys};
pub(super) use store::Keys;

#[cfg(feature = "oauth")]
pub(crate) use pair::Pair;
#[cfg(not(feature = "oauth"))]
use pair::Pair;
use public::PublicKey;

/// How long verifiers may keep the published set of keys.
pub(crate) const MAX_AGE: Duration = Duration::from_mins(5);

/// Where private keys come from, and how they are kept.
#[derive(Debug, Clone)]
pub struct JwtKeys {
    /// Private keys are sealed under it. Empty: under the JWT secret.
    pub secret: Secret,
    /// Keys that are sealed under these are opened too, and sealed anew.
    pub previous_secrets: Vec<Secret>,
    /// The age at which a key is replaced. `None`: never.
    pub rotate_every: Option<Duration>,
    /// Private keys in PEM, the newest first: the first one signs. Empty: the server makes its keys.
    pub files: Vec<Secret>,
}

impl Default for JwtKeys {
    fn default() -> Self {
        let rotate_every = Some(Duration::from_hours(90 * 24));
        Self { secret: Secret::new(""), previous_secrets: Vec::new(), rotate_every, files: Vec::new() }
    }
}

/// Keys for JWTs could not be read or made.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum KeyError {
    /// The table could not be read or written.
    #[error("the keys of JWTs could not be read or stored: {0}")]
    Database(#[from] Error),
    /// No key could be made.
    #[error("a key for JWTs could not be made")]
    Generate,
    /// Several servers add keys at once, again and again.
    #[error("other servers add keys for JWTs at the same time; start again")]
    Contended,
}

impl From<Unspecified> for KeyError {
    fn from(_: Unspecified) -> Self {
        Self::Generate
    }
}

/// The configured pairs, the newest first. The error names the number of the file that has none.
fn of_files(files: &[Secret]) -> Result<Vec<Arc<Pair>>, usize> {
    files.iter().enumerate().map(|(index, pem)| Pair::of_pem(pem).map(Arc::new).ok_or(index + 1)).collect()
}
