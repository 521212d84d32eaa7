use std::sync::Arc;

use jiff::Timestamp;

use super::{JwtAlgorithm, KeyError, Keys};
use crate::jwt::Jwts;
use crate::jwt::id_tokens::IdTokens;

/// The signers of JWTs, for trusted server code. From [`Auth::signing_keys`](crate::Auth::signing_keys).
#[derive(Clone)]
pub struct SigningKeys(Arc<Jwts>);

/// One signer in a list. Signers of JWTs come first.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ListedKey {
    /// The name of the key in headers of tokens and in the published set; absent for the secret of HS256.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kid: Option<String>,
    /// `HS256`, `ES256`, `EdDSA` or `RS256`.
    pub algorithm: &'static str,
    /// Whether it signs `id_token`s for other programs instead of JWTs.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub id_tokens: bool,
    /// What it does now.
    pub state: KeyState,
    /// When it was added.
    pub created_at: Timestamp,
    /// When it began to sign, or will.
    pub signs_from: Timestamp,
    /// When its last token expires; absent while it is the last signer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub accepted_until: Option<Timestamp>,
}

/// What a signer does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub enum KeyState {
    /// It is published, and will sign.
    Waiting,
    /// It signs new tokens.
    Signing,
    /// It signs no more; its tokens are accepted.
    Verifying,
    /// Its tokens have expired.
    Expired,
}

/// No key was added.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RotateError {
    /// The signer is the secret of HS256: change it in the configuration.
    #[error(
        "JWTs are signed with the secret (HS256): there is no key to rotate; change `auth.jwt_secret`, or set `auth.jwt_algorithm`"
    )]
    Secret,
    /// The keys come from files.
    #[error("the keys come from `auth.keys.files`: add the new file behind the first one, and put it first later")]
    Files,
    /// A key waits already.
    #[error("the key {kid} is published and signs from {signs_from} on; rotate again after that")]
    Waiting {
        /// Its name.
        kid: String,
        /// When it begins.
        signs_from: Timestamp,
    },
    /// Another server has just added a key.
    #[error("another server has just added a key")]
    Concurrent,
    /// The table could not be read or written.
    #[error(transparent)]
    Keys(#[from] KeyError),
}

impl SigningKeys {
    pub(crate) fn new(jwts: Arc<Jwts>) -> Self {
        Self(jwts)
    }

    /// All signers, in the order in which they sign, those of each kind of token together.
    pub async fn list(&self) -> Result<Vec<ListedKey>, KeyError> {
        let mut listed = Vec::new();
        for (keys, id_tokens) in self.all() {
            listed.extend(self.listed(keys, id_tokens).await?);
        }
        Ok(listed)
    }

    fn all(&self) -> impl Iterator<Item = (&Keys, bool)> {
        let others = self.0.id_tokens().into_iter().flat_map(IdTokens::all);
        std::iter::once((&self.0.keys, false)).chain(others.map(|keys| (keys, true)))
    }

    async fn listed(&self, keys: &Keys, id_tokens: bool) -> Result<Vec<ListedKey>, KeyError> {
        keys.read().await?;
        let (schedule, now) = (keys.schedule(), self.0.now());
        let signing = schedule.entries.iter().rposition(|entry| entry.signs_from <= now);
        let listed = schedule.entries.iter().enumerate().map(|(index, entry)| {
            let accepted_until = schedule.last_token(index);
            let state = match signing {
                Some(signing) if index == signing => KeyState::Signing,
                _ if entry.signs_from > now => KeyState::Waiting,
                _ if accepted_until.is_none_or(|last| now < last) => KeyState::Verifying,
                _ => KeyState::Expired,
            };
            ListedKey {
                kid: entry.key.as_ref().map(|key| key.kid.clone()),
                algorithm: entry.key.as_ref().map_or(JwtAlgorithm::Hs256, |key| key.public.algorithm()).as_str(),
                id_tokens,
                state,
                created_at: entry.created_at,
                signs_from: entry.signs_from,
                accepted_until,
            }
        });
        Ok(listed.collect())
    }

    /// Adds a key for each kind of token that has keys which the server makes. A new key is published at once, and signs when
    /// every verifier has it. Returns the list.
    pub async fn rotate(&self) -> Result<Vec<ListedKey>, RotateError> {
        let mut due = Vec::new();
        let mut refused = None;
        for (keys, id_tokens) in self.all() {
            match self.listed(keys, id_tokens).await?.last() {
                _ if keys.has_files() => refused = Some(RotateError::Files),
                Some(ListedKey { kid: Some(kid), state: KeyState::Waiting, signs_from, .. }) => {
                    return Err(RotateError::Waiting { kid: kid.clone(), signs_from: *signs_from });
                }
                Some(ListedKey { kid: Some(_), .. }) => due.push(keys),
                _ => refused = refused.or(Some(RotateError::Secret)),
            }
        }
        if let Some(refused) = refused.filter(|_| due.is_empty()) {
            return Err(refused);
        }
        let mut added = false;
        for keys in due {
            added |= keys.rotate().await?;
        }
        if added { Ok(self.list().await?) } else { Err(RotateError::Concurrent) }
    }
}

impl std::fmt::Debug for SigningKeys {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SigningKeys").finish_non_exhaustive()
    }
}
