//! Deleting accounts: one path for their owners and for operators.
//!
//! 1. **Noted.** A row in `users_deletions` (`rows.rs`) records who requested it.
//! 2. **Closed** (`close.rs`). The deletion is refused, with nothing changed, if a record restricts it or a tenant
//!    would lose its last owner. A refusal removes the row. Otherwise the row gets its `closed_at`: from here on the
//!    deletion cannot be withdrawn, and the account cannot be enabled again.
//! 3. **Removed** (`remove.rs`). The account is disabled, its records are released ([`AccountRecords`]), and the user
//!    is deleted with all related data.
//! 4. A minute later everything is removed once more, because concurrent requests may have written something. Then the
//!    row is removed.
//!
//! Each step can be repeated. [`Auth::sweep`](crate::Auth::sweep) continues interrupted deletions: it repeats the
//! checks for those that were not closed, and finishes those that were.

mod close;
pub(crate) mod records;
mod remove;
pub(crate) mod rows;

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use gatewright_base::UserId;
use tokio::sync::oneshot;
use tokio::time::{Instant, timeout_at};

use crate::accounts::{AccountError, Accounts};
use crate::core::Core;
use crate::session::Session;

use close::{close, decide};
pub use records::{AccountRecords, RecordsAt, RecordsPage};
use remove::remove;
pub(crate) use rows::{COMPONENT, Deletion, Deletions, MIGRATIONS, RequestedBy};

/// The progress of a deletion. The account is closed in any case.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DeletionProgress {
    /// It is deleted.
    Done,
    /// Its records are still being released, in the background.
    UnderWay,
}

/// The requester of a deletion, at the moment of the request.
#[derive(Clone, Copy)]
pub(crate) enum By<'a> {
    /// A session of the account.
    Owner(&'a Session),
    Operator,
}

impl By<'_> {
    fn requested_by(self) -> RequestedBy {
        match self {
            Self::Owner(_) => RequestedBy::Owner,
            Self::Operator => RequestedBy::Operator,
        }
    }
}

/// How long a request waits for the end.
const TIMEOUT: Duration = Duration::from_secs(5);
/// Deletions that one sweep continues.
const MAX_AT_ONCE: usize = 20;
/// Accounts that a server removes at a time for requests.
pub(crate) const TURNS: usize = 4;

impl Accounts {
    /// Deletes an account permanently and returns when it is done: the user, their sessions, JWTs, second factor, API
    /// tokens, passkeys, provider links, mailed links and memberships in tenants. The audit log keeps only the
    /// account's id. [`AccountRecords`] keeps or deletes records of entities. If a record restricts the deletion, fails
    /// with [`UserStoreError::Referenced`](crate::users::UserStoreError::Referenced), and nothing is deleted.
    pub async fn delete(&self, id: &UserId) -> Result<(), AccountError> {
        let deletion = close(self.core(), id, By::Operator).await?;
        remove(self.core(), &deletion).await
    }

    /// Starts to delete an account, and waits up to five seconds. The rest is done in the background, also after a
    /// restart.
    pub async fn request_deletion(&self, id: &UserId) -> Result<DeletionProgress, AccountError> {
        request(self.core(), id, By::Operator).await
    }

    /// Which of these accounts are closed and being deleted.
    pub async fn being_deleted(&self, ids: &[UserId]) -> Result<HashSet<UserId>, AccountError> {
        match &self.core().deletions {
            Some(deletions) => Ok(deletions.closed_among(ids).await?),
            None => Ok(HashSet::new()),
        }
    }
}

/// The same for either.
pub(crate) async fn request(core: &Arc<Core>, id: &UserId, by: By<'_>) -> Result<DeletionProgress, AccountError> {
    let deletion = close(core, id, by).await?;
    let until = Instant::now() + TIMEOUT;
    // The turn first: waiting deletions take no room from other work. If deletions are stored, the sweep continues those that
    // got no turn, or whose caller disconnected.
    let turn = core.deletion_turns.clone().acquire_owned();
    let turn = if core.deletions.is_some() { timeout_at(until, turn).await.ok() } else { Some(turn.await) };
    let Some(turn) = turn else { return Ok(DeletionProgress::UnderWay) };
    let (end, ended) = oneshot::channel();
    let removing = core.clone();
    // In a separate task, which continues if the caller disconnects.
    core.background.run("the deletion of an account", async move {
        let (core, _turn) = (removing, turn);
        let progress = match remove(&core, &deletion).await {
            Ok(()) => DeletionProgress::Done,
            Err(error) => {
                let user = &deletion.user;
                if core.deletions.is_some() {
                    tracing::warn!(%user, %error, "cannot finish deleting an account; the next sweep tries again");
                } else {
                    tracing::error!(%user, %error, "cannot finish deleting an account; delete it again");
                }
                DeletionProgress::UnderWay
            }
        };
        // The caller may have disconnected.
        let _ = end.send(progress);
    });
    Ok(timeout_at(until, ended).await.ok().and_then(Result::ok).unwrap_or(DeletionProgress::UnderWay))
}

/// Continues interrupted deletions, and ends those that are done: in the background, since an account may have many
/// records. One such task runs at a time.
pub(crate) fn sweep(core: &Arc<Core>) {
    let Some(deletions) = core.deletions.clone() else { return };
    let Some(turn) = deletions.sweep_turn() else { return };
    let core = core.clone();
    core.clone().background.run("deletions of accounts", async move {
        let _turn = turn;
        for _ in 0..MAX_AT_ONCE {
            let deletion = match deletions.claim(core.ambient.now()).await {
                Ok(Some(deletion)) => deletion,
                Ok(None) => break,
                Err(error) => {
                    tracing::warn!(%error, "cannot read which accounts are being deleted");
                    break;
                }
            };
            if let Err(error) = finish(&core, &deletions, &deletion).await {
                tracing::warn!(user = %deletion.user, %error, "cannot finish deleting an account");
            }
        }
    });
}

async fn finish(core: &Core, deletions: &Deletions, deletion: &Deletion) -> Result<(), AccountError> {
    let id = &deletion.user;
    if !deletion.is_closed
        && let Err(error) = decide(core, deletions, deletion).await
    {
        return if error.refuses_deletion() { Ok(()) } else { Err(error) };
    }
    remove(core, deletion).await?;
    let is_forgotten = match core.records.get() {
        Some(records) => records.forget(id).await.map_err(AccountError::Records)?,
        None => true,
    };
    if is_forgotten {
        deletions.end(id).await?;
    } else {
        deletions.forget_address(id).await?;
    }
    Ok(())
}
