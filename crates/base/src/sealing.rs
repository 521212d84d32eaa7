//! AES-256-GCM: text that only the holder of a key can read, and only in its own place.

use aws_lc_rs::aead::{AES_256_GCM, Aad, NONCE_LEN, Nonce, RandomizedNonceKey};
use zeroize::Zeroizing;

use crate::Key;

/// A key that seals and opens. Each seal has a random nonce.
#[derive(Debug)]
pub struct SealingKey(RandomizedNonceKey);

impl SealingKey {
    /// The sealing key of these 32 bytes.
    pub fn new(key: &Key) -> Self {
        Self(RandomizedNonceKey::new(&AES_256_GCM, key.as_slice()).expect("AES-256 takes a key of 32 bytes"))
    }

    /// Seals `text`: twelve bytes of nonce, the ciphertext, and sixteen bytes of tag. `place` says where the text belongs
    /// (its row, its column); it is authenticated but not stored.
    pub fn seal(&self, text: &[u8], place: &[u8]) -> Vec<u8> {
        // Room for the tag: growing would leave a copy of the text behind.
        let mut sealed = Zeroizing::new(Vec::with_capacity(text.len() + AES_256_GCM.tag_len()));
        sealed.extend_from_slice(text);
        let nonce = self.0.seal_in_place_append_tag(Aad::from(place), &mut *sealed);
        let nonce = nonce.expect("the text is far shorter than what AES-GCM can seal");
        [nonce.as_ref().as_slice(), sealed.as_slice()].concat()
    }

    /// The text; `None` if it was sealed with another key or for another place, or is damaged.
    pub fn open(&self, sealed: &[u8], place: &[u8]) -> Option<Zeroizing<Vec<u8>>> {
        let (nonce, ciphertext) = sealed.split_at_checked(NONCE_LEN)?;
        let nonce = Nonce::try_assume_unique_for_key(nonce).ok()?;
        let mut text = Zeroizing::new(ciphertext.to_vec());
        let length = self.0.open_in_place(nonce, Aad::from(place), &mut text).ok()?.len();
        text.truncate(length);
        Some(text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Secret;

    fn key(letter: &str) -> SealingKey {
        SealingKey::new(&Secret::new(letter.repeat(32)).derive_key("test"))
    }

    #[test]
    fn a_text_opens_only_with_its_key_and_in_its_place() {
        let sealed = key("a").seal(b"canary", b"here");
        assert_eq!(key("a").open(&sealed, b"here").unwrap().as_slice(), b"canary");
        assert!(key("b").open(&sealed, b"here").is_none());
        assert!(key("a").open(&sealed, b"there").is_none());
        assert!(!sealed.windows(6).any(|part| part == b"canary"));
        assert_ne!(key("a").seal(b"canary", b"here"), sealed, "every nonce is another");
    }

    #[test]
    fn every_changed_bit_is_detected() {
        let sealed = key("a").seal(b"t", b"");
        for bit in 0..sealed.len() * 8 {
            let mut changed = sealed.clone();
            changed[bit / 8] ^= 1 << (bit % 8);
            assert!(key("a").open(&changed, b"").is_none(), "bit {bit}");
        }
        for length in 0..sealed.len() {
            assert!(key("a").open(&sealed[..length], b"").is_none(), "{length} bytes");
        }
    }
}
