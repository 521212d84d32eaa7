//! Further claims of `id_token`s and `userinfo`, as the operator names them.

use std::collections::BTreeMap;
use std::str::FromStr;

/// The claims about users, by name, besides `sub`, `email` and `email_verified`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct IdentityClaims(pub(super) BTreeMap<String, ClaimSource>);

/// Where the value of a claim comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ClaimSource {
    /// A field of the profile, by its name in snake case. Programs get it with the scope `profile`.
    Profile(String),
    /// The roles of the account.
    Roles,
    /// The tenant that the user chose.
    Tenant,
}

/// A claim that is refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum InvalidClaim {
    /// A name with a meaning of its own.
    #[error("`{0}` is a name of the protocol; choose another one")]
    Reserved(String),
    /// A name that is empty, or longer than 64 characters.
    #[error("a claim has a name of 1 to 64 characters")]
    Name,
    /// An unknown source.
    #[error("a claim is \"profile.FIELD\", \"roles\" or \"tenant\"")]
    Source,
}

/// The names that the protocol gives a meaning (OpenID Connect Core, RFC 7519, RFC 8693, RFC 9068), and those whose values
/// come from the account.
const RESERVED: [&str; 29] = [
    "iss",
    "sub",
    "aud",
    "exp",
    "nbf",
    "iat",
    "jti",
    "auth_time",
    "nonce",
    "acr",
    "amr",
    "azp",
    "at_hash",
    "c_hash",
    "s_hash",
    "sid",
    "sub_jwk",
    "events",
    "cnf",
    "act",
    "may_act",
    "scope",
    "client_id",
    "email",
    "email_verified",
    "_claim_names",
    "_claim_sources",
    "toe",
    "txn",
];
const MAX_NAME: usize = 64;

impl IdentityClaims {
    /// No further claims.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a claim.
    pub fn with(mut self, name: &str, source: ClaimSource) -> Result<Self, InvalidClaim> {
        if name.is_empty() || name.len() > MAX_NAME {
            return Err(InvalidClaim::Name);
        }
        if RESERVED.contains(&name) {
            return Err(InvalidClaim::Reserved(name.to_owned()));
        }
        self.0.insert(name.to_owned(), source);
        Ok(self)
    }

    /// The names in alphabetical order.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.0.keys().map(String::as_str)
    }

    /// Whether a claim names the roles.
    pub(in super::super) fn name_the_roles(&self) -> bool {
        self.0.values().any(|source| *source == ClaimSource::Roles)
    }

    /// Whether a claim names the tenant.
    pub(in super::super) fn name_the_tenant(&self) -> bool {
        self.0.values().any(|source| *source == ClaimSource::Tenant)
    }
}

impl FromStr for ClaimSource {
    type Err = InvalidClaim;

    fn from_str(text: &str) -> Result<Self, InvalidClaim> {
        match (text, text.strip_prefix("profile.")) {
            ("roles", _) => Ok(Self::Roles),
            ("tenant", _) => Ok(Self::Tenant),
            (_, Some(field)) if !field.is_empty() => Ok(Self::Profile(field.to_owned())),
            _ => Err(InvalidClaim::Source),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_the_protocol_are_refused() {
        for name in RESERVED {
            assert!(matches!(IdentityClaims::new().with(name, ClaimSource::Roles), Err(InvalidClaim::Reserved(_))));
        }
        assert_eq!(IdentityClaims::new().with("", ClaimSource::Roles), Err(InvalidClaim::Name));
        let claims = IdentityClaims::new().with("roles", ClaimSource::Roles).unwrap();
        let claims = claims.with("name", "profile.display_name".parse().unwrap()).unwrap();
        assert_eq!(claims.names().collect::<Vec<_>>(), ["name", "roles"]);
        for bad in ["", "profile.", "profile", "email", "password_hash"] {
            assert!(bad.parse::<ClaimSource>().is_err(), "{bad}");
        }
    }
}
