use base64::Engine as _;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use gatewright_base::{Ambient, Secret};
use sha2::{Digest, Sha256};
use subtle::ConstantTimeEq as _;

/// The prefixes of authorization codes, device codes, refresh tokens and client secrets: people and secret scanners distinguish them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Code,
    Device,
    Refresh,
    ClientSecret,
}

/// The SHA-256 of a secret's text: all that the tables keep.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Hash([u8; 32]);

impl Kind {
    fn prefix(self) -> &'static str {
        match self {
            Self::Code => "gwc_",
            Self::Device => "gwd_",
            Self::Refresh => "gwr_",
            Self::ClientSecret => "gws_",
        }
    }

    /// A new secret of 32 random bytes.
    pub(super) fn generate(self, ambient: &Ambient) -> Secret {
        Secret::new(format!("{}{}", self.prefix(), BASE64_URL_SAFE_NO_PAD.encode(ambient.bytes::<32>())))
    }
}

impl Hash {
    pub(super) fn of(text: &str) -> Self {
        Self(Sha256::digest(text).into())
    }

    /// A hash as the tables keep it, if it has the length of one.
    pub(super) fn stored(bytes: &[u8]) -> Option<Self> {
        bytes.try_into().ok().map(Self)
    }

    pub(super) fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// Whether `kept` is this hash, in constant time.
    pub(super) fn is(&self, kept: &[u8]) -> bool {
        self.0.ct_eq(kept).into()
    }
}

/// Whether `challenge` was made from `verifier`: PKCE with S256 (RFC 7636, section 4.6).
pub(super) fn proves(verifier: &str, challenge: &str) -> bool {
    let made = BASE64_URL_SAFE_NO_PAD.encode(Sha256::digest(verifier));
    is_verifier(verifier) && bool::from(made.as_bytes().ct_eq(challenge.as_bytes()))
}

/// The form of an S256 challenge: the base64url text of 32 bytes.
pub(super) fn is_challenge(text: &str) -> bool {
    BASE64_URL_SAFE_NO_PAD.decode(text).is_ok_and(|bytes| bytes.len() == 32)
}

fn is_verifier(text: &str) -> bool {
    (43..=128).contains(&text.len())
        && text.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'.' | b'_' | b'~'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_verifier_of_the_rfc_proves_its_challenge() {
        let (verifier, challenge) =
            ("dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk", "E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM");
        assert!(is_challenge(challenge) && proves(verifier, challenge));
        assert!(!proves(challenge, challenge), "the method plain is not accepted");
        assert!(!proves(&verifier[1..], challenge) && !proves("", challenge));
        for bad in ["", "abc", verifier.trim_end_matches('k'), &format!("{challenge}=")] {
            assert!(!is_challenge(bad), "{bad}");
        }
    }
}
