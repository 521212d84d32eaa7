use std::str::FromStr;

/// How new JWTs are signed (RFC 7518, RFC 8037).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum JwtAlgorithm {
    /// HMAC with SHA-256: whoever can verify a token can also sign one.
    #[default]
    Hs256,
    /// ECDSA with P-256 and SHA-256.
    Es256,
    /// Ed25519.
    EdDsa,
    /// RSA with PKCS #1 v1.5 and SHA-256.
    Rs256,
}

impl JwtAlgorithm {
    /// Every algorithm.
    pub const ALL: [Self; 4] = [Self::Hs256, Self::Es256, Self::EdDsa, Self::Rs256];

    /// The value of `alg` in a token's header.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Hs256 => "HS256",
            Self::Es256 => "ES256",
            Self::EdDsa => "EdDSA",
            Self::Rs256 => "RS256",
        }
    }
}

/// A text that is no supported algorithm.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("not an algorithm of JWTs")]
pub struct UnknownAlgorithm;

impl FromStr for JwtAlgorithm {
    type Err = UnknownAlgorithm;

    fn from_str(text: &str) -> Result<Self, UnknownAlgorithm> {
        Self::ALL.into_iter().find(|algorithm| algorithm.as_str() == text).ok_or(UnknownAlgorithm)
    }
}
