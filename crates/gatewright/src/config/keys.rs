use std::path::PathBuf;
use std::time::Duration;

use gatewright_auth::jwt::{JwtAlgorithm, JwtKeys};
use gatewright_base::Secret;

use super::read::{Keyword, Section};

/// `[auth.keys]`: the key pairs that sign JWTs, if `jwt_algorithm` is not HS256.
#[derive(Debug, Clone)]
pub struct Keys {
    /// Private keys are sealed under it. Empty: under `jwt_secret`.
    pub secret: Secret,
    /// Earlier secrets.
    pub previous_secrets: Vec<Secret>,
    /// The age in days at which a key is replaced; 0: never.
    pub rotate_days: u32,
    /// Private keys in PEM files, the newest first. Empty: the server makes its keys.
    pub files: Vec<PathBuf>,
}

impl Default for Keys {
    fn default() -> Self {
        Self { secret: Secret::new(""), previous_secrets: Vec::new(), rotate_days: 90, files: Vec::new() }
    }
}

impl Keys {
    pub(super) fn read(section: &mut Section<'_>) -> Self {
        let default = Self::default();
        let files: Vec<String> = section.value(
            "files",
            Vec::new(),
            "PEM files with private keys, the newest first: the first one signs, the others verify. Empty: the server makes its keys and \
             rotates them.",
        );
        Self {
            secret: section.value(
                "secret",
                default.secret,
                "Encrypts the private keys in the database; at least 32 bytes. Empty: a key of `jwt_secret`.",
            ),
            previous_secrets: section.value(
                "previous_secrets",
                default.previous_secrets,
                "Earlier secrets, which open stored keys until they are encrypted anew at the start.",
            ),
            rotate_days: section.value(
                "rotate_days",
                default.rotate_days,
                "Age at which the server replaces a key: 1 to 3650. 0: never.",
            ),
            files: files.into_iter().map(PathBuf::from).collect(),
        }
    }

    /// The keys for authentication. A file that cannot be read is empty, and an empty one is refused.
    pub(crate) fn of_auth(&self) -> JwtKeys {
        let pem = |path: &PathBuf| Secret::new(std::fs::read_to_string(path).unwrap_or_default());
        JwtKeys {
            secret: self.secret.clone(),
            previous_secrets: self.previous_secrets.clone(),
            rotate_every: (self.rotate_days > 0).then(|| Duration::from_hours(24 * u64::from(self.rotate_days))),
            files: self.files.iter().map(pem).collect(),
        }
    }
}

impl Keyword for JwtAlgorithm {
    const WORDS: &'static [(&'static str, Self)] =
        &[("HS256", Self::Hs256), ("ES256", Self::Es256), ("EdDSA", Self::EdDsa), ("RS256", Self::Rs256)];
}
