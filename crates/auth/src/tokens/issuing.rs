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
    pub const MOST: u32 = 500;
}

/// Draws a token for `owner` and stores it.
pub(super) async fn issue(
    tools: &Foundation,
    tokens: &Tokens,
    owner: Subject,
    draft: TokenDraft,
) -> Result<Issued, TokenError> {
    let now = tools.ambient.now();
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
    let is_stored = tokens.store.create(&token, &plaintext.hash(), Some(TokenError::MOST)).await?;
    if is_stored { Ok(Issued { token, plaintext }) } else { Err(TokenError::TooMany) }
}
