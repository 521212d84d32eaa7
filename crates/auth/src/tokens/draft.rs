use std::time::Duration;

use gatewright_base::{InvalidScope, Scopes};

use crate::label::{InvalidLabel, Label};

/// The checked fields of a token to be issued.
#[derive(Debug, Clone)]
pub struct TokenDraft {
    pub(super) name: Label,
    pub(super) scopes: Scopes,
    pub(super) ttl: Option<Duration>,
}

/// An error in the fields of a token to be issued.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum InvalidTokenDraft {
    /// The name.
    #[error("the name {0}")]
    Name(#[from] InvalidLabel),
    /// One of the scopes.
    #[error(transparent)]
    Scope(#[from] InvalidScope),
    /// More than 32 scopes.
    #[error("a token has at most {} scopes", TokenDraft::MAX_SCOPES)]
    TooManyScopes,
    /// A lifetime below zero, or of more than a thousand years.
    #[error("the lifetime must be 0 (no end), or 1 second to 1,000 years in seconds")]
    Ttl,
}

impl InvalidTokenDraft {
    /// The field that is wrong, in `snake_case`.
    pub(crate) fn field(&self) -> &'static str {
        match self {
            Self::Name(_) => "name",
            Self::Scope(_) | Self::TooManyScopes => "scopes",
            Self::Ttl => "ttl_seconds",
        }
    }

    /// Its word in answers.
    pub(crate) fn code(&self) -> &'static str {
        match self {
            Self::Name(_) | Self::Scope(_) => "invalid",
            Self::TooManyScopes => "too_many",
            Self::Ttl => "out_of_range",
        }
    }
}

impl TokenDraft {
    /// The resource of the admin API's scopes. Wildcards do not cover it.
    pub const ADMIN: &str = "admin";

    /// Whether the token is to administer.
    pub(super) fn administers(&self) -> bool {
        self.scopes.iter().any(|scope| scope.resource() == Self::ADMIN)
    }

    /// The most scopes that a token may have.
    pub const MAX_SCOPES: usize = 32;

    /// Longer than any useful lifetime, and far from the end of the calendar.
    const MAX_TTL_SECONDS: i64 = 1000 * 366 * 24 * 60 * 60;

    /// Checks all three parts and returns all errors. With `ttl_seconds` of 0 the token does not expire.
    pub fn parse<S: AsRef<str>>(name: &str, scopes: &[S], ttl_seconds: i64) -> Result<Self, Vec<InvalidTokenDraft>> {
        let mut wrong = Vec::new();
        let name = Label::parse(name).map_err(|error| wrong.push(error.into())).ok();
        if scopes.len() > Self::MAX_SCOPES {
            wrong.push(InvalidTokenDraft::TooManyScopes);
        }
        let mut parsed = Vec::new();
        for scope in scopes.iter().take(Self::MAX_SCOPES) {
            match scope.as_ref().parse() {
                Ok(scope) => parsed.push(scope),
                Err(error) => wrong.push(InvalidTokenDraft::Scope(error)),
            }
        }
        let ttl = match u64::try_from(ttl_seconds) {
            Ok(0) => None,
            Ok(seconds) if ttl_seconds <= Self::MAX_TTL_SECONDS => Some(Duration::from_secs(seconds)),
            _ => {
                wrong.push(InvalidTokenDraft::Ttl);
                None
            }
        };
        match name {
            Some(name) if wrong.is_empty() => Ok(Self { name, scopes: Scopes::new(parsed), ttl }),
            _ => Err(wrong),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_draft_is_accepted_or_all_errors_are_reported() {
        let good = TokenDraft::parse("  CI  ", &["posts:read", "*:*"], 60).unwrap();
        assert_eq!((good.name.as_str(), good.scopes.len(), good.ttl), ("CI", 2, Some(Duration::from_mins(1))));
        assert_eq!(TokenDraft::parse("CI", &[""; 0], 0).unwrap().ttl, None);
        let wrong = TokenDraft::parse(" ", &["posts", "*"], -1).unwrap_err();
        assert_eq!(wrong.len(), 4, "{wrong:?}");
    }

    #[test]
    fn at_most_thirty_two_scopes_are_accepted() {
        let scopes = vec!["posts:read"; 33];
        assert_eq!(TokenDraft::parse("CI", &scopes[1..], 0).unwrap().scopes.len(), 32);
        assert_eq!(TokenDraft::parse("CI", &scopes, 0).unwrap_err(), [InvalidTokenDraft::TooManyScopes]);
    }

    #[test]
    fn a_lifetime_lies_within_the_calendar() {
        for ttl in [i64::MIN, -1, i64::MAX, TokenDraft::MAX_TTL_SECONDS + 1] {
            assert_eq!(TokenDraft::parse("CI", &[""; 0], ttl).unwrap_err(), [InvalidTokenDraft::Ttl], "{ttl}");
        }
        assert!(TokenDraft::parse("CI", &[""; 0], TokenDraft::MAX_TTL_SECONDS).is_ok());
    }
}
