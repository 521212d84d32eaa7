use std::time::Duration;

use gatewright_http::Problem;
use http::StatusCode;

use super::decision::Refusal;
use crate::mailbox::ProveError;
use crate::password::HashError;
use crate::plugins::passwordless::CreateError;
use crate::plugins::registration::RegistrationError;
use crate::problem::{no_session, second_factor_required, store_failed};
use crate::providers::ProviderError;
use crate::session::MintError;
use crate::users::UserStoreError;

/// Why a browser was not sent to a provider.
#[derive(Debug, thiserror::Error)]
pub(super) enum BeginError {
    #[error("no such provider")]
    UnknownProvider,
    #[error("{NO_LINKER}")]
    NoLinker,
    /// An error in the program's own provider.
    #[error("the provider's redirect has no code_challenge, and its `sends_pkce` is true")]
    NoChallenge,
    #[error(transparent)]
    Provider(#[from] ProviderError),
}

/// Why a browser that came back from a provider got nothing.
#[derive(Debug, thiserror::Error)]
pub(super) enum CallbackError {
    /// There is no state, or it differs from the browser's cookie, or is forged, expired or another provider's.
    #[error("oauth flow was not started in this browser")]
    NotStartedHere,
    /// The provider sent the browser back with an error; its code, 1 to 64 plain characters.
    #[error("the provider answered with the error {0}")]
    ProviderSaid(String),
    /// Neither a code nor an error.
    #[error("the provider sent no code")]
    NoCode,
    /// The provider's API failed.
    #[error(transparent)]
    Provider(#[from] ProviderError),
    /// The provider returned no usable identifier.
    #[error("the provider's identity has no usable identifier")]
    NoIdentity,
    /// The decision.
    #[error("refused: {}", .0.code())]
    Refused(Refusal),
    #[error("{NO_LINKER}")]
    NoLinker,
    /// Concurrent changes of the same accounts prevented every attempt.
    #[error("the accounts changed during each attempt; try again")]
    Unsettled,
    #[error(transparent)]
    Users(#[from] UserStoreError),
    #[error(transparent)]
    Hash(#[from] HashError),
    #[error(transparent)]
    Prove(#[from] ProveError),
    #[error(transparent)]
    Mint(#[from] MintError),
    /// The identity would need a new account, and registration does not allow it.
    #[error(transparent)]
    Policy(#[from] RegistrationError),
}

const NO_LINKER: &str = "the user store cannot store links to providers";

/// When an unavailable provider is worth asking again.
const RETRY: Duration = Duration::from_secs(5);

impl CallbackError {
    /// Its word in the audit event.
    pub(super) fn reason(&self) -> &'static str {
        match self {
            Self::NotStartedHere => "state",
            Self::ProviderSaid(_) => "provider_error",
            Self::NoCode => "no_code",
            Self::Provider(_) | Self::NoIdentity => "provider_failed",
            Self::Refused(refusal) => refusal.code(),
            Self::Policy(_) => "registration_closed",
            Self::NoLinker | Self::Unsettled | Self::Users(_) | Self::Hash(_) | Self::Prove(_) | Self::Mint(_) => {
                "unavailable"
            }
        }
    }

    /// The message for the caller. `label` is the provider's name.
    pub(super) fn into_problem(self, label: &str) -> Problem {
        match self {
            Self::NotStartedHere => {
                Problem::bad_request("oauth flow was not started in this browser").with_code("oauth_state")
            }
            Self::ProviderSaid(code) => provider_refused(label, &code),
            Self::NoCode => Problem::bad_request(format!("{label} sent no code")).with_code("oauth_no_code"),
            Self::Provider(error) => provider_failed(&error, label),
            Self::NoIdentity => unusable(&self, label),
            Self::Refused(refusal) => refused(refusal, label),
            Self::NoLinker => Problem::internal(&self),
            Self::Unsettled => Problem::unavailable("too many sign-ins to one account at once; try again", RETRY),
            Self::Users(error) => match error {
                UserStoreError::Transport(_) => store_failed(&error),
                UserStoreError::EmailTaken | UserStoreError::NotFound | UserStoreError::Referenced(_) => error.into(),
            },
            Self::Hash(error) => error.into(),
            Self::Prove(error) => error.into(),
            Self::Mint(error) => error.into(),
            Self::Policy(error) => error.into(),
        }
    }
}

impl BeginError {
    /// The message for the caller. `label` is the provider's name.
    pub(super) fn into_problem(self, label: &str) -> Problem {
        match self {
            Self::UnknownProvider => Problem::not_found("there is no such provider"),
            Self::NoLinker | Self::NoChallenge => Problem::internal(&self),
            Self::Provider(error) => provider_failed(&error, label),
        }
    }
}

impl From<CreateError> for CallbackError {
    fn from(error: CreateError) -> Self {
        match error {
            CreateError::Users(error) => error.into(),
            CreateError::Hash(error) => error.into(),
        }
    }
}

fn provider_failed(error: &ProviderError, label: &str) -> Problem {
    match error {
        ProviderError::Refused { code } => {
            // An error in the client secret is only visible here.
            tracing::warn!(%error, provider = label, "a provider refused");
            provider_refused(label, code)
        }
        ProviderError::OtherIssuer => {
            tracing::warn!(%error, provider = label, "a provider's callback is refused");
            let detail = format!("{label} did not send this callback: its iss is missing or names another issuer");
            Problem::bad_request(detail).with_code("provider_error")
        }
        ProviderError::Unavailable(_) => {
            tracing::warn!(%error, provider = label, "a provider is unavailable");
            Problem::unavailable(format!("{label} does not answer right now"), RETRY)
        }
        error @ (ProviderError::Failed(_)
        | ProviderError::Malformed(_)
        | ProviderError::Misconfigured(_)
        | ProviderError::IdToken(_)) => unusable(error, label),
    }
}

/// 400, in words and a code of our own: a provider's error is one only in the sentence.
fn provider_refused(label: &str, error: &str) -> Problem {
    Problem::bad_request(format!("{label} answered with the error {error}")).with_code("provider_error")
}

/// 502: an error of the provider, or of the connection to it.
fn unusable(error: &dyn std::error::Error, label: &str) -> Problem {
    tracing::warn!(%error, provider = label, "a provider's answer is invalid");
    let detail = format!("{label} gave an answer that cannot be trusted");
    Problem::new(StatusCode::BAD_GATEWAY, "provider_failed", detail)
}

fn refused(refusal: Refusal, label: &str) -> Problem {
    let problem = match refusal {
        Refusal::NoSession => return no_session(),
        Refusal::SecondFactorRequired => return second_factor_required(),
        Refusal::NoEmail => Problem::bad_request(format!(
            "{label} gave no email address, without which there can be no account: make one visible there and try again"
        )),
        Refusal::PasswordAccount => Problem::conflict(format!(
            "there is an account with this address: sign in to it with its password, a magic link or a password reset, \
             and link {label} there"
        )),
        Refusal::Unverified => Problem::conflict(format!(
            "there is an account with this address, which {label} has not verified: sign in to it another way and link \
             {label} there"
        )),
        Refusal::OtherUser => Problem::forbidden("the link was begun by another user"),
        Refusal::BoundToAnother => Problem::conflict(format!("this {label} account is linked to another account")),
    };
    problem.with_code(refusal.code())
}
