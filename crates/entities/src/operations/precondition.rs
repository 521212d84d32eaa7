use http::HeaderMap;
use http::header::{HeaderName, IF_MATCH, IF_NONE_MATCH};

use super::narrow;
use crate::access::Reach;
use crate::call::Call;
use crate::context::admission::Admission;
use crate::context::table::Table;
use crate::encode::Stored;
use crate::error::Error;
use crate::readable::Readable;

/// The condition of `If-Match` and `If-None-Match` (RFC 9110, sections 13.1.1 and 13.1.2). In a write, tags match only a
/// record that its caller may read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum IfMatch {
    /// `If-Match: *`: any record that exists.
    Any,
    /// `If-Match`: a record with one of these entity tags, quotes included.
    Tags(Vec<String>),
    /// `If-None-Match`: a record with none of these entity tags, quotes included.
    NoneOf(Vec<String>),
    /// `If-None-Match: *`: no record that exists.
    Never,
}

impl IfMatch {
    /// The condition that the headers of a write have; `None` without one. With both headers, both must hold.
    pub fn of_write(headers: &HeaderMap) -> Option<Self> {
        let unwanted = lines(headers, &IF_NONE_MATCH).map(|tags| Self::parse(&comparing_weakly(&tags)));
        match (lines(headers, &IF_MATCH).map(|tags| Self::parse(&tags)), unwanted) {
            (wanted, None) => wanted,
            (_, Some(Self::Any | Self::Never | Self::NoneOf(_))) => Some(Self::Never),
            (None | Some(Self::Any), Some(Self::Tags(unwanted))) => Some(Self::NoneOf(unwanted)),
            (Some(Self::Tags(wanted)), Some(Self::Tags(unwanted))) => {
                Some(Self::Tags(wanted.into_iter().filter(|tag| !unwanted.contains(tag)).collect()))
            }
            (Some(other @ (Self::NoneOf(_) | Self::Never)), Some(Self::Tags(_))) => Some(other),
        }
    }

    /// Whether `If-Match` of a read holds for a record with this tag. Without the header it does.
    pub fn allows_read(headers: &HeaderMap, etag: &str) -> bool {
        lines(headers, &IF_MATCH).is_none_or(|tags| Self::parse(&tags).matches(etag))
    }

    /// Whether `If-None-Match` of a read lists the tag. The comparison is the weak one (RFC 9110, section 13.1.2): a proxy
    /// that compresses makes a strong tag weak.
    pub fn is_known(headers: &HeaderMap, etag: &str) -> bool {
        lines(headers, &IF_NONE_MATCH).is_some_and(|tags| Self::parse(&comparing_weakly(&tags)).matches(etag))
    }

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
            Self::NoneOf(tags) => !tags.iter().any(|tag| tag == etag),
            Self::Never => false,
        }
    }
}

fn lines(headers: &HeaderMap, name: &HeaderName) -> Option<String> {
    let lines: Vec<&str> = headers.get_all(name).iter().map(|line| line.to_str().unwrap_or_default()).collect();
    if lines.is_empty() { None } else { Some(lines.join(",")) }
}

fn comparing_weakly(tags: &str) -> String {
    tags.replace("W/\"", "\"")
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
    /// The fields that the caller may read.
    fields: Readable,
}

impl Condition {
    /// For a write whose reach includes the read rule.
    pub(super) fn new(table: Table<'_>, call: &Call, admission: &Admission, if_match: IfMatch) -> Self {
        let fields = admission.rights.of(table.plan.index).clone();
        Self { if_match, readable: narrow::readable(table, call, &admission.standing), fields }
    }

    /// Fails with [`Error::Precondition`] if the condition does not hold for the record.
    pub(super) fn check(&self, record: &Stored) -> Result<(), Error> {
        let is_readable = || self.readable.as_ref().is_some_and(|reach| narrow::is_within(reach, record));
        // The tag covers what the caller sees, so that it reveals nothing else.
        let etag = || record.clone().seen_by(&self.fields).etag();
        let holds = match &self.if_match {
            IfMatch::Any => true,
            IfMatch::Never => false,
            tags @ IfMatch::Tags(_) => is_readable() && tags.matches(&etag()),
            tags @ IfMatch::NoneOf(_) => !is_readable() || tags.matches(&etag()),
        };
        if holds { Ok(()) } else { Err(Error::Precondition) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_write_heeds_both_headers() {
        let a = "\"a\"";
        for (wanted, unwanted, holds) in [
            (None, None, true),
            (Some(a), None, true),
            (None, Some("*"), false),
            (None, Some(a), false),
            (None, Some("W/\"a\""), false),
            (None, Some("\"b\""), true),
            (None, Some(""), true),
            (Some("*"), Some("\"b\""), true),
            (Some("*"), Some(a), false),
            (Some(a), Some("\"b\""), true),
            (Some(a), Some(a), false),
            (Some("\"b\""), Some("\"c\""), false),
            (Some(a), Some("*"), false),
        ] {
            let mut headers = HeaderMap::new();
            let mut add = |name: HeaderName, value: Option<&str>| {
                if let Some(value) = value {
                    headers.insert(name, value.parse().unwrap());
                }
            };
            add(IF_MATCH, wanted);
            add(IF_NONE_MATCH, unwanted);
            let found = IfMatch::of_write(&headers).is_none_or(|condition| condition.matches(a));
            assert_eq!(found, holds, "If-Match {wanted:?}, If-None-Match {unwanted:?}");
        }
    }

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
