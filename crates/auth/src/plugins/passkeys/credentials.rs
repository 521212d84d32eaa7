use std::sync::Arc;

use async_trait::async_trait;
use gatewright_base::{UserId, time};
use gatewright_db::{Db, Error, Tx};
use jiff::Timestamp;
use serde_json::{Value, json};

use super::{Passkey, PasskeyStore, PasskeysWithin};
use crate::credentials::Credentials;
use crate::plugins::account_export::moment;
use crate::sign_in_methods::SignInCredential;
use crate::users::BoxError;

/// The passkeys in the form that other parts use: credentials that are removed when an account is claimed or deleted,
/// and a way to sign in.
pub(super) struct OfUsers {
    store: Arc<dyn PasskeyStore>,
    within: Option<Arc<dyn PasskeysWithin>>,
    /// Whether people can sign in with them.
    usable: bool,
}

impl OfUsers {
    pub(super) fn new(store: Arc<dyn PasskeyStore>, usable: bool) -> Self {
        Self { within: store.clone().within(), store, usable }
    }
}

#[async_trait]
impl Credentials for OfUsers {
    fn name(&self) -> &'static str {
        "passkeys"
    }

    async fn drop_since(&self, user: &UserId, since: Timestamp) -> Result<u64, BoxError> {
        Ok(self.store.remove_all(user, Some(since)).await?)
    }

    async fn added_since(&self, user: &UserId, since: Timestamp) -> Result<Vec<String>, BoxError> {
        let passkeys = self.store.list(user).await?;
        let added = passkeys.iter().filter(|passkey| passkey.created_at >= since);
        Ok(added.map(|passkey| passkey.name.to_string()).collect())
    }

    async fn drop_all(&self, user: &UserId) -> Result<u64, BoxError> {
        Ok(self.store.remove_all(user, None).await?)
    }

    async fn describe(&self, user: &UserId) -> Result<Vec<Value>, BoxError> {
        let passkey = |passkey: &Passkey| {
            json!({
                "id": passkey.id,
                "name": passkey.name.to_string(),
                "backed_up": passkey.backed_up,
                "created_at": time::format(passkey.created_at),
                "last_used_at": moment(passkey.last_used_at),
            })
        };
        Ok(self.store.list(user).await?.iter().map(passkey).collect())
    }
}

#[async_trait]
impl SignInCredential for OfUsers {
    async fn usable(&self, user: &UserId) -> Result<u64, BoxError> {
        let count = if self.usable { self.store.list(user).await?.len() } else { 0 };
        Ok(u64::try_from(count)?)
    }

    fn database(&self) -> Option<&Db> {
        self.within.as_ref().map(|within| within.database())
    }

    async fn usable_within(&self, tx: &Tx, user: &UserId) -> Result<u64, Error> {
        match &self.within {
            Some(within) if self.usable => within.count(tx, user).await,
            Some(_) | None => Ok(0),
        }
    }
}
