use std::str::FromStr;

use argon2::password_hash::phc;
use argon2::{Argon2, CustomizedPasswordHasher as _, PasswordHasher as _};
use gatewright_base::Secret;
use subtle::ConstantTimeEq;

use super::foreign::Foreign;
use super::opaque::Opaque;
use super::setting::HashSetting;

/// Most bytes that bcrypt takes in; it would silently ignore the rest.
pub(crate) const BCRYPT_MAX_BYTES: usize = 72;

/// How new passwords are hashed. Stored hashes contain their algorithm and cost. After a change, an account is rehashed
/// at its next sign-in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum PasswordAlgorithm {
    /// bcrypt. `cost` is the base-two logarithm of the rounds, 4 to 31.
    Bcrypt {
        /// 12 by default: about a quarter of a second.
        cost: u32,
    },
    /// Argon2id (RFC 9106), version 19.
    Argon2id {
        /// Memory in KiB.
        memory_kib: u32,
        /// Number of passes over it.
        iterations: u32,
        /// Lanes.
        parallelism: u32,
    },
}

/// A password's stored hash: `$2b$…` or a PHC string `$argon2id$…`. It is a secret, because it can be attacked offline.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PasswordHash(Secret);

/// A hash could not be computed or read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AlgorithmError {
    /// bcrypt refused its input.
    #[error("bcrypt: {0}")]
    Bcrypt(#[from] bcrypt::BcryptError),
    /// Argon2 refused its input.
    #[error("argon2id: {0}")]
    Argon2(#[from] argon2::Error),
    /// A password that is longer than any can be.
    #[error("the password is too long")]
    TooLong,
    /// A stored hash in an unknown format, damaged, or with a cost that no sign-in may compute.
    #[error("a stored password hash is in no known format")]
    UnknownFormat,
    /// A stored hash that is usable only with `auth.allow_weak_hashes`.
    #[error("a stored password hash is weak; `auth.allow_weak_hashes` allows it")]
    Weak,
}

impl Default for PasswordAlgorithm {
    fn default() -> Self {
        Self::Bcrypt { cost: 12 }
    }
}

impl PasswordAlgorithm {
    /// Argon2id with 19 MiB, two passes and one lane, the first of OWASP's recommended settings.
    pub fn argon2id() -> Self {
        Self::Argon2id {
            memory_kib: argon2::Params::DEFAULT_M_COST,
            iterations: argon2::Params::DEFAULT_T_COST,
            parallelism: argon2::Params::DEFAULT_P_COST,
        }
    }

    /// The setting that a stored hash names, from its whole text or from the part before the salt: `$2b$12$…`,
    /// `$argon2id$v=19$m=19456,t=2,p=1…`. The variants of Argon2, which cost the same, count as Argon2id. Formats of other
    /// systems: [`HashSetting::of_stored`](super::HashSetting::of_stored).
    pub(super) fn of_stored(text: &str) -> Option<Self> {
        let mut parts = text.strip_prefix('$')?.split('$');
        let algorithm = parts.next()?;
        if matches!(algorithm, "2a" | "2b" | "2y") {
            return Some(Self::Bcrypt { cost: parts.next()?.parse().ok().filter(|cost| (4..=31).contains(cost))? });
        }
        if !algorithm.starts_with("argon2") {
            return None;
        }
        let numbers = parts.find(|part| part.starts_with("m="))?;
        let number = |name: &str| numbers.split(',').find_map(|pair| pair.strip_prefix(name)?.parse::<u32>().ok());
        Some(Self::Argon2id { memory_kib: number("m=")?, iterations: number("t=")?, parallelism: number("p=")? })
    }

    /// Whether the numbers are in range. The error names the one that is not.
    pub(crate) fn check(&self) -> Result<(), String> {
        match *self {
            Self::Bcrypt { cost } if !(4..=31).contains(&cost) => {
                Err(format!("bcrypt_cost is {cost}; it goes from 4 to 31"))
            }
            Self::Bcrypt { .. } => Ok(()),
            Self::Argon2id { .. } => self.argon2_params().map(|_| ()).map_err(|error| format!("argon2id: {error}")),
        }
    }

    /// Whether the algorithm uses all of `password`.
    pub(super) fn takes(&self, password: &Opaque) -> bool {
        match self {
            Self::Bcrypt { .. } => password.secret().len() <= BCRYPT_MAX_BYTES,
            Self::Argon2id { .. } => true,
        }
    }

    /// Hashes `password`, which takes a large part of a second. bcrypt ignores bytes beyond its limit: callers check
    /// [`takes`](Self::takes) first.
    pub(super) fn hash(&self, password: &Opaque, salt: [u8; 16]) -> Result<PasswordHash, AlgorithmError> {
        count();
        let password = password.secret();
        let text = match *self {
            Self::Bcrypt { cost } => bcrypt_parts(password, cost, salt)?.to_string(),
            Self::Argon2id { .. } => {
                let argon2 = Argon2::new(argon2::Algorithm::Argon2id, argon2::Version::V0x13, self.argon2_params()?);
                let hash: phc::PasswordHash = argon2
                    .hash_password_with_salt(password.expose().as_bytes(), &salt)
                    .map_err(|_| AlgorithmError::UnknownFormat)?;
                hash.to_string()
            }
        };
        Ok(PasswordHash(Secret::new(text)))
    }

    fn argon2_params(&self) -> Result<argon2::Params, argon2::Error> {
        match *self {
            Self::Argon2id { memory_kib, iterations, parallelism } => {
                argon2::Params::new(memory_kib, iterations, parallelism, None)
            }
            Self::Bcrypt { .. } => Ok(argon2::Params::DEFAULT),
        }
    }
}

impl PasswordHash {
    /// A hash from a store. Its format is checked only when a password is compared with it.
    pub fn from_stored(text: impl Into<String>) -> Self {
        Self(Secret::new(text))
    }

    /// The text to store.
    pub fn expose(&self) -> &str {
        self.0.expose()
    }

    /// Whether some password can match it: it is complete, in a known format, and its cost is within bounds.
    pub(crate) fn is_readable(&self) -> bool {
        let stored = self.expose();
        match Foreign::parse(stored) {
            Some(foreign) => foreign.is_ok(),
            None if is_bcrypt(stored) => bcrypt::HashParts::from_str(stored).is_ok(),
            None => phc::PasswordHash::new(stored).is_ok_and(|hash| {
                hash.salt.is_some() && hash.hash.is_some() && argon2::Params::try_from(&hash).is_ok()
            }),
        }
    }

    /// Whether it is usable only where weak hashes are allowed.
    pub(crate) fn is_weak(&self) -> bool {
        HashSetting::of_stored(self.expose()).is_some_and(HashSetting::is_weak)
    }

    /// Whether `password` matches this hash, in the form in which it is given: old hashes are of passwords as they were
    /// typed. Takes as long as the hash's own algorithm and cost require.
    pub(super) fn matches(&self, password: &Secret) -> Result<bool, AlgorithmError> {
        let stored = self.expose();
        if let Some(foreign) = Foreign::parse(stored) {
            return foreign?.matches(password);
        }
        if is_bcrypt(stored) {
            let parts = bcrypt::HashParts::from_str(stored)?;
            count();
            let computed = bcrypt_parts(password, parts.get_cost(), parts.get_salt_raw())?;
            // The same version on both sides: `$2a$`, `$2b$` and `$2y$` name one algorithm.
            let same = computed.to_string().as_bytes().ct_eq(parts.to_string().as_bytes());
            // A truncated password cannot be the right one, and this attempt took as long as any other.
            return Ok(bool::from(same) && password.len() <= BCRYPT_MAX_BYTES);
        }
        let hash = phc::PasswordHash::new(stored).map_err(|_| AlgorithmError::UnknownFormat)?;
        let expected = hash.hash.ok_or(AlgorithmError::UnknownFormat)?;
        let salt = hash.salt.ok_or(AlgorithmError::UnknownFormat)?;
        let params = argon2::Params::try_from(&hash).map_err(|_| AlgorithmError::UnknownFormat)?;
        count();
        let computed: phc::PasswordHash = Argon2::default()
            .hash_password_customized(
                password.expose().as_bytes(),
                &salt,
                Some(hash.algorithm.as_str()),
                hash.version,
                params,
            )
            .map_err(|_| AlgorithmError::UnknownFormat)?;
        let computed = computed.hash.ok_or(AlgorithmError::UnknownFormat)?;
        Ok(computed.as_bytes().ct_eq(expected.as_bytes()).into())
    }

    /// Whether this hash was made by `algorithm` at its present cost.
    pub(super) fn is_current(&self, algorithm: &PasswordAlgorithm) -> bool {
        let stored = self.expose();
        match algorithm {
            PasswordAlgorithm::Bcrypt { cost } => {
                bcrypt::HashParts::from_str(stored).is_ok_and(|parts| parts.get_cost() == *cost)
            }
            PasswordAlgorithm::Argon2id { memory_kib, iterations, parallelism } => {
                let params = phc::PasswordHash::new(stored)
                    .ok()
                    .filter(|hash| hash.algorithm.as_str() == "argon2id")
                    .and_then(|hash| argon2::Params::try_from(&hash).ok());
                params.is_some_and(|params| {
                    (params.m_cost(), params.t_cost(), params.p_cost()) == (*memory_kib, *iterations, *parallelism)
                })
            }
        }
    }
}

fn is_bcrypt(stored: &str) -> bool {
    ["$2a$", "$2b$", "$2y$"].iter().any(|version| stored.starts_with(version))
}

fn bcrypt_parts(password: &Secret, cost: u32, salt: [u8; 16]) -> Result<bcrypt::HashParts, bcrypt::BcryptError> {
    let bytes = password.expose().as_bytes();
    if bytes.len() < BCRYPT_MAX_BYTES {
        bcrypt::non_truncating_hash_with_salt(bytes, cost, salt)
    } else {
        // The non-truncating call reserves one byte for a closing zero and so refuses 72 bytes, although none of them
        // would be lost.
        bcrypt::hash_with_salt(&bytes[..BCRYPT_MAX_BYTES], cost, salt)
    }
}

#[cfg(not(test))]
pub(super) fn count() {}

#[cfg(test)]
pub(super) use tests::computed;
#[cfg(test)]
pub(super) use tests::count;

#[cfg(test)]
mod tests {
    use super::*;

    const SALT: [u8; 16] = [7; 16];

    thread_local! {
        static COMPUTED: std::cell::Cell<u32> = const { std::cell::Cell::new(0) };
    }

    pub(in crate::password) fn count() {
        COMPUTED.set(COMPUTED.get() + 1);
    }

    /// The hashes that this thread has computed.
    pub(in crate::password) fn computed() -> u32 {
        COMPUTED.get()
    }

    fn opaque(text: impl Into<String>) -> Opaque {
        Opaque::of(&Secret::new(text)).unwrap()
    }

    fn small_argon() -> PasswordAlgorithm {
        PasswordAlgorithm::Argon2id { memory_kib: 64, iterations: 1, parallelism: 1 }
    }

    #[test]
    fn a_hash_matches_only_its_password() {
        for algorithm in [PasswordAlgorithm::Bcrypt { cost: 4 }, small_argon()] {
            let hash = algorithm.hash(&opaque("correct horse"), SALT).unwrap();
            assert!(hash.matches(&Secret::new("correct horse")).unwrap());
            assert!(!hash.matches(&Secret::new("correct horsf")).unwrap());
            assert!(!hash.matches(&Secret::new("")).unwrap());
            assert!(hash.is_current(&algorithm));
        }
    }

    #[test]
    fn hashes_made_elsewhere_are_read() {
        let elsewhere = [
            "$2a$05$CCCCCCCCCCCCCCCCCCCCC.E5YPO9kmyuRGyh0XouQYb4YMJKvyOeW",
            "$argon2id$v=19$m=256,t=2,p=1$c29tZXNhbHQ$nf65EOgLrQMR/uIPnA4rEsF5h7TKyQwu9U1bMCHGi/4",
        ];
        assert!(PasswordHash::from_stored(elsewhere[0]).matches(&Secret::new("U*U")).unwrap());
        assert!(PasswordHash::from_stored(elsewhere[1]).matches(&Secret::new("password")).unwrap());
        for broken in [
            "",
            "plaintext",
            "$2x$05$CCCCCCCCCCCCCCCCCCCCC.E5YPO9kmyuRGyh0XouQYb4YMJKvyOeW",
            "$2b$12$short",
            "$argon2id$v=19$m=256,t=2,p=1$c29tZXNhbHQ",
            "$5$rounds=1000$salt$hash",
        ] {
            assert!(PasswordHash::from_stored(broken).matches(&Secret::new("password")).is_err(), "{broken}");
        }
    }

    #[test]
    fn a_password_that_bcrypt_would_cut_matches_nothing() {
        let full = "a".repeat(72);
        let hash = PasswordAlgorithm::Bcrypt { cost: 4 }.hash(&opaque(&*full), SALT).unwrap();
        assert!(hash.matches(&Secret::new(&*full)).unwrap());
        assert!(!hash.matches(&Secret::new(full + "b")).unwrap());
        assert!(!hash.matches(&Secret::new("a".repeat(71))).unwrap());
    }

    #[test]
    fn a_change_of_algorithm_or_cost_outdates_a_hash() {
        let (four, five) = (PasswordAlgorithm::Bcrypt { cost: 4 }, PasswordAlgorithm::Bcrypt { cost: 5 });
        let hash = four.hash(&opaque("correct horse"), SALT).unwrap();
        assert!(!hash.is_current(&five));
        assert!(!hash.is_current(&small_argon()));
        let hash = small_argon().hash(&opaque("correct horse"), SALT).unwrap();
        assert!(!hash.is_current(&four));
        assert!(!hash.is_current(&PasswordAlgorithm::argon2id()));
    }

    #[test]
    fn a_stored_hash_names_its_setting() {
        for algorithm in [PasswordAlgorithm::Bcrypt { cost: 4 }, small_argon()] {
            let hash = algorithm.hash(&opaque("correct horse"), SALT).unwrap();
            assert_eq!(PasswordAlgorithm::of_stored(hash.expose()), Some(algorithm));
        }
        for (text, expected) in [
            ("$2y$10$", Some(PasswordAlgorithm::Bcrypt { cost: 10 })),
            ("$argon2id$v=19$m=64,t=1,p=1", Some(small_argon())),
            ("$argon2i$m=64,t=1,p=1$salt$hash", Some(small_argon())),
            ("$2b$99$", None),
            ("$argon2id$v=19", None),
            ("$5$rounds=1000$salt$hash", None),
            ("plaintext", None),
            ("", None),
        ] {
            assert_eq!(PasswordAlgorithm::of_stored(text), expected, "{text}");
        }
    }

    #[test]
    fn debug_does_not_show_the_hash() {
        let hash = PasswordAlgorithm::Bcrypt { cost: 4 }.hash(&opaque("correct horse"), SALT).unwrap();
        assert!(!format!("{hash:?}").contains("$2b$"));
    }
}
