use gatewright_base::{Subject, TokenId};
use jiff::Timestamp;

use super::{Plaintext, StoredToken, TokenDraft, TokenStoreError, Tokens};
use crate::foundation::Foundation;
use crate::service_accounts::ServiceAccountStoreError;
use crate::users::UserStoreError;

/// A new token with its plaintext, which is not stored.
#[derive(Debug)]
pub struct Issued {
    /// The stored token.
    pub token: StoredToken,
    /// The text that its holder sends. It cannot be shown again.
    pub plaintext: Plaintext,
}

/// Why a token was not issued, listed or revoked.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TokenError {
    /// Its owner has [`TokenError::MOST`] already.
    #[error("an owner has at most {} API tokens; revoke one first", TokenError::MOST)]
    TooMany,
    /// The owner does not exist.
    #[error("the token's owner does not exist")]
    OwnerMissing,
    /// The store of tokens failed.
    #[error(transparent)]
    Tokens(#[from] TokenStoreError),
    /// The user store failed.
    #[error(transparent)]
    Users(#[from] UserStoreError),
    /// The store of service accounts failed.
    #[error(transparent)]
    Services(#[from] ServiceAccountStoreError),
}

impl TokenError {
    /// The most tokens that an owner may have, because lists are not paged. When the limit is reached, expired tokens
    /// are revoked to make room.
    pub const MOST: usize = 500;
}

/// Checks whether `owner` may have one more. Expired tokens do not count: a program that creates a short-lived one every
/// hour never has to clean up.
async fn make_room(tokens: &Tokens, owner: &Subject, now: Timestamp) -> Result<(), TokenError> {
    let kept = tokens.store.list(Some(owner)).await?;
    if kept.len() < TokenError::MOST {
        return Ok(());
    }
    let ended: Vec<_> = kept.iter().filter(|token| token.is_expired(now)).collect();
    for token in &ended {
        tokens.store.revoke(Some(owner), &token.id, now).await?;
    }
    if ended.is_empty() { Err(TokenError::TooMany) } else { Ok(()) }
}

/// Draws a token for `owner` and stores it.
pub(super) async fn issue(
    tools: &Foundation,
    tokens: &Tokens,
    owner: Subject,
    draft: TokenDraft,
) -> Result<Issued, TokenError> {
    let now = tools.ambient.now();
    make_room(tokens, &owner, now).await?;
    let plaintext = Plaintext::generate(&tools.ambient);
    let token = StoredToken {
        id: TokenId::generate(&tools.ambient),
        name: draft.name.as_str().to_owned(),
        prefix: plaintext.prefix(),
        owner,
        scopes: draft.scopes,
        created_at: now,
        expires_at: draft.ttl.map(|ttl| now.checked_add(ttl).unwrap_or(Timestamp::MAX)),
        last_used_at: None,
        revoked_at: None,
        delegation: None,
    };
    tokens.store.create(&token, &plaintext.hash()).await?;
    Ok(Issued { token, plaintext })
}
