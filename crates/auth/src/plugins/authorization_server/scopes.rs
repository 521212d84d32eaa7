use std::collections::BTreeMap;

use gatewright_base::{Scope, Scopes};
use gatewright_http::locale;

use super::error::{Code, OAuthError};
use super::openid::words;

/// The most scopes of one request, as of any API token.
pub(super) const MAX_SCOPES: usize = 32;

/// The scopes that clients may request, each with its text on the consent page.
#[derive(Debug, Clone, Default)]
pub struct SupportedScopes(BTreeMap<String, Supported>);

/// What a scope allows, as a phrase that ends a sentence such as "It will be able to …".
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum ScopeText {
    /// The same text in every language: "read your posts".
    Fixed(String),
    /// To read records of this name, in the visitor's language.
    Read(String),
    /// To export records of this name, in the visitor's language.
    Export(String),
    /// To create, change and delete records of this name, in the visitor's language.
    Write(String),
    /// A text of the catalogues of languages.
    #[doc(hidden)]
    Named(&'static str),
}

#[derive(Debug, Clone)]
struct Supported {
    scope: Scope,
    text: ScopeText,
    /// Whether it reaches data of tenants.
    in_tenants: bool,
}

impl SupportedScopes {
    /// No scopes.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a scope and what it allows.
    pub fn with(mut self, scope: Scope, text: impl Into<ScopeText>) -> Self {
        self.0.insert(scope.as_str().to_owned(), Supported { scope, text: text.into(), in_tenants: false });
        self
    }

    /// Adds a scope for data of tenants. A user who allows it chooses the tenant.
    pub fn with_tenant_data(mut self, scope: Scope, text: impl Into<ScopeText>) -> Self {
        self.0.insert(scope.as_str().to_owned(), Supported { scope, text: text.into(), in_tenants: true });
        self
    }

    /// Whether one of these scopes reaches data of tenants.
    pub(super) fn reach_tenants(&self, scopes: &Scopes) -> bool {
        let meet = |one: &Scope, other: &Scope| {
            let part = |one: &str, other: &str| one == other || one == "*" || other == "*";
            part(one.resource(), other.resource()) && part(one.verb(), other.verb())
        };
        let mut listed = self.0.values().filter(|supported| supported.in_tenants);
        listed.any(|supported| scopes.iter().any(|scope| meet(&supported.scope, scope)))
    }

    /// Adds the scopes of OpenID Connect. `in_tenants` and `with_roles`: whether what a program learns about a user includes the
    /// tenant, and the roles.
    pub(super) fn with_identity(self, in_tenants: bool, with_roles: bool) -> Self {
        words::ALL.into_iter().fold(self, |all, word| {
            let has_roles = with_roles && word.on_the_wire == words::OPENID;
            let text = ScopeText::Named(if has_roles { "consent.openid_roles" } else { word.text });
            let is_in_tenants = in_tenants && word.on_the_wire == words::OPENID;
            let add = if is_in_tenants { Self::with_tenant_data } else { Self::with };
            match word.scope.parse::<Scope>() {
                Ok(scope) => add(all, scope, text),
                Err(_) => all,
            }
        })
    }

    /// Whether the scopes of OpenID Connect are among them.
    pub(super) fn has_identity(&self) -> bool {
        self.0.values().any(|supported| words::is_identity(&supported.scope))
    }

    /// The scopes of the API in alphabetical order.
    pub(super) fn iter(&self) -> impl Iterator<Item = &Scope> {
        self.0.values().map(|supported| &supported.scope).filter(|scope| !words::is_identity(scope))
    }

    /// What a scope allows, in the visitor's language. A scope that is not listed is shown unchanged.
    pub(super) fn text(&self, scope: &Scope) -> String {
        match self.0.get(scope.as_str()).map(|supported| &supported.text) {
            Some(ScopeText::Fixed(text)) => text.clone(),
            Some(ScopeText::Read(name)) => locale::text("consent.read", &[("name", name)]),
            Some(ScopeText::Export(name)) => locale::text("consent.export", &[("name", name)]),
            Some(ScopeText::Write(name)) => locale::text("consent.write", &[("name", name)]),
            Some(ScopeText::Named(key)) => locale::text(key, &[]),
            None => scope.as_str().to_owned(),
        }
    }

    /// The scopes of a client that requests none: all listed ones, up to the limit of a token.
    pub(super) fn default_scopes(&self) -> Scopes {
        self.iter().take(MAX_SCOPES).cloned().collect()
    }

    fn all(&self) -> Scopes {
        self.0.values().map(|supported| supported.scope.clone()).collect()
    }

    /// Parses a `scope` parameter (RFC 6749, section 3.3). Every scope must be supported and, if the client is limited to
    /// some, be one of those. Without `openid`, `offline_access` is accepted but has no effect: a refresh token is issued in
    /// any case.
    pub(super) fn parse(&self, text: Option<&str>, client: Option<&Scopes>) -> Result<Scopes, OAuthError> {
        let mut words: Vec<_> = text.unwrap_or_default().split(' ').filter(|word| !word.is_empty()).collect();
        if !self.has_identity() || !words.contains(&words::OPENID) {
            words.retain(|word| *word != words::OFFLINE);
        }
        if words.is_empty() {
            return Ok(client.cloned().unwrap_or_else(|| self.default_scopes()));
        }
        if words.len() > MAX_SCOPES {
            return Err(invalid("a request names at most 32 scopes"));
        }
        let asked = words.iter().map(|word| words::parse(word)).collect::<Option<Scopes>>();
        let asked = asked.ok_or_else(|| invalid("a scope is written resource:verb, such as posts:read"))?;
        if asked.iter().any(words::is_identity) && !(self.has_identity() && words.contains(&words::OPENID)) {
            return Err(invalid(
                "unsupported scope; see scopes_supported, and name openid with those of OpenID Connect",
            ));
        }
        let asked = within(&asked, &self.all()).ok_or_else(|| invalid("unsupported scope; see scopes_supported"))?;
        match client {
            Some(limit) => within(&asked, limit).ok_or_else(|| invalid("this client may not request that scope")),
            None => Ok(asked),
        }
    }
}

impl From<&str> for ScopeText {
    fn from(text: &str) -> Self {
        Self::Fixed(text.to_owned())
    }
}

impl From<String> for ScopeText {
    fn from(text: String) -> Self {
        Self::Fixed(text)
    }
}

/// `asked` without duplicates, if `limit` covers every one of them.
pub(super) fn within(asked: &Scopes, limit: &Scopes) -> Option<Scopes> {
    let covers = |outer: &Scope, inner: &Scope| {
        let part = |outer: &str, inner: &str| outer == "*" || outer == inner;
        part(outer.resource(), inner.resource()) && part(outer.verb(), inner.verb())
    };
    let mut found: Vec<Scope> = Vec::new();
    for scope in asked.iter() {
        if !limit.iter().any(|outer| covers(outer, scope)) {
            return None;
        }
        if !found.contains(scope) {
            found.push(scope.clone());
        }
    }
    Some(Scopes::new(found))
}

/// Scopes as the wire has them: apart by spaces.
pub(super) fn joined(scopes: &Scopes) -> String {
    scopes.iter().map(words::on_the_wire).collect::<Vec<_>>().join(" ")
}

fn invalid(description: &'static str) -> OAuthError {
    OAuthError::new(Code::InvalidScope, description)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn scopes(text: &str) -> Scopes {
        text.split(' ').filter(|word| !word.is_empty()).map(|word| word.parse::<Scope>().unwrap()).collect()
    }

    #[test]
    fn a_request_is_limited_to_supported_scopes_and_those_of_the_client() {
        let supported = scopes("posts:read posts:write *:read")
            .iter()
            .fold(SupportedScopes::new(), |all, scope| all.with(scope.clone(), "words"));
        let limited = scopes("posts:read");
        for (text, client, expected) in [
            (None, None, Some("*:read posts:read posts:write")),
            (Some(""), None, Some("*:read posts:read posts:write")),
            (Some("offline_access"), Some(&limited), Some("posts:read")),
            (Some("posts:read posts:read offline_access"), None, Some("posts:read")),
            (Some("comments:read"), None, Some("comments:read")),
            (Some("comments:write"), None, None),
            (Some("*:*"), None, None),
            (Some("posts:*"), None, None),
            (Some("admin:write"), None, None),
            (Some("posts:write"), Some(&limited), None),
            (Some("*:read"), Some(&limited), None),
            (Some("posts"), None, None),
            (Some("openid"), None, None),
        ] {
            let found = supported.parse(text, client).ok().map(|found| joined(&found));
            assert_eq!(found.as_deref(), expected, "{text:?} {client:?}");
        }
    }

    #[test]
    fn a_scope_covers_tenants_if_it_overlaps_one_that_does() {
        let scope = |text: &str| text.parse::<Scope>().unwrap();
        let supported = SupportedScopes::new()
            .with(scope("posts:read"), "read posts")
            .with_tenant_data(scope("projects:read"), "read projects");
        for (asked, reaches) in [
            ("projects:read", true),
            ("posts:read projects:read", true),
            ("*:read", true),
            ("projects:*", true),
            ("posts:read", false),
            ("projects:write", false),
            ("", false),
        ] {
            assert_eq!(supported.reach_tenants(&scopes(asked)), reaches, "{asked}");
        }
    }

    proptest! {
        /// For all requests: the result permits nothing beyond the limit.
        #[test]
        fn narrowed_scopes_are_within_the_limit(
            asked in proptest::collection::vec("(a|b|\\*):(read|write|\\*|r\\*d)", 0..5),
            limit in proptest::collection::vec("(a|b|\\*):(read|write|\\*|r\\*d)", 0..5),
        ) {
            let (asked, limit) = (scopes(&asked.join(" ")), scopes(&limit.join(" ")));
            if let Some(found) = within(&asked, &limit) {
                for resource in ["a", "b", "c", "*"] {
                    for verb in ["read", "write", "delete", "r*d", "*"] {
                        prop_assert!(!found.cover(resource, verb) || limit.cover(resource, verb));
                    }
                }
            }
        }
    }
}
