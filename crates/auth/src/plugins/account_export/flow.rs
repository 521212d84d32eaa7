use std::collections::HashMap;
use std::sync::Arc;

use gatewright_base::{UserId, time};
use gatewright_http::{ClientAddr, Counted};
use gatewright_tenancy::TenantStoreError;
use jiff::Timestamp;
use parking_lot::Mutex;
use serde_json::{Map, Value, json};

use crate::core::Core;
use crate::devices::StoredDevice;
use crate::fresh::{Fresh, FreshError, Given};
use crate::invitations::Invitation;
use crate::open_session::holds_now;
use crate::session::{Client, Session, SessionStoreError, StoredSession};
use crate::users::{BoxError, UserStoreError};

/// Creates copies of an account's data.
pub(crate) struct Flow {
    pub(crate) core: Arc<Core>,
    fresh: Fresh,
    running: Running,
}

/// The accounts that are being exported by this server, and for whom: the share that a client address has.
#[derive(Clone, Default)]
pub(crate) struct Running(Arc<Mutex<HashMap<UserId, Option<String>>>>);

/// An account's place among them, until it is dropped.
pub(super) struct Turn {
    running: Running,
    user: UserId,
}

/// Exports at a time. Each keeps about 1 MB.
const MOST: usize = 32;
/// Limit for one client address, so that one client cannot use all places.
const MAX_PER_ADDRESS: usize = 4;

/// The part of an export that is known when it begins.
pub(crate) struct Export {
    pub(super) user: UserId,
    pub(super) head: Map<String, Value>,
    /// Its keys are spelled already.
    pub(super) profile: Option<Map<String, Value>>,
    /// Whether it has the records of others that name the account.
    pub(super) has_naming: bool,
    pub(super) turn: Turn,
}

