use gatewright_base::{Roles, UserId};
use jiff::Timestamp;

use crate::email::EmailAddress;
use crate::password::PasswordHash;

/// An account, as a user store returns it. It never contains the password's hash; only [`UserWithHash`] does.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct User {
    /// Its identifier.
    pub id: UserId,
    /// Its address, unique among users. That of a guest is reserved: see [`address`](Self::address).
    pub email: EmailAddress,
    /// Its roles.
    pub roles: Roles,
    /// Whether it has a password. Accounts created by a provider's sign-in or a magic link have none.
    pub password_set: bool,
    /// Whether the mailbox was proven to be the owner's.
    pub email_verified: bool,
    /// Whether an operator has disabled it: sign-ins to it fail, and everything that was issued for it is refused.
    pub disabled: bool,
    /// JWTs issued at or before this moment are refused: password reset, logout everywhere, second factor enrolled.
    pub tokens_valid_after: Option<Timestamp>,
    /// Sessions begun at or before this moment are refused: password reset, logout everywhere.
    pub sessions_valid_after: Option<Timestamp>,
}

impl User {
    /// A user with a password, an unverified address and nothing refused, for stores with only the four required
    /// operations. Other stores set the other fields.
    pub fn new(id: UserId, email: EmailAddress, roles: Roles) -> Self {
        Self {
            id,
            email,
            roles,
            password_set: true,
            email_verified: false,
            disabled: false,
            tokens_valid_after: None,
            sessions_valid_after: None,
        }
    }

    /// Whether it is a guest: an account without an address.
    pub fn is_guest(&self) -> bool {
        self.email == EmailAddress::of_guest(&self.id)
    }

    /// Its address; `None` of a guest.
    pub fn address(&self) -> Option<&EmailAddress> {
        Some(&self.email).filter(|email| !email.is_of_guest())
    }

    /// Whether the account is enabled and a session that began at `moment` is still good.
    pub(crate) fn is_open_to(&self, moment: Timestamp) -> bool {
        !self.disabled && self.accepts_session_from(moment)
    }

    /// Whether a session that began at `moment` is still good.
    pub(crate) fn accepts_session_from(&self, moment: Timestamp) -> bool {
        self.sessions_valid_after.is_none_or(|after| moment > after)
    }

    /// Whether a JWT issued in the millisecond `issued` (since 1970) is still good.
    pub(crate) fn accepts_token_from(&self, issued: i64) -> bool {
        self.tokens_valid_after.is_none_or(|after| issued > after.as_millisecond())
    }
}

/// A user with the hash of their password.
#[derive(Debug, Clone)]
pub struct UserWithHash {
    /// The user.
    pub user: User,
    /// The stored hash; `None` for an account without a password.
    pub password_hash: Option<PasswordHash>,
}

/// A user to be created.
#[derive(Debug, Clone)]
pub struct NewUser {
    /// Its address.
    pub email: EmailAddress,
    /// Its password's hash.
    pub password_hash: PasswordHash,
    /// Its roles: the configured defaults, never the request's.
    pub roles: Roles,
    /// Its profile, as [`UserProfiles`](super::UserProfiles) stores it.
    pub profile: Option<String>,
}

/// A user without a password to be created.
#[derive(Debug, Clone)]
pub struct NewPasswordlessUser {
    /// Its address.
    pub email: EmailAddress,
    /// Its roles.
    pub roles: Roles,
    /// Whether the caller has proven that the mailbox is theirs.
    pub email_verified: bool,
}

/// What turns a guest into a full account.
#[derive(Debug, Clone, Copy)]
pub struct GuestUpgrade<'a> {
    /// Its address.
    pub email: &'a EmailAddress,
    /// The hash of its password, if it gets one.
    pub password_hash: Option<&'a PasswordHash>,
    /// Its profile, in place of the guest's. Without one, the guest's stays.
    pub profile: Option<&'a str>,
}
