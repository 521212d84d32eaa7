//! Deleting accounts: one path for their owners and for operators.
//!
//! 1. What must not happen is refused while nothing has changed: a record must not lose the account, or a tenant its last
//!    owner.
//! 2. The account is noted in `users_deletions` (`rows.rs`) and disabled. From here on nobody is it any more.
//! 3. Its records are released ([`AccountRecords`]), and the user is deleted, with all that is kept beside it.
//! 4. A minute later everything is removed once more, for requests that were under way and wrote something; then the note.
//!
//! Each step may be done again. [`Auth::sweep`](crate::Auth::sweep) continues a deletion that was interrupted.

mod records;
mod rows;

use std::sync::Arc;
use std::time::Duration;

use gatewright_base::UserId;

use crate::audit::AuditKind;
use crate::users::{Sessions, UserStoreError};
use crate::{AccountError, Accounts, Core, EmailAddress};

pub use records::{AccountRecords, AccountTies, RecordsAt, RecordsPage};
pub(crate) use rows::{COMPONENT, Deletion, Deletions, MIGRATIONS};

/// Who wants an account deleted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Wish {
    /// Whoever it belongs to. A tenant keeps its last owner.
    Owner,
    /// An operator, who answers for what is left.
    Operator,
}

/// How far a deletion is. The account is closed in any case.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DeletionProgress {
    /// It is deleted.
    Done,
    /// Its records are still being released, in the background.
    UnderWay,
}

/// How long a request waits for the end.
const PATIENCE: Duration = Duration::from_secs(5);
/// Deletions that one sweep continues.
const MOST_AT_ONCE: usize = 20;

impl Accounts {
    /// Deletes an account for good, and returns at the end: the user, their sessions, JWTs, second factor, API tokens,
    /// passkeys, provider links, mailed links and memberships in tenants. The audit log keeps the account's id alone.
    /// Records of entities are kept or deleted as [`AccountRecords`] does it. If a record must not lose its user, this is
    /// [`UserStoreError::Referenced`](crate::users::UserStoreError::Referenced), and nothing is deleted.
    pub async fn delete(&self, id: &UserId) -> Result<(), AccountError> {
        let deletion = begin(self.core(), id, Wish::Operator).await?;
        carry_out(self.core(), &deletion).await
    }

    /// Begins to delete an account, and waits for the end for a few seconds. Whatever is left then is done in the
    /// background, also after a restart.
    pub async fn request_deletion(&self, id: &UserId) -> Result<DeletionProgress, AccountError> {
        request(self.core(), id, Wish::Operator).await
    }
}

/// The same for either.
pub(crate) async fn request(core: &Arc<Core>, id: &UserId, wish: Wish) -> Result<DeletionProgress, AccountError> {
    let deletion = begin(core, id, wish).await?;
    let core = core.clone();
    // In a task of its own: a caller who hangs up does not interrupt it.
    let work = tokio::spawn(async move {
        if let Err(error) = carry_out(&core, &deletion).await {
            tracing::warn!(user = %deletion.user, %error, "cannot finish deleting an account; the next sweep tries again");
            return DeletionProgress::UnderWay;
        }
        DeletionProgress::Done
    });
    match tokio::time::timeout(PATIENCE, work).await {
        Ok(Ok(progress)) => Ok(progress),
        Ok(Err(_)) | Err(_) => Ok(DeletionProgress::UnderWay),
    }
}

/// Refuses what must not happen, or else closes the account.
async fn begin(core: &Core, id: &UserId, wish: Wish) -> Result<Deletion, AccountError> {
    let user = core.users.store.find_by_id(id).await?;
    let deleter = core.users.deleter.as_ref().ok_or(AccountError::Unsupported("deleting users"))?;
    let ties = match core.records.get() {
        Some(records) => records.ties(id).await.map_err(AccountError::Records)?,
        None => AccountTies::None,
    };
    if let AccountTies::Held(table) = ties {
        return Err(UserStoreError::Referenced(Some(table)).into());
    }
    let method = match wish {
        Wish::Owner => "owner",
        Wish::Operator => "operator",
    };
    let deletion = Deletion { user: id.clone(), email: Some(user.email), method: method.to_owned() };
    let Some(deletions) = &core.deletions else {
        return close(core, &deletion, wish, &ties, &**deleter).await.map(|()| deletion);
    };
    let is_first = deletions.begin(&deletion, core.ambient.now()).await?;
    match (wish, is_first) {
        // Of an owner's requests that come at once, one does it.
        (Wish::Owner, false) => return Err(UserStoreError::NotFound.into()),
        // It is closed already. What is left is done here, for it may have failed before.
        (Wish::Operator, false) => return Ok(deletion),
        (Wish::Owner | Wish::Operator, true) => {}
    }
    if let Err(error) = close(core, &deletion, wish, &ties, &**deleter).await {
        deletions.withdraw(id).await?;
        return Err(error);
    }
    Ok(deletion)
}

