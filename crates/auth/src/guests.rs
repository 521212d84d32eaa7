//! Accounts without an address, and how they become full ones.
//!
//! A guest is stored with the reserved address of [`EmailAddress::of_guest`], because the column of addresses must not be
//! empty for servers of an earlier version. No request can name that address, no mail goes to it, and no answer shows it.

use gatewright_http::Problem;
use jiff::{SignedDuration, Timestamp};
use std::sync::{Arc, Mutex, PoisonError};

use crate::core::Core;
use crate::devices::Browser;
use crate::mailbox;
use crate::removal::{self, By};
use crate::session::{AnySession, SessionStoreError};
use crate::tokens::TokenStoreError;
use crate::users::{BoxError, GuestUpgrade, User, UserStoreError};

/// How often idle guests are looked for.
const EVERY: SignedDuration = SignedDuration::from_hours(1);
/// Guests of one statement.
const BATCH: u32 = 200;

/// When idle guests were last looked for by this server.
#[derive(Debug, Default)]
pub(crate) struct LastSweep(Mutex<Option<Timestamp>>);

impl LastSweep {
    /// Whether it is time again. If so, the caller looks for them.
    fn is_due(&self, now: Timestamp) -> bool {
        let mut last = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let due = last.is_none_or(|last| now.duration_since(last) >= EVERY);
        if due {
            *last = Some(now);
        }
        due
    }
}

/// Why a guest has not become a full account.
#[derive(Debug, thiserror::Error)]
pub(crate) enum UpgradeError {
    /// Another request has turned it into a full account, or it was disabled or swept.
    #[error("the guest is a full account by now, or gone")]
    NoGuest,
    #[error(transparent)]
    Users(#[from] UserStoreError),
    #[error(transparent)]
    Sessions(#[from] SessionStoreError),
    #[error("the guest's credentials cannot be removed: {0}")]
    Credentials(#[source] BoxError),
}

/// The guest of a session, if it is one of a guest. An operator who acts as a guest turns nothing into an account.
pub(crate) fn of_session(session: Option<&AnySession>) -> Option<&User> {
    match session {
        Some(AnySession::Full(session)) if session.impersonated_by().is_none() => {
            Some(session.user()).filter(|user| user.is_guest())
        }
        Some(AnySession::Full(_) | AnySession::Pending(_)) | None => None,
    }
}

/// The guest whose session a browser has. A sign-in replaces it.
pub(crate) async fn of_browser(core: &Core, browser: &Browser) -> Result<Option<User>, UserStoreError> {
    let (Some(secret), true) = (&browser.replaces, core.users.guests.is_some()) else { return Ok(None) };
    let stored = core.sessions.find(&secret.key()).await.map_err(UserStoreError::transport)?;
    let now = core.ambient.now();
    let Some(stored) = stored.filter(|stored| !stored.pending_two_factor && stored.expires_at > now) else {
        return Ok(None);
    };
    match core.users.store.find_by_id(&stored.user_id).await {
        Ok(user) => Ok(Some(user).filter(|user| user.is_guest() && user.is_open_to(stored.started_at))),
        Err(UserStoreError::NotFound) => Ok(None),
        Err(error) => Err(error),
    }
}

/// Turns a guest into a full account, whose mailbox is `proven` or not. Everything issued to the guest ends: sessions, JWTs and
/// API tokens. Of concurrent calls one succeeds. Returns the account, and a moment for the session that follows.
pub(crate) async fn upgrade(
    core: &Core,
    guest: &User,
    new: &GuestUpgrade<'_>,
    proven: bool,
) -> Result<(User, Timestamp), UpgradeError> {
    let store = core.users.guests.as_ref().ok_or(UpgradeError::NoGuest)?;
    match core.users.store.find_by_email(new.email).await {
        Ok(_) => return Err(UserStoreError::EmailTaken.into()),
        Err(UserStoreError::NotFound) => {}
        Err(error) => return Err(error.into()),
    }
    // Before too, so that nothing is left if the process ends in between.
    drop_credentials(core, guest).await?;
    match store.upgrade(&guest.id, new, core.ambient.now()).await {
        Ok(true) => {}
        Ok(false) => return Err(UpgradeError::NoGuest),
        Err(error) => return Err(error.into()),
    }
    core.sessions.remove_all(&guest.id, None).await?;
    // What a request of an earlier session stored before the upgrade took the account's lock.
    drop_credentials(core, guest).await?;
    let user = core.users.store.find_by_id(&guest.id).await?;
    if proven {
        mailbox::record_of_new(core, &user).await?;
    }
    let at = core.ambient.now();
    Ok((core.users.store.find_by_id(&guest.id).await?, at))
}

async fn drop_credentials(core: &Core, guest: &User) -> Result<(), UpgradeError> {
    for kind in &core.credentials {
        kind.drop_all(&guest.id).await.map_err(UpgradeError::Credentials)?;
    }
    Ok(())
}

/// Deletes guests that were idle for the configured time, with their records, once an hour and at the first call.
pub(crate) fn sweep(core: &Arc<Core>) {
    let (Some(guests), Some(_)) = (&core.config.guests, &core.users.guests) else { return };
    let now = core.ambient.now();
    if !core.guest_sweep.is_due(now) {
        return;
    }
    let before = now.checked_sub(guests.idle).unwrap_or(Timestamp::MIN);
    let core = core.clone();
    core.clone().background.run("idle guests", async move {
        if let Err(error) = sweep_before(&core, before).await {
            tracing::warn!(%error, "cannot delete idle guests; the next sweep tries again");
        }
    });
}

async fn sweep_before(core: &Arc<Core>, before: Timestamp) -> Result<(), BoxError> {
    let Some(store) = &core.users.guests else { return Ok(()) };
    let mut after = None;
    loop {
        let guests = store.created_before(before, after.as_ref(), BATCH).await?;
        for guest in &guests {
            if !is_idle(core, guest, before).await? || !store.close(&guest.id, core.ambient.now()).await? {
                continue;
            }
            if let Some(records) = core.records.get() {
                records.delete(&guest.id).await?;
            }
            // It continues in the background if it takes long.
            removal::request(core, &guest.id, By::Operator).await?;
        }
        let Some(last) = guests.last().filter(|_| guests.len() >= BATCH as usize) else { return Ok(()) };
        after = Some(last.id.clone());
    }
}

/// Whether nothing of a guest was used since.
async fn is_idle(core: &Core, guest: &User, before: Timestamp) -> Result<bool, BoxError> {
    let sessions = core.sessions.list(&guest.id).await?;
    if sessions.iter().any(|session| session.last_seen_at >= before && guest.accepts_session_from(session.started_at)) {
        return Ok(false);
    }
    let Some(tokens) = &core.tokens else { return Ok(true) };
    let subject = gatewright_base::Subject::User(guest.id.clone());
    let tokens = tokens.store.list(Some(&subject)).await.map_err(|error: TokenStoreError| BoxError::from(error))?;
    Ok(!tokens.iter().any(|token| token.created_at >= before || token.last_used_at.is_some_and(|used| used >= before)))
}

impl From<UpgradeError> for Problem {
    fn from(error: UpgradeError) -> Self {
        match error {
            UpgradeError::NoGuest => Self::conflict(error.to_string()).with_code("no_guest"),
            UpgradeError::Users(error) => error.into(),
            UpgradeError::Sessions(error) => error.into(),
            error @ UpgradeError::Credentials(_) => crate::problem::store_failed(&error),
        }
    }
}
