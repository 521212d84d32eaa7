use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use gatewright_base::Secret;
use sha2::{Digest, Sha256};
use zeroize::Zeroizing;

/// The secret in a session cookie: 32 random bytes, as 43 characters of base64url (RFC 4648, section 5).
pub struct SessionSecret(Zeroizing<[u8; 32]>);

/// The SHA-256 of a session's secret. A store keeps only this, so that a reader of the table cannot use a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct SessionKey([u8; 32]);

impl SessionSecret {
    /// Only the mint makes new ones.
    pub(super) fn new(bytes: [u8; 32]) -> Self {
        Self(Zeroizing::new(bytes))
    }

    /// Parses a cookie's value. A malformed value causes no query.
    pub fn parse(text: &str) -> Option<Self> {
        let mut bytes = Zeroizing::new([0; 32]);
        let length = URL_SAFE_NO_PAD.decode_slice(text, bytes.as_mut()).ok()?;
        (length == bytes.len()).then_some(Self(bytes))
    }

    /// The key by which the store looks it up.
    pub fn key(&self) -> SessionKey {
        SessionKey(Sha256::digest(*self.0).into())
    }

    /// The cookie's value.
    pub fn to_cookie_value(&self) -> Secret {
        Secret::new(URL_SAFE_NO_PAD.encode(*self.0))
    }
}

impl std::fmt::Debug for SessionSecret {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("SessionSecret(…)")
    }
}

impl SessionKey {
    /// The 32 bytes of the hash.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_survives_a_cookie_round_trip() {
        let secret = SessionSecret::new([0xfb; 32]);
        let value = secret.to_cookie_value();
        assert_eq!(value.len(), 43);
        assert_eq!(SessionSecret::parse(value.expose()).unwrap().key(), secret.key());
        assert_ne!(secret.key().as_bytes(), [0xfb; 32], "the key is a hash");
        assert!(!format!("{secret:?}").contains(value.expose()));
    }

    #[test]
    fn garbage_is_not_a_secret() {
        let long = "A".repeat(1 << 20);
        let short = "A".repeat(42);
        let one_more = "A".repeat(44);
        let padded = "A".repeat(43) + "=";
        for garbage in [
            "",
            "=",
            "abc",
            "' OR 1=1 --",
            "🦀",
            &short,
            &one_more,
            &padded,
            &long,
            "////////////////////////////////////////+++",
        ] {
            assert!(SessionSecret::parse(garbage).is_none(), "{:?}", &garbage[..garbage.len().min(50)]);
        }
    }
}
