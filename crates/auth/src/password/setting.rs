//! What the comparison with a stored hash costs.

use super::PasswordAlgorithm;
use super::foreign::Foreign;
use super::opaque::Opaque;

/// The algorithm and the cost of a stored hash. Every sign-in computes as much as the costliest of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub enum HashSetting {
    /// A setting that new hashes can have too.
    Own(PasswordAlgorithm),
    /// scrypt (RFC 7914) with 2^`log_n` blocks of 128 × `block_size` bytes.
    Scrypt {
        /// The base-two logarithm of the cost.
        log_n: u8,
        /// The block size.
        block_size: u32,
        /// Parallelism: how often all of it is computed.
        parallelism: u32,
    },
    /// PBKDF2 (RFC 8018, 5.2).
    Pbkdf2 {
        /// The hash function of the HMAC.
        digest: Digest,
        /// Iterations of all blocks of the output together.
        rounds: u32,
    },
    /// One computation of SHA-256 or SHA-512, which costs nothing.
    Sha,
}

/// A hash function of PBKDF2.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Digest {
    /// SHA-1.
    Sha1,
    /// SHA-256.
    Sha256,
    /// SHA-512.
    Sha512,
}

impl HashSetting {
    /// The setting of a stored hash, or of the part before its salt if the service itself writes the format. `None`: the
    /// format is unknown, the hash is damaged, or its cost is beyond what the service computes.
    pub fn of_stored(text: &str) -> Option<Self> {
        match Foreign::parse(text) {
            Some(foreign) => foreign.ok().and_then(|foreign| foreign.setting()),
            None => PasswordAlgorithm::of_stored(text).map(Self::Own),
        }
    }

    /// Whether an attacker with the hash can try millions of passwords each second.
    pub(super) fn is_weak(self) -> bool {
        self == Self::Sha
    }

    /// Computes as much as a comparison with a hash of this setting, for nothing.
    pub(super) fn imitate(self, password: &Opaque, salt: [u8; 16]) {
        let computed = match self {
            Self::Own(algorithm) => algorithm.hash(password, salt).map(|_| ()),
            Self::Scrypt { .. } | Self::Pbkdf2 { .. } => Foreign::imitate(self, password.secret(), salt),
            Self::Sha => Ok(()),
        };
        if let Err(error) = computed {
            tracing::error!(%error, "hashing failed");
        }
    }
}

impl From<PasswordAlgorithm> for HashSetting {
    fn from(algorithm: PasswordAlgorithm) -> Self {
        Self::Own(algorithm)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stored_hash_of_another_system_names_its_setting() {
        let sha = |salt: &str| format!("$sha256${salt}${}", "ab".repeat(32));
        let output = "A".repeat(43);
        let scrypt = |log_n, block_size, parallelism| Some(HashSetting::Scrypt { log_n, block_size, parallelism });
        let pbkdf2 = |digest, rounds| Some(HashSetting::Pbkdf2 { digest, rounds });
        let bcrypt = "$2b$04$E4O9WsMk99WeGbJdGKdvjeYc7BMXM.H328SwP0h81Bn6/twd.ymOG";
        let cases = [
            (format!("$scrypt$ln=14,r=8,p=1$c2FsdHNhbHQ${output}"), scrypt(14, 8, 1)),
            (format!("{}:{}", "0a".repeat(16), "0b".repeat(64)), scrypt(14, 16, 1)),
            (format!("scrypt$16384$salt$8$5${output}="), scrypt(14, 8, 5)),
            (format!("$firescrypt$ln=14,r=8,p=1$c2FsdA==${output}=$Bw==${}=", "A".repeat(43)), scrypt(14, 8, 1)),
            (format!("$pbkdf2-sha256$i=1000,l=32$c2FsdHNhbHQ${output}"), pbkdf2(Digest::Sha256, 1000)),
            (format!("$pbkdf2-sha256$1000$c2FsdHNhbHQ${output}"), pbkdf2(Digest::Sha256, 1000)),
            (format!("pbkdf2_sha256$1000$salt${output}="), pbkdf2(Digest::Sha256, 1000)),
            ("pbkdf2_sha1$1000$salt$AAAAAAAAAAAAAAAAAAAAAAAAAAA=".to_owned(), pbkdf2(Digest::Sha1, 1000)),
            // 64 bytes are two blocks of SHA-256, and one of SHA-512.
            (format!("$keycloak-pbkdf2-sha256$i=1000$c2FsdA==${}==", "A".repeat(86)), pbkdf2(Digest::Sha256, 2000)),
            (format!("$keycloak-pbkdf2-sha512$i=1000$c2FsdA==${}==", "A".repeat(86)), pbkdf2(Digest::Sha512, 1000)),
            (format!("bcrypt_sha256${bcrypt}"), Some(PasswordAlgorithm::Bcrypt { cost: 4 }.into())),
            (format!("bcrypt${bcrypt}"), Some(PasswordAlgorithm::Bcrypt { cost: 4 }.into())),
            (sha("salt"), Some(HashSetting::Sha)),
            // Damaged: an empty or short output would fit many passwords.
            ("$scrypt$ln=14,r=8,p=1$c2FsdHNhbHQ$".to_owned(), None),
            ("pbkdf2_sha256$1000$salt$".to_owned(), None),
            ("pbkdf2_sha256$1000$salt$AAAA".to_owned(), None),
            (format!("pbkdf2_sha256$0$salt${output}="), None),
            (format!("pbkdf2_sha256$salt${output}="), None),
            (format!("$pbkdf2-md5$i=1000$c2FsdHNhbHQ${output}"), None),
            (format!("{}:{}", "0a".repeat(16), "0b".repeat(32)), None),
            (format!("{}:{}", "zz".repeat(16), "0b".repeat(64)), None),
            (format!("$sha256$salt${}", "ab".repeat(31)), None),
            (format!("scrypt$16383$salt$8$5${output}="), None),
            // A cost that one sign-in must not spend.
            (format!("$scrypt$ln=63,r=8,p=1$c2FsdHNhbHQ${output}"), None),
            (format!("$scrypt$ln=20,r=8,p=1$c2FsdHNhbHQ${output}"), None),
            (format!("$scrypt$ln=10,r=8,p=4294967295$c2FsdHNhbHQ${output}"), None),
            (format!("$scrypt$ln=14,r=0,p=1$c2FsdHNhbHQ${output}"), None),
            (format!("$scrypt$ln=2,r=4294967295,p=1$c2FsdHNhbHQ${output}"), None),
            (format!("pbkdf2_sha256$4294967295$salt${output}="), None),
            (format!("pbkdf2_sha256$10000001$salt${output}="), None),
            (format!("bcrypt_sha256${}", bcrypt.replace("$04$", "$31$")), None),
            ("argon2$argon2id$v=19$m=4194304,t=9,p=1$c2FsdHNhbHQ$YWJj".to_owned(), None),
        ];
        for (text, expected) in cases {
            assert_eq!(HashSetting::of_stored(&text), expected, "{text}");
        }
    }
}
