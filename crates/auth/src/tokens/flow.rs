use gatewright_base::{Subject, TokenId};

use super::issuing::{self, Issued, TokenError};
use super::{StoredToken, TokenDraft, Tokens};
use crate::audit::AuditKind;
use crate::core::Core;
use crate::fresh::{self, FreshError};
use crate::session::{Client, Session};
use crate::step_up::{self, StepUpError};
use crate::users::UserStoreError;

/// Why no token was issued.
#[derive(Debug, thiserror::Error)]
pub(crate) enum IssueError {
    #[error(transparent)]
    StepUp(#[from] StepUpError),
    /// A token that may administer needs a young session.
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

    /// Issues a token of the session's user. It outlives the session, so a user with a second factor must have proven
    /// it there. A token that may administer requires a young session in which one was proven, for every user: acts
    /// that need a recent sign-in pass with the token at any time.
    pub(crate) async fn issue(
        &self,
        core: &Core,
        session: &Session,
        draft: TokenDraft,
        client: &Client,
    ) -> Result<Issued, IssueError> {
        step_up::require(core, session).await?;
        if draft.administers() {
            if !session.two_factor_verified() {
                return Err(StepUpError::Required.into());
            }
            if !fresh::is_young(core, session) {
                return Err(FreshError::SessionTooOld.into());
            }
        }
        let issued = issuing::issue(core, self, owner(session), draft).await?;
        // A concurrent proof of the mailbox ends the sessions first and revokes the tokens last. So a token of an earlier
        // session must not be added after that.
        if !self.is_still_good(core, session).await? {
            self.store.revoke(None, &issued.token.id, core.ambient.now()).await.map_err(TokenError::from)?;
            return Err(IssueError::SessionEnded);
        }
        let event = core.audit.event(AuditKind::TokenCreated).user(&session.user().id).remote(client.address());
        let event = event.with("token", issued.token.prefix.as_str()).with("name", issued.token.name.as_str());
        core.audit.record(event).await;
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

    async fn is_still_good(&self, core: &Core, session: &Session) -> Result<bool, TokenError> {
        match core.users.store.find_by_id(&session.user().id).await {
            Ok(user) => Ok(!user.disabled && user.accepts_session_from(session.started_at())),
            Err(UserStoreError::NotFound) => Ok(false),
            Err(error) => Err(error.into()),
        }
    }
}

fn owner(session: &Session) -> Subject {
    Subject::User(session.user().id.clone())
}
