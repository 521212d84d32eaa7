use std::fmt;

use sha2::{Digest, Sha256};

/// The unit that a store counts: a limiter's scope and the caller's key, as text for any backend.
///
/// It is at most [`Key::MAX_BYTES`] of visible ASCII. A part that is longer, or has other characters, is replaced by its
/// SHA-256, so that long keys cannot fill a store, and two different pairs of scope and key never have the same text.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Key(Box<str>);

impl Key {
    /// The longest text of a key.
    pub const MAX_BYTES: usize = MAX_SCOPE + 1 + MAX_KEY;

    /// The key `key` within `scope`.
    pub fn new(scope: &str, key: &str) -> Self {
        let in_scope = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-' | b'.');
        let room = scope.len().min(MAX_SCOPE) + 1 + key.len().min(MAX_KEY);
        let mut text = String::with_capacity(room);
        push_plain_or_hashed(&mut text, scope, MAX_SCOPE, in_scope);
        text.push(':');
        push_plain_or_hashed(&mut text, key, MAX_KEY, |byte| byte.is_ascii_graphic());
        Self(text.into())
    }

    /// The key with this text; `None` if it is not the text of a key.
    pub fn of_text(text: &str) -> Option<Self> {
        let is_text = text.len() <= Self::MAX_BYTES && text.contains(':') && text.bytes().all(|b| b.is_ascii_graphic());
        is_text.then(|| Self(text.into()))
    }

    /// The text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

const MAX_SCOPE: usize = 65;
const MAX_KEY: usize = 128;

/// Appends `text` itself, or a tilde and its hash; plain text never begins with a tilde.
fn push_plain_or_hashed(to: &mut String, text: &str, longest: usize, plain: impl Fn(u8) -> bool) {
    if text.len() <= longest && !text.starts_with('~') && text.bytes().all(plain) {
        to.push_str(text);
        return;
    }
    to.push('~');
    for byte in Sha256::digest(text.as_bytes()) {
        for digit in [byte >> 4, byte & 15] {
            to.push(char::from_digit(digit.into(), 16).unwrap_or_default());
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn plain_keys_stay_readable() {
        assert_eq!(Key::new("login_ip", "203.0.113.7").as_str(), "login_ip:203.0.113.7");
        assert_eq!(Key::new("login_ip", "2001:db8::/64").as_str(), "login_ip:2001:db8::/64");
        assert_eq!(Key::new("login_account", "a@b.c").as_str(), "login_account:a@b.c");
    }

    #[test]
    fn no_two_pairs_share_a_key() {
        let long = "x".repeat(1_000_000);
        let hashed = Key::new("s", &long).as_str().trim_start_matches("s:").to_owned();
        let texts = ["", "a", "b", "a:b", ":", "~", "a b", "a\0", "a\n", "é", "%3A", &long, &long[1..], &hashed];
        let mut seen = HashSet::new();
        for scope in texts {
            for key in texts {
                let text = Key::new(scope, key);
                assert!(text.as_str().len() <= Key::MAX_BYTES && text.as_str().bytes().all(|b| b.is_ascii_graphic()));
                assert!(seen.insert(text.clone()), "{text}");
            }
        }
    }
}
