use std::fmt;
use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use hmac::{Hmac, KeyInit as _, Mac as _};
use sha2::Sha256;
use zeroize::Zeroizing;

use crate::{Ambient, Key, Secret};

/// Bytes of a whole tag, and the fewest that are accepted.
const TAG: usize = 32;
const SHORTEST_TAG: usize = 16;

/// Authenticates values that leave the service and come back: HMAC-SHA256 with a key for one purpose.
///
/// Signed values are readable by their holder, but only the service can create them.
#[derive(Clone)]
pub struct SigningKey(Arc<Key>);

impl fmt::Debug for SigningKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SigningKey(…)")
    }
}

impl SigningKey {
    /// Signs with this key.
    pub fn new(key: Key) -> Self {
        Self(Arc::new(key))
    }

    /// Signs with the key that `secret` has for the purpose named by `label`, as [`Secret::derive_key`] does. If the
    /// secret is empty, the key is random and lost when the process ends.
    pub fn derive(secret: &Secret, label: &str, ambient: &Ambient) -> Self {
        Self::new(if secret.is_empty() { Key::new(ambient.bytes()) } else { secret.derive_key(label) })
    }

    /// The tag of `parts`. Each part is hashed behind its length, so no other list of parts has the same tag.
    pub fn tag(&self, parts: &[&[u8]]) -> [u8; TAG] {
        self.mac(parts).finalize().into_bytes().into()
    }

    /// Whether `tag` is that of `parts`, or the first 16 or more bytes of it. Compares in constant time.
    pub fn is_tag(&self, tag: &[u8], parts: &[&[u8]]) -> bool {
        tag.len() >= SHORTEST_TAG && self.mac(parts).verify_truncated_left(tag).is_ok()
    }

    /// `base64url(payload) "." base64url(tag)`.
    pub fn sign(&self, payload: &[u8]) -> Secret {
        let tag = self.tag(&[payload]);
        Secret::new(format!("{}.{}", URL_SAFE_NO_PAD.encode(payload), URL_SAFE_NO_PAD.encode(tag)))
    }

    /// The payload of a text that [`sign`](Self::sign) made with this key. The caller must limit the length of `text`.
    pub fn open(&self, text: &str) -> Option<Zeroizing<Vec<u8>>> {
        let (payload, tag) = text.split_once('.')?;
        let payload = Zeroizing::new(URL_SAFE_NO_PAD.decode(payload).ok()?);
        let tag = URL_SAFE_NO_PAD.decode(tag).ok()?;
        (tag.len() == TAG && self.is_tag(&tag, &[&payload])).then_some(payload)
    }

    fn mac(&self, parts: &[&[u8]]) -> Hmac<Sha256> {
        let mut mac = Hmac::<Sha256>::new_from_slice(self.0.as_slice()).expect("HMAC takes a key of any length");
        for part in parts {
            mac.update(&(part.len() as u64).to_be_bytes());
            mac.update(part);
        }
        mac
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(byte: u8) -> SigningKey {
        SigningKey::new(Key::new([byte; 32]))
    }

    #[test]
    fn a_tag_is_valid_only_for_its_parts_and_its_key() {
        let tag = key(1).tag(&[b"ab", b"c"]);
        assert!(key(1).is_tag(&tag, &[b"ab", b"c"]));
        for parts in [&[b"a" as &[u8], b"bc"] as &[&[u8]], &[b"abc"], &[b"ab", b"c", b""], &[b"ab"], &[]] {
            assert!(!key(1).is_tag(&tag, parts), "{parts:?}");
        }
        assert!(!key(2).is_tag(&tag, &[b"ab", b"c"]));
    }

    #[test]
    fn a_tag_may_be_cut_to_sixteen_bytes_and_no_further() {
        let tag = key(1).tag(&[b"a"]);
        for (length, good) in [(0, false), (1, false), (15, false), (16, true), (31, true), (32, true)] {
            assert_eq!(key(1).is_tag(&tag[..length], &[b"a"]), good, "{length}");
        }
        assert!(!key(1).is_tag(&[&tag[..], &[0]].concat(), &[b"a"]), "longer than a tag");
    }

    #[test]
    fn only_signed_values_open() {
        let text = key(1).sign(b"payload");
        let text = text.expose();
        assert_eq!(key(1).open(text).unwrap().as_slice(), b"payload");
        assert!(key(2).open(text).is_none());
        let (payload, tag) = text.split_once('.').unwrap();
        let short = URL_SAFE_NO_PAD.encode(&URL_SAFE_NO_PAD.decode(tag).unwrap()[..16]);
        let other = URL_SAFE_NO_PAD.encode("another");
        for text in [payload, &format!("{payload}."), &format!("{payload}.{short}"), &format!("{other}.{tag}"), "", "."]
        {
            assert!(key(1).open(text).is_none(), "{text}");
        }
    }

    /// Computed with another implementation; guards the formats against a silent change.
    #[test]
    fn a_tag_is_the_standard_hmac_of_the_parts_behind_their_lengths() {
        let tag = key(7).tag(&[b"register", b"session-1"]);
        assert_eq!(u128::from_be_bytes(tag[..16].try_into().unwrap()), 0x0dcf_3e68_00ab_3c06_80b6_769c_c2c0_144b);
    }
}
