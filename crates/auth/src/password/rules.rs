use gatewright_base::Secret;

use super::algorithm::{BCRYPT_MAX_BYTES, PasswordAlgorithm};

/// Fewest characters of a password.
pub(super) const MIN_CHARS: usize = 8;
/// Most characters of a password.
pub(crate) const MAX_CHARS: usize = 128;
/// A new password that meets the length rules for the configured algorithm.
#[derive(Debug, Clone)]
pub struct NewPassword(Secret);

/// Why a password was not accepted. The text is for the user.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum WeakPassword {
    /// Fewer than 8 characters.
    #[error("a password has at least {MIN_CHARS} characters")]
    TooShort,
    /// More than 128 characters.
    #[error("a password has at most {MAX_CHARS} characters")]
    TooLong,
    /// More than the 72 bytes that bcrypt accepts.
    #[error("a password has at most {BCRYPT_MAX_BYTES} bytes; letters outside ASCII count two to four each")]
    TooLongForBcrypt,
}

impl WeakPassword {
    /// Its word in answers: `too_short` or `too_long`.
    pub(crate) fn code(self) -> &'static str {
        match self {
            Self::TooShort => "too_short",
            Self::TooLong | Self::TooLongForBcrypt => "too_long",
        }
    }
}

impl NewPassword {
    /// Checks the length of `text` for `algorithm`. The text is neither trimmed nor normalised.
    pub fn parse(text: Secret, algorithm: &PasswordAlgorithm) -> Result<Self, WeakPassword> {
        if is_oversized(&text) {
            return Err(WeakPassword::TooLong);
        }
        if text.expose().chars().count() < MIN_CHARS {
            return Err(WeakPassword::TooShort);
        }
        if !algorithm.takes(&text) {
            return Err(WeakPassword::TooLongForBcrypt);
        }
        Ok(Self(text))
    }

    /// The password itself.
    pub fn secret(&self) -> &Secret {
        &self.0
    }
}

/// Whether `text` is longer than any password can be, without reading a huge text completely.
pub(super) fn is_oversized(text: &Secret) -> bool {
    text.len() > MAX_CHARS * 4 || text.expose().chars().count() > MAX_CHARS
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_are_counted_in_characters_and_bcrypt_in_bytes() {
        let bcrypt = PasswordAlgorithm::Bcrypt { cost: 4 };
        let argon = PasswordAlgorithm::argon2id();
        let cases = [
            ("a".repeat(7), Some(WeakPassword::TooShort), Some(WeakPassword::TooShort)),
            ("é".repeat(7), Some(WeakPassword::TooShort), Some(WeakPassword::TooShort)),
            ("a".repeat(8), None, None),
            ("é".repeat(8), None, None),
            ("a".repeat(72), None, None),
            ("a".repeat(73), Some(WeakPassword::TooLongForBcrypt), None),
            ("é".repeat(36), None, None),
            ("é".repeat(37), Some(WeakPassword::TooLongForBcrypt), None),
            ("🦀".repeat(128), Some(WeakPassword::TooLongForBcrypt), None),
            ("a".repeat(129), Some(WeakPassword::TooLong), Some(WeakPassword::TooLong)),
            ("a".repeat(1_000_000), Some(WeakPassword::TooLong), Some(WeakPassword::TooLong)),
        ];
        for (text, with_bcrypt, with_argon) in cases {
            let verdict = |algorithm| NewPassword::parse(Secret::new(&*text), algorithm).err();
            assert_eq!(verdict(&bcrypt), with_bcrypt, "bcrypt, {} bytes", text.len());
            assert_eq!(verdict(&argon), with_argon, "argon2id, {} bytes", text.len());
        }
    }
}
