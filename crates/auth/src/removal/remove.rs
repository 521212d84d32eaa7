//! Removes all data of a closed account.

use gatewright_base::UserId;

use super::Deletion;
use super::rows::RENEWED;
use crate::accounts::AccountError;
use crate::audit::AuditKind;
use crate::core::Core;
use crate::email::EmailAddress;
use crate::invitations;
use crate::users::{Sessions, UserStoreError};

/// Removes it. While this lasts, no other server takes the deletion over.
pub(super) async fn remove(core: &Core, deletion: &Deletion) -> Result<(), AccountError> {
    let renewal = async {
        loop {
            tokio::time::sleep(RENEWED).await;
            if let Some(deletions) = &core.deletions
                && let Err(error) = deletions.renew(&deletion.user, core.ambient.now()).await
            {
                tracing::warn!(user = %deletion.user, %error, "the claim of a long account deletion could not be renewed");
            }
        }
    };
    tokio::select! {
        done = remove_all(core, deletion) => done,
        () = renewal => Ok(()),
    }
}

/// Disables the account and ends its sessions.
pub(super) async fn shut(core: &Core, id: &UserId) -> Result<(), AccountError> {
    let now = core.ambient.now();
    let refused = match (&core.users.disabler, &core.users.sign_out) {
        (Some(disabler), _) => disabler.disable(id, now).await,
        (None, Some(sign_out)) => sign_out.refuse_until(id, now, Sessions::End).await,
        (None, None) => Ok(()),
    };
    match refused {
        // The user is deleted already.
        Ok(()) | Err(UserStoreError::NotFound) => {}
        Err(error) => return Err(error.into()),
    }
    core.sessions.remove_all(id, None).await?;
    Ok(())
}

async fn remove_all(core: &Core, deletion: &Deletion) -> Result<(), AccountError> {
    let id = &deletion.user;
    // Once more: an operator may have enabled the account at the moment in which it was closed.
    shut(core, id).await?;
    if let Some(records) = core.records.get() {
        records.release(id).await.map_err(AccountError::Records)?;
    }
    let mut held = None;
    if let Some(deleter) = &core.users.deleter {
        match deleter.delete(id).await {
            Ok(()) => {
                let event = core.audit.event(AuditKind::AccountDeleted).user(id);
                core.audit.record(event.with("method", deletion.requested_by.name())).await;
            }
            Err(UserStoreError::NotFound) => {}
            // A record was written in between that prevents the deletion of the account. Everything else is removed.
            Err(error @ UserStoreError::Referenced(_)) => held = Some(error),
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
        if let Some(db) = &core.db {
            invitations::forget(db, id, email).await.map_err(AccountError::invitations)?;
        }
        core.post.forget(email).await.map_err(AccountError::Mail)?;
        if let Some(sink) = core.audit.sink() {
            sink.forget(id, email).await.map_err(AccountError::Audit)?;
        }
        core.forget_attempts(id, email).await?;
    }
    if let Some(tenants) = &core.tenants {
        tenants.forget(id).await.map_err(AccountError::Tenants)?;
    }
    if let Some(devices) = &core.devices {
        devices.forget_account(id).await?;
    }
    if let Some(impersonations) = &core.impersonations {
        impersonations.forget(id).await?;
    }
    if let Some(changes) = &core.email_changes {
        changes.forget(id).await?;
    }
    if let Some(accounts) = &core.operator_accounts {
        accounts.forget(id).await?;
    }
    if let Some(records) = core.records.get() {
        records.forget(id).await.map_err(AccountError::Records)?;
    }
    held.map_or(Ok(()), |error| Err(error.into()))
}

/// The keys of the account's data besides its id: addresses whose mailbox it has proven. An address that now belongs to
/// another account is left out, so that the deletion removes nothing of that account.
async fn addresses(core: &Core, deletion: &Deletion) -> Result<Vec<EmailAddress>, AccountError> {
    let id = &deletion.user;
    let mut own: Vec<_> = deletion.email.iter().cloned().collect();
    if let Some(changes) = &core.email_changes {
        own.extend(changes.proven_addresses(id).await?);
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
        // The address of no account, so that only data stored by the id is removed.
        addresses.extend(EmailAddress::parse(&format!("{id}@deleted.invalid")));
    }
    Ok(addresses)
}
