/// A name that a user chooses, such as that of an API token: 1 to 100 characters on one line, trimmed.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Label(String);

/// The text is not a valid name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("must have 1 to {} characters and no control characters", Label::MAX_CHARS)]
pub struct InvalidLabel;

impl Label {
    /// The most characters.
    pub const MAX_CHARS: usize = 100;

    /// Trims and checks `text`.
    pub fn parse(text: &str) -> Result<Self, InvalidLabel> {
        let text = text.trim();
        if text.is_empty() || text.chars().count() > Self::MAX_CHARS || text.chars().any(char::is_control) {
            return Err(InvalidLabel);
        }
        Ok(Self(text.to_owned()))
    }

    /// The text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
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
}
