use gatewright_base::{Roles, UserId};
use jiff::Timestamp;
use uuid::Uuid;

/// The issuer that every token names.
pub(super) const ISSUER: &str = "gatewright";

/// What a token says. `email` and `roles` are for the eyes of its holder: the live user decides.
#[derive(Debug, Clone, serde::Serialize, serde::Deserialize)]
pub struct Claims {
    /// Always `gatewright`.
    pub iss: String,
    /// The user's identifier.
    pub sub: UserId,
    /// Their address when it was issued.
    pub email: String,
    /// Their roles when it was issued.
    pub roles: Roles,
    /// When it was issued, in seconds since 1970.
    pub iat: i64,
    /// When it ends, in seconds since 1970.
    pub exp: i64,
    /// A UUID of version 7, whose time is that of the issue in milliseconds.
    pub jti: Uuid,
}

impl Claims {
    /// When it was issued, in milliseconds since 1970; `None` when `jti` is of a kind that we do not make.
    pub fn issued_millis(&self) -> Option<i64> {
        let (seconds, nanos) = self.jti.get_timestamp().filter(|_| self.jti.get_version_num() == 7)?.to_unix();
        i64::try_from(seconds).ok()?.checked_mul(1000)?.checked_add(i64::from(nanos / 1_000_000))
    }

    /// When it ends.
    pub fn expires_at(&self) -> Timestamp {
        Timestamp::from_second(self.exp).unwrap_or(Timestamp::MIN)
    }
}
