use std::fmt::Write;

use gatewright_base::{Ambient, Secret};
use sha2::{Digest, Sha256};

/// The prefix of every token.
pub(crate) const PREFIX: &str = "svc_";

/// How much of a token listings and audit events show: the prefix and 8 of its 40 digits, which leaves 128 bits.
const SHOWN: usize = 12;
const RANDOM_BYTES: usize = 20;

/// The plaintext of a token: `svc_` and 40 lower-case hexadecimal digits, of 20 random bytes.
#[derive(Clone)]
pub struct Plaintext(Secret);

/// The SHA-256 of a whole plaintext. A store keeps only this, so that a reader of the table cannot use a token.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct TokenHash([u8; 32]);

impl Plaintext {
    /// Draws a new one.
    pub fn generate(ambient: &Ambient) -> Self {
        let mut text = String::with_capacity(PREFIX.len() + 2 * RANDOM_BYTES);
        text.push_str(PREFIX);
        for byte in ambient.bytes::<RANDOM_BYTES>() {
            // Writing to a String cannot fail.
            let _ = write!(text, "{byte:02x}");
        }
        Self(Secret::new(text))
    }

    /// Parses a token. A malformed text causes no query.
    pub fn parse(text: &str) -> Option<Self> {
        let digits = text.strip_prefix(PREFIX)?;
        let hex = digits.len() == 2 * RANDOM_BYTES && digits.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'));
        hex.then(|| Self(Secret::new(text)))
    }

    /// The key by which the store looks it up.
    pub fn hash(&self) -> TokenHash {
        TokenHash(Sha256::digest(self.0.expose()).into())
    }

    /// The first 12 characters, by which users distinguish tokens.
    pub fn prefix(&self) -> String {
        shown(self.0.expose())
    }

    /// The whole text, to be shown once.
    pub fn expose(&self) -> &str {
        self.0.expose()
    }
}

impl std::fmt::Debug for Plaintext {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Plaintext(…)")
    }
}

impl TokenHash {
    /// The 32 bytes of the hash.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }
}

/// The part of a token, or of another text in its place, that may be shown.
pub(crate) fn shown(text: &str) -> String {
    text.chars().take(SHOWN).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_forty_hexadecimal_digits_after_its_prefix() {
        let (ambient, _) = Ambient::manual(jiff::Timestamp::UNIX_EPOCH, 1);
        let token = Plaintext::generate(&ambient);
        let text = token.expose();
        let digits = text.strip_prefix("svc_").unwrap();
        assert!(digits.len() == 40 && digits.bytes().all(|b| b.is_ascii_digit() || (b'a'..=b'f').contains(&b)));
        assert_eq!(token.prefix(), text[..12]);
        assert_eq!(Plaintext::parse(text).unwrap().hash(), token.hash());
        assert_eq!(token.hash().as_bytes(), &Sha256::digest(text)[..], "of the full plaintext");
        assert_ne!(Plaintext::generate(&ambient).hash(), token.hash());
        assert!(!format!("{token:?} {:?}", token.hash()).contains(&digits[8..]));
    }

    #[test]
    fn garbage_is_not_a_token() {
        let zeros = "0".repeat(40);
        let cases = [
            String::new(),
            "svc_".to_owned(),
            zeros.clone(),
            format!("SVC_{zeros}"),
            format!("svc_{}", &zeros[1..]),
            format!("svc_{zeros}0"),
            format!("svc_{}A", &zeros[1..]),
            format!("svc_{}g", &zeros[1..]),
            format!("svc_{}🦀", &zeros[4..]),
            format!("svc_svc_{}", &zeros[4..]),
        ];
        for garbage in cases {
            assert!(Plaintext::parse(&garbage).is_none(), "{garbage}");
        }
        assert!(Plaintext::parse(&format!("svc_{zeros}")).is_some());
    }
}
