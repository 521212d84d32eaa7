use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

/// One right, written `resource:verb`: what an API token may do, or what a role permits.
///
/// `posts:*` is every verb of one resource, `*:read` one verb of every resource, `*:*` everything. Otherwise the text
/// must match `^[a-z0-9_-]+:[a-z0-9_*-]+$`.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Scope {
    text: Arc<str>,
    colon: usize,
}

/// Text that is not a scope.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("\"{0}\" is not a scope: write resource:verb, such as posts:read, posts:* or *:read")]
pub struct InvalidScope(pub String);

impl Scope {
    /// The part before the colon.
    pub fn resource(&self) -> &str {
        &self.text[..self.colon]
    }

    /// The part after the colon.
    pub fn verb(&self) -> &str {
        &self.text[self.colon + 1..]
    }

    /// The whole text.
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// Whether holding this scope satisfies a demand for `resource:verb`.
    pub fn covers(&self, resource: &str, verb: &str) -> bool {
        (self.resource() == "*" || self.resource() == resource) && (self.verb() == "*" || self.verb() == verb)
    }
}

impl FromStr for Scope {
    type Err = InvalidScope;

    fn from_str(text: &str) -> Result<Self, InvalidScope> {
        let invalid = || InvalidScope(text.chars().take(80).collect());
        let (resource, verb) = text.split_once(':').ok_or_else(invalid)?;
        let word = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_' || c == '-';
        let resource_fits = resource == "*" || (!resource.is_empty() && resource.chars().all(word));
        let verb_fits = !verb.is_empty() && verb.chars().all(|c| word(c) || c == '*');
        if !resource_fits || !verb_fits || text.len() > 128 {
            return Err(invalid());
        }
        Ok(Self { colon: resource.len(), text: text.into() })
    }
}

impl fmt::Debug for Scope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.text, f)
    }
}
impl fmt::Display for Scope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}
impl serde::Serialize for Scope {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.text)
    }
}
impl<'de> serde::Deserialize<'de> for Scope {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
    }
}

/// The scopes of one credential. An empty list authenticates and permits nothing.
#[derive(Debug, Clone, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(transparent)]
pub struct Scopes(Vec<Scope>);

impl Scopes {
    /// The list as given.
    pub fn new(scopes: Vec<Scope>) -> Self {
        Self(scopes)
    }

    /// Whether any of the scopes covers `resource:verb`.
    pub fn cover(&self, resource: &str, verb: &str) -> bool {
        self.0.iter().any(|scope| scope.covers(resource, verb))
    }

    /// The scopes in the order they were given.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = &Scope> {
        self.0.iter()
    }

    /// The number of scopes.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether it is empty.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl FromIterator<Scope> for Scopes {
    fn from_iter<I: IntoIterator<Item = Scope>>(scopes: I) -> Self {
        Self(scopes.into_iter().collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_pattern_is_enforced() {
        for good in ["posts:read", "posts:*", "*:read", "*:*", "a-b_c9:x-y_z0", "a:re*d"] {
            assert!(good.parse::<Scope>().is_ok(), "{good}");
        }
        for bad in
            ["", ":", "posts", "posts:", ":read", "Posts:read", "posts:read:all", "p*:read", "pos ts:read", "posts:\n"]
        {
            assert!(bad.parse::<Scope>().is_err(), "{bad}");
        }
    }

    #[test]
    fn a_scope_covers_what_it_names_and_no_more() {
        let cases = [
            ("posts:read", "posts", "read", true),
            ("posts:read", "posts", "write", false),
            ("posts:read", "comments", "read", false),
            ("posts:*", "posts", "write", true),
            ("posts:*", "comments", "write", false),
            ("*:read", "comments", "read", true),
            ("*:read", "comments", "write", false),
            ("*:*", "anything", "at-all", true),
            ("posts:re*d", "posts", "read", false),
        ];
        for (scope, resource, verb, expected) in cases {
            assert_eq!(scope.parse::<Scope>().unwrap().covers(resource, verb), expected, "{scope} {resource}:{verb}");
        }
        assert!(!Scopes::default().cover("posts", "read"));
    }
}
