use std::fmt;
use std::str::FromStr;

use rust_stemmers::{Algorithm, Stemmer};

/// How the words of a search index are reduced to their stems.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Language(Option<usize>);

/// The languages of Snowball, by their names.
const LANGUAGES: [(&str, Algorithm); 18] = [
    ("arabic", Algorithm::Arabic),
    ("danish", Algorithm::Danish),
    ("dutch", Algorithm::Dutch),
    ("english", Algorithm::English),
    ("finnish", Algorithm::Finnish),
    ("french", Algorithm::French),
    ("german", Algorithm::German),
    ("greek", Algorithm::Greek),
    ("hungarian", Algorithm::Hungarian),
    ("italian", Algorithm::Italian),
    ("norwegian", Algorithm::Norwegian),
    ("portuguese", Algorithm::Portuguese),
    ("romanian", Algorithm::Romanian),
    ("russian", Algorithm::Russian),
    ("spanish", Algorithm::Spanish),
    ("swedish", Algorithm::Swedish),
    ("tamil", Algorithm::Tamil),
    ("turkish", Algorithm::Turkish),
];

/// The name of the language without stems.
const SIMPLE: &str = "simple";

/// A language that there is no stemmer for.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("unknown language; the languages are {}", Language::all().map(Language::as_str).collect::<Vec<_>>().join(", "))]
pub struct UnknownLanguage;

impl Language {
    /// Words are compared as they are written, except for case.
    pub const SIMPLE: Self = Self(None);

    /// All of them.
    pub fn all() -> impl Iterator<Item = Self> {
        std::iter::once(Self::SIMPLE).chain((0..LANGUAGES.len()).map(|index| Self(Some(index))))
    }

    /// The name in declarations.
    pub fn as_str(self) -> &'static str {
        self.0.map_or(SIMPLE, |index| LANGUAGES[index].0)
    }

    /// The stem of a word, which is in lower case.
    pub(crate) fn stem(self, word: String) -> String {
        match self.0 {
            None => word,
            Some(index) => {
                let stem = Stemmer::create(LANGUAGES[index].1).stem(&word).into_owned();
                if stem.is_empty() { word } else { stem }
            }
        }
    }
}

impl FromStr for Language {
    type Err = UnknownLanguage;

    fn from_str(name: &str) -> Result<Self, UnknownLanguage> {
        Self::all().find(|language| language.as_str() == name).ok_or(UnknownLanguage)
    }
}

impl fmt::Display for Language {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn every_language_has_a_name() {
        for language in Language::all() {
            assert_eq!(language.as_str().parse(), Ok(language));
        }
        assert_eq!("klingon".parse::<Language>(), Err(UnknownLanguage));
        assert!(UnknownLanguage.to_string().contains("simple, arabic, danish"));
    }

    #[test]
    fn words_have_the_stems_of_snowball() {
        for (language, word, stem) in [
            ("simple", "running", "running"),
            ("english", "running", "run"),
            ("english", "ponies", "poni"),
            ("german", "häuser", "haus"),
            ("french", "continuellement", "continuel"),
            ("russian", "книгами", "книг"),
            ("spanish", "cantando", "cant"),
        ] {
            assert_eq!(language.parse::<Language>().unwrap().stem(word.to_owned()), stem, "{language}");
        }
    }

    proptest! {
        /// A word of an attacker is any text.
        #[test]
        fn no_word_stops_a_stemmer(word in "(\\PC|[a-z]|ing|ement|ungen|لي|ال|ης|ούς|'s|y|ß){0,40}") {
            for language in Language::all() {
                let stem = language.stem(word.to_lowercase());
                prop_assert!(stem.len() <= word.to_lowercase().len() + 8);
            }
        }
    }
}
