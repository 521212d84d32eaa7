//! Parses the codes that users type: codes of the app and backup codes.

use gatewright_base::{Ambient, Secret, UserId};
use sha2::{Digest, Sha256};
use zeroize::Zeroizing;

use crate::typed;

/// How many backup codes a user has.
const COUNT: usize = 10;

/// Crockford's base32: no two letters look similar, and case does not matter.
const ALPHABET: &[u8; 32] = b"0123456789abcdefghjkmnpqrstvwxyz";

/// Letters and digits of a backup code, five bits each.
const LENGTH: usize = 16;

/// The SHA-256 of a user's backup code. A store keeps only this. A code has 80 random bits, so a fast hash is safe
/// against guessing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct CodeHash([u8; 32]);

impl CodeHash {
    /// The hash with these bytes, from a store.
    pub fn from_bytes(bytes: [u8; 32]) -> Self {
        Self(bytes)
    }

    /// The 32 bytes of the hash.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// Bound to its user, so that one user's rows cannot be used for another.
    fn of(user: &UserId, code: &str) -> Self {
        Self(Sha256::new().chain_update(user.as_str()).chain_update([0]).chain_update(code).finalize().into())
    }
}

/// A code that a user typed: by its shape one of the app's or a backup code.
pub(super) enum Code {
    /// Six digits.
    Totp(Zeroizing<String>),
    /// The text may be a backup code of this user.
    Backup(CodeHash),
}

impl Code {
    /// Parses typed text, with spaces, dashes and either case; `None` if it cannot be a code.
    pub(super) fn parse(typed: &Secret, user: &UserId) -> Option<Self> {
        // Far more than any code with all its blanks.
        if typed.len() > 100 {
            return None;
        }
        let mut plain = typed::code(typed.expose());
        plain.make_ascii_lowercase();
        if plain.len() == 6 && plain.bytes().all(|byte| byte.is_ascii_digit()) {
            return Some(Self::Totp(plain));
        }
        let mut code = Zeroizing::new(String::with_capacity(LENGTH));
        for c in plain.chars() {
            // As Crockford has it: these are typed for the digits that they look like.
            code.push(match c {
                'o' => '0',
                'i' | 'l' => '1',
                c if c.is_ascii() && ALPHABET.contains(&(c as u8)) => c,
                _ => return None,
            });
        }
        (code.len() == LENGTH).then(|| Self::Backup(CodeHash::of(user, &code)))
    }
}

/// A new set of backup codes for `user`: the texts, which are shown once, and the stored form.
pub(super) fn generate(user: &UserId, ambient: &Ambient) -> (Vec<Secret>, Vec<CodeHash>) {
    (0..COUNT)
        .map(|_| {
            let code = draw(ambient);
            let hash = CodeHash::of(user, &code);
            let groups: Vec<&str> = [0, 4, 8, 12].into_iter().map(|start| &code[start..start + 4]).collect();
            (Secret::new(groups.join("-")), hash)
        })
        .unzip()
}

fn draw(ambient: &Ambient) -> Zeroizing<String> {
    let bytes = Zeroizing::new(ambient.bytes::<LENGTH>());
    Zeroizing::new(bytes.iter().map(|byte| char::from(ALPHABET[usize::from(byte % 32)])).collect())
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    fn user() -> UserId {
        UserId::parse("ann").unwrap()
    }

    fn hash(typed: &str, user: &UserId) -> Option<CodeHash> {
        match Code::parse(&Secret::new(typed), user)? {
            Code::Backup(hash) => Some(hash),
            Code::Totp(_) => None,
        }
    }

    #[test]
    fn a_set_has_ten_codes_of_eighty_bits() {
        let (shown, kept) = generate(&user(), &Ambient::system());
        assert_eq!((shown.len(), kept.len()), (10, 10));
        let mut letters = HashSet::new();
        for (code, kept) in shown.iter().zip(&kept) {
            let text = code.expose();
            assert_eq!(text.len(), 19);
            assert!(text.split('-').all(|group| group.len() == 4));
            assert_eq!(hash(text, &user()).as_ref(), Some(kept));
            letters.extend(text.chars());
        }
        assert_eq!(kept.iter().collect::<HashSet<_>>().len(), 10);
        assert!(letters.len() > 25, "the whole alphabet is drawn from");
    }

    #[test]
    fn a_code_is_accepted_in_every_notation() {
        let expected = hash("01ab-cdef-ghjk-mnp1", &user());
        assert!(expected.is_some());
        for typed in [
            "01abcdefghjkmnp1",
            "01AB CDEF GHJK MNP1",
            " oIab-cdef-ghjk-mnpl ",
            "O1AB–CDEF–GHJK–MNP1",
            "01ab\u{200b}cdefghjkmnp１",
        ] {
            assert_eq!(hash(typed, &user()), expected, "{typed}");
        }
    }

    #[test]
    fn a_code_of_one_user_is_invalid_for_another() {
        assert_ne!(hash("01abcdefghjkmnp1", &user()), hash("01abcdefghjkmnp1", &UserId::parse("bob").unwrap()));
    }

    #[test]
    fn six_digits_are_a_code_of_the_app() {
        for typed in ["012345", "012 345", " 012-345 ", "０１２３４５", "٠١٢٣٤٥", "\u{200e}012\u{2009}345"]
        {
            assert!(matches!(Code::parse(&Secret::new(typed), &user()), Some(Code::Totp(code)) if *code == "012345"));
        }
    }

    #[test]
    fn other_texts_are_not_codes() {
        let long = "0".repeat(1 << 20);
        for typed in [
            "",
            "12345",
            "1234567",
            "01abcdefghjkmnp",
            "01abcdefghjkmnp12",
            "01abcdefghjkmnpu",
            "１２３４５６７",
            "' OR 1=1",
            &long,
        ] {
            assert!(Code::parse(&Secret::new(typed), &user()).is_none(), "{}", &typed[..typed.len().min(20)]);
        }
    }
}
