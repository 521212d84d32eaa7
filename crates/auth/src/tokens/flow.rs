use gatewright_base::{Subject, TokenId};

use super::issuing::{self, Issued, TokenError};
use super::{StoredToken, TokenDraft, Tokens};
use crate::audit::AuditKind;
use crate::core::Core;
use crate::fresh::{Fresh, FreshError, Given};
use crate::mail::Notice;
use crate::session::{Client, Session};
use crate::step_up::{self, StepUpError};

/// Why no token was issued.
#[derive(Debug, thiserror::Error)]
pub(crate) enum IssueError {
    #[error(transparent)]
    StepUp(#[from] StepUpError),
    /// The session is too old, or the given proof is wrong.
    #[error(transparent)]
    Fresh(#[from] FreshError),
    /// The requesting session has ended in between.
    #[error("the session has ended")]
    SessionEnded,
    #[error(transparent)]
    Token(#[from] TokenError),
}

impl Tokens {
    /// The tokens of the session's user that are not revoked, the newest first.
    pub(crate) async fn list(&self, session: &Session) -> Result<Vec<StoredToken>, TokenError> {
        let mut tokens = self.store.list(Some(&owner(session))).await?;
        self.uses.overlay(&mut tokens);
        Ok(tokens)
    }

    /// Issues a token of the session's user. It outlives the session, so it needs a young one or a fresh proof, and a user
    /// with a second factor must have proven it there. A token that may administer needs a proven one from every user: acts
    /// that need a recent sign-in pass with the token at any time.
    pub(crate) async fn issue(
        &self,
        fresh: &Fresh,
        session: &Session,
        draft: TokenDraft,
        given: &Given,
        client: &Client,
    ) -> Result<Issued, IssueError> {
        let core = fresh.core();
        step_up::require(core, session).await?;
        if draft.administers() && !session.two_factor_verified() {
            return Err(StepUpError::Required.into());
        }
        fresh.require_unless_young(session, given, client, "a new API token").await?;
        let issued = issuing::issue(core, self, owner(session), draft, Some(session)).await?;
        let issued = issued.ok_or(IssueError::SessionEnded)?;
        let event = core.audit.event(AuditKind::TokenCreated).user(&session.user().id).remote(client.address());
        let event = event.with("token", issued.token.prefix.as_str()).with("name", issued.token.name.as_str());
        if let Err(unstored) = core.audit.store(event).await {
            // Nobody has its text. If it cannot be revoked, it is of no use either.
            let revoked = self.store.revoke(None, &issued.token.id, core.ambient.now()).await;
            if let Err(error) = revoked {
                tracing::warn!(%error, "a token that nobody has stays valid");
            }
            return Err(TokenError::Users(unstored.into()).into());
        }
        core.notify(session.user(), Notice::TokenCreated).await;
        Ok(issued)
    }

    /// Revokes a token of the session's user; `false` if it is not theirs, or revoked already.
    pub(crate) async fn revoke(
        &self,
        core: &Core,
        session: &Session,
        id: &TokenId,
        client: &Client,
    ) -> Result<bool, TokenError> {
        let revoked = self.store.revoke(Some(&owner(session)), id, core.ambient.now()).await?;
        if revoked {
            let event = core.audit.event(AuditKind::TokenRevoked).user(&session.user().id).remote(client.address());
            core.audit.record(event.with("token_id", id.as_str())).await;
        }
        Ok(revoked)
    }
}

fn owner(session: &Session) -> Subject {
    Subject::User(session.user().id.clone())
}
