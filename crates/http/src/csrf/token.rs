use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use gatewright_base::Ambient;
use subtle::ConstantTimeEq as _;

pub(super) type Nonce = [u8; 16];

/// A random number and its signature: the content of the cookie and, masked, of a form's field or a header.
#[derive(Clone, PartialEq, Eq)]
pub(super) struct Token {
    pub(super) nonce: Nonce,
    pub(super) mac: [u8; 32],
}

impl Token {
    pub(super) const BYTES: usize = 48;
    /// Characters of the masked form: no more can be a token.
    pub(super) const MASKED_CHARS: usize = 128;

    /// The cookie's value: 64 characters of URL-safe base64.
    pub(super) fn cookie_value(&self) -> String {
        URL_SAFE_NO_PAD.encode(self.to_bytes())
    }

    pub(super) fn parse_cookie(text: &str) -> Option<Self> {
        let mut bytes = [0; Self::BYTES];
        (decode(text, &mut bytes)? == Self::BYTES).then(|| Self::of(&bytes))
    }

    /// The token under a fresh mask: 128 characters of URL-safe base64, other ones each time.
    ///
    /// The size of a compressed answer that repeats a part of its request reveals whether two texts in it are equal. A
    /// text that differs in every answer cannot be guessed that way (the BREACH attack).
    pub(super) fn mask(&self, ambient: &Ambient) -> String {
        let mut bytes = [0; 2 * Self::BYTES];
        let (mask, masked) = bytes.split_at_mut(Self::BYTES);
        ambient.fill(mask);
        for ((masked, mask), byte) in masked.iter_mut().zip(mask).zip(self.to_bytes()) {
            *masked = *mask ^ byte;
        }
        URL_SAFE_NO_PAD.encode(bytes)
    }

    pub(super) fn unmask(text: &str) -> Option<Self> {
        let mut bytes = [0; 2 * Self::BYTES];
        if decode(text, &mut bytes)? != bytes.len() {
            return None;
        }
        let (mask, masked) = bytes.split_at_mut(Self::BYTES);
        for (byte, mask) in masked.iter_mut().zip(mask) {
            *byte ^= *mask;
        }
        let mut token = [0; Self::BYTES];
        token.copy_from_slice(masked);
        Some(Self::of(&token))
    }

    /// Whether both grew from the same random number. Constant time.
    pub(super) fn pairs_with(&self, other: &Self) -> bool {
        self.nonce.ct_eq(&other.nonce).into()
    }

    pub(super) fn to_bytes(&self) -> [u8; Self::BYTES] {
        let mut bytes = [0; Self::BYTES];
        let (nonce, mac) = bytes.split_at_mut(self.nonce.len());
        nonce.copy_from_slice(&self.nonce);
        mac.copy_from_slice(&self.mac);
        bytes
    }

    pub(super) fn of(bytes: &[u8; Self::BYTES]) -> Self {
        let mut token = Self { nonce: [0; 16], mac: [0; 32] };
        let (nonce, mac) = bytes.split_at(token.nonce.len());
        token.nonce.copy_from_slice(nonce);
        token.mac.copy_from_slice(mac);
        token
    }
}

/// The number of bytes that `text` encodes; `None` if it is not base64 or encodes more than `bytes` can hold.
fn decode(text: &str, bytes: &mut [u8]) -> Option<usize> {
    URL_SAFE_NO_PAD.decode_slice(text, bytes).ok()
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;
    use proptest::prelude::*;

    use super::*;

    fn token() -> Token {
        Token { nonce: [3; 16], mac: [9; 32] }
    }

    #[test]
    fn masks_differ_and_can_be_removed() {
        let (ambient, _) = Ambient::manual(Timestamp::UNIX_EPOCH, 1);
        let masked: Vec<String> = (0..100).map(|_| token().mask(&ambient)).collect();
        let distinct: std::collections::HashSet<&String> = masked.iter().collect();
        assert_eq!(distinct.len(), masked.len());
        for text in &masked {
            assert_eq!(text.len(), Token::MASKED_CHARS);
            assert!(Token::unmask(text).is_some_and(|unmasked| unmasked == token()));
        }
        // Neither half reveals any of it.
        let parts: Vec<&str> = masked.iter().flat_map(|text| [&text[..64], &text[64..]]).collect();
        assert!(!parts.contains(&token().cookie_value().as_str()));
    }

    #[test]
    fn texts_in_another_form_are_not_tokens() {
        let (ambient, _) = Ambient::manual(Timestamp::UNIX_EPOCH, 1);
        let (masked, cookie) = (token().mask(&ambient), token().cookie_value());
        let mut cases = vec![String::new(), "a".repeat(127), "a".repeat(129), "a".repeat(1_000_000)];
        cases.extend([&masked, &cookie].map(|text| text[..text.len() - 1].to_owned()));
        cases.extend([&masked, &cookie].map(|text| format!("{text}a")));
        cases.extend([&masked, &cookie].map(|text| format!("{text}==")));
        cases.extend([&masked, &cookie].map(|text| format!(" {}", &text[1..])));
        cases.extend([&masked, &cookie].map(|text| format!("+{}", &text[1..])));
        for text in cases {
            assert!(Token::unmask(&text).is_none(), "{text}");
            assert!(Token::parse_cookie(&text).is_none(), "{text}");
        }
        // The cookie's content is not valid as a token, nor the token as a cookie.
        assert!(Token::unmask(&cookie).is_none() && Token::parse_cookie(&masked).is_none());
        assert!(Token::parse_cookie(&cookie).is_some_and(|parsed| parsed == token()));
    }

    proptest! {
        #[test]
        fn no_text_breaks_the_parsers(text in "\\PC{0,200}|[A-Za-z0-9_=-]{120,136}|[A-Za-z0-9_=-]{60,68}") {
            let _ = (Token::unmask(&text), Token::parse_cookie(&text));
        }
    }
}
