//! Keys from configured secrets: HKDF-SHA256 (RFC 5869) with a label for each purpose.
//!
//! An operator writes any text of 32 bytes or more; nothing in the code uses that text as a key itself. Two purposes
//! with one secret still have unrelated keys, so a signature made for one can never be replayed as the other.

use hkdf::Hkdf;
use sha2::Sha256;
use zeroize::Zeroizing;

use crate::Secret;

/// A 256-bit key, cleared from memory when dropped.
pub type Key = Zeroizing<[u8; 32]>;

impl Secret {
    /// Fewest bytes of a secret that keys are derived from, outside dev mode.
    pub const MIN_BYTES: usize = 32;

    /// The key for the purpose named by `label`. Labels are part of the stored and signed formats: never change one.
    pub fn derive_key(&self, label: &str) -> Key {
        let mut key = Key::default();
        Hkdf::<Sha256>::new(None, self.expose().as_bytes())
            .expand(label.as_bytes(), key.as_mut())
            .expect("32 bytes is a length that HKDF-SHA256 can give");
        key
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_purpose_and_secret_has_its_own_key() {
        let (one, two) = (Secret::new("a".repeat(32)), Secret::new("b".repeat(32)));
        assert_eq!(*one.derive_key("jwt"), *one.derive_key("jwt"));
        assert_ne!(*one.derive_key("jwt"), *one.derive_key("state"));
        assert_ne!(*one.derive_key("jwt"), *two.derive_key("jwt"));
        assert_ne!(one.derive_key("jwt").as_slice(), one.expose().as_bytes());
    }

    /// RFC 5869 with an empty salt, computed with another implementation; guards the formats against a silent change.
    #[test]
    fn derivation_is_the_standard_one() {
        let key = Secret::new("correct horse battery staple, twice over").derive_key("gatewright/jwt/v1");
        let (high, low) = key.split_at(16);
        let number = |half: &[u8]| u128::from_be_bytes(half.try_into().unwrap());
        assert_eq!(number(high), 0xfb5f_4b59_903c_9599_d2fd_835b_53ad_c8f4);
        assert_eq!(number(low), 0xd613_e88e_c0ac_b4de_3e00_3a6a_1d57_b1e1);
    }
}
