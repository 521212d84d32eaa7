use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use gatewright_base::{Ambient, Secret};
use sha2::{Digest, Sha256};
use zeroize::Zeroizing;

/// The token in a mailed link: 32 random bytes, as 43 characters of base64url (RFC 4648, section 5).
pub struct SingleUseToken(Zeroizing<[u8; 32]>);

/// The SHA-256 of a token. A store keeps only this, so that a reader of the table cannot redeem a token.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct TokenKey([u8; 32]);

impl SingleUseToken {
    /// Draws a new one.
    pub fn generate(ambient: &Ambient) -> Self {
        Self(Zeroizing::new(ambient.bytes()))
    }

    /// Parses a token. A malformed text causes no query.
    pub fn parse(text: &str) -> Option<Self> {
        let mut bytes = Zeroizing::new([0; 32]);
        let length = URL_SAFE_NO_PAD.decode_slice(text, bytes.as_mut()).ok()?;
        (length == bytes.len()).then_some(Self(bytes))
    }

    /// The token with these bytes, if there are 32.
    pub(crate) fn of_bytes(bytes: &[u8]) -> Option<Self> {
        bytes.try_into().ok().map(|bytes| Self(Zeroizing::new(bytes)))
    }

    pub(crate) fn as_bytes(&self) -> &[u8] {
        &*self.0
    }

    /// The key by which the store looks it up.
    pub fn key(&self) -> TokenKey {
        TokenKey(Sha256::digest(*self.0).into())
    }

    /// The text for the link.
    pub fn to_text(&self) -> Secret {
        Secret::new(URL_SAFE_NO_PAD.encode(*self.0))
    }
}

impl std::fmt::Debug for SingleUseToken {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("SingleUseToken(…)")
    }
}

impl TokenKey {
    /// The key with these bytes, if there are 32.
    pub(crate) fn of_bytes(bytes: &[u8]) -> Option<Self> {
        bytes.try_into().ok().map(Self)
    }

    /// The 32 bytes of the hash.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_survives_a_link_round_trip() {
        let (ambient, _) = Ambient::manual(jiff::Timestamp::UNIX_EPOCH, 1);
        let token = SingleUseToken::generate(&ambient);
        let text = token.to_text();
        assert_eq!(text.len(), 43);
        assert_eq!(SingleUseToken::parse(text.expose()).unwrap().key(), token.key());
        assert!(!format!("{token:?} {:?}", token.key()).contains(text.expose()));
        assert_ne!(SingleUseToken::generate(&ambient).key(), token.key());
    }

    #[test]
    fn garbage_is_not_a_token() {
        for garbage in ["", "=", "' OR 1=1 --", "🦀", &"A".repeat(42), &"A".repeat(44), &"A".repeat(1 << 20)] {
            assert!(SingleUseToken::parse(garbage).is_none());
        }
    }
}
