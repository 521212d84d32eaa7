//! Converts this crate's errors into answers. No other module does.

use std::error::Error;
use std::time::Duration;

use gatewright_db::Error as DatabaseError;
use gatewright_http::Problem;
use http::StatusCode;

use crate::password::{HashError, Overloaded, WeakPassword};
use crate::session::{MintError, ResolveError, SessionStoreError};
use crate::single_use::codes::CodeError;
use crate::users::UserStoreError;

/// When a store that failed is worth asking again.
const STORE_RETRY: Duration = Duration::from_secs(5);

/// 401: the endpoint needs a session and there is none.
pub(crate) fn no_session() -> Problem {
    Problem::unauthorized("authentication is required")
}

/// 403: the first factor is proven, the second is not.
pub(crate) fn second_factor_required() -> Problem {
    Problem::forbidden("two-factor verification required").with_code("two_factor_required")
}

/// 401: the same for an unknown address, a wrong password and an account without one.
pub(crate) fn invalid_credentials() -> Problem {
    Problem::unauthorized("invalid credentials").with_code("invalid_credentials")
}

/// 401: the same for a mailed token that is unknown, of another purpose, spent or expired.
pub(crate) fn invalid_token() -> Problem {
    Problem::unauthorized("invalid or expired token").with_code("invalid_token")
}

/// 403: the mailbox was never proven. Only a caller who has proven the first factor gets this answer.
pub(crate) fn email_unverified() -> Problem {
    let detail = "the email address is not verified: open the link that was mailed to it";
    Problem::forbidden(detail).with_code("email_unverified")
}

/// 403: registration is closed, or the address was not invited.
pub(crate) fn registration_closed() -> Problem {
    Problem::forbidden("registration is closed").with_code("registration_closed")
}

/// 503: no mailer is configured. `detail` says what is not available.
pub(crate) fn not_configured(detail: &'static str) -> Problem {
    Problem::new(StatusCode::SERVICE_UNAVAILABLE, "delivery_not_configured", detail)
}

/// 409 at registration.
pub(crate) fn email_taken() -> Problem {
    Problem::conflict("email already registered").with_code("email_taken")
}

/// 503: a store is not available; 500 if a row of it is unreadable. The cause is only logged.
pub(crate) fn store_failed(cause: &(dyn Error + 'static)) -> Problem {
    if DatabaseError::is_unreadable(cause) {
        return Problem::record_unreadable(cause);
    }
    tracing::error!(error = %cause, "authentication is unavailable");
    Problem::unavailable("authentication is unavailable right now", STORE_RETRY)
}

impl From<WeakPassword> for Problem {
    fn from(error: WeakPassword) -> Self {
        Self::invalid_field("password", error.code(), error.to_string())
    }
}

impl From<Overloaded> for Problem {
    fn from(_: Overloaded) -> Self {
        Self::unavailable("too many sign-ins at once; try again in a moment", Overloaded::RETRY_AFTER)
    }
}

impl From<HashError> for Problem {
    fn from(error: HashError) -> Self {
        match error {
            HashError::Overloaded(overloaded) => overloaded.into(),
            HashError::Algorithm(error) => Self::internal(&error),
        }
    }
}

impl From<CodeError> for Problem {
    fn from(error: CodeError) -> Self {
        match error {
            // Only callers that count no attempt come here with it.
            CodeError::Denied(denied) => denied.into(),
            CodeError::Invalid => Self::unauthorized(error.to_string()).with_code("invalid_code"),
            CodeError::Tokens(error) => store_failed(&error),
        }
    }
}

impl From<MintError> for Problem {
    fn from(error: MintError) -> Self {
        match error {
            MintError::TwoFactorEnforcement(_) => Self::internal(&error),
            MintError::Store(error) => error.into(),
            MintError::EmailUnverified => email_unverified(),
            MintError::Disabled => invalid_credentials(),
            MintError::Gone => no_session(),
        }
    }
}

impl From<SessionStoreError> for Problem {
    fn from(error: SessionStoreError) -> Self {
        store_failed(&error)
    }
}

impl From<ResolveError> for Problem {
    fn from(error: ResolveError) -> Self {
        store_failed(&error)
    }
}

impl From<UserStoreError> for Problem {
    fn from(error: UserStoreError) -> Self {
        match error {
            UserStoreError::EmailTaken => email_taken(),
            // A signed-in account exists; if it was deleted in between, the caller is no longer signed in.
            UserStoreError::NotFound => no_session(),
            UserStoreError::Referenced(_) => Problem::conflict(error.to_string()).with_code("referenced"),
            UserStoreError::Transport(_) => store_failed(&error),
        }
    }
}
