use std::sync::Arc;

use gatewright_base::{Subject, TokenId};

use super::issuing::{self, Issued, TokenError};
use super::{StoredToken, TokenDraft, Tokens};
use crate::audit::AuditKind;
use crate::core::Core;
use crate::users::UserStoreError;

/// Management of API tokens for trusted server code: a command line, a host's own program. No route calls it. From
/// [`Auth::api_tokens`](crate::Auth::api_tokens).
#[derive(Clone)]
pub struct ApiTokens {
    core: Arc<Core>,
    tokens: Tokens,
}

impl ApiTokens {
    pub(crate) fn new(core: Arc<Core>) -> Option<Self> {
        let tokens = core.tokens.clone()?;
        Some(Self { core, tokens })
    }

    /// Issues a token for an existing user or service account, even if it is disabled. It is not audited.
    pub async fn issue(&self, owner: Subject, draft: TokenDraft) -> Result<Issued, TokenError> {
        let there = match &owner {
            Subject::User(id) => match self.core.users.store.find_by_id(id).await {
                Ok(_) => true,
                Err(UserStoreError::NotFound) => false,
                Err(error) => return Err(error.into()),
            },
            Subject::Service(id) => self.tokens.services.find(id).await?.is_some(),
        };
        if !there {
            return Err(TokenError::OwnerMissing);
        }
        let issued = issuing::issue(&self.core, &self.tokens, owner, draft, None).await?;
        issued.ok_or(TokenError::OwnerMissing)
    }

    /// The tokens that are not revoked, the newest first: those of `owner` or, without one, all.
    pub async fn list(&self, owner: Option<&Subject>) -> Result<Vec<StoredToken>, TokenError> {
        let mut tokens = self.tokens.store.list(owner).await?;
        self.tokens.uses.overlay(&mut tokens);
        Ok(tokens)
    }

    /// Revokes a token of any owner; `false` if there is none, or it is revoked already.
    pub async fn revoke(&self, id: &TokenId) -> Result<bool, TokenError> {
        let revoked = self.tokens.store.revoke(None, id, self.core.ambient.now()).await?;
        if revoked {
            let event = self.core.audit.event(AuditKind::TokenRevoked).with("token_id", id.as_str());
            self.core.audit.record(event.with("reason", "revoked by an operator")).await;
        }
        Ok(revoked)
    }
}

impl std::fmt::Debug for ApiTokens {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ApiTokens").finish_non_exhaustive()
    }
}
