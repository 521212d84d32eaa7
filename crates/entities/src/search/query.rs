//! The syntax of `q=`: words, `"a phrase"`, `-not`, `or`.

use std::collections::BTreeSet;

use super::words::{Word, key, prefix, words};
use crate::declare::Language;

/// The most words of a query.
pub(crate) const MOST: usize = 16;

/// What is searched for: records with all that one of the alternatives asks for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Query {
    /// Never empty.
    pub(crate) alternatives: Vec<Alternative>,
}

/// What a record must have and what it must not.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Alternative {
    /// Never empty.
    pub(crate) wanted: Vec<Term>,
    pub(crate) unwanted: Vec<Term>,
}

/// Words that follow each other in one field.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Term {
    /// Never empty.
    pub(crate) words: Vec<Wanted>,
}

/// A word that is searched for, by what the index stores.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Wanted {
    pub(crate) key: String,
    /// Words that begin so count too.
    pub(crate) prefix: Option<String>,
}

impl Wanted {
    fn of(word: &Word) -> Self {
        Self { key: key(&word.stem), prefix: None }
    }

    pub(crate) fn is(&self, key: &str) -> bool {
        self.key == key || self.prefix.as_ref().is_some_and(|prefix| key.starts_with(prefix.as_str()))
    }
}

/// A part of the text of a query.
enum Part<'a> {
    Or,
    Words { text: &'a str, is_unwanted: bool, is_quoted: bool },
}

impl Query {
    /// Reads a text. With `prefix`, its last word is also the beginning of longer ones. The error is a sentence for the caller.
    pub(crate) fn read(text: &str, language: Language, prefix: bool) -> Result<Self, String> {
        let mut alternatives = vec![Alternative::default()];
        let (mut count, parts) = (0, parts(text));
        for (number, part) in parts.iter().enumerate() {
            let &Part::Words { text, is_unwanted, is_quoted } = part else {
                alternatives.push(Alternative::default());
                continue;
            };
            let is_begun = prefix && number + 1 == parts.len() && !is_unwanted && !is_quoted;
            let Some(term) = Term::read(text, language, is_begun) else { continue };
            count += term.words.len();
            if count > MOST {
                return Err(format!("q takes at most {MOST} words"));
            }
            if let Some(alternative) = alternatives.last_mut() {
                if is_unwanted { &mut alternative.unwanted } else { &mut alternative.wanted }.push(term);
            }
        }
        // An `or` without words beside it joins nothing.
        alternatives.retain(|alternative| *alternative != Alternative::default());
        if alternatives.is_empty() || alternatives.iter().any(|alternative| alternative.wanted.is_empty()) {
            return Err("q needs a word to find; beside each \"or\" too".to_owned());
        }
        Ok(Self { alternatives })
    }

    /// The words that it searches for, each once. They make the rank.
    pub(crate) fn words(&self) -> BTreeSet<&Wanted> {
        self.terms().flat_map(|term| &term.words).collect()
    }

    /// All that it searches for.
    pub(crate) fn terms(&self) -> impl Iterator<Item = &Term> {
        self.alternatives.iter().flat_map(|alternative| &alternative.wanted)
    }
}

impl Term {
    fn read(text: &str, language: Language, is_begun: bool) -> Option<Self> {
        // One more than allowed is enough to refuse it.
        let found: Vec<Word> = words(text, language).take(MOST + 1).collect();
        let mut words: Vec<Wanted> = found.iter().map(Wanted::of).collect();
        let (last, word) = (words.last_mut()?, found.last()?);
        // Behind a full stop or a bracket, the last word is complete.
        if is_begun && word.place.end == text.len() {
            last.prefix = Some(prefix(&word.form));
        }
        Some(Self { words })
    }
}

fn parts(text: &str) -> Vec<Part<'_>> {
    let mut parts = Vec::new();
    let mut rest = text.trim_start();
    while !rest.is_empty() {
        let negated = rest.strip_prefix('-');
        let (is_unwanted, body) = (negated.is_some(), negated.unwrap_or(rest));
        if let Some(quoted) = body.strip_prefix('"') {
            let (text, after) = quoted.split_once('"').unwrap_or((quoted, ""));
            parts.push(Part::Words { text, is_unwanted, is_quoted: true });
            rest = after.trim_start();
            continue;
        }
        let end = end(body);
        let (word, after) = body.split_at(end);
        parts.push(if !is_unwanted && word.eq_ignore_ascii_case("or") {
            Part::Or
        } else {
            Part::Words { text: word, is_unwanted, is_quoted: false }
        });
        rest = after.trim_start();
    }
    parts
}

