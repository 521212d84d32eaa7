use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use crate::{InvalidScope, Live, Scope};

/// The role names of a user, sorted and without duplicates.
#[derive(Debug, Clone, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(from = "Vec<String>", into = "Vec<String>")]
pub struct Roles(Arc<[String]>);

impl Roles {
    /// Whether `role` is among them.
    pub fn contains(&self, role: &str) -> bool {
        self.0.iter().any(|held| held == role)
    }

    /// The names in order.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = &str> {
        self.0.iter().map(String::as_str)
    }

    /// Whether it is empty.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl<S: Into<String>> FromIterator<S> for Roles {
    fn from_iter<I: IntoIterator<Item = S>>(names: I) -> Self {
        let mut seen = BTreeSet::new();
        Self(names.into_iter().map(Into::into).filter(|name: &String| seen.insert(name.clone())).collect())
    }
}

impl From<Vec<String>> for Roles {
    fn from(names: Vec<String>) -> Self {
        names.into_iter().collect()
    }
}

impl From<Roles> for Vec<String> {
    fn from(roles: Roles) -> Self {
        roles.0.to_vec()
    }
}

/// The permission that an operation requires, such as `posts:write`. A concrete `resource:verb` without wildcards.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Permission(Scope);

/// Text that cannot be demanded as a permission.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum InvalidPermission {
    /// Not of the form `resource:verb`.
    #[error(transparent)]
    Form(#[from] InvalidScope),
    /// A demand with a wildcard would be satisfied by no single right.
    #[error("\"{0}\" has a wildcard; a demanded permission names one resource and one verb")]
    Wildcard(String),
}

impl Permission {
    /// The part before the colon.
    pub fn resource(&self) -> &str {
        self.0.resource()
    }

    /// The part after the colon.
    pub fn verb(&self) -> &str {
        self.0.verb()
    }

    /// The whole text.
    pub fn as_str(&self) -> &str {
        self.0.as_str()
    }
}

impl FromStr for Permission {
    type Err = InvalidPermission;

    fn from_str(text: &str) -> Result<Self, InvalidPermission> {
        let scope: Scope = text.parse()?;
        if text.contains('*') {
            return Err(InvalidPermission::Wildcard(text.to_owned()));
        }
        Ok(Self(scope))
    }
}

impl fmt::Debug for Permission {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.0, f)
    }
}
impl fmt::Display for Permission {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, f)
    }
}

/// The permissions of one role: a list of rights, or everything (`*`).
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Grants {
    everything: bool,
    scopes: Vec<Scope>,
}

impl Grants {
    /// Reads `["posts:read", "posts:*"]` or `["*"]`.
    pub fn parse<S: AsRef<str>>(texts: impl IntoIterator<Item = S>) -> Result<Self, InvalidScope> {
        let mut grants = Self::default();
        for text in texts {
            match text.as_ref() {
                "*" => grants.everything = true,
                other => grants.scopes.push(other.parse()?),
            }
        }
        Ok(grants)
    }

    /// The single grants, without `*`.
    pub fn scopes(&self) -> &[Scope] {
        &self.scopes
    }

    /// All grants as text, `*` first.
    pub fn texts(&self) -> impl Iterator<Item = &str> {
        self.everything.then_some("*").into_iter().chain(self.scopes.iter().map(Scope::as_str))
    }

    fn permit(&self, permission: &Permission) -> bool {
        let (resource, verb) = (permission.0.resource(), permission.0.verb());
        self.everything || self.scopes.iter().any(|scope| scope.covers(resource, verb))
    }
}

/// The table of `[roles]`: the permissions of each role. Cheap to clone; all clones change together.
#[derive(Debug, Clone, Default)]
pub struct RolePermissions(Live<BTreeMap<String, Grants>>);

impl RolePermissions {
    /// A table of roles. A role that is not in it has no permissions.
    pub fn new(table: BTreeMap<String, Grants>) -> Self {
        Self(Live::new(table))
    }

    /// Replaces the table for all clones: the next decision is made by the new one.
    pub fn replace(&self, table: BTreeMap<String, Grants>) {
        self.0.set(table);
    }

    /// Whether no role is in it.
    pub fn is_empty(&self) -> bool {
        self.0.get().is_empty()
    }

    /// Whether any of `roles` has `permission`.
    pub fn permit(&self, roles: &Roles, permission: &Permission) -> bool {
        let table = self.0.get();
        roles.iter().filter_map(|role| table.get(role)).any(|grants| grants.permit(permission))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn roles_permit_what_their_grants_include() {
        let table = RolePermissions::new(BTreeMap::from([
            ("editor".to_owned(), Grants::parse(["posts:read", "posts:write"]).unwrap()),
            ("admin".to_owned(), Grants::parse(["*"]).unwrap()),
            ("reader".to_owned(), Grants::parse(["*:read"]).unwrap()),
        ]));
        let permit =
            |role: &str, permission: &str| table.permit(&[role].into_iter().collect(), &permission.parse().unwrap());
        assert!(permit("editor", "posts:write"));
        assert!(!permit("editor", "comments:read"));
        assert!(permit("admin", "anything:goes"));
        assert!(permit("reader", "comments:read"));
        assert!(!permit("reader", "comments:write"));
        assert!(!permit("unknown", "posts:read"));
        assert!(!table.permit(&Roles::default(), &"posts:read".parse().unwrap()));
    }

    #[test]
    fn a_demand_with_a_wildcard_is_refused() {
        assert!(matches!("posts:*".parse::<Permission>(), Err(InvalidPermission::Wildcard(_))));
    }
}
