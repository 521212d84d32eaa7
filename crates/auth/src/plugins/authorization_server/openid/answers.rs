//! Tokens that were drawn for a client, sealed for a moment, so that two refreshes at once get the same answer.

use std::sync::Arc;

use gatewright_base::{Ambient, Key, Scopes, SealingKey, Secret, TokenId};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use zeroize::Zeroizing;

use super::super::secret::Hash;
use crate::jwt::JwtConfig;
use crate::tokens::Plaintext;

/// Seals and opens them.
#[derive(Clone)]
pub(in super::super) struct Answers(Arc<Vec<SealingKey>>);

/// Tokens that are not stored yet, or whose storing was interrupted.
#[derive(Clone)]
pub(in super::super) struct Drawn {
    pub(in super::super) access: Plaintext,
    /// The id of the access token.
    pub(in super::super) id: TokenId,
    pub(in super::super) refresh: Secret,
    pub(in super::super) id_token: Option<Secret>,
    pub(in super::super) scopes: Scopes,
    pub(in super::super) at: Timestamp,
}

/// The sealed form, in JSON.
#[derive(Serialize, Deserialize)]
struct Sealed<'a> {
    access: &'a str,
    id: TokenId,
    refresh: &'a str,
    id_token: Option<&'a str>,
    scopes: Scopes,
    at: Timestamp,
}

/// Part of the sealed format.
const LABEL: &str = "gatewright/oauth2-answers/v1";

impl Answers {
    /// In dev mode without a secret, they are sealed under a random key.
    pub(in super::super) fn new(config: &JwtConfig, ambient: &Ambient) -> Self {
        let keys: Vec<Key> =
            config.secrets().filter(|secret| !secret.is_empty()).map(|secret| secret.derive_key(LABEL)).collect();
        let keys = if keys.is_empty() { vec![Key::new(ambient.bytes())] } else { keys };
        Self(Arc::new(keys.iter().map(SealingKey::new).collect()))
    }

    /// Seals the answer to a refresh with `token`.
    pub(in super::super) fn seal(&self, drawn: &Drawn, token: &Hash) -> Vec<u8> {
        let sealed = Sealed {
            access: drawn.access.expose(),
            id: drawn.id.clone(),
            refresh: drawn.refresh.expose(),
            id_token: drawn.id_token.as_ref().map(Secret::expose),
            scopes: drawn.scopes.clone(),
            at: drawn.at,
        };
        let text = Zeroizing::new(serde_json::to_vec(&sealed).unwrap_or_default());
        self.0.first().map(|key| key.seal(&text, token.as_bytes())).unwrap_or_default()
    }

    /// `None` if it was sealed under another secret, or for another token.
    pub(in super::super) fn open(&self, sealed: &[u8], token: &Hash) -> Option<Drawn> {
        let text = self.0.iter().find_map(|key| key.open(sealed, token.as_bytes()))?;
        let Sealed { access, id, refresh, id_token, scopes, at } = serde_json::from_slice(&text).ok()?;
        let (refresh, id_token) = (Secret::new(refresh), id_token.map(Secret::new));
        Some(Drawn { access: Plaintext::parse(access)?, id, refresh, id_token, scopes, at })
    }
}
