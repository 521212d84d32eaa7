//! AES-256-GCM around each token.
//!
//! A sealed token is a version byte, four bytes of key id, a nonce of twelve bytes, and the ciphertext with its tag.
//! The user, the provider and the column are authenticated with it. So an attacker who can write to the table can
//! neither move a token to another user nor use a refresh token as an access token.

use gatewright_base::{SealingKey, Secret, UserId};

use crate::init_error::AuthInitError;

/// The keys that tokens are sealed with.
pub struct TokenKeys {
    /// The first seals; all open.
    keys: Vec<TokenKey>,
}

struct TokenKey {
    id: [u8; 4],
    key: SealingKey,
}

/// A sealed token. A store keeps its bytes. They reveal only the token's length.
#[derive(Clone, PartialEq, Eq)]
pub struct Sealed(Vec<u8>);

/// Where a token belongs.
#[derive(Clone, Copy)]
pub(super) struct Place<'a> {
    pub(super) user: &'a UserId,
    pub(super) provider: &'a str,
    pub(super) column: Column,
}

#[derive(Clone, Copy)]
pub(super) enum Column {
    Access,
    Refresh,
}

/// A token that no key opens: another key's, another place's, or damaged.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a stored token cannot be opened: was the encryption key changed without keeping the previous one?")]
pub(super) struct CannotOpen;

const VERSION: u8 = 1;
/// Both are part of the stored format.
const LABEL: &str = "gatewright/oauth-tokens/v1";
const ID_LABEL: &str = "gatewright/oauth-tokens/key-id/v1";
const HEADER: usize = 1 + 4;

impl TokenKeys {
    /// Derives the keys. `secret` is any text of at least 32 bytes (in dev mode: any text that is not empty).
    /// `previous` are the secrets that older records are still sealed with.
    pub fn new(secret: &Secret, previous: &[Secret], dev_mode: bool) -> Result<Self, AuthInitError> {
        let mut keys = Vec::with_capacity(1 + previous.len());
        for secret in std::iter::once(secret).chain(previous) {
            if secret.is_empty() {
                return Err(AuthInitError::MissingTokenEncryptionKey);
            }
            if secret.len() < Secret::MIN_BYTES && !dev_mode {
                return Err(AuthInitError::ShortSecret { name: "a token encryption key", bytes: secret.len() });
            }
            let [a, b, c, d, ..] = *secret.derive_key(ID_LABEL);
            keys.push(TokenKey { id: [a, b, c, d], key: SealingKey::new(&secret.derive_key(LABEL)) });
        }
        Ok(Self { keys })
    }

    pub(super) fn seal(&self, token: &Secret, place: Place<'_>) -> Sealed {
        let TokenKey { id, key } = &self.keys[0];
        Sealed([&[VERSION], id.as_slice(), &key.seal(token.expose().as_bytes(), &place.bytes())].concat())
    }

    /// The token, and whether it is sealed with the present key.
    pub(super) fn open(&self, sealed: &Sealed, place: Place<'_>) -> Result<(Secret, bool), CannotOpen> {
        let (header, rest) = sealed.0.split_at_checked(HEADER).ok_or(CannotOpen)?;
        if header[0] != VERSION {
            return Err(CannotOpen);
        }
        for (index, key) in self.keys.iter().enumerate().filter(|(_, key)| key.id == header[1..]) {
            if let Some(text) = key.key.open(rest, &place.bytes()) {
                let text = std::str::from_utf8(&text).map_err(|_| CannotOpen)?;
                return Ok((Secret::new(text), index == 0));
            }
        }
        Err(CannotOpen)
    }
}

impl Place<'_> {
    /// Each part with its length before it, so that different places have different bytes.
    fn bytes(self) -> Vec<u8> {
        let column = match self.column {
            Column::Access => "access_token",
            Column::Refresh => "refresh_token",
        };
        let parts = [self.user.as_str(), self.provider, column];
        parts.iter().flat_map(|part| [&(part.len() as u64).to_be_bytes(), part.as_bytes()].concat()).collect()
    }
}

