use gatewright_base::{Roles, UserId};

use crate::email::EmailAddress;
use crate::password::PasswordHash;

/// The page of users to list. Its numbers are always in range.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ListUsers {
    limit: u32,
    offset: u64,
}

const DEFAULT_LIMIT: u32 = 50;
const MAX_LIMIT: u32 = 500;

impl ListUsers {
    /// A limit of zero or less means 50, one above 500 means 500; a negative offset means 0.
    pub fn new(limit: i64, offset: i64) -> Self {
        let limit = match u32::try_from(limit) {
            Ok(0) => DEFAULT_LIMIT,
            Ok(limit) => limit.min(MAX_LIMIT),
            Err(_) if limit < 0 => DEFAULT_LIMIT,
            Err(_) => MAX_LIMIT,
        };
        Self { limit, offset: u64::try_from(offset).unwrap_or(0) }
    }

    /// At most this many: 1 to 500.
    pub fn limit(&self) -> u32 {
        self.limit
    }

    /// How many users to skip.
    pub fn offset(&self) -> u64 {
        self.offset
    }
}

impl Default for ListUsers {
    fn default() -> Self {
        Self::new(0, 0)
    }
}

/// One page of users, ordered by address.
#[derive(Debug, Clone, Default, PartialEq, Eq, serde::Serialize)]
pub struct UserPage {
    /// The users of the page.
    pub items: Vec<UserSummary>,
    /// The number of all users.
    pub total: u64,
}

/// The fields of a user that listings and HTTP answers contain. No other field is ever sent.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct UserSummary {
    /// The identifier.
    pub id: UserId,
    /// The address.
    pub email: EmailAddress,
    /// The roles.
    pub roles: Roles,
    /// Whether an operator has disabled it. Omitted if it is not.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub disabled: bool,
    /// Whether nobody can sign in with the stored password hash, because it is in no known format, damaged or not allowed.
    /// Only lists for operators contain it. Omitted if it is not.
    #[serde(rename = "unknownHash", skip_serializing_if = "std::ops::Not::not")]
    pub unknown_hash: bool,
    /// Whether the stored hash is usable only where weak hashes are allowed.
    #[serde(skip)]
    pub(crate) weak_hash: bool,
}

impl UserSummary {
    /// The summary of a user with this stored hash.
    pub(super) fn with_hash(user: &super::User, hash: Option<&str>) -> Self {
        let hash = hash.map(PasswordHash::from_stored);
        let unknown_hash = hash.as_ref().is_some_and(|hash| !hash.is_readable());
        let weak_hash = hash.is_some_and(|hash| hash.is_weak());
        Self { unknown_hash, weak_hash, ..Self::from(user) }
    }
}

impl From<&super::User> for UserSummary {
    fn from(user: &super::User) -> Self {
        Self {
            id: user.id.clone(),
            email: user.email.clone(),
            roles: user.roles.clone(),
            disabled: user.disabled,
            unknown_hash: false,
            weak_hash: false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_and_offsets_are_brought_into_range() {
        let cases = [
            (0, 0, 50, 0),
            (-1, -1, 50, 0),
            (i64::MIN, i64::MIN, 50, 0),
            (1, 3, 1, 3),
            (500, 0, 500, 0),
            (501, 0, 500, 0),
            (i64::MAX, i64::MAX, 500, i64::MAX.unsigned_abs()),
        ];
        for (limit, offset, expected_limit, expected_offset) in cases {
            let page = ListUsers::new(limit, offset);
            assert_eq!((page.limit(), page.offset()), (expected_limit, expected_offset), "{limit} {offset}");
        }
    }
}