/// Where a word without quotes ends: at a space, or at a quote that is not between two letters, as in Hebrew.
fn end(body: &str) -> usize {
    let mut before = ' ';
    for (index, c) in body.char_indices() {
        let next = || body[index + c.len_utf8()..].chars().next();
        let is_within =
            c == '"' && before.is_alphabetic() && !before.is_ascii() && next().is_some_and(char::is_alphabetic);
        if c.is_whitespace() || (c == '"' && !is_within) {
            return index;
        }
        before = c;
    }
    body.len()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn shown(text: &str, prefix: bool) -> Result<String, String> {
        let term = |term: &Term| {
            let word = |word: &Wanted| match &word.prefix {
                Some(prefix) => format!("{}|{prefix}*", word.key),
                None => word.key.clone(),
            };
            format!("[{}]", term.words.iter().map(word).collect::<Vec<_>>().join(" "))
        };
        let alternative = |alternative: &Alternative| {
            let wanted = alternative.wanted.iter().map(term);
            wanted.chain(alternative.unwanted.iter().map(|part| format!("-{}", term(part)))).collect::<String>()
        };
        let query = Query::read(text, "english".parse().unwrap(), prefix)?;
        Ok(query.alternatives.iter().map(alternative).collect::<Vec<_>>().join(" or "))
    }

    #[test]
    fn words_phrases_exclusions_and_alternatives() {
        for (text, expected) in [
            ("Cats dogs", "[cat][dog]"),
            ("  \"Fat cats\" -rats", "[fat cat]-[rat]"),
            ("a b or c -d OR \"e f\"", "[a][b] or [c]-[d] or [e f]"),
            ("foo-bar", "[foo bar]"),
            ("-foo-bar x", "[x]-[foo bar]"),
            ("-\"a b\" c", "[c]-[a b]"),
            ("\"open phrase", "[open phrase]"),
            ("a\"b c\"d", "[a][b c][d]"),
            ("or a or", "[a]"),
            ("a or or b", "[a] or [b]"),
            ("+++ a ()*:", "[a]"),
            ("- a", "[a]"),
            ("\"or\" and near", "[or][and][near]"),
            ("צה\"ל", "[צה\u{e022}ל]"),
            ("日本", "[日 本]"),
        ] {
            assert_eq!(shown(text, false).as_deref(), Ok(expected), "{text}");
        }
    }

    #[test]
    fn the_last_word_may_be_begun() {
        for (text, expected) in [
            ("fat runni", "[fat][runni|runni*]"),
            ("running", "[run|running*]"),
            ("foo-ba", "[foo ba|ba*]"),
            ("a \"b c\"", "[a][b c]"),
            ("a -b", "[a]-[b]"),
            ("a b.", "[a][b]"),
            ("a or B", "[a] or [b|b*]"),
        ] {
            assert_eq!(shown(text, true).as_deref(), Ok(expected), "{text}");
        }
    }

    #[test]
    fn a_query_needs_a_word_to_find_and_has_bounds() {
        for text in ["", "-a", "-a or b", "a or -b", "\"\"", "…", "or"] {
            assert_eq!(shown(text, false), Err("q needs a word to find; beside each \"or\" too".to_owned()), "{text}");
        }
        assert!(shown(&"a ".repeat(16), false).is_ok());
        for text in ["a ".repeat(17), format!("\"{}\"", "a ".repeat(17)), "日".repeat(17)] {
            assert_eq!(shown(&text, false), Err("q takes at most 16 words".to_owned()));
        }
    }

    proptest! {
        #[test]
        fn any_text_is_read(text in "(\\PC|[ \"or-]|[א-ת]\"){0,60}", prefix: bool) {
            if let Ok(query) = Query::read(&text, Language::SIMPLE, prefix) {
                prop_assert!(query.alternatives.iter().all(|alternative| !alternative.wanted.is_empty()));
                prop_assert!(query.terms().all(|term| !term.words.is_empty()));
            }
        }
    }
}