impl Sealed {
    /// A token from the bytes in a store.
    pub fn from_bytes(bytes: Vec<u8>) -> Self {
        Self(bytes)
    }

    /// The bytes for a store.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }
}

impl std::fmt::Debug for Sealed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Sealed({} bytes)", self.0.len())
    }
}

impl std::fmt::Debug for TokenKeys {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("TokenKeys").field("keys", &self.keys.len()).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn secret(letter: &str) -> Secret {
        Secret::new(letter.repeat(32))
    }

    fn keys(present: &str, previous: &[&str]) -> TokenKeys {
        let previous: Vec<_> = previous.iter().map(|letter| secret(letter)).collect();
        TokenKeys::new(&secret(present), &previous, false).unwrap()
    }

    fn user(id: &str) -> UserId {
        UserId::parse(id).unwrap()
    }

    #[test]
    fn a_token_opens_only_in_its_own_place() {
        let (keys, ann, bob) = (keys("a", &[]), user("ann"), user("bob"));
        let place = Place { user: &ann, provider: "google", column: Column::Access };
        let sealed = keys.seal(&Secret::new("canary-token"), place);
        assert_eq!(keys.open(&sealed, place), Ok((Secret::new("canary-token"), true)));
        for other in [
            Place { user: &bob, ..place },
            Place { provider: "github", ..place },
            Place { column: Column::Refresh, ..place },
            // The same letters, otherwise divided.
            Place { user: &user("anng"), provider: "oogle", ..place },
        ] {
            assert_eq!(keys.open(&sealed, other), Err(CannotOpen));
        }
        let shown = format!("{sealed:?} {keys:?} {:?}", sealed.as_bytes());
        assert!(!shown.contains("canary") && !sealed.as_bytes().windows(6).any(|part| part == b"canary"));
    }

    #[test]
    fn every_changed_bit_is_detected() {
        let (keys, ann) = (keys("a", &[]), user("ann"));
        let place = Place { user: &ann, provider: "google", column: Column::Access };
        let sealed = keys.seal(&Secret::new("t"), place);
        for bit in 0..sealed.0.len() * 8 {
            let mut changed = sealed.clone();
            changed.0[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(keys.open(&changed, place), Err(CannotOpen), "bit {bit}");
        }
        for length in 0..sealed.0.len() {
            assert_eq!(keys.open(&Sealed(sealed.0[..length].to_vec()), place), Err(CannotOpen), "{length} bytes");
        }
    }

    #[test]
    fn sealing_the_same_token_twice_differs() {
        let (keys, ann) = (keys("a", &[]), user("ann"));
        let place = Place { user: &ann, provider: "google", column: Column::Access };
        let token = Secret::new("t");
        assert_ne!(keys.seal(&token, place), keys.seal(&token, place));
    }

    #[test]
    fn previous_keys_only_open() {
        let ann = user("ann");
        let place = Place { user: &ann, provider: "google", column: Column::Refresh };
        let old = keys("a", &[]).seal(&Secret::new("t"), place);
        let rotated = keys("b", &["z", "a"]);
        assert_eq!(rotated.open(&old, place), Ok((Secret::new("t"), false)));
        let new = rotated.seal(&Secret::new("t"), place);
        assert_eq!(keys("b", &[]).open(&new, place), Ok((Secret::new("t"), true)));
        assert_eq!(keys("b", &[]).open(&old, place), Err(CannotOpen), "without the previous key");
    }

    #[test]
    fn a_key_is_required() {
        for (secret, dev_mode) in [("", false), ("", true), ("short", false)] {
            assert!(TokenKeys::new(&Secret::new(secret), &[], dev_mode).is_err(), "{secret:?} {dev_mode}");
        }
        assert!(TokenKeys::new(&Secret::new("short"), &[], true).is_ok());
        assert!(TokenKeys::new(&secret("a"), &[Secret::new("")], true).is_err());
    }
}
