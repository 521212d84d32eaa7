//! From a text to the words of an index, and what the index stores of each.

use std::borrow::Cow;
use std::fmt::Write;
use std::ops::Range;
use std::sync::LazyLock;

use gatewright_db::dialect;
use icu_normalizer::ComposingNormalizerBorrowed;
use regex::Regex;
use sha2::{Digest, Sha256};
use unicode_segmentation::UnicodeSegmentation;

use crate::declare::Language;

/// The most words of a text that are indexed.
pub(crate) const MOST_WORDS: usize = 10_000;
/// The most bytes of a word that are indexed.
pub(crate) const MOST_BYTES: usize = 255;
/// The most bytes of a word that are read. A normal form may have eleven times as many.
const MOST_READ: usize = 1024;
/// The most bytes of a word that an index stores as they are, and the bytes that it stores of a longer one, before a digest. Postgres
/// has room for 1 MiB of words in one value.
const STORED_BYTES: usize = 64;
/// The bytes of a prefix that count.
pub(crate) const PREFIX_BYTES: usize = 48;
/// The bytes of the digest.
const DIGEST: usize = 16;
/// Separates the beginning of a long word from its digest. It is no part of any word.
pub(crate) const MARK: char = '\u{f8ff}';
/// A punctuation mark of ASCII within a word, as in `don't`, is stored as the character at this place plus its own.
const PUNCTUATION: u32 = 0xe000;

/// What makes a segment a word, besides a letter or digit.
static PICTURE: LazyLock<Option<Regex>> =
    LazyLock::new(|| Regex::new(r"\p{Extended_Pictographic}|\p{Regional_Indicator}").ok());

/// A word of a text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Word {
    /// The form that is compared: normalized, folded, its stem.
    pub(crate) stem: String,
    /// The same before it was reduced to its stem.
    pub(crate) form: String,
    /// Where the text has it, in bytes.
    pub(crate) place: Range<usize>,
}

/// The first words of a text, in order.
///
/// They are the words of UAX #29: what lies between two word boundaries and has a letter, a digit or a pictograph. Each is
/// normalized (NFKC), its case folded, and reduced to its stem. A word whose normal form has several words, such as a ligature,
/// becomes these.
pub(crate) fn words(text: &str, language: Language) -> impl Iterator<Item = Word> {
    let found = text.split_word_bound_indices().filter(|(_, segment)| is_word(segment));
    let words = found.flat_map(move |(start, segment)| {
        let place = start..start + segment.len();
        forms(&segment[..segment.floor_char_boundary(MOST_READ)]).into_iter().map(move |form| {
            let form = cut(form, MOST_BYTES);
            Word { stem: language.stem(form.clone()), form, place: place.clone() }
        })
    });
    words.take(MOST_WORDS)
}

fn is_word(segment: &str) -> bool {
    if segment.is_ascii() {
        return segment.bytes().any(|byte| byte.is_ascii_alphanumeric());
    }
    segment.chars().any(char::is_alphanumeric) || PICTURE.as_ref().is_some_and(|picture| picture.is_match(segment))
}

/// The normal form of a segment as words.
fn forms(segment: &str) -> Vec<String> {
    if segment.is_ascii() {
        return vec![segment.to_ascii_lowercase()];
    }
    let nfkc = ComposingNormalizerBorrowed::new_nfkc();
    let normal = nfkc.normalize(segment);
    let folded = dialect::fold_case(&normal);
    let normal = nfkc.normalize(&folded);
    normal.split_word_bounds().filter(|segment| is_word(segment)).map(str::to_owned).collect()
}

fn cut(mut text: String, most: usize) -> String {
    text.truncate(text.floor_char_boundary(most));
    text
}

/// What an index stores of a word: no space, quote or other punctuation mark of ASCII, and at most 83 bytes.
pub(crate) fn key(word: &str) -> String {
    let word = escaped(word);
    if word.len() <= STORED_BYTES {
        return word.into_owned();
    }
    let mut key = word[..word.floor_char_boundary(PREFIX_BYTES)].to_owned();
    key.push(MARK);
    for byte in &Sha256::digest(word.as_bytes())[..DIGEST] {
        let _infallible = write!(key, "{byte:02x}");
    }
    key
}

