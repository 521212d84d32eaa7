//! A second reading of UAX #29: its rules one by one, over the tables of `regex`. It is slow and only for tests.

use regex::Regex;

use super::words::words;
use crate::declare::Language;

/// The values of `Word_Break` that the rules name.
const VALUES: [&str; 17] = [
    "CR",
    "LF",
    "Newline",
    "Extend",
    "ZWJ",
    "Format",
    "Katakana",
    "Hebrew_Letter",
    "ALetter",
    "Single_Quote",
    "Double_Quote",
    "MidNumLet",
    "MidLetter",
    "MidNum",
    "Numeric",
    "ExtendNumLet",
    "Regional_Indicator",
];

struct Reader {
    classes: Vec<(&'static str, Regex)>,
    picture: Regex,
    space: Regex,
}

impl Reader {
    fn new() -> Self {
        let class = |name: &'static str| (name, Regex::new(&format!(r"^\p{{WB={name}}}$")).unwrap());
        Self {
            classes: VALUES.map(class).to_vec(),
            picture: Regex::new(r"^\p{Extended_Pictographic}$").unwrap(),
            space: Regex::new(r"^\p{WB=WSegSpace}$").unwrap(),
        }
    }

    fn class(&self, c: char) -> &'static str {
        let text = c.to_string();
        match self.classes.iter().find(|(_, regex)| regex.is_match(&text)) {
            Some((name, _)) => name,
            None if self.space.is_match(&text) => "WSegSpace",
            None => "Other",
        }
    }

    /// The segments of a text.
    fn segments<'a>(&self, text: &'a str) -> Vec<&'a str> {
        let characters: Vec<(usize, char)> = text.char_indices().collect();
        let classes: Vec<&str> = characters.iter().map(|(_, c)| self.class(*c)).collect();
        let mut starts = vec![0];
        starts.extend(
            (1..characters.len()).filter(|at| self.breaks(&characters, &classes, *at)).map(|at| characters[at].0),
        );
        let ends = starts.iter().skip(1).copied().chain([text.len()]);
        starts.iter().zip(ends).map(|(start, end)| &text[*start..end]).filter(|part| !part.is_empty()).collect()
    }

    /// Whether there is a boundary before the character at a place.
    fn breaks(&self, characters: &[(usize, char)], classes: &[&str], at: usize) -> bool {
        let ignored = |class: &str| ["Extend", "Format", "ZWJ"].contains(&class);
        let is_end = |class: &str| ["CR", "LF", "Newline"].contains(&class);
        let (last, next) = (classes[at - 1], classes[at]);
        // WB3 to WB3d.
        if last == "CR" && next == "LF" {
            return false;
        }
        if is_end(last) || is_end(next) {
            return true;
        }
        if last == "ZWJ" && self.picture.is_match(&characters[at].1.to_string()) {
            return false;
        }
        if last == "WSegSpace" && next == "WSegSpace" {
            return false;
        }
        // WB4.
        if ignored(next) {
            return false;
        }
        let before: Vec<&str> = {
            let kept = (0..at).rev().filter(|place| {
                let starts = *place == 0 || is_end(classes[*place - 1]);
                !ignored(classes[*place]) || starts
            });
            kept.map(|place| classes[place]).collect()
        };
        let after = classes[at + 1..].iter().copied().find(|class| !ignored(class)).unwrap_or("");
        let (last, earlier) = (before[0], before.get(1).copied().unwrap_or(""));
        let letter = |class: &str| ["ALetter", "Hebrew_Letter"].contains(&class);
        let quote = |class: &str| ["MidNumLet", "Single_Quote"].contains(&class);
        let joins = (letter(last) && letter(next))
            || (letter(last) && (next == "MidLetter" || quote(next)) && letter(after))
            || (letter(earlier) && (last == "MidLetter" || quote(last)) && letter(next))
            || (last == "Hebrew_Letter" && next == "Single_Quote")
            || (last == "Hebrew_Letter" && next == "Double_Quote" && after == "Hebrew_Letter")
            || (earlier == "Hebrew_Letter" && last == "Double_Quote" && next == "Hebrew_Letter")
            || (last == "Numeric" && next == "Numeric")
            || (letter(last) && next == "Numeric")
            || (last == "Numeric" && letter(next))
            || (earlier == "Numeric" && (last == "MidNum" || quote(last)) && next == "Numeric")
            || (last == "Numeric" && (next == "MidNum" || quote(next)) && after == "Numeric")
            || (last == "Katakana" && next == "Katakana")
            || ((letter(last) || ["Numeric", "Katakana", "ExtendNumLet"].contains(&last)) && next == "ExtendNumLet")
            || (last == "ExtendNumLet" && (letter(next) || ["Numeric", "Katakana"].contains(&next)));
        let flags = before.iter().take_while(|class| **class == "Regional_Indicator").count();
        !(joins || next == "Regional_Indicator" && flags % 2 == 1)
    }

    /// The places of the words of a text, in characters.
    fn places(&self, text: &str) -> Vec<[usize; 2]> {
        let mut at = 0;
        let mut places = Vec::new();
        for segment in self.segments(text) {
            let end = at + segment.chars().count();
            let is_word = |c: char| {
                c.is_alphanumeric()
                    || self.class(c) == "Regional_Indicator"
                    || (!c.is_ascii() && self.picture.is_match(&c.to_string()))
            };
            if segment.chars().any(is_word) {
                places.push([at, end]);
            }
            at = end;
        }
        places
    }
}

/// Where the words of a text are that highlights may show.
#[test]
fn word_boundaries_are_those_of_another_implementation() {
    let reader = Reader::new();
    let samples = [
        "The quick (\"brown\") fox can't jump 32.3 feet, right? a_b x@y.z 1,000.5 e-mail\r\nO'Brien's",
        "Müllers Straße über Größe; d'été aujourd'hui œuvre cafés CAFE\u{301}S",
        "книги ёлка 2020-х «подъезд» والكتاب ١٢٣٫٥ مدرسون",
        "日本語のテキスト東京タワー カタカナ한국어 텍스트 ภาษาไทย ไทยแลนด์",
        "👩‍👩‍👧🇩🇪🇫🇷🇪 😀👍🏽 צה\"ל ג'ירף \u{ad}soft\u{ad}hyphen a\u{200d}b",
        "a.b a..b 1.a a:b 3,4,5 _x_ __ \u{2028}new",
    ];
    let alphabet: Vec<char> = samples.concat().chars().collect();
    let mut texts: Vec<String> = samples.map(str::to_owned).to_vec();
    let mut state = 3_u64;
    for _ in 0..600 {
        let mut text = String::new();
        for _ in 0..24 {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            text.push(alphabet[usize::try_from(state >> 33).unwrap() % alphabet.len()]);
        }
        texts.push(text);
    }
    for text in texts {
        let count = |bytes: usize| text[..bytes].chars().count();
        let mut found: Vec<[usize; 2]> =
            words(&text, Language::SIMPLE).map(|word| [count(word.place.start), count(word.place.end)]).collect();
        found.dedup();
        assert_eq!(found, reader.places(&text), "{text:?}");
    }
}
