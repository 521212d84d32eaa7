use axum::Json;
use axum::response::{IntoResponse, Response};
use http::header::{CACHE_CONTROL, PRAGMA, RETRY_AFTER, WWW_AUTHENTICATE};
use http::{HeaderValue, StatusCode};
use serde_json::json;

use crate::problem;
use crate::users::BoxError;

/// A refusal of the authorization server, as a client gets it (RFC 6749, sections 4.1.2.1 and 5.2).
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{}: {description}", code.name())]
pub(super) struct OAuthError {
    pub(super) code: Code,
    pub(super) description: &'static str,
}

/// The registered error codes that are used here.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Code {
    InvalidRequest,
    InvalidClient,
    InvalidGrant,
    UnauthorizedClient,
    UnsupportedGrantType,
    UnsupportedResponseType,
    InvalidScope,
    /// The user refused.
    AccessDenied,
    /// OpenID Connect Core, section 3.1.2.6.
    LoginRequired,
    ConsentRequired,
    InteractionRequired,
    RequestNotSupported,
    RequestUriNotSupported,
    RegistrationNotSupported,
    /// RFC 8628, section 3.5.
    AuthorizationPending,
    SlowDown,
    ExpiredToken,
    /// RFC 8707, section 2.
    InvalidTarget,
    /// RFC 7591, section 3.2.2.
    InvalidRedirectUri,
    InvalidClientMetadata,
    /// RFC 6749, section 4.1.2.1, for the limit of registered clients: RFC 7591 has no error for it.
    TemporarilyUnavailable,
}

/// When to try again where the limit of registered clients is reached, in seconds.
const RETRY_SECONDS: u32 = 3_600;

/// Why an endpoint that programs call did not do it.
#[derive(Debug, thiserror::Error)]
pub(super) enum Failure {
    #[error(transparent)]
    Refused(#[from] OAuthError),
    /// A store failed. The cause is only logged.
    #[error("a store failed: {0}")]
    Store(#[source] BoxError),
}

impl OAuthError {
    pub(super) fn new(code: Code, description: &'static str) -> Self {
        Self { code, description }
    }

    pub(super) fn invalid_request(description: &'static str) -> Self {
        Self::new(Code::InvalidRequest, description)
    }

    pub(super) fn invalid_grant(description: &'static str) -> Self {
        Self::new(Code::InvalidGrant, description)
    }

    pub(super) fn invalid_client() -> Self {
        Self::new(Code::InvalidClient, "unknown client, or wrong client credentials")
    }
}

impl Code {
    /// The word on the wire.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::InvalidRequest => "invalid_request",
            Self::InvalidClient => "invalid_client",
            Self::InvalidGrant => "invalid_grant",
            Self::UnauthorizedClient => "unauthorized_client",
            Self::UnsupportedGrantType => "unsupported_grant_type",
            Self::UnsupportedResponseType => "unsupported_response_type",
            Self::InvalidScope => "invalid_scope",
            Self::AccessDenied => "access_denied",
            Self::LoginRequired => "login_required",
            Self::ConsentRequired => "consent_required",
            Self::InteractionRequired => "interaction_required",
            Self::RequestNotSupported => "request_not_supported",
            Self::RequestUriNotSupported => "request_uri_not_supported",
            Self::RegistrationNotSupported => "registration_not_supported",
            Self::AuthorizationPending => "authorization_pending",
            Self::SlowDown => "slow_down",
            Self::ExpiredToken => "expired_token",
            Self::InvalidTarget => "invalid_target",
            Self::InvalidRedirectUri => "invalid_redirect_uri",
            Self::InvalidClientMetadata => "invalid_client_metadata",
            Self::TemporarilyUnavailable => "temporarily_unavailable",
        }
    }

    fn status(self) -> StatusCode {
        match self {
            Self::InvalidClient => StatusCode::UNAUTHORIZED,
            Self::TemporarilyUnavailable => StatusCode::SERVICE_UNAVAILABLE,
            Self::InvalidRequest
            | Self::InvalidGrant
            | Self::UnauthorizedClient
            | Self::UnsupportedGrantType
            | Self::UnsupportedResponseType
            | Self::InvalidScope
            | Self::AccessDenied
            | Self::LoginRequired
            | Self::ConsentRequired
            | Self::InteractionRequired
            | Self::RequestNotSupported
            | Self::RequestUriNotSupported
            | Self::RegistrationNotSupported
            | Self::AuthorizationPending
            | Self::SlowDown
            | Self::ExpiredToken
            | Self::InvalidTarget
            | Self::InvalidRedirectUri
            | Self::InvalidClientMetadata => StatusCode::BAD_REQUEST,
        }
    }
}

impl Failure {
    /// Any error of a store.
    pub(super) fn store(error: impl Into<BoxError>) -> Self {
        Self::Store(error.into())
    }
}

impl From<gatewright_db::Error> for Failure {
    fn from(error: gatewright_db::Error) -> Self {
        Self::store(error)
    }
}

impl IntoResponse for OAuthError {
    fn into_response(self) -> Response {
        let is_client = self.code == Code::InvalidClient;
        let status = self.code.status();
        let body = Json(json!({ "error": self.code.name(), "error_description": self.description }));
        let mut response = (status, [(CACHE_CONTROL, "no-store"), (PRAGMA, "no-cache")], body).into_response();
        if is_client {
            let basic = HeaderValue::from_static("Basic realm=\"oauth2\"");
            response.headers_mut().insert(WWW_AUTHENTICATE, basic);
        }
        if status == StatusCode::SERVICE_UNAVAILABLE {
            response.headers_mut().insert(RETRY_AFTER, RETRY_SECONDS.into());
        }
        response
    }
}

impl IntoResponse for Failure {
    fn into_response(self) -> Response {
        match self {
            Self::Refused(error) => error.into_response(),
            Self::Store(error) => problem::store_failed(&*error).into_response(),
        }
    }
}
