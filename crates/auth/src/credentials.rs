use async_trait::async_trait;
use gatewright_base::UserId;
use jiff::Timestamp;
use serde::Serialize;

use crate::core::Core;
use crate::users::{BoxError, Sessions};

/// A kind of credential that a plugin stores. A claim of the account removes them.
#[async_trait]
pub trait Credentials: Send + Sync + 'static {
    /// Its name in the audit event: `api_tokens`.
    fn name(&self) -> &'static str;

    /// Whether they end when an operator disables the account. Others are refused until it is enabled again.
    fn ends_when_disabled(&self) -> bool {
        false
    }

    /// Removes the credentials that were added at or after `since`, because another person may have added them, and
    /// returns how many there were. A kind without such times removes all.
    async fn drop_since(&self, user: &UserId, since: Timestamp) -> Result<u64, BoxError> {
        let _ = since;
        self.drop_all(user).await
    }

    /// The names of the credentials that [`drop_since`](Self::drop_since) would remove, for the mail to the owner.
    async fn added_since(&self, user: &UserId, since: Timestamp) -> Result<Vec<String>, BoxError> {
        let _ = since;
        let name = |credential: &serde_json::Value| {
            let keys = ["name", "provider", "id"].into_iter();
            keys.filter_map(|key| credential.get(key)?.as_str()).find(|name| !name.is_empty()).unwrap_or("-").to_owned()
        };
        Ok(self.describe(user).await?.iter().map(name).collect())
    }

    /// Removes all credentials of this user, and returns how many there were.
    async fn drop_all(&self, user: &UserId) -> Result<u64, BoxError>;

    /// The credentials as JSON for the export of a user's account, without secrets. Keys are in snake case.
    async fn describe(&self, user: &UserId) -> Result<Vec<serde_json::Value>, BoxError> {
        let _ = user;
        Ok(Vec::new())
    }

    /// Whether an export lists them under their name. If not, another part of the export has them.
    fn is_exported(&self) -> bool {
        true
    }

    /// What a page that asks whether to end the credentials calls them. By default the names in [`describe`](Self::describe).
    async fn names(&self, user: &UserId) -> Result<Vec<String>, BoxError> {
        let name = |one: &serde_json::Value| {
            let name = one.get("provider").or_else(|| one.get("name")).and_then(serde_json::Value::as_str);
            name.unwrap_or_default().to_owned()
        };
        Ok(self.describe(user).await?.iter().map(name).collect())
    }

    /// Removes all data about a user whose account is deleted, including expired and revoked credentials.
    async fn forget(&self, user: &UserId) -> Result<(), BoxError> {
        self.drop_all(user).await.map(|_| ())
    }
}

/// The credentials of one kind that an account has.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct Held {
    /// The kind: `api_tokens`.
    pub(crate) kind: &'static str,
    /// The key of its name in texts, if it is one of this crate's.
    pub(crate) heading: Option<&'static str>,
    /// What they are called.
    pub(crate) names: Vec<String>,
}

/// The account's credentials, besides its password and its second factor.
pub(crate) async fn of(core: &Core, user: &UserId) -> Result<Vec<Held>, BoxError> {
    let mut all = Vec::new();
    for kind in &core.credentials {
        let names = kind.names(user).await?;
        if !names.is_empty() {
            all.push(Held { kind: kind.name(), heading: heading(kind.name()), names });
        }
    }
    Ok(all)
}

/// Ends all of them, after a new password was set and earlier sessions were refused. Returns the kinds that there were.
///
/// Until a passkey or a link is removed, its holder may still sign in, and create others. So the sessions are refused once
/// more, and what was created in them is ended too.
pub(crate) async fn end(core: &Core, user: &UserId) -> Result<Vec<&'static str>, BoxError> {
    let mut ended = Vec::new();
    for kind in &core.credentials {
        if kind.drop_all(user).await? > 0 {
            ended.push(kind.name());
        }
    }
    if ended.is_empty() {
        return Ok(ended);
    }
    if let Some(sign_out) = &core.users.sign_out {
        sign_out.refuse_until(user, core.ambient.now(), Sessions::End).await?;
    }
    core.sessions.remove_all(user, None).await?;
    for kind in &core.credentials {
        kind.drop_all(user).await?;
    }
    Ok(ended)
}

fn heading(kind: &str) -> Option<&'static str> {
    match kind {
        "api_tokens" => Some("reset.api_tokens"),
        "connected_programs" => Some("reset.connected_programs"),
        "passkeys" => Some("reset.passkeys"),
        "provider_links" => Some("reset.provider_links"),
        "sent_invitations" => Some("reset.sent_invitations"),
        _ => None,
    }
}
