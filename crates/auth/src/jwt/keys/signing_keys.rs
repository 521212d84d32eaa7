use std::sync::Arc;

use jiff::Timestamp;

use super::{JwtAlgorithm, KeyError};
use crate::jwt::Jwts;

/// The signers of JWTs, for trusted server code. From [`Auth::signing_keys`](crate::Auth::signing_keys).
#[derive(Clone)]
pub struct SigningKeys(Arc<Jwts>);

/// One signer in a list.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ListedKey {
    /// The name of the key in headers of tokens and in the published set; absent for the secret of HS256.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kid: Option<String>,
    /// `HS256`, `ES256`, `EdDSA` or `RS256`.
    pub algorithm: &'static str,
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

    /// All signers, in the order in which they sign.
    pub async fn list(&self) -> Result<Vec<ListedKey>, KeyError> {
        self.0.keys.read().await?;
        let (schedule, now) = (self.0.keys.schedule(), self.0.now());
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
                state,
                created_at: entry.created_at,
                signs_from: entry.signs_from,
                accepted_until,
            }
        });
        Ok(listed.collect())
    }

    /// Adds a key. It is published at once, and signs when every verifier has it. Returns the list.
    pub async fn rotate(&self) -> Result<Vec<ListedKey>, RotateError> {
        let listed = self.list().await?;
        if self.0.keys.has_files() {
            return Err(RotateError::Files);
        }
        match listed.last() {
            Some(ListedKey { kid: Some(kid), state: KeyState::Waiting, signs_from, .. }) => {
                return Err(RotateError::Waiting { kid: kid.clone(), signs_from: *signs_from });
            }
            Some(ListedKey { kid: Some(_), .. }) => {}
            _ => return Err(RotateError::Secret),
        }
        if self.0.keys.rotate().await? { Ok(self.list().await?) } else { Err(RotateError::Concurrent) }
    }
}

impl std::fmt::Debug for SigningKeys {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SigningKeys").finish_non_exhaustive()
    }
}