/// Why nothing is exported.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ExportError {
    #[error(transparent)]
    Fresh(#[from] FreshError),
    /// This account is being exported.
    #[error("an export of this account is under way; wait for its end")]
    UnderWay,
    /// The limit of exports is reached.
    #[error("too many exports are under way; try again in a minute")]
    Busy,
    #[error(transparent)]
    Users(#[from] UserStoreError),
    #[error(transparent)]
    Sessions(#[from] SessionStoreError),
    #[error("the tenants cannot be read: {0}")]
    Tenants(#[from] TenantStoreError),
    #[error("cannot read the data of the account: {0}")]
    Store(#[source] BoxError),
}

impl Flow {
    pub(crate) fn new(core: Arc<Core>, running: Running) -> Self {
        Self { fresh: Fresh::new(core.clone()), core, running }
    }

    /// Begins an export. Without `given`, which a GET cannot contain, the session must be young.
    pub(crate) async fn begin(
        &self,
        session: &Session,
        given: Option<&Given>,
        client: &Client,
    ) -> Result<Export, ExportError> {
        match given {
            Some(given) => self.fresh.require(session, given, client, "an export").await?,
            None => self.fresh.require_young(session).await?,
        }
        let user = session.user().id.clone();
        // What follows is read for a long time, so this is the last moment to decide.
        if !holds_now(&self.core, session).await? {
            return Err(FreshError::SessionEnded.into());
        }
        let turn = self.running.enter(&user, Counted::Exports.share_key(ClientAddr::new(client.address())))?;
        let head = self.head(&user).await?;
        let profile = match &self.core.profiles {
            Some(profiles) => Some(profiles.of(&user).await?),
            None => None,
        };
        Ok(Export { user, head, profile, has_naming: false, turn })
    }

    /// Begins an export for trusted server code that has checked the caller.
    pub(crate) async fn begin_for_operator(&self, user: UserId) -> Result<Export, ExportError> {
        let turn = self.running.enter(&user, None)?;
        let head = self.head(&user).await?;
        let profile = match &self.core.profiles {
            Some(profiles) => Some(profiles.of(&user).await?),
            None => None,
        };
        Ok(Export { user, head, profile, has_naming: true, turn })
    }

    async fn head(&self, id: &UserId) -> Result<Map<String, Value>, ExportError> {
        let core = &self.core;
        let user = core.users.store.find_by_id(id).await?;
        let mut account = json!({
            "id": user.id.as_str(),
            "email": user.email,
            "roles": user.roles,
            "email_verified": user.email_verified,
            "password_set": user.password_set,
            "two_factor_enabled": core.mint.has_second_factor(id).await.map_err(ExportError::Store)?,
        });
        if let Some(lister) = &core.users.lister
            && let Ok(found) = lister.find(id).await
        {
            account["created_at"] = time::format(found.created_at).into();
        }
        let mut head = Map::new();
        head.insert("account".to_owned(), account);
        let sessions = core.sessions.list(id).await?;
        head.insert("sessions".to_owned(), sessions.iter().map(session).collect());
        if let Some(devices) = &core.devices {
            let devices = devices.list(id).await.map_err(|error| ExportError::Store(error.into()))?;
            head.insert("devices".to_owned(), devices.iter().map(device).collect());
        }
        for kind in core.credentials.iter().filter(|kind| kind.is_exported()) {
            let description = kind.describe(id).await.map_err(ExportError::Store)?;
            head.insert(kind.name().to_owned(), description.into());
        }
        if let Some(tenants) = &core.tenants {
            let tenants = tenants.tenants_of(id).await?;
            let tenant = |tenant: &gatewright_tenancy::TenantOfUser| json!({ "id": tenant.id.as_str(), "name": tenant.name, "roles": tenant.roles });
            head.insert("tenants".to_owned(), tenants.iter().map(tenant).collect());
        }
        if let Some(changes) = &core.email_changes {
            let former = changes.describe(id).await.map_err(|error| ExportError::Store(error.into()))?;
            head.insert("former_addresses".to_owned(), former.into());
        }
        if let Some(invitations) = &core.invitations {
            // Those to an address are only for an account that has proven it.
            let proven = user.email_verified.then_some(&user.email);
            let found = invitations.of_account(id, proven, core.ambient.now()).await;
            let found = found.map_err(|error| ExportError::Store(error.into()))?;
            head.insert("invitations".to_owned(), found.iter().map(|open| invitation(open, id)).collect());
        }
        Ok(head)
    }
}

impl Running {
    fn enter(&self, user: &UserId, address: Option<String>) -> Result<Turn, ExportError> {
        let mut running = self.0.lock();
        if running.contains_key(user) {
            return Err(ExportError::UnderWay);
        }
        let of_address = running.values().filter(|other| address.is_some() && **other == address).count();
        if running.len() >= MOST || of_address >= MAX_PER_ADDRESS {
            return Err(ExportError::Busy);
        }
        running.insert(user.clone(), address);
        Ok(Turn { running: self.clone(), user: user.clone() })
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        self.running.0.lock().remove(&self.user);
    }
}

fn session(stored: &StoredSession) -> Value {
    json!({
        "id": stored.id.as_str(),
        "created_at": time::format(stored.started_at),
        "last_seen_at": time::format(stored.last_seen_at),
        "expires_at": time::format(stored.expires_at),
        "address": stored.client.address(),
        "user_agent": stored.client.user_agent(),
        "two_factor_verified": stored.two_factor_verified,
    })
}

fn device(stored: &StoredDevice) -> Value {
    json!({
        "id": stored.id.to_string(),
        "first_used_at": time::format(stored.first_used_at),
        "last_used_at": time::format(stored.last_used_at),
        "address": stored.client.address(),
        "user_agent": stored.client.user_agent(),
    })
}

fn invitation(open: &Invitation, caller: &UserId) -> Value {
    json!({
        "id": open.id.as_str(),
        "email": open.email.as_str(),
        "sent": open.invited_by.as_ref() == Some(caller),
        "roles": open.roles,
        "tenant": open.tenant.as_ref().map(gatewright_base::TenantId::as_str),
        "tenant_roles": open.tenant_roles,
        "created_at": time::format(open.created_at),
        "expires_at": time::format(open.expires_at),
    })
}

/// A time that may be absent.
pub(crate) fn moment(at: Option<Timestamp>) -> Value {
    at.map_or(Value::Null, |at| time::format(at).into())
}
