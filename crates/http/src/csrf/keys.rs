use gatewright_base::{Key, Secret};
use hmac::{Hmac, KeyInit as _, Mac as _};
use sha2::Sha256;

use super::CsrfBinding;
use super::token::{Nonce, Token};

/// Part of the signed input: a change invalidates every issued token.
const LABEL: &str = "gatewright/csrf/v1";

/// The current signing key, and the previous ones.
#[derive(Clone)]
pub(super) struct Keys {
    current: Key,
    previous: Vec<Key>,
}

/// By which key a token was signed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Signed {
    Currently,
    Previously,
}

impl Keys {
    pub(super) fn new(secret: &Secret) -> Self {
        Self { current: secret.derive_key(LABEL), previous: Vec::new() }
    }

    pub(super) fn set_previous<'s>(&mut self, secrets: impl IntoIterator<Item = &'s Secret>) {
        self.previous = secrets.into_iter().map(|secret| secret.derive_key(LABEL)).collect();
    }

    /// Binds `nonce` to `binding` with the current key.
    pub(super) fn sign(&self, nonce: Nonce, binding: &CsrfBinding) -> Token {
        Token { nonce, mac: mac(&self.current, &nonce, binding).finalize().into_bytes().into() }
    }

    /// The key that signed the token for `binding`; `None` if it is not one of ours. Compares in constant time.
    pub(super) fn verify(&self, token: &Token, binding: &CsrfBinding) -> Option<Signed> {
        let by = |key: &Key| mac(key, &token.nonce, binding).verify_slice(&token.mac).is_ok();
        if by(&self.current) {
            return Some(Signed::Currently);
        }
        self.previous.iter().any(by).then_some(Signed::Previously)
    }
}

/// The nonce has a fixed length and one byte distinguishes a session from none, so that two different inputs never have
/// the same bytes.
fn mac(key: &Key, nonce: &Nonce, binding: &CsrfBinding) -> Hmac<Sha256> {
    let mut mac = Hmac::<Sha256>::new_from_slice(key.as_ref()).expect("HMAC takes a key of any length");
    mac.update(nonce);
    match binding.session_id() {
        None => mac.update(&[0]),
        Some(session) => {
            mac.update(&[1]);
            mac.update(session.as_bytes());
        }
    }
    mac
}

#[cfg(test)]
mod tests {
    use super::*;

    fn keys(secret: &str, previous: &[&str]) -> Keys {
        let mut keys = Keys::new(&Secret::new(secret));
        let previous: Vec<_> = previous.iter().map(|text| Secret::new(*text)).collect();
        keys.set_previous(&previous);
        keys
    }

    #[test]
    fn a_token_is_valid_only_for_its_key_and_its_binding() {
        let (none, one, two) = (CsrfBinding::anonymous(), CsrfBinding::session("1"), CsrfBinding::session("2"));
        let token = keys("a", &[]).sign([7; 16], &one);
        let cases = [
            (keys("a", &[]), &one, Some(Signed::Currently)),
            (keys("b", &["x", "a"]), &one, Some(Signed::Previously)),
            (keys("b", &[]), &one, None),
            (keys("a", &[]), &two, None),
            (keys("a", &[]), &none, None),
        ];
        for (keys, binding, expected) in cases {
            assert_eq!(keys.verify(&token, binding), expected);
        }
    }

    #[test]
    fn an_anonymous_token_is_invalid_for_a_session_with_an_empty_id() {
        let keys = keys("a", &[]);
        assert_eq!(keys.verify(&keys.sign([7; 16], &CsrfBinding::anonymous()), &CsrfBinding::session("")), None);
    }

    #[test]
    fn every_flipped_bit_is_detected() {
        let (keys, binding) = (keys("a", &[]), CsrfBinding::session("1"));
        let token = keys.sign([7; 16], &binding);
        for bit in 0..8 * Token::BYTES {
            let mut bytes = token.to_bytes();
            bytes[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(keys.verify(&Token::of(&bytes), &binding), None, "{bit}");
        }
    }

    /// Computed with another implementation; guards the format against a silent change, which would refuse every
    /// token that is out while two versions serve side by side.
    #[test]
    fn the_signature_is_the_standard_one() {
        let token = keys("correct horse battery staple, twice over", &[]).sign([7; 16], &CsrfBinding::session("s1"));
        let expected = [
            0x26, 0xeb, 0x19, 0xd1, 0x83, 0x59, 0x45, 0x51, 0xf1, 0x5b, 0xd4, 0x2c, 0xdf, 0x18, 0x11, 0x71, 0x22, 0x87,
            0x08, 0x59, 0x30, 0xab, 0xf4, 0x72, 0x19, 0x56, 0xf1, 0xa4, 0xec, 0x22, 0xe9, 0xf3,
        ];
        assert_eq!(token.mac, expected);
    }
}