async fn close(
    core: &Core,
    deletion: &Deletion,
    wish: Wish,
    ties: &AccountTies,
    deleter: &dyn crate::users::UserDeleter,
) -> Result<(), AccountError> {
    let id = &deletion.user;
    if let (Wish::Owner, Some(tenants)) = (wish, &core.tenants) {
        let alone = tenants.depart(id).await.map_err(AccountError::Tenants)?;
        if !alone.is_empty() {
            return Err(AccountError::LastOwner(alone));
        }
    }
    // One statement: whatever else refers to the user refuses it, and nothing has changed.
    if *ties == AccountTies::None {
        deleter.delete(id).await?;
        record(core, deletion).await;
        return Ok(());
    }
    match (&core.users.disabler, &core.users.sign_out) {
        (Some(disabler), _) => disabler.disable(id, core.ambient.now()).await?,
        (None, Some(sign_out)) => sign_out.refuse_until(id, core.ambient.now(), Sessions::End).await?,
        (None, None) => {}
    }
    core.sessions.remove_all(id, None).await?;
    Ok(())
}

/// Removes all that there is of an account that was closed.
async fn carry_out(core: &Core, deletion: &Deletion) -> Result<(), AccountError> {
    let id = &deletion.user;
    if let Some(records) = core.records.get() {
        records.release(id).await.map_err(AccountError::Records)?;
    }
    if let Some(deleter) = &core.users.deleter {
        match deleter.delete(id).await {
            Ok(()) => record(core, deletion).await,
            Err(UserStoreError::NotFound) => {}
            Err(error) => return Err(error.into()),
        }
    }
    core.sessions.remove_all(id, None).await?;
    core.mint.remove_second_factors(id).await.map_err(AccountError::SecondFactor)?;
    for kind in &core.credentials {
        kind.forget(id).await.map_err(AccountError::Credentials)?;
    }
    for email in &addresses(core, deletion).await? {
        core.single_use.remove(id, email, None).await?;
        if let Some(invitations) = &core.invitations {
            invitations.forget(id, email).await.map_err(AccountError::invitations)?;
        }
        if let Some(tenants) = &core.tenants {
            tenants.forget(id, email.as_str()).await.map_err(AccountError::Tenants)?;
        }
        if let Some(mailer) = &core.mailer {
            mailer.forget(email).await.map_err(AccountError::Mail)?;
        }
        if let Some(sink) = core.audit.sink() {
            sink.forget(id, email).await.map_err(AccountError::Audit)?;
        }
        core.forget_attempts(id, email).await?;
    }
    if let Some(devices) = &core.devices {
        devices.forget_account(id).await?;
    }
    if let Some(changes) = &core.email_changes {
        changes.forget(id).await?;
    }
    if let Some(records) = core.records.get() {
        records.forget(id).await.map_err(AccountError::Records)?;
    }
    Ok(())
}

/// What the account can be found by, beside its id. An address that another account has by now is that one's: whoever once
/// had it removes nothing of its owner.
async fn addresses(core: &Core, deletion: &Deletion) -> Result<Vec<EmailAddress>, AccountError> {
    let id = &deletion.user;
    let mut own: Vec<_> = deletion.email.iter().cloned().collect();
    if let Some(changes) = &core.email_changes {
        own.extend(changes.addresses(id).await?);
    }
    let mut addresses = Vec::new();
    for email in own {
        match core.users.store.find_by_email(&email).await {
            Ok(found) if found.user.id != *id => {}
            Ok(_) | Err(UserStoreError::NotFound) => addresses.push(email),
            Err(error) => return Err(error.into()),
        }
    }
    if addresses.is_empty() {
        // Nobody's, so that what is kept by the id goes.
        addresses.extend(EmailAddress::parse(&format!("{id}@deleted.invalid")));
    }
    Ok(addresses)
}

async fn record(core: &Core, deletion: &Deletion) {
    let event = core.audit.event(AuditKind::AccountDeleted).user(&deletion.user);
    core.audit.record(event.with("method", deletion.method.as_str())).await;
}

/// Continues deletions that were interrupted, and ends those that are done. Returns how many have ended.
pub(crate) async fn sweep(core: &Core) -> u64 {
    let Some(deletions) = &core.deletions else { return 0 };
    let mut ended = 0;
    for _ in 0..MOST_AT_ONCE {
        let deletion = match deletions.claim(core.ambient.now()).await {
            Ok(Some(deletion)) => deletion,
            Ok(None) => break,
            Err(error) => {
                tracing::warn!(%error, "cannot read which accounts are being deleted");
                break;
            }
        };
        match finish(core, deletions, &deletion).await {
            Ok(true) => ended += 1,
            Ok(false) => {}
            Err(error) => tracing::warn!(user = %deletion.user, %error, "cannot finish deleting an account"),
        }
    }
    ended
}

async fn finish(core: &Core, deletions: &Deletions, deletion: &Deletion) -> Result<bool, AccountError> {
    let id = &deletion.user;
    if deletion.email.is_some() {
        carry_out(core, deletion).await?;
    }
    let is_forgotten = match core.records.get() {
        Some(records) => records.forget(id).await.map_err(AccountError::Records)?,
        None => true,
    };
    if is_forgotten {
        deletions.end(id).await?;
    } else {
        deletions.forget_address(id).await?;
    }
    Ok(is_forgotten)
}
