/// A name that a person chooses, such as that of an API token, a passkey, a program or a tenant: 1 to 100 characters on one
/// line, trimmed.
///
/// What a reader cannot see is refused, because it makes two names look equal, or one look empty: control characters, those that
/// change the direction of text, those without width, and other code points that are ignored in display. A name with nothing but
/// blanks is refused too. Every door takes a name as this type, and pages isolate it from the text around it.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Label(String);

/// The text is not a valid name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("must have 1 to {} visible characters, without control characters and invisible ones", Label::MAX_CHARS)]
pub struct InvalidLabel;

impl Label {
    /// The most characters.
    pub const MAX_CHARS: usize = 100;

    /// Checks `text`, and trims blanks that a reader knows as such.
    pub fn parse(text: &str) -> Result<Self, InvalidLabel> {
        let text = text.trim_matches([' ', '\t', '\n', '\r']);
        if text.chars().count() > Self::MAX_CHARS || text.chars().all(is_blank) || !text.chars().all(is_shown) {
            return Err(InvalidLabel);
        }
        Ok(Self(text.to_owned()))
    }

    /// A stored name, which was valid when it was stored. Since then, the rules may have become stricter: invisible
    /// characters are left out.
    pub(crate) fn stored(text: &str) -> Self {
        Self(text.chars().filter(|c| is_shown(*c)).collect())
    }

    /// The text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// Whether a character is white space or is drawn like it.
fn is_blank(c: char) -> bool {
    // Braille pattern blank.
    c.is_whitespace() || c == '\u{2800}'
}

/// Whether a reader sees the character: neither a control character nor one that is ignored in display. These are the code
/// points with the property `Default_Ignorable_Code_Point` (Unicode 16, DerivedCoreProperties.txt), which include the controls
/// of direction and the characters without width, and other controls of format and lines.
fn is_shown(c: char) -> bool {
    !c.is_control()
        && !matches!(c,
            '\u{ad}' | '\u{34f}' | '\u{61c}' | '\u{115f}'..='\u{1160}' | '\u{17b4}'..='\u{17b5}' | '\u{180b}'..='\u{180f}'
            | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{3164}'
            | '\u{fe00}'..='\u{fe0f}' | '\u{feff}' | '\u{ffa0}' | '\u{fff0}'..='\u{fffb}'
            | '\u{13430}'..='\u{1343f}' | '\u{1bca0}'..='\u{1bca3}' | '\u{1d173}'..='\u{1d17a}' | '\u{e0000}'..='\u{e0fff}')
}

impl std::fmt::Display for Label {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl serde::Serialize for Label {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_label_is_one_line_with_a_limited_length() {
        for (text, expected) in [(" CI bot ", Some("CI bot")), ("ß", Some("ß")), ("", None), (" \t", None)] {
            assert_eq!(Label::parse(text).ok().as_ref().map(Label::as_str), expected);
        }
        assert!(Label::parse(&"ü".repeat(100)).is_ok());
        for bad in ["ü".repeat(101), "a\nb".to_owned(), "\u{1b}[31mred".to_owned(), "a\0b".to_owned()] {
            assert_eq!(Label::parse(&bad), Err(InvalidLabel), "{bad:?}");
        }
    }

    #[test]
    fn what_a_reader_cannot_see_is_no_part_of_a_label() {
        let hidden = [
            '\u{ad}',
            '\u{34f}',
            '\u{61c}',
            '\u{115f}',
            '\u{1160}',
            '\u{17b4}',
            '\u{180e}',
            '\u{200b}',
            '\u{200c}',
            '\u{200d}',
            '\u{200e}',
            '\u{200f}',
            '\u{2028}',
            '\u{2029}',
            '\u{202a}',
            '\u{202b}',
            '\u{202c}',
            '\u{202d}',
            '\u{202e}',
            '\u{2060}',
            '\u{2064}',
            '\u{2066}',
            '\u{2067}',
            '\u{2068}',
            '\u{2069}',
            '\u{3164}',
            '\u{fe0f}',
            '\u{feff}',
            '\u{ffa0}',
            '\u{fff9}',
            '\u{e0001}',
            '\u{e0041}',
            '\u{85}',
            '\u{9f}',
        ];
        for c in hidden {
            for text in [format!("a{c}b"), format!("{c}ab"), format!("ab{c}"), c.to_string()] {
                assert_eq!(Label::parse(&text), Err(InvalidLabel), "{text:?}");
            }
            assert_eq!(Label::stored(&format!("a{c}b")).as_str(), "ab");
        }
        for blank in ["\u{a0}", "\u{2003}", "\u{3000}", "\u{2800}", "\u{2800} \u{2800}", "\u{1680}"] {
            assert_eq!(Label::parse(blank), Err(InvalidLabel), "{blank:?}");
        }
        for good in ["\u{5e2}\u{5d5}\u{5e8}\u{5da}", "\u{62a}\u{637}", "日本語", "e\u{301}", "🦀 crab", "a\u{a0}b"]
        {
            assert!(Label::parse(good).is_ok(), "{good:?}");
        }
    }
}
