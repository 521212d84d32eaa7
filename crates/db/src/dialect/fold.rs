//! Case folding, the same in this program and in both engines.

use std::ops::RangeInclusive;

/// Folds case as Unicode's simple case folding does, independent of the locale and letter by letter: two texts that differ
/// only in case become equal. Each character becomes its lower case if that is a single character, and stays unchanged
/// otherwise (`İ`, whose lower case is two characters). Letters such as `ς`, which share their upper case with another
/// lower-case letter, become that one.
pub fn fold_case(text: &str) -> String {
    if text.is_ascii() {
        return text.to_ascii_lowercase();
    }
    text.chars().map(fold_char).collect()
}

/// The letters whose simple case folding is not their lower case (`CaseFolding.txt` of Unicode 16, status C and S), and what
/// they are folded to.
const NOT_LOWER: [(char, char); 25] = [
    ('µ', 'μ'),
    ('ſ', 's'),
    ('\u{345}', 'ι'),
    ('ς', 'σ'),
    ('ϐ', 'β'),
    ('ϑ', 'θ'),
    ('ϕ', 'φ'),
    ('ϖ', 'π'),
    ('ϰ', 'κ'),
    ('ϱ', 'ρ'),
    ('ϵ', 'ε'),
    ('\u{1c80}', 'в'),
    ('\u{1c81}', 'д'),
    ('\u{1c82}', 'о'),
    ('\u{1c83}', 'с'),
    ('\u{1c84}', 'т'),
    ('\u{1c85}', 'т'),
    ('\u{1c86}', 'ъ'),
    ('\u{1c87}', 'ѣ'),
    ('\u{1c88}', 'ꙋ'),
    ('ẛ', 'ṡ'),
    ('\u{1fbe}', 'ι'),
    ('\u{1fd3}', '\u{390}'),
    ('\u{1fe3}', '\u{3b0}'),
    ('ﬅ', 'ﬆ'),
];

fn fold_char(c: char) -> char {
    if let Some((_, folded)) = NOT_LOWER.iter().find(|(letter, _)| *letter == c) {
        return *folded;
    }
    let mut lower = c.to_lowercase();
    match (lower.next(), lower.next()) {
        (Some(single), None) => single,
        _ => c,
    }
}

/// After this character, none is folded.
pub(super) const LAST_FOLDED: char = '\u{1ffff}';

/// The characters of a range that [`fold_case`] changes, and what it changes them to.
pub(super) fn folded_in(range: RangeInclusive<char>) -> (String, String) {
    range.map(|c| (c, fold_char(c))).filter(|(c, folded)| c != folded).unzip()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The other implementation is that of regular expressions.
    #[test]
    fn letters_that_differ_only_in_case_are_folded_to_the_same() {
        let differs = |c: &char| !c.to_lowercase().eq([*c]) || !c.to_uppercase().eq([*c]);
        let letters: Vec<char> = ('\0'..=LAST_FOLDED).filter(differs).collect();
        let text: String = letters.iter().collect();
        let mut pairs = 0;
        for letter in letters {
            let ignoring_case = regex::Regex::new(&format!("(?i)[{letter}]")).unwrap();
            for found in ignoring_case.find_iter(&text) {
                assert_eq!(fold_case(found.as_str()), fold_char(letter).to_string(), "{letter:?} {found:?}");
                pairs += 1;
            }
        }
        assert!(pairs > 5_000, "{pairs}");
        for (letter, folded) in NOT_LOWER {
            let is_lower = letter.to_lowercase().eq([folded]);
            assert!(!is_lower && regex::Regex::new(&format!("(?i)^{letter}$")).unwrap().is_match(&folded.to_string()));
            assert_eq!(fold_char(folded), folded);
        }
    }

    #[test]
    fn no_character_after_the_last_folded_one_has_a_lower_case() {
        let all = folded_in('\u{80}'..=char::MAX);
        assert_eq!(folded_in('\u{80}'..=LAST_FOLDED), all);
        assert!(all.0.chars().count() > 1_000);
    }
}
