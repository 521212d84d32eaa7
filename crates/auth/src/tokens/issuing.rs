use gatewright_base::{Subject, TokenId};
use gatewright_db::{Error, Share, Tx};
use jiff::Timestamp;

use super::{Plaintext, StoredToken, TokenDraft, TokenHash, TokenStoreError, Tokens};
use crate::foundation::Foundation;
use crate::open_session::{OpenSession, is_open};
use crate::service_accounts::ServiceAccountStoreError;
use crate::session::Session;
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

/// Draws a token for `owner` and stores it. A token that a session requests is stored only if the session has not ended: a
/// concurrent claim of the account ends its sessions first and revokes its tokens afterwards. `None` if it has ended.
pub(super) async fn issue(
    tools: &Foundation,
    tokens: &Tokens,
    owner: Subject,
    draft: TokenDraft,
    session: Option<&Session>,
) -> Result<Option<Issued>, TokenError> {
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
    let stored = match session {
        None => Some(tokens.store.create(&token, &plaintext.hash(), Some(TokenError::MOST)).await?),
        Some(session) => create_for(tools, session, tokens, &token, &plaintext.hash()).await?,
    };
    match stored {
        Some(true) => Ok(Some(Issued { token, plaintext })),
        Some(false) => Err(TokenError::TooMany),
        None => Ok(None),
    }
}

/// Stores a token of the session's user. `Some(false)` if there are too many, `None` if the session has ended.
async fn create_for(
    tools: &Foundation,
    session: &Session,
    tokens: &Tokens,
    token: &StoredToken,
    hash: &TokenHash,
) -> Result<Option<bool>, TokenError> {
    if let Some(within) = tokens.store.clone().within() {
        let db = within.database().clone();
        let open = OpenSession::of(tools, session, &db);
        if open.is_shared() {
            let (token, hash) = (token.clone(), *hash);
            let create = async move |tx: &Tx| -> Result<Option<bool>, Error> {
                if !open.holds(tx).await? {
                    return Ok(None);
                }
                within.create(tx, &token, &hash, Some(TokenError::MOST)).await.map(Some)
            };
            let share = Share::of_user(&session.user().id);
            return Ok(db.writing_for(share).write(create).await.map_err(TokenStoreError::from)?);
        }
    }
    // Stores of the program's own share no transaction: a token that a concurrent claim has not seen is revoked again.
    let stored = tokens.store.create(token, hash, Some(TokenError::MOST)).await?;
    if stored && !is_open(tools, session).await? {
        tokens.store.revoke(None, &token.id, token.created_at).await?;
        return Ok(None);
    }
    Ok(Some(stored))
}
