use gatewright_base::Secret;
use icu_normalizer::ComposingNormalizerBorrowed;

use super::rules::MAX_BYTES;

/// Most bytes of a text whose prepared form is determined. No prepared form is shorter than a third of its text.
const MAX_TYPED: usize = 4 * MAX_BYTES;

/// A password in the form of the profile `OpaqueString` (RFC 8265, 4.2): spaces outside ASCII become ASCII spaces, and the
/// text is in normalization form C. Upper and lower case stay different.
///
/// One keyboard sends `é` as one character, another as `e` and an accent. Both are one password. Only this form is hashed,
/// so a door that takes a password cannot forget it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Opaque(Secret);

impl Opaque {
    /// The form of a password as it was typed. `None` if it is longer than any password can be.
    pub(super) fn of(typed: &Secret) -> Option<Self> {
        if typed.len() > MAX_TYPED {
            return None;
        }
        let text = prepare(typed.expose());
        (text.len() <= MAX_BYTES).then(|| Self(Secret::new(text)))
    }

    /// A text as earlier versions hashed it.
    #[cfg(test)]
    pub(super) fn unprepared(text: Secret) -> Self {
        Self(text)
    }

    pub(super) fn secret(&self) -> &Secret {
        &self.0
    }
}

/// The form of a text that is compared with passwords, as a name or an address.
pub(super) fn prepare(text: &str) -> String {
    if text.is_ascii() {
        return text.to_owned();
    }
    let spaced: String = text.chars().map(|c| if is_space(c) { ' ' } else { c }).collect();
    ComposingNormalizerBorrowed::new_nfc().normalize(&spaced).into_owned()
}

/// Whether `c` is of the general category `Zs`.
fn is_space(c: char) -> bool {
    matches!(c, ' ' | '\u{a0}' | '\u{1680}' | '\u{2000}'..='\u{200a}' | '\u{202f}' | '\u{205f}' | '\u{3000}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_password_has_one_form_however_it_was_typed() {
        let cases = [
            ("correct horse", "correct horse"),
            ("cafe\u{301} au lait", "caf\u{e9} au lait"),
            ("caf\u{e9} au lait", "caf\u{e9} au lait"),
            // Marks in another order.
            ("o\u{302}\u{323}", "\u{1ed9}"),
            ("\u{1112}\u{1161}\u{11ab}", "\u{d55c}"),
            ("\u{212b}ngstr\u{f6}m", "\u{c5}ngstr\u{f6}m"),
            ("a\u{a0}b\u{1680}c\u{2000}d\u{200a}e\u{202f}f\u{205f}g\u{3000}h", "a b c d e f g h"),
            // Neither case, nor width, nor the compatibility forms are changed; nor are spaces trimmed.
            (" \u{df}\u{ff21}\u{fb01} ", " \u{df}\u{ff21}\u{fb01} "),
            // A composition exclusion, which the form takes apart.
            ("\u{958}", "\u{915}\u{93c}"),
        ];
        for (typed, expected) in cases {
            let form = Opaque::of(&Secret::new(typed)).unwrap();
            assert_eq!(form.secret().expose(), expected, "{typed:?}");
            assert_eq!(Opaque::of(form.secret()), Some(form), "{typed:?}: the form is stable");
        }
    }

    #[test]
    fn the_limit_counts_the_form() {
        assert!(Opaque::of(&Secret::new("\u{3000}".repeat(MAX_BYTES))).is_some());
        assert!(Opaque::of(&Secret::new("\u{3000}".repeat(MAX_BYTES + 1))).is_none());
        assert!(Opaque::of(&Secret::new("\u{958}".repeat(MAX_BYTES / 6 + 1))).is_none(), "six bytes each");
        assert!(Opaque::of(&Secret::new("a".repeat(1 << 20))).is_none());
    }
}
