//! Applies a confirmed change of address: the change that an undo needs and the address, both or neither.
//!
//! If accounts and changes are in one database, this is one transaction under the account's lock. A claim, a new password or the undo
//! of an earlier change takes the same lock: it comes before, and then this refuses, or after, and then it finds the change.

use gatewright_db::{Error, Share, Tx};

use super::flow::{ChangeError, MAX_CHANGES};
use crate::core::Core;
use crate::email_changes::{Change, Changes};
use crate::mailbox;
use crate::single_use::IssuedToken;
use crate::users::{EmailChanger, User, UserStoreError};

/// Why the transaction is rolled back.
enum Failed {
    /// The session that requested the change has ended, or the account has another address by now.
    Gone,
    TooOften,
    Database(Error),
}

impl From<Error> for Failed {
    fn from(error: Error) -> Self {
        Self::Database(error)
    }
}

pub(super) async fn apply(
    core: &Core,
    emails: &dyn EmailChanger,
    changes: &Changes,
    (token, user, change): (&IssuedToken, &User, &Change),
) -> Result<(), ChangeError> {
    let Some(users) = core.users.within.clone().filter(|users| users.database().is(changes.database())) else {
        return apply_outside(core, emails, changes, (token, user, change)).await;
    };
    let (db, began, to) = (users.database().clone(), token.issued_at, token.email.clone());
    let (user, change) = (user.clone(), change.clone());
    let share = Share::of_user(&user.id);
    let apply = async move |tx: &Tx| -> Result<(), Failed> {
        if !users.lock(tx, &user.id).await?.is_some_and(|account| account.is_open_to(began)) {
            return Err(Failed::Gone);
        }
        if Changes::count_within(tx, &user.id, change.changed_at).await? >= MAX_CHANGES {
            return Err(Failed::TooOften);
        }
        Changes::put_within(tx, &change).await?;
        let is_changed = mailbox::change_within(&*users, tx, &user, &to).await?;
        if is_changed { Ok(()) } else { Err(Failed::Gone) }
    };
    match db.writing_for(share).write(apply).await {
        Ok(()) => Ok(()),
        Err(Failed::Gone) => Err(ChangeError::InvalidToken),
        Err(Failed::TooOften) => Err(ChangeError::TooOften),
        Err(Failed::Database(Error::Unique { .. })) => Err(UserStoreError::EmailTaken.into()),
        Err(Failed::Database(error)) => Err(error.into()),
    }
}

/// [`apply`] with accounts in a store of the program's own, which shares no transaction.
async fn apply_outside(
    core: &Core,
    emails: &dyn EmailChanger,
    changes: &Changes,
    (token, user, change): (&IssuedToken, &User, &Change),
) -> Result<(), ChangeError> {
    // Before the address, so that it can be undone from the first moment.
    changes.put(change).await?;
    if let Err(error) = mailbox::change(emails, user, &token.email).await {
        changes.remove(change).await?;
        return Err(error.into());
    }
    // It is gone if an earlier change was undone at the same time, with all later ones, and a claim or a reset may have ended the
    // session that asked for it: then this one must not take effect.
    let asked = core.users.store.find_by_id(&user.id).await?;
    if asked.is_open_to(token.issued_at) && changes.has(change).await? {
        return Ok(());
    }
    changes.remove(change).await?;
    match emails.restore_email(&user.id, Some(&token.email), &user.email).await {
        Ok(_) | Err(UserStoreError::NotFound) => Err(ChangeError::InvalidToken),
        Err(error) => Err(error.into()),
    }
}
