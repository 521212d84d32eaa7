//! What an index stores of a text, and the same computed in memory.

use std::collections::HashMap;
use std::fmt::Write;

use gatewright_db::{Engine, dialect};

use super::query::{Alternative, Query, Term, Wanted};
use super::words::{MARK, Word, key, words};
use crate::declare::Language;

/// The most places of one word in a text that are indexed.
pub(crate) const MOST_PLACES: usize = 256;

/// The words of a text as an index has them.
#[derive(Debug, Default)]
pub(crate) struct Indexed {
    /// Each word with its key, in order; without one where it occurs too often.
    words: Vec<(Option<String>, Word)>,
    /// How often each occurs.
    counts: HashMap<String, usize>,
}

impl Indexed {
    pub(crate) fn of(text: &str, language: Language) -> Self {
        let mut indexed = Self::default();
        for word in words(text, language) {
            let key = key(&word.stem);
            let count = indexed.counts.entry(key.clone()).or_default();
            *count += 1;
            let is_kept = *count <= MOST_PLACES;
            *count = (*count).min(MOST_PLACES);
            indexed.words.push((is_kept.then_some(key), word));
        }
        indexed
    }

    /// What the column beside the text holds. On SQLite the words one after the other, on Postgres a `tsvector`, in which the weight
    /// of a word says how often it occurs.
    pub(crate) fn to_stored(&self, engine: Engine) -> String {
        match engine {
            Engine::Sqlite => {
                let skipped = MARK.to_string();
                let keys = self.words.iter().map(|(key, _)| key.as_deref().unwrap_or(&skipped));
                keys.collect::<Vec<_>>().join(" ")
            }
            Engine::Postgres => self.to_vector(),
        }
    }

    fn to_vector(&self) -> String {
        let mut places: HashMap<&str, Vec<usize>> = HashMap::with_capacity(self.counts.len());
        for (place, (key, _)) in self.words.iter().enumerate() {
            if let Some(key) = key {
                places.entry(key).or_default().push(place + 1);
            }
        }
        let mut vector = String::new();
        for (key, places) in places {
            let _infallible = write!(vector, "'{key}':");
            let weight = ["", "", "C", "B", "A"][dialect::word_class(places.len())];
            for (index, place) in places.iter().enumerate() {
                let comma = if index == 0 { "" } else { "," };
                let _infallible = write!(vector, "{comma}{place}{weight}");
            }
            vector.push(' ');
        }
        vector
    }

    /// Where a term begins.
    fn found<'a>(&'a self, term: &'a Term) -> impl Iterator<Item = usize> + 'a {
        self.words.windows(term.words.len()).enumerate().filter_map(|(start, window)| {
            let is =
                |(wanted, (key, _)): (&Wanted, &(Option<String>, Word))| key.as_ref().is_some_and(|key| wanted.is(key));
            term.words.iter().zip(window).all(is).then_some(start)
        })
    }

    fn has(&self, term: &Term) -> bool {
        self.found(term).next().is_some()
    }

    /// How much the occurrences of a word count. Of several words with the same beginning, the most frequent one counts.
    #[cfg(test)]
    fn class(&self, wanted: &Wanted) -> usize {
        let counts = self.counts.iter().filter(|(key, _)| wanted.is(key)).map(|(_, count)| *count);
        dialect::word_class(counts.max().unwrap_or(0))
    }

    /// The places of a text, in characters, that a query finds: start and end of each word.
    pub(crate) fn highlights(&self, text: &str, query: &Query) -> Vec<[usize; 2]> {
        let mut marked = vec![false; self.words.len()];
        for term in query.terms() {
            for start in self.found(term) {
                marked[start..start + term.words.len()].fill(true);
            }
        }
        let mut places: Vec<[usize; 2]> = Vec::new();
        let (mut bytes, mut characters) = (0, 0);
        let mut advance = |to: usize| {
            characters += text.get(bytes..to).map_or(0, |passed| passed.chars().count());
            bytes = to;
            characters
        };
        let found = self.words.iter().zip(marked).filter(|(_, is_marked)| *is_marked);
        let mut last = None;
        for ((_, word), _) in found {
            // A word whose normal form is several words is one place.
            if last != Some(&word.place) {
                places.push([advance(word.place.start), advance(word.place.end)]);
                last = Some(&word.place);
            }
        }
        places
    }
}

/// Whether a query finds a record with these texts.
pub(crate) fn matches(query: &Query, texts: &[&Indexed]) -> bool {
    let has = |term: &Term| texts.iter().any(|text| text.has(term));
    let holds = |alternative: &Alternative| alternative.wanted.iter().all(has) && !alternative.unwanted.iter().any(has);
    query.alternatives.iter().any(holds)
}

/// The rank of a record that has these texts, each with its weight: what the engines compute.
#[cfg(test)]
pub(crate) fn rank(query: &Query, texts: &[(&Indexed, u32)]) -> i64 {
    let words = query.words();
    let of = |(text, weight): &(&Indexed, u32)| {
        words.iter().map(|word| i64::from(*weight) * i64::try_from(text.class(word)).unwrap_or(0)).sum::<i64>()
    };
    texts.iter().map(of).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn query(text: &str) -> Query {
        Query::read(text, Language::SIMPLE, false).unwrap()
    }

    #[test]
    fn an_index_stores_places_up_to_a_bound() {
        let indexed = Indexed::of("b A a, 日!", Language::SIMPLE);
        assert_eq!(indexed.to_stored(Engine::Sqlite), "b a a 日");
        let vector = indexed.to_stored(Engine::Postgres);
        let mut parts: Vec<_> = vector.split_terminator(' ').collect();
        parts.sort_unstable();
        assert_eq!(parts, ["'a':2C,3C", "'b':1", "'日':4"]);
        let often = Indexed::of(&format!("{}a z", "a ".repeat(256)), Language::SIMPLE);
        assert!(often.to_stored(Engine::Sqlite).ends_with(" a \u{f8ff} z"));
        assert!(!matches(&query("\"a z\""), &[&often]) && matches(&query("a z"), &[&often]));
        assert!(often.to_vector().contains("256A ") && often.to_vector().contains("'z':258 "));
    }

    #[test]
    fn phrases_are_within_one_field_and_ranks_depend_on_the_record() {
        let (title, body) =
            (Indexed::of("red car", Language::SIMPLE), Indexed::of("a car, a red one", Language::SIMPLE));
        let both = [&title, &body];
        for (text, expected) in
            [("red car", true), ("\"red car\"", true), ("\"car red\"", false), ("red -one", false), ("x or one", true)]
        {
            assert_eq!(matches(&query(text), &both), expected, "{text}");
        }
        assert_eq!(rank(&query("car a"), &[(&title, 4), (&body, 1)]), 4 + 1 + 2);
        assert_eq!([0, 1, 2, 3, 4, 7, 8, 99].map(dialect::word_class), [0, 1, 2, 2, 3, 3, 4, 4]);
    }

    #[test]
    fn highlights_count_characters() {
        let text = "😀 Über ﷺ über";
        let indexed = Indexed::of(text, Language::SIMPLE);
        assert_eq!(indexed.highlights(text, &query("ÜBER")), [[2, 6], [9, 13]]);
        assert_eq!(indexed.highlights(text, &query("\"الله عليه\"")), [[7, 8]]);
        assert_eq!(indexed.highlights(text, &query("😀 -x")), [[0, 1]]);
        assert_eq!(indexed.highlights(text, &query("\"über 😀\"")), Vec::<[usize; 2]>::new());
    }
}
