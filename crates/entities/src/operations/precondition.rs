/// The condition of `If-Match` (RFC 9110, section 13.1.1).
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum IfMatch {
    /// `*`: any record that exists.
    Any,
    /// A record with one of these entity tags, quotes included.
    Tags(Vec<String>),
}

impl IfMatch {
    /// Parses the header's value. Invalid tags match nothing. Weak tags match nothing either, because the comparison is
    /// strong.
    pub fn parse(value: &str) -> Self {
        if value.trim() == "*" {
            return Self::Any;
        }
        let mut tags = Vec::new();
        let mut rest = value;
        while let Some(start) = rest.find('"') {
            let Some(length) = rest[start + 1..].find('"') else { break };
            let end = start + length + 2;
            if !rest[..start].ends_with("W/") {
                tags.push(rest[start..end].to_owned());
            }
            rest = &rest[end..];
        }
        Self::Tags(tags)
    }

    /// Whether a record with this tag matches.
    pub fn matches(&self, etag: &str) -> bool {
        match self {
            Self::Any => true,
            Self::Tags(tags) => tags.iter().any(|tag| tag == etag),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_strong_tags_match() {
        for (header, matches) in [
            ("*", true),
            (" * ", true),
            ("\"a\"", true),
            ("\"b\", \"a\"", true),
            ("\"b\",\"a,c\"", false),
            ("W/\"a\"", false),
            ("W/\"b\", \"a\"", true),
            ("a", false),
            ("\"a", false),
            ("", false),
        ] {
            assert_eq!(IfMatch::parse(header).matches("\"a\""), matches, "{header}");
        }
    }
}
