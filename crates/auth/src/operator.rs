//! Operators' access to accounts, for trusted server code that has checked the caller.

use std::collections::BTreeMap;

use gatewright_base::{SessionId, UserId};
use gatewright_tenancy::TenantOfUser;
use serde_json::{Map, Value};

use crate::accounts::{AccountError, Accounts};
use crate::audit::AuditKind;
use crate::core::Core;
use crate::email::EmailAddress;
use crate::session::StoredSession;
use crate::session_limit;
use crate::users::{self, AccountDates, FoundUser, SearchUsers, UserStoreError};

/// The limiters that count attempts on one account: those by its address, by its id, and by its known devices. Those of
/// [`session_limit`] count by its id and by its sessions.
const BY_EMAIL: [&str; 1] = ["login_account"];
const BY_ID: [&str; 1] = ["twofa_account"];
const BY_DEVICE: [&str; 2] = ["login_device", "twofa_device"];

impl Accounts {
    /// The accounts whose address begins with a text, ordered by address.
    pub async fn search(&self, search: &SearchUsers) -> Result<Vec<FoundUser>, AccountError> {
        let lister = self.core().users.lister.as_ref().ok_or(AccountError::ListUsersUnsupported)?;
        Ok(lister.search(search).await?)
    }

    /// The account with this id, with the time of its creation.
    pub async fn look_up(&self, id: &UserId) -> Result<FoundUser, AccountError> {
        let lister = self.core().users.lister.as_ref().ok_or(AccountError::ListUsersUnsupported)?;
        Ok(lister.find(id).await?)
    }

    /// When these accounts were created, disabled, and signed in last. Empty without a database.
    pub async fn dates(&self, ids: &[UserId]) -> Result<BTreeMap<UserId, AccountDates>, AccountError> {
        match &self.core().db {
            Some(db) => Ok(users::dates(db, ids).await.map_err(UserStoreError::transport)?),
            None => Ok(BTreeMap::new()),
        }
    }

    /// The tenants of an account; empty without tenants.
    pub async fn tenants(&self, id: &UserId) -> Result<Vec<TenantOfUser>, AccountError> {
        match &self.core().tenants {
            Some(tenants) => tenants.tenants_of(id).await.map_err(AccountError::Tenants),
            None => Ok(Vec::new()),
        }
    }

    /// The profile of an account in the form that its owner sees; `None` if no fields are declared.
    pub async fn profile(&self, id: &UserId) -> Result<Option<Map<String, Value>>, AccountError> {
        match &self.core().profiles {
            Some(profiles) => Ok(Some(profiles.of(id).await?)),
            None => Ok(None),
        }
    }

    /// Whether an account has an enabled second factor.
    pub async fn has_second_factor(&self, id: &UserId) -> Result<bool, AccountError> {
        self.core().mint.has_second_factor(id).await.map_err(AccountError::SecondFactor)
    }

    /// The sessions of an account that have not expired, most recently used first.
    pub async fn sessions(&self, id: &UserId) -> Result<Vec<StoredSession>, AccountError> {
        let core = self.core();
        let user = core.users.store.find_by_id(id).await?;
        let now = core.ambient.now();
        let mut sessions = core.sessions.list(id).await?;
        sessions.retain(|session| session.expires_at > now && user.accepts_session_from(session.started_at));
        Ok(sessions)
    }

    /// Ends one session of an account; `false` if there is none with this id.
    pub async fn end_session(&self, id: &UserId, session: &SessionId) -> Result<bool, AccountError> {
        let core = self.core();
        let ended = core.sessions.remove(id, session).await?;
        if ended {
            let event = core.audit.event(AuditKind::SessionRevoked).user(id).with("session", session.as_str());
            core.audit.record(event.with("reason", "ended by an operator")).await;
        }
        Ok(ended)
    }

    /// Resets the failed attempts on an account, so that its owner can try again. Limits on addresses stay.
    pub async fn unlock(&self, id: &UserId) -> Result<(), AccountError> {
        let core = self.core();
        let user = core.users.store.find_by_id(id).await?;
        core.forget_attempts(id, &user.email).await
    }
}

impl Core {
    /// Forgets the attempts on an account.
    pub(crate) async fn forget_attempts(&self, id: &UserId, email: &EmailAddress) -> Result<(), AccountError> {
        let by_email = BY_EMAIL.map(|scope| (scope, email.as_str()));
        let by_id = BY_ID.map(|scope| (scope, id.as_str()));
        let devices = match &self.devices {
            Some(devices) => devices.list(id).await?.iter().map(|device| device.id.to_string()).collect(),
            None => Vec::new(),
        };
        let of_account = session_limit::ALL.map(|scopes| (scopes.account, id.as_str()));
        let sessions = self.sessions.list(id).await?;
        let by_session =
            sessions.iter().flat_map(|session| session_limit::ALL.map(|scopes| (scopes.session, session.id.as_str())));
        let by_device = devices.iter().flat_map(|device| BY_DEVICE.map(|scope| (scope, device.as_str())));
        let lockouts = self.lockouts();
        for (scope, key) in by_email.into_iter().chain(by_id).chain(of_account).chain(by_session).chain(by_device) {
            lockouts.unlock(scope, key).await.map_err(AccountError::Lockouts)?;
        }
        Ok(())
    }
}