/// What the keys of words begin with that begin with this form.
pub(crate) fn prefix(form: &str) -> String {
    cut(escaped(form).into_owned(), PREFIX_BYTES)
}

fn escaped(word: &str) -> Cow<'_, str> {
    let is_mark = |c: char| c.is_ascii() && !c.is_ascii_alphanumeric();
    if !word.contains(is_mark) {
        return Cow::Borrowed(word);
    }
    let escape = |c: char| if is_mark(c) { char::from_u32(PUNCTUATION + u32::from(c)).unwrap_or(MARK) } else { c };
    word.chars().map(escape).collect::<String>().into()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn stems(text: &str, language: &str) -> Vec<String> {
        words(text, language.parse().unwrap()).map(|word| word.stem).collect()
    }

    #[test]
    fn a_text_becomes_folded_and_normalized_words() {
        for (text, expected) in [
            (
                "The quick (\"brown\") fox can't jump 32.3 feet, right?",
                "the quick brown fox can't jump 32.3 feet right",
            ),
            ("Straße STRASSE ſtraße", "straße strasse straße"),
            ("ΣΊΣΥΦΟΣ σίσυφος", "σίσυφοσ σίσυφοσ"),
            ("ﬁne Ⅷ ㎏ ½", "fine viii 1⁄2"),
            ("ﷺ", "صلى الله عليه وسلم"),
            ("e\u{301}te\u{301}", "été"),
            ("日本語 テキスト", "日 本 語 テキスト"),
            ("Привет, МИР!", "привет мир"),
            ("צה\"ל", "צה\"ל"),
            ("ok 👩‍👩‍👧 🇩🇪 😀!", "ok 👩‍👩‍👧 🇩🇪 😀"),
            ("a_b foo-bar x@y.z", "a_b foo bar x y.z"),
            (" \t…—!?* ", ""),
        ] {
            assert_eq!(stems(text, "simple").join(" "), expected, "{text}");
        }
        assert_eq!(stems("Running RUNS runner", "english"), ["run", "run", "runner"]);
    }

    #[test]
    fn places_are_those_of_the_text() {
        let text = "Über ﷺ x";
        let places: Vec<_> = words(text, Language::SIMPLE).map(|word| &text[word.place]).collect();
        assert_eq!(places, ["Über", "ﷺ", "ﷺ", "ﷺ", "ﷺ", "x"]);
    }

    #[test]
    fn a_text_has_bounds() {
        assert_eq!(words(&"x ".repeat(MOST_WORDS + 5), Language::SIMPLE).count(), MOST_WORDS);
        // Normal forms that are much longer than the text.
        assert!(words(&"ﷺ".repeat(100_000), Language::SIMPLE).count() < 1_500);
        let long = words(&"é".repeat(300), Language::SIMPLE).next().unwrap();
        assert_eq!(long.stem.len(), MOST_BYTES - 1);
        let keys: Vec<String> = [300, 301, 150].map(|count| key(&"é".repeat(count))).to_vec();
        assert_eq!(keys.iter().map(String::len).max(), Some(83));
        assert!(keys[0] != keys[1] && keys.iter().all(|key| key.starts_with(&prefix(&"é".repeat(99)))), "{keys:?}");
        let (short, other) = ("a".repeat(64), "a".repeat(65));
        assert_eq!(key(&short), short);
        assert_ne!(key(&other), other);
    }

    proptest! {
        /// So that neither engine's syntax can be left.
        #[test]
        fn no_key_has_a_character_of_a_syntax(text in "(\\PC|[ -~]|[א-ת]\"[א-ת]){0,60}") {
            for language in [Language::SIMPLE, "english".parse().unwrap(), "turkish".parse().unwrap()] {
                for word in words(&text, language) {
                    for key in [key(&word.stem), prefix(&word.form)] {
                        let is_plain = |c: char| c.is_ascii_digit() || c.is_ascii_lowercase() || (!c.is_ascii() && !c.is_whitespace());
                        prop_assert!(key.chars().all(is_plain), "{key:?}");
                        prop_assert!(key.len() <= 83);
                    }
                }
            }
        }
    }
}
