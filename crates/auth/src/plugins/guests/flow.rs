use std::sync::Arc;

use crate::audit::AuditKind;
use crate::core::Core;
use crate::session::{AnySession, Client, MintError, Proof, Session, SessionSecret, SessionStoreError};
use crate::users::UserStoreError;

/// Creates guests.
pub(super) struct Flow {
    pub(super) core: Arc<Core>,
}

/// A guest who is signed in.
pub(super) struct Arrived {
    pub(super) proof: Proof,
    pub(super) session: Session,
    pub(super) secret: SessionSecret,
    /// Whether the guest existed before.
    pub(super) is_known: bool,
}

/// Why nobody became a guest.
#[derive(Debug, thiserror::Error)]
pub(super) enum GuestError {
    /// The browser has a session of a full account.
    #[error("sign out first: this session belongs to an account")]
    SignedIn,
    #[error(transparent)]
    Users(#[from] UserStoreError),
    #[error(transparent)]
    Mint(#[from] MintError),
}

impl Flow {
    /// Creates a guest and signs it in. A browser with a session of a guest stays that guest and gets a new session.
    pub(super) async fn arrive(&self, session: Option<&AnySession>, client: &Client) -> Result<Arrived, GuestError> {
        let core = &self.core;
        match session {
            None => {}
            Some(AnySession::Full(session)) if session.user().is_guest() && session.impersonated_by().is_none() => {
                let proof = Proof::new(session.user().clone(), core.ambient.now());
                let (session, secret) = core.mint.renew_guest(session, &proof, client.clone()).await?;
                return Ok(Arrived { proof, session, secret, is_known: true });
            }
            Some(AnySession::Full(_) | AnySession::Pending(_)) => return Err(GuestError::SignedIn),
        }
        let store = core.users.guests.as_ref().ok_or(UserStoreError::NotFound)?;
        let at = core.ambient.now();
        let user = store.create_guest(&core.config.default_roles).await?;
        let event = core.audit.event(AuditKind::RegisterSucceeded).user(&user.id).remote(client.address());
        core.audit.record(event.with("method", "guest")).await;
        let proof = Proof::new(user, at);
        let (session, secret) = core.mint.mint_guest(&proof, client.clone()).await?;
        let event = core.audit.event(AuditKind::LoginSucceeded).user(&proof.user().id).remote(client.address());
        if let Err(unstored) = core.audit.store(event.with("method", "guest")).await {
            if let Err(error) = core.sessions.remove(&proof.user().id, session.id()).await {
                tracing::warn!(%error, "the session of a refused guest stays until it expires");
            }
            return Err(MintError::from(SessionStoreError::new(unstored)).into());
        }
        Ok(Arrived { proof, session, secret, is_known: false })
    }
}
