use gatewright_base::{Roles, UserId};
use jiff::Timestamp;
use uuid::Uuid;

/// The issuer that every token names.
pub(super) const ISSUER: &str = "gatewright";

/// The claims of a token. `email` and `roles` are for its holder's information; the server uses the current user.
#[derive(Debug, Clone, serde::Serialize)]
pub struct Claims {
    /// Always `gatewright`.
    pub iss: String,
    /// The user's identifier.
    pub sub: UserId,
    /// Their address when it was issued. Absent of a guest.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub email: Option<String>,
    /// Their roles when it was issued.
    pub roles: Roles,
    /// When it was issued, in seconds since 1970.
    pub iat: i64,
    /// When it expires, in seconds since 1970.
    pub exp: i64,
    /// A UUID of version 7. Its time is that of the issue, in milliseconds.
    pub jti: Uuid,
    /// How its holder authenticated (RFC 8176): `mfa` after a second factor, absent otherwise.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub amr: Vec<String>,
}

/// The method reference for several factors (RFC 8176, section 2).
const SEVERAL_FACTORS: &str = "mfa";

impl Claims {
    /// When it was issued, in milliseconds since 1970; `None` if `jti` is not a UUID of version 7.
    pub fn issued_millis(&self) -> Option<i64> {
        let (seconds, nanos) = self.jti.get_timestamp().filter(|_| self.jti.get_version_num() == 7)?.to_unix();
        i64::try_from(seconds).ok()?.checked_mul(1000)?.checked_add(i64::from(nanos / 1_000_000))
    }

    /// The value of `amr` for a second factor that was proven, or was not.
    pub(super) fn methods(second_factor: bool) -> Vec<String> {
        second_factor.then(|| SEVERAL_FACTORS.to_owned()).into_iter().collect()
    }

    /// Whether it was issued after a second factor was proven.
    pub fn has_second_factor(&self) -> bool {
        self.amr.iter().any(|method| method == SEVERAL_FACTORS)
    }

    /// When its holder authenticated.
    pub fn issued_at(&self) -> Timestamp {
        Timestamp::from_second(self.iat).unwrap_or(Timestamp::MIN)
    }

    /// When it expires.
    pub fn expires_at(&self) -> Timestamp {
        Timestamp::from_second(self.exp).unwrap_or(Timestamp::MIN)
    }
}

/// The unchecked claims of a token with a valid signature.
#[derive(serde::Deserialize)]
pub(super) struct Presented {
    iss: String,
    sub: UserId,
    #[serde(default)]
    email: Option<String>,
    roles: Roles,
    iat: i64,
    exp: i64,
    jti: Uuid,
    #[serde(default)]
    amr: Vec<String>,
    aud: Option<serde::de::IgnoredAny>,
}

impl Presented {
    /// `None` for another issuer's token, and for one with an audience: ours have none.
    pub(super) fn claims(self) -> Option<Claims> {
        let Self { iss, sub, email, roles, iat, exp, jti, amr, aud } = self;
        (iss == ISSUER && aud.is_none()).then_some(Claims { iss, sub, email, roles, iat, exp, jti, amr })
    }
}
