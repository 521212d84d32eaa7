//! Who may register. Every flow that creates an account calls this module.

use std::sync::Arc;

use gatewright_base::Secret;
use gatewright_http::Problem;

use crate::config::Registration;
use crate::core::Core;
use crate::email::EmailAddress;
use crate::invitations::Invitation;
use crate::plugins::invitations::{AcceptError, Flow};
use crate::problem;
use crate::users::UserStoreError;

/// Why a registration is refused.
#[derive(Debug, thiserror::Error)]
pub(crate) enum RegistrationError {
    /// Registration is closed, or the address was not invited.
    #[error("registration is closed")]
    Closed,
    /// The invitation is unknown, used or expired, and registration needs no invitation.
    #[error("the invitation is invalid or expired")]
    UnknownInvitation,
    /// The invitation is for another address, and registration needs an invitation.
    #[error("the invitation is for another address")]
    Uninvited,
    /// The invitation is for another address, and registration needs no invitation.
    #[error("must be the address that was invited")]
    OtherAddress,
    #[error("the invitations cannot be read: {0}")]
    Invitations(#[from] AcceptError),
}

/// Whether this address is reserved, because the owner of another account can get it back.
pub(crate) async fn is_reserved(core: &Core, email: &EmailAddress) -> Result<bool, UserStoreError> {
    let Some(changes) = &core.email_changes else { return Ok(false) };
    Ok(changes.reserved_for(&*core.users.store, email, core.ambient.now()).await?.is_some())
}

/// Whether a user without a password, from a link or a provider, may have an account. If invitations decide, an invited
/// address counts only if the user has proven that it is theirs. The invitation stays open: its roles and membership are
/// accepted by its own link.
pub(crate) async fn admit_passwordless(
    core: &Arc<Core>,
    email: &EmailAddress,
    proven: bool,
) -> Result<(), RegistrationError> {
    match (core.config.registration, Flow::new(core)) {
        (Registration::Open, _) => Ok(()),
        (Registration::Invite, Some(invitations)) if proven => {
            let invited = invitations.is_invited(email).await?;
            if invited { Ok(()) } else { Err(RegistrationError::Closed) }
        }
        (Registration::Invite | Registration::Closed, _) => Err(RegistrationError::Closed),
    }
}

/// The invitation that a registration with a password accepts, if there is one.
pub(crate) async fn admit(
    core: &Arc<Core>,
    email: &EmailAddress,
    invite: Option<&Secret>,
) -> Result<Option<Invitation>, RegistrationError> {
    let invited_only = match core.config.registration {
        Registration::Closed => return Err(RegistrationError::Closed),
        Registration::Invite => true,
        Registration::Open => false,
    };
    let (Some(token), Some(invitations)) = (invite, Flow::new(core)) else {
        return if invited_only { Err(RegistrationError::Closed) } else { Ok(None) };
    };
    match invitations.find(token).await? {
        Some(invitation) if invitation.email == *email => Ok(Some(invitation)),
        Some(_) if invited_only => Err(RegistrationError::Uninvited),
        Some(_) => Err(RegistrationError::OtherAddress),
        None if invited_only => Err(RegistrationError::Closed),
        None => Err(RegistrationError::UnknownInvitation),
    }
}

impl From<RegistrationError> for Problem {
    fn from(error: RegistrationError) -> Self {
        match error {
            RegistrationError::Closed => problem::registration_closed(),
            RegistrationError::Uninvited => Self::forbidden(error.to_string()).with_code("registration_closed"),
            RegistrationError::UnknownInvitation => problem::invalid_token(),
            RegistrationError::OtherAddress => Self::invalid_field("email", "invalid", error.to_string()),
            RegistrationError::Invitations(error) => error.into(),
        }
    }
}
