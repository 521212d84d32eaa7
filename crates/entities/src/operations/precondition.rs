use super::narrow;
use crate::access::{Reach, Standing};
use crate::call::Call;
use crate::context::table::Table;
use crate::encode::Record;
use crate::error::Error;

/// The condition of `If-Match` (RFC 9110, section 13.1.1). In a write, tags match only a record that its caller may read.
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

/// The condition of a write, for its caller.
///
/// An entity tag is a hash of the record. A caller who may not read the record could guess its contents, and learn from
/// the answer whether a guess is right. The service returns no tag to such callers, so for them no tag matches.
#[derive(Debug, Clone)]
pub(super) struct Condition {
    if_match: IfMatch,
    /// How far the caller may read. `None`: no record.
    readable: Option<Reach>,
}

impl Condition {
    /// For a write whose reach includes the read rule.
    pub(super) fn new(table: Table<'_>, call: &Call, standing: &Standing, if_match: IfMatch) -> Self {
        Self { if_match, readable: narrow::readable(table, call, standing) }
    }

    /// Fails with [`Error::Precondition`] if the condition does not hold for the record.
    pub(super) fn check(&self, record: &Record) -> Result<(), Error> {
        let holds = match &self.if_match {
            IfMatch::Any => true,
            tags @ IfMatch::Tags(_) => {
                self.readable.as_ref().is_some_and(|reach| narrow::is_within(reach, record))
                    && tags.matches(&record.etag())
            }
        };
        if holds { Ok(()) } else { Err(Error::Precondition) }
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
