//! A query against an index: its condition, and the rank of what it finds.

use std::sync::Arc;

use gatewright_db::{Engine, Value, dialect};

use super::index::{Index, IndexedField};
use super::query::{Alternative, Query, Term, Wanted};
use super::stored::{Indexed, matches};
use crate::fragment::quoted;

/// The labels of a `tsvector` that stand for how often a word occurs, from "at least once" to "most often".
const AT_LEAST: [&str; 4] = ["", "ABC", "AB", "A"];

/// A query over those fields of an index that its caller may read.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Sought {
    pub(crate) index: Arc<Index>,
    pub(crate) query: Query,
    /// The positions in [`Index::fields`]. Never empty.
    pub(crate) fields: Vec<usize>,
}

impl Sought {
    pub(crate) fn fields(&self) -> impl Iterator<Item = &IndexedField> {
        self.fields.iter().map(|place| &self.index.fields[*place])
    }

    /// The condition for the records that it finds. `bind` gives a value a placeholder.
    pub(crate) fn condition(&self, bind: &mut dyn FnMut(Value) -> String) -> String {
        match self.index.engine {
            Engine::Sqlite => {
                let (name, ids) = (quoted(&self.index.name()), quoted(&self.index.ids()));
                let found = bind(Value::Text(self.fts5()));
                format!(
                    "\"id\" IN (SELECT \"id\" FROM {ids} WHERE \"docid\" IN (SELECT rowid FROM {name} WHERE {name} MATCH {found}))"
                )
            }
            Engine::Postgres => {
                let alternatives: Vec<_> =
                    self.query.alternatives.iter().map(|alternative| self.alternative(alternative, bind)).collect();
                format!("({})", alternatives.join(" OR "))
            }
        }
    }

    /// The expression of FTS5. Keys have no character of its syntax.
    fn fts5(&self) -> String {
        let columns: Vec<_> = self.fields.iter().map(|place| format!("c{place}")).collect();
        let all = |terms: &[Term], word: &str| terms.iter().map(fts5_term).collect::<Vec<_>>().join(word);
        let alternative = |alternative: &Alternative| {
            let wanted = format!("({})", all(&alternative.wanted, " AND "));
            match &*alternative.unwanted {
                [] => wanted,
                unwanted => format!("({wanted} NOT ({}))", all(unwanted, " OR ")),
            }
        };
        let alternatives = self.query.alternatives.iter().map(alternative).collect::<Vec<_>>().join(" OR ");
        format!("{{{}}} : ({alternatives})", columns.join(" "))
    }

    fn alternative(&self, alternative: &Alternative, bind: &mut dyn FnMut(Value) -> String) -> String {
        let mut tests = Vec::new();
        for (terms, not) in [(&alternative.wanted, ""), (&alternative.unwanted, "NOT ")] {
            for term in terms {
                let query = bind(Value::Text(tsquery(&term.words, "")));
                let columns: Vec<_> =
                    self.fields().map(|field| dialect::has_words(&quoted(&field.words), &query)).collect();
                tests.push(format!("{not}({})", columns.join(" OR ")));
            }
        }
        format!("({})", tests.join(" AND "))
    }

    /// The rank of a record as SQL, a whole number. It depends on nothing but the record's words.
    pub(crate) fn rank(&self, bind: &mut dyn FnMut(Value) -> String) -> String {
        let mut parts = Vec::new();
        for word in self.query.words() {
            let class = class(self.index.engine, word, bind);
            parts.extend(self.fields().map(|field| format!("{} * {}", field.weight, class(&quoted(&field.words)))));
        }
        format!("CAST({} AS BIGINT)", parts.join(" + "))
    }

    /// Whether it finds a record with these texts, by the positions of their fields.
    pub(crate) fn matches<'a>(&self, text: impl Fn(&IndexedField) -> Option<&'a str>) -> bool {
        let language = self.index.language;
        let texts: Vec<_> = self.fields().map(|field| Indexed::of(text(field).unwrap_or_default(), language)).collect();
        matches(&self.query, &texts.iter().collect::<Vec<_>>())
    }
}

