//! Passwords: which are accepted, how they are hashed, and where the hashing runs.
//!
//! A new password becomes a [`NewPassword`] (`rules.rs`), is hashed by the configured [`PasswordAlgorithm`]
//! (`algorithm.rs`) on a bounded pool (`pool.rs`) and stored as a [`PasswordHash`] that names its algorithm and cost.
//! At sign-in [`Passwords::check`] compares; where there is nothing to compare with, it hashes all the same, so that
//! an unknown address takes as long as a wrong password.

mod algorithm;
mod pool;
mod rules;

pub use algorithm::{AlgorithmError, PasswordAlgorithm, PasswordHash};
pub use pool::Overloaded;
pub use rules::{NewPassword, WeakPassword};

use std::num::NonZeroUsize;

use gatewright_base::{Ambient, Secret};

use pool::Pool;

/// Callers that may wait for each core. At bcrypt's cost 12 the last of them waits about eight seconds.
const WAITING_PER_CORE: usize = 32;

/// The password hasher of one running program. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Passwords {
    algorithm: PasswordAlgorithm,
    pool: Pool,
    ambient: Ambient,
}

/// What comparing a password with a stored hash gave.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Check {
    /// It is not the password, or there is no hash to compare with.
    Wrong,
    /// It is the password.
    Right {
        /// The hash was made with another algorithm or cost than new ones: make it anew.
        outdated: bool,
    },
}

/// A hash could not be had.
#[derive(Debug, thiserror::Error)]
pub enum HashError {
    /// Too many are waiting already.
    #[error(transparent)]
    Overloaded(#[from] Overloaded),
    /// The algorithm failed.
    #[error(transparent)]
    Algorithm(#[from] AlgorithmError),
}

impl Passwords {
    /// A hasher that uses every core, with a line of 32 callers for each.
    pub fn new(algorithm: PasswordAlgorithm, ambient: Ambient) -> Self {
        let cores = std::thread::available_parallelism().map_or(1, NonZeroUsize::get);
        Self { algorithm, pool: Pool::new(cores, cores * WAITING_PER_CORE), ambient }
    }

    /// Checks a password that somebody wants to have.
    pub fn accept(&self, text: Secret) -> Result<NewPassword, WeakPassword> {
        NewPassword::parse(text, &self.algorithm)
    }

    /// Hashes a password for storing.
    pub async fn hash(&self, password: &NewPassword) -> Result<PasswordHash, HashError> {
        let (algorithm, password, salt) = (self.algorithm, password.secret().clone(), self.ambient.bytes());
        Ok(self.pool.run(move || algorithm.hash(&password, salt)).await??)
    }

    /// Compares `password` with `stored`. With nothing stored, or a stored text that is no hash, it computes a hash at
    /// the configured cost and says [`Check::Wrong`]. A text too long to be anybody's password is not hashed at all,
    /// whoever the account.
    pub async fn check(&self, password: &Secret, stored: Option<PasswordHash>) -> Result<Check, Overloaded> {
        if rules::is_oversized(password) {
            return Ok(Check::Wrong);
        }
        let (algorithm, password, salt) = (self.algorithm, password.clone(), self.ambient.bytes());
        let compare = move || {
            match stored.map(|hash| (hash.matches(&password), hash)) {
                Some((Ok(true), hash)) => {
                    return Check::Right { outdated: !hash.is_current(&algorithm) && algorithm.takes(&password) };
                }
                Some((Ok(false), _)) => return Check::Wrong,
                Some((Err(error), _)) => {
                    tracing::error!(%error, "a stored password hash cannot be read; its owner cannot sign in with a password");
                }
                None => {}
            }
            if let Err(error) = algorithm.hash(&password, salt) {
                tracing::error!(%error, "hashing failed");
            }
            Check::Wrong
        };
        self.pool.run(compare).await
    }

    /// Hashes a password that was just found right, whose stored hash is outdated. It is not held to the rules for new
    /// ones: they may have changed since it was chosen.
    pub(crate) async fn rehash(&self, password: &Secret) -> Result<PasswordHash, HashError> {
        let (algorithm, password, salt) = (self.algorithm, password.clone(), self.ambient.bytes());
        Ok(self.pool.run(move || algorithm.hash(&password, salt)).await??)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn passwords(algorithm: PasswordAlgorithm) -> Passwords {
        Passwords::new(algorithm, Ambient::manual(jiff::Timestamp::UNIX_EPOCH, 1).0)
    }

    #[tokio::test]
    async fn right_wrong_and_absent() {
        let passwords = passwords(PasswordAlgorithm::Bcrypt { cost: 4 });
        let hash = passwords.hash(&passwords.accept(Secret::new("correct horse")).unwrap()).await.unwrap();
        let (right, wrong) = (Secret::new("correct horse"), Secret::new("wrong horse"));
        assert_eq!(passwords.check(&right, Some(hash.clone())).await, Ok(Check::Right { outdated: false }));
        assert_eq!(passwords.check(&wrong, Some(hash)).await, Ok(Check::Wrong));
        assert_eq!(passwords.check(&right, None).await, Ok(Check::Wrong));
        assert_eq!(passwords.check(&right, Some(PasswordHash::from_stored("correct horse"))).await, Ok(Check::Wrong));
    }

    #[tokio::test]
    async fn a_hash_of_another_cost_is_right_and_outdated() {
        let hash = PasswordAlgorithm::Bcrypt { cost: 5 }.hash(&Secret::new("correct horse"), [1; 16]).unwrap();
        let verdict =
            passwords(PasswordAlgorithm::Bcrypt { cost: 4 }).check(&Secret::new("correct horse"), Some(hash)).await;
        assert_eq!(verdict, Ok(Check::Right { outdated: true }));
    }

    /// Cost 31 would take days: had the text been hashed, this test would not come back.
    #[tokio::test]
    async fn a_text_too_long_to_be_a_password_is_not_hashed() {
        let passwords = passwords(PasswordAlgorithm::Bcrypt { cost: 31 });
        let stored = PasswordHash::from_stored("$2b$31$L6Bc/AlTQHyd9liGgGEZyOFLPHNgyxeEPfgYfBCVxJ7JIlwxyVU3u");
        let verdict = passwords.check(&Secret::new("a".repeat(1 << 20)), Some(stored)).await;
        assert_eq!(verdict, Ok(Check::Wrong));
    }

    #[tokio::test]
    async fn equal_passwords_have_unequal_hashes() {
        let passwords = passwords(PasswordAlgorithm::Bcrypt { cost: 4 });
        let password = passwords.accept(Secret::new("correct horse")).unwrap();
        assert_ne!(passwords.hash(&password).await.unwrap(), passwords.hash(&password).await.unwrap());
    }
}
