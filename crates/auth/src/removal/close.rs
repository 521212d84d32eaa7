//! The point of no return: everything that can refuse a deletion is checked before it, and the deletion cannot be
//! withdrawn after it.

use gatewright_base::UserId;

use super::rows::Noted;
use super::{By, Deletion, Deletions, RequestedBy, remove};
use crate::accounts::AccountError;
use crate::audit::AuditKind;
use crate::core::Core;
use crate::open_session::{OpenSession, is_open};
use crate::users::UserStoreError;

/// Checks whether the deletion must be refused, and otherwise closes the account: from then on it cannot be used. A session that
/// has ended closes nothing: [`UserStoreError::NotFound`].
pub(super) async fn close(core: &Core, id: &UserId, by: By<'_>) -> Result<Deletion, AccountError> {
    let requested_by = by.requested_by();
    let user = core.users.store.find_by_id(id).await?;
    // An unproven address may belong to another person, and so may data that is stored by it.
    let email = Some(user.email).filter(|_| user.email_verified);
    let deletion = Deletion { user: user.id, email, requested_by, is_closed: false };
    let is_first = match &core.deletions {
        Some(deletions) => match note(core, deletions, &deletion, by).await? {
            Noted::Done => decide(core, deletions, &deletion).await?,
            Noted::ClosedAlready => false,
            Noted::SessionEnded => return Err(UserStoreError::NotFound.into()),
        },
        None => {
            refuse(core, &deletion).await?;
            record_closed(core, &deletion).await;
            true
        }
    };
    // Of concurrent requests of an owner, one succeeds. For an operator, the remaining steps are repeated.
    if !is_first && requested_by == RequestedBy::Owner {
        return Err(UserStoreError::NotFound.into());
    }
    if let Err(error) = remove::shut(core, id).await {
        tracing::warn!(user = %id, %error, "an account that is being deleted could not be disabled yet");
    }
    Ok(deletion)
}

async fn note(core: &Core, deletions: &Deletions, deletion: &Deletion, by: By<'_>) -> Result<Noted, AccountError> {
    let By::Owner(session) = by else { return Ok(deletions.note(deletion, None, core.ambient.now()).await?) };
    let open = OpenSession::of(core, session, deletions.database());
    let is_shared = open.is_shared();
    let noted = deletions.note(deletion, Some(open), core.ambient.now()).await?;
    if noted == Noted::Done && !is_shared && !is_open(core, session).await? {
        deletions.drop_note(&deletion.user).await?;
        return Ok(Noted::SessionEnded);
    }
    Ok(noted)
}

/// Closes a noted account, or removes the note if the deletion is refused. Of concurrent calls one gets `true`. A failure
/// in between leaves the note, and the sweep decides again: the memberships in tenants may have ended already.
pub(super) async fn decide(core: &Core, deletions: &Deletions, deletion: &Deletion) -> Result<bool, AccountError> {
    if let Err(error) = refuse(core, deletion).await {
        if error.refuses_deletion() {
            deletions.drop_note(&deletion.user).await?;
        }
        return Err(error);
    }
    let is_first = deletions.close(deletion, core.ambient.now()).await?;
    if is_first {
        record_closed(core, deletion).await;
    }
    Ok(is_first)
}

/// Checks whether the deletion must be refused. Otherwise the account has left its tenants. This check is the last one,
/// because it ends memberships: of two owners who leave at once, one stays.
async fn refuse(core: &Core, deletion: &Deletion) -> Result<(), AccountError> {
    let id = &deletion.user;
    let deleter = core.users.deleter.as_ref().ok_or(AccountError::Unsupported("deleting users"))?;
    let records = core.records.get();
    if let Some(records) = records
        && let Some(table) = records.holder(id).await.map_err(AccountError::Records)?
    {
        return Err(UserStoreError::Referenced(Some(table)).into());
    }
    let is_released = |table: &str, column: &str| records.is_some_and(|records| records.releases(table, column));
    let mut holders = deleter.holders(id).await?.into_iter();
    if let Some(holder) = holders.find(|holder| !is_released(&holder.table, &holder.column)) {
        return Err(UserStoreError::Referenced(Some(format!("{}.{}", holder.table, holder.column))).into());
    }
    if let (RequestedBy::Owner, Some(tenants)) = (deletion.requested_by, &core.tenants) {
        let alone = tenants.depart(id).await.map_err(AccountError::Tenants)?;
        if !alone.is_empty() {
            return Err(AccountError::LastOwner(alone));
        }
    }
    Ok(())
}

impl AccountError {
    /// Whether this error refuses the deletion, with nothing changed.
    pub(super) fn refuses_deletion(&self) -> bool {
        matches!(
            self,
            Self::LastOwner(_)
                | Self::Unsupported(_)
                | Self::Users(UserStoreError::Referenced(_) | UserStoreError::NotFound)
        )
    }
}

async fn record_closed(core: &Core, deletion: &Deletion) {
    let event = core.audit.event(AuditKind::AccountClosed).user(&deletion.user);
    core.audit.record(event.with("method", deletion.requested_by.name())).await;
}
