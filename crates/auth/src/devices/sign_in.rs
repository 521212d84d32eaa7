//! Known devices at a sign-in: counts its attempts and recognizes its browser.

use std::sync::Arc;

use gatewright_base::UserId;
use gatewright_http::locale::Locale;
use gatewright_limits::{Attempt, Denied, Limiter};
use http::{HeaderMap, HeaderValue};
use jiff::Timestamp;
use uuid::Uuid;

use super::Devices;
use super::cookie::{Held, Token};
use super::name::safe_name;
use super::rows::{Arrival, Arrived};
use crate::audit::AuditKind;
use crate::core::Core;
use crate::mail::{NewDevice, Notice};
use crate::session::{Client, SessionSecret};
use crate::users::User;

/// The parts of a request that matter for a sign-in, in addition to the credentials.
#[derive(Debug, Default)]
pub(crate) struct Browser {
    /// Its session of before, which the new one replaces.
    pub(crate) replaces: Option<SessionSecret>,
    held: Held,
}

/// The failure budgets of known devices, by device.
#[derive(Debug, Clone)]
pub(crate) struct DeviceBudget {
    limiter: Limiter,
}

/// Where an attempt was counted.
#[derive(Debug)]
pub(crate) enum Counted {
    /// For the account, or for the submitted address.
    Account,
    /// For a known device.
    Device(Attempt),
}

impl Browser {
    /// The parts of this request.
    pub(crate) fn of(core: &Core, headers: &HeaderMap) -> Self {
        Self { replaces: core.cookie.read(headers), held: core.device_cookie.read(headers) }
    }
}

impl Counted {
    /// After a success. The budget of a device is one of failures.
    pub(crate) async fn succeeded(self) {
        if let Self::Device(attempt) = self {
            attempt.give_back().await;
        }
    }
}

impl DeviceBudget {
    pub(crate) fn new(limiter: Limiter) -> Self {
        Self { limiter }
    }

    /// Counts an attempt to sign in to `user` or, without such an account, to the address `key`. It counts for the
    /// known device that sent it or, otherwise, for `key` in the budget `of_account`.
    pub(crate) async fn attempt(
        &self,
        core: &Core,
        user: Option<&UserId>,
        browser: &Browser,
        of_account: &Limiter,
        key: &str,
    ) -> Result<Counted, Denied> {
        match known(core, user, browser).await {
            Some(device) => Ok(Counted::Device(self.limiter.begin(&device.to_string()).await?)),
            None => {
                of_account.attempt(key).await?;
                Ok(Counted::Account)
            }
        }
    }

    /// The same as [`attempt`](Self::attempt) where only failures count: a success gives the attempt back, also that of
    /// `key`.
    pub(crate) async fn begin(
        &self,
        core: &Core,
        user: Option<&UserId>,
        browser: &Browser,
        of_account: &Limiter,
        key: &str,
    ) -> Result<Attempt, Denied> {
        match known(core, user, browser).await {
            Some(device) => self.limiter.begin(&device.to_string()).await,
            None => of_account.begin(key).await,
        }
    }
}

/// The device of `user` that this browser is. For an address without an account, a tag is computed too, so that both cases
/// take the same time.
async fn known(core: &Core, user: Option<&UserId>, browser: &Browser) -> Option<Uuid> {
    let devices = core.devices.as_ref()?;
    let tags = core.device_cookie.tags(user);
    let (user, token) = (user?, browser.held.token(&tags)?);
    match devices.rows.find(user, &token.hash(), devices.oldest()).await {
        Ok(found) => found,
        Err(error) => {
            // As an unknown one it counts against the account.
            tracing::error!(%error, "known devices cannot be read");
            None
        }
    }
}

impl Devices {
    /// Makes the browser in which `user` has just signed in a known device, and returns its new cookie. If it was not known
    /// before, the owner gets a notice by mail. If the store fails, the sign-in still succeeds, and no device is known.
    pub(crate) async fn remember(core: &Core, user: &User, browser: &Browser, client: &Client) -> Option<HeaderValue> {
        let devices = core.devices.as_ref()?;
        let tags = core.device_cookie.tags(Some(&user.id));
        let (held, fresh) = (browser.held.token(&tags).map(Token::hash), Token::generate(&devices.ambient));
        let arrival = Arrival {
            id: devices.ambient.uuid(),
            user: user.id.clone(),
            hash: fresh.hash(),
            client: client.clone(),
            at: devices.ambient.now(),
        };
        let arrived = devices.rows.arrive(&arrival, held.as_ref(), devices.oldest()).await;
        if let Err(error) = &arrived {
            tracing::error!(%error, user = %user.id, "a known device could not be stored");
        }
        if matches!(arrived, Ok(Arrived::New) | Err(_)) {
            audit_new(core, user, client, &arrival).await;
            notify(core, user, client, arrival.at).await;
        }
        arrived.is_ok().then(|| core.device_cookie.set(&browser.held, &tags, fresh))
    }
}

/// Which of an account's devices a request comes from.
pub(crate) async fn current(core: &Arc<Core>, user: &UserId, headers: &HeaderMap) -> Option<Uuid> {
    known(core, Some(user), &Browser::of(core, headers)).await
}

async fn notify(core: &Core, user: &User, client: &Client, at: Timestamp) {
    if core.config.new_device_notice {
        // Not in the language of the request, which may be a thief's.
        let locale = Locale::current().presentation().locale(None);
        let name = locale.within(|| safe_name(client.user_agent()));
        core.notify(user, Notice::NewDevice(NewDevice { at, address: client.address(), name })).await;
    }
}

async fn audit_new(core: &Core, user: &User, client: &Client, arrival: &Arrival) {
    let event = core.audit.event(AuditKind::DeviceAdded).user(&user.id).remote(client.address());
    core.audit.record(event.with("device", arrival.id.to_string())).await;
}
