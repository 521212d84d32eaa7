//! Keys from configured secrets: HKDF-SHA256 (RFC 5869) with a label for each purpose.
//!
//! An operator writes any text of 32 bytes or more; nothing in the code uses that text as a key itself. Two purposes
//! with one secret still have unrelated keys, so a signature made for one can never be replayed as the other.

use gatewright_base::Secret;
use hkdf::Hkdf;
use sha2::Sha256;
use zeroize::Zeroizing;

/// Fewest bytes of a configured secret outside dev mode.
pub(crate) const MIN_SECRET_BYTES: usize = 32;

/// A 256-bit key, cleared from memory when dropped.
pub(crate) type Key = Zeroizing<[u8; 32]>;

/// The key for the purpose named by `label`. Labels are part of the stored and signed formats: never change one.
pub(crate) fn derive(secret: &Secret, label: &str) -> Key {
    let mut key = Key::default();
    Hkdf::<Sha256>::new(None, secret.expose().as_bytes())
        .expand(label.as_bytes(), key.as_mut())
        .expect("32 bytes is a length that HKDF-SHA256 can give");
    key
}

#[cfg(test)]
mod tests {
    use base64::Engine as _;

    use super::*;

    #[test]
    fn purposes_and_secrets_have_keys_of_their_own() {
        let (one, two) = (Secret::new("a".repeat(32)), Secret::new("b".repeat(32)));
        assert_eq!(*derive(&one, "jwt"), *derive(&one, "jwt"));
        assert_ne!(*derive(&one, "jwt"), *derive(&one, "state"));
        assert_ne!(*derive(&one, "jwt"), *derive(&two, "jwt"));
        assert_ne!(derive(&one, "jwt").as_slice(), one.expose().as_bytes());
    }

    /// RFC 5869 with an empty salt, computed with another implementation; guards the formats against a silent change.
    #[test]
    fn derivation_is_the_standard_one() {
        let key = derive(&Secret::new("correct horse battery staple, twice over"), "gatewright/jwt/v1");
        let text = base64::engine::general_purpose::STANDARD.encode(key.as_slice());
        assert_eq!(text, "+19LWZA8lZnS/YNbU63I9NYT6I7ArLTePgA6ah1XseE=");
    }
}
