//! Hashes that other systems have stored, of accounts that were imported.
//!
//! The service never writes these formats. It compares a password with them in the form that the other system hashed, and
//! replaces them at the first sign-in. Their costs are bounded when they are parsed, because a stored hash decides how much
//! a sign-in computes.

mod formats;
mod kdf;
mod text;

use gatewright_base::Secret;
use icu_normalizer::ComposingNormalizerBorrowed;
use sha2::{Digest as _, Sha256, Sha512};
use subtle::ConstantTimeEq as _;

use super::effort::is_affordable;
use super::setting::{Digest, HashSetting};
use super::{AlgorithmError, PasswordAlgorithm, PasswordHash};

/// A parsed hash.
pub(super) enum Foreign {
    /// A hash that the service could have written, behind the name that Django gives it.
    Django {
        inner: PasswordHash,
        /// Whether the SHA-256 of the password was hashed, in hexadecimal digits.
        digested: bool,
    },
    Scrypt(Scrypt),
    Pbkdf2 {
        digest: Digest,
        iterations: u32,
        salt: Vec<u8>,
        expected: Vec<u8>,
    },
    /// The hash of the salt followed by the password.
    Sha {
        digest: Digest,
        salt: Vec<u8>,
        expected: Vec<u8>,
    },
}

/// A hash by scrypt.
pub(super) struct Scrypt {
    log_n: u8,
    block_size: u32,
    parallelism: u32,
    salt: Vec<u8>,
    expected: Vec<u8>,
    variant: Variant,
}

/// How a system uses scrypt.
pub(super) enum Variant {
    /// The output is stored.
    Plain,
    /// better-auth: the password is hashed in normalization form KC.
    Normalized,
    /// Firebase: the output is a key, with which this text is encrypted; that is stored.
    Signed(Vec<u8>),
}

impl Foreign {
    /// `None`: it is in no format of another system. An error: it is, and is damaged or beyond the bounds.
    pub(super) fn parse(text: &str) -> Option<Result<Self, AlgorithmError>> {
        formats::parse(text)
    }

    /// What a comparison costs. `None`: its inner hash is damaged or too costly.
    pub(super) fn setting(&self) -> Option<HashSetting> {
        match self {
            Self::Django { inner, .. } => {
                let own = HashSetting::from(PasswordAlgorithm::of_stored(inner.expose())?);
                is_affordable(own).then_some(own)
            }
            Self::Scrypt(Scrypt { log_n, block_size, parallelism, .. }) => {
                Some(HashSetting::Scrypt { log_n: *log_n, block_size: *block_size, parallelism: *parallelism })
            }
            Self::Pbkdf2 { digest, iterations, expected, .. } => {
                let rounds = kdf::rounds(*digest, *iterations, expected.len())?;
                Some(HashSetting::Pbkdf2 { digest: *digest, rounds })
            }
            Self::Sha { .. } => Some(HashSetting::Sha),
        }
    }

    /// Whether `password` matches, in the form that the other system hashed.
    pub(super) fn matches(&self, password: &Secret) -> Result<bool, AlgorithmError> {
        let typed = password.expose();
        let (computed, expected) = match self {
            Self::Django { inner, digested } => {
                self.setting().ok_or(AlgorithmError::UnknownFormat)?;
                let hashed = digested.then(|| Secret::new(text::hexadecimal(&Sha256::digest(typed))));
                return inner.matches(hashed.as_ref().unwrap_or(password));
            }
            Self::Scrypt(scrypt) => (scrypt.compute(typed)?, &scrypt.expected),
            Self::Pbkdf2 { digest, iterations, salt, expected } => {
                (kdf::pbkdf2(*digest, *iterations, typed.as_bytes(), salt, expected.len())?, expected)
            }
            Self::Sha { digest, salt, expected } => {
                let computed = match digest {
                    Digest::Sha512 => Sha512::new().chain_update(salt).chain_update(typed).finalize().to_vec(),
                    Digest::Sha1 | Digest::Sha256 => {
                        Sha256::new().chain_update(salt).chain_update(typed).finalize().to_vec()
                    }
                };
                (computed, expected)
            }
        };
        Ok(computed.ct_eq(expected).into())
    }

    /// Computes as much as a comparison with a hash of this setting.
    pub(super) fn imitate(setting: HashSetting, password: &Secret, salt: [u8; 16]) -> Result<(), AlgorithmError> {
        let password = password.expose().as_bytes();
        match setting {
            HashSetting::Scrypt { log_n, block_size, parallelism } => {
                kdf::scrypt((log_n, block_size, parallelism), password, &salt, 64).map(|_| ())
            }
            HashSetting::Pbkdf2 { digest, rounds } => kdf::pbkdf2(digest, rounds, password, &salt, 20).map(|_| ()),
            HashSetting::Own(_) | HashSetting::Sha => Ok(()),
        }
    }
}

impl Scrypt {
    fn compute(&self, typed: &str) -> Result<Vec<u8>, AlgorithmError> {
        let cost = (self.log_n, self.block_size, self.parallelism);
        match &self.variant {
            Variant::Plain => kdf::scrypt(cost, typed.as_bytes(), &self.salt, self.expected.len()),
            Variant::Normalized => {
                let text = Secret::new(ComposingNormalizerBorrowed::new_nfkc().normalize(typed).into_owned());
                kdf::scrypt(cost, text.expose().as_bytes(), &self.salt, self.expected.len())
            }
            Variant::Signed(signer) => {
                let key = kdf::scrypt(cost, typed.as_bytes(), &self.salt, 32)?;
                kdf::encrypt(&key, signer)
            }
        }
    }
}
