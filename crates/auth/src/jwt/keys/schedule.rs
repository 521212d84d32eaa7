//! Which key signs when, and until when its tokens are accepted.

use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use serde_json::Value;

use super::pair::Pair;
use super::{JwtAlgorithm, PublicKey};
use crate::jwt::claims::Claims;

/// One signer: a key pair, or the secret of HS256.
pub(super) struct Entry {
    /// The row's id.
    pub(super) id: String,
    pub(super) created_at: Timestamp,
    /// It signs from then on, until the next one does.
    pub(super) signs_from: Timestamp,
    /// The longest lifetime of its tokens.
    pub(super) lifetime: SignedDuration,
    /// `None`: the secret.
    pub(super) key: Option<Key>,
}

/// A key pair of which this server may know the public key alone.
pub(super) struct Key {
    pub(super) kid: String,
    pub(super) public: PublicKey,
    pub(super) pair: Option<Arc<Pair>>,
}

/// The signers in the order in which they sign.
#[derive(Default)]
pub(in crate::jwt) struct Schedule {
    pub(super) entries: Vec<Entry>,
    /// Keys of the configured files that never sign here: those of other servers, and earlier ones.
    pub(super) beside: Vec<Key>,
}

/// What signs now.
pub(in crate::jwt) enum Signer<'a> {
    Secret,
    Pair(&'a str, JwtAlgorithm, &'a Pair),
}

impl Schedule {
    /// The last signer whose time has come, among those that this server can sign with. Without one, the first that it
    /// can sign with.
    pub(in crate::jwt) fn signer(&self, now: Timestamp) -> Option<Signer<'_>> {
        let usable = |entry: &&Entry| entry.key.as_ref().is_none_or(|key| key.pair.is_some());
        let present = self.entries.iter().filter(|entry| entry.signs_from <= now).rfind(usable);
        let entry = present.or_else(|| self.entries.iter().find(usable))?;
        Some(match &entry.key {
            None => Signer::Secret,
            Some(Key { kid, public, pair }) => Signer::Pair(kid, public.algorithm(), pair.as_deref()?),
        })
    }

    /// When another one takes over, and the longest lifetime of a token of this one.
    fn end(&self, index: usize) -> Option<(Timestamp, Timestamp)> {
        let end = self.entries.get(index + 1)?.signs_from;
        let lifetime = self.entries.get(index)?.lifetime;
        Some((end, end.checked_add(lifetime).unwrap_or(Timestamp::MAX)))
    }

    /// When the last token of an entry expires; `None` if it is the last entry.
    pub(super) fn last_token(&self, index: usize) -> Option<Timestamp> {
        self.end(index).map(|(_, last)| last)
    }

    /// The key with this name, if its tokens are accepted.
    pub(in crate::jwt) fn find(&self, kid: &str, now: Timestamp) -> Option<&PublicKey> {
        self.accepted(now).find(|key| key.kid == kid).map(|key| &key.public)
    }

    /// The keys whose tokens are accepted, and those that will sign.
    pub(super) fn accepted(&self, now: Timestamp) -> impl Iterator<Item = &Key> {
        let entries = self.entries.iter().enumerate();
        let live = entries.filter(move |(index, _)| self.last_token(*index).is_none_or(|last| now < last));
        live.filter_map(|(_, entry)| entry.key.as_ref()).chain(&self.beside)
    }

    /// The set of keys, each once; `None` if there is none.
    pub(in crate::jwt) fn published(&self, now: Timestamp) -> Option<Vec<Value>> {
        let mut seen: Vec<&str> = Vec::new();
        let mut keys = Vec::new();
        for key in self.accepted(now) {
            if !seen.contains(&key.kid.as_str()) {
                seen.push(&key.kid);
                keys.push(key.public.jwk());
            }
        }
        (!keys.is_empty()).then_some(keys)
    }

    /// Whether a token that the secret signed is accepted: it signs, or it did when the token was issued, and the last of
    /// its tokens has not expired.
    pub(in crate::jwt) fn accepts_secret(&self, claims: &Claims, now: Timestamp) -> bool {
        if self.entries.is_empty() {
            return true;
        }
        let of_secret = self.entries.iter().enumerate().filter(|(_, entry)| entry.key.is_none());
        of_secret.into_iter().any(|(index, _)| {
            self.end(index)
                .is_none_or(|(end, last)| claims.issued_at() <= end && claims.expires_at() <= last && now < last)
        })
    }
}