fn fts5_term(term: &Term) -> String {
    let phrase = |last: &str| {
        let (_, before) = term.words.split_last().unwrap_or((&term.words[0], &[]));
        let keys: Vec<_> = before.iter().map(|word| &*word.key).chain([last]).collect();
        format!("\"{}\"", keys.join(" "))
    };
    match term.words.last() {
        Some(Wanted { key, prefix: Some(prefix) }) => format!("({} OR {}*)", phrase(key), phrase(prefix)),
        Some(Wanted { key, prefix: None }) => phrase(key),
        None => String::new(),
    }
}

/// The text of a `tsquery` for words that follow each other, with these labels. Keys have no character of its syntax.
fn tsquery(words: &[Wanted], labels: &str) -> String {
    let word = |Wanted { key, prefix }: &Wanted| {
        let labels = if labels.is_empty() { String::new() } else { format!(":{labels}") };
        match prefix {
            Some(prefix) => format!("('{key}'{labels} | '{prefix}':*{})", labels.trim_start_matches(':')),
            None => format!("'{key}'{labels}"),
        }
    };
    words.iter().map(word).collect::<Vec<_>>().join(" <-> ")
}

/// How much the occurrences of a word in a column count.
fn class(engine: Engine, word: &Wanted, bind: &mut dyn FnMut(Value) -> String) -> impl Fn(&str) -> String + use<> {
    let mut values = match engine {
        Engine::Sqlite => vec![Value::Text(word.key.clone()), word.prefix.clone().map_or(Value::Null, Value::Text)],
        Engine::Postgres => {
            AT_LEAST.iter().map(|labels| Value::Text(tsquery(std::slice::from_ref(word), labels))).collect()
        }
    };
    let placeholders: Vec<_> = values.drain(..).map(bind).collect();
    move |column: &str| match engine {
        Engine::Sqlite => format!("word_class({column}, {}, {})", placeholders[0], placeholders[1]),
        Engine::Postgres => {
            let cases = placeholders
                .iter()
                .enumerate()
                .map(|(class, query)| format!(" WHEN NOT {} THEN {class}", dialect::has_words(column, query)));
            format!("(CASE{} ELSE 4 END)", cases.collect::<String>())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::declare::Declarations;
    use crate::declare::Language;
    use crate::{Entity, Field};

    fn sought(text: &str, engine: Engine) -> Sought {
        let notes = Entity::new("notes").field(Field::string("a")).field(Field::text("b"));
        let notes = notes.search(Language::SIMPLE, [("b", 1), ("a", 4)]);
        let models = Declarations::check(&[notes]).unwrap().models;
        let index = Arc::new(Index::of(&models[0], engine).unwrap());
        Sought { index, query: Query::read(text, Language::SIMPLE, true).unwrap(), fields: vec![1] }
    }

    #[test]
    fn a_query_becomes_quoted_words_of_readable_columns() {
        for (text, fts5, tsqueries) in [
            ("x y", r#"{c1} : (("x" AND ("y" OR "y"*)))"#, vec!["'x'", "('y' | 'y':*)"]),
            ("\"x y\" -z", r#"{c1} : ((("x y") NOT ("z")))"#, vec!["'x' <-> 'y'", "'z'"]),
            (
                "b:x NEAR(y or z) & !w:*",
                "{c1} : ((\"b\u{e03a}x\" AND \"near y\") OR (\"z\" AND \"w\"))",
                vec!["'b\u{e03a}x'", "'near' <-> 'y'", "'z'", "'w'"],
            ),
            (
                "can't",
                "{c1} : (((\"can\u{e027}t\" OR \"can\u{e027}t\"*)))",
                vec!["('can\u{e027}t' | 'can\u{e027}t':*)"],
            ),
        ] {
            let found = sought(text, Engine::Sqlite).fts5();
            assert_eq!(found, fts5, "{text}");
            let mut bound = Vec::new();
            let condition = sought(text, Engine::Postgres).condition(&mut |value| {
                bound.push(value);
                format!("?{}", bound.len())
            });
            assert!(!condition.contains('\''), "{condition}");
            assert_eq!(bound, tsqueries.into_iter().map(Value::from).collect::<Vec<_>>(), "{text}");
        }
    }
}
