//! Words of a text.

use std::collections::HashMap;

use rusqlite::Connection;
use rusqlite::functions::FunctionFlags;

use super::limit;
use crate::dialect::word_class;

/// `word_class(words, word, prefix)`: how much the occurrences of a word count in a text of words that are separated by spaces. With a
/// prefix, which may be null, those of the most frequent word that begins so, if there are more.
pub(super) fn create_functions(connection: &Connection, flags: FunctionFlags) -> rusqlite::Result<()> {
    connection.create_scalar_function("word_class", 3, flags, |arguments| {
        let Ok(text) = arguments.get_raw(0).as_str() else { return Ok(0) };
        let (word, prefix) = (arguments.get_raw(1).as_str()?, arguments.get_raw(2).as_str_or_null()?);
        // One call may take as long as thousands of steps, between which the time is looked at.
        limit::search(text.len())?;
        let class = word_class(occurrences(text, word, prefix));
        Ok(i64::try_from(class).unwrap_or_default())
    })
}

fn occurrences(text: &str, word: &str, prefix: Option<&str>) -> usize {
    let words = text.split(' ');
    let Some(prefix) = prefix else { return words.filter(|found| *found == word).count() };
    let mut counts: HashMap<&str, usize> = HashMap::new();
    for found in words.filter(|found| *found == word || found.starts_with(prefix)) {
        *counts.entry(found).or_default() += 1;
    }
    counts.into_values().max().unwrap_or(0)
}
