//! What happens to accounts, told in the transaction in which it happens.
//!
//! A store does not say what its statement means: [`AccountEvents::watch`] reads the account before, and [`Watched::tell`] compares it with
//! what it is afterwards. So no change of an account is told wrongly or not at all.

use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;
use gatewright_base::{Roles, UserId};
use gatewright_db::{Error, RowRef, Tx, dialect, params};
use jiff::Timestamp;

use crate::users::{USER_COLUMNS, User, read_user, user_columns};

/// What happened to an account.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum AccountEventKind {
    /// It was created.
    Created,
    /// Its address, its roles or its profile changed.
    Updated,
    /// Its mailbox was proven.
    Verified,
    /// It was disabled.
    Disabled,
    /// It was enabled again.
    Enabled,
    /// It was deleted.
    Deleted,
    /// Somebody signed in to it. Registering is no sign-in.
    SignedIn,
}

impl AccountEventKind {
    /// Every kind.
    pub const ALL: [Self; 7] =
        [Self::Created, Self::Updated, Self::Verified, Self::Disabled, Self::Enabled, Self::Deleted, Self::SignedIn];

    /// The type of its event: `user.created`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Created => "user.created",
            Self::Updated => "user.updated",
            Self::Verified => "user.verified",
            Self::Disabled => "user.disabled",
            Self::Enabled => "user.enabled",
            Self::Deleted => "user.deleted",
            Self::SignedIn => "user.signed_in",
        }
    }
}

/// An account, as its events show it: without anything that signs in.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Account {
    /// Its identifier.
    pub id: UserId,
    /// Its address; `None` of a guest.
    pub email: Option<String>,
    /// Whether its mailbox was proven.
    pub email_verified: bool,
    /// Its roles.
    pub roles: Roles,
    /// Whether an operator has disabled it.
    pub disabled: bool,
    /// When it was created.
    pub created_at: Timestamp,
    /// Its profile, as [`UserProfiles`](crate::users::UserProfiles) stores it.
    pub profile: Option<String>,
}

/// Takes the events of accounts, each in the transaction of its change.
#[async_trait]
pub trait AccountEventSink: Send + Sync + 'static {
    /// Keeps an event of this account as it is now; of a deleted one, as it was. If this fails, nothing changes.
    async fn tell(&self, tx: &Tx, kind: AccountEventKind, account: &Account) -> Result<(), Error>;
}

/// Where events of accounts go, if anywhere.
#[derive(Clone, Default)]
pub(crate) struct AccountEvents(Option<Arc<dyn AccountEventSink>>);

/// Accounts as they were before a change.
pub(crate) struct Watched {
    sink: Option<Arc<dyn AccountEventSink>>,
    before: Vec<(UserId, Option<Account>)>,
}

impl AccountEvents {
    pub(crate) fn new(sink: Option<Arc<dyn AccountEventSink>>) -> Self {
        Self(sink)
    }

    pub(crate) fn are_wanted(&self) -> bool {
        self.0.is_some()
    }

    /// Remembers an account that is about to be changed, and locks it until the end of the transaction.
    pub(crate) async fn watch(&self, tx: &Tx, id: &UserId) -> Result<Watched, Error> {
        let mut watched = Watched { sink: self.0.clone(), before: Vec::new() };
        watched.also(tx, id).await?;
        Ok(watched)
    }

    /// Locks an account about which something will be told, before anything else is locked.
    pub(crate) async fn lock(&self, tx: &Tx, id: &UserId) -> Result<(), Error> {
        if self.are_wanted() {
            let lock = dialect::for_update(tx.engine());
            tx.query_opt(format!("SELECT id FROM users WHERE id = ?1{lock}"), params![id]).await?;
        }
        Ok(())
    }

    /// Somebody has signed in.
    pub(crate) async fn signed_in(&self, tx: &Tx, id: &UserId) -> Result<(), Error> {
        let Some(sink) = &self.0 else { return Ok(()) };
        match read(tx, id, "").await? {
            Some(account) => sink.tell(tx, AccountEventKind::SignedIn, &account).await,
            None => Ok(()),
        }
    }
}

impl Watched {
    /// Remembers another account.
    pub(crate) async fn also(&mut self, tx: &Tx, id: &UserId) -> Result<(), Error> {
        if self.sink.is_some() {
            let account = read(tx, id, dialect::for_update(tx.engine())).await?;
            self.before.push((id.clone(), account));
        }
        Ok(())
    }

    /// Tells what has happened to the accounts since.
    pub(crate) async fn tell(self, tx: &Tx) -> Result<(), Error> {
        let Some(sink) = self.sink else { return Ok(()) };
        for (id, before) in self.before {
            let now = read(tx, &id, "").await?;
            for kind in changes(before.as_ref(), now.as_ref()) {
                if let Some(account) = now.as_ref().or(before.as_ref()) {
                    sink.tell(tx, kind, account).await?;
                }
            }
        }
        Ok(())
    }
}

/// What the difference between two states of an account means. Pure.
fn changes(before: Option<&Account>, now: Option<&Account>) -> Vec<AccountEventKind> {
    use AccountEventKind::{Created, Deleted, Disabled, Enabled, Updated, Verified};

    let (was_verified, was_disabled) =
        before.map_or((false, false), |account| (account.email_verified, account.disabled));
    let mut kinds = Vec::new();
    match (before, now) {
        (None, Some(_)) => kinds.push(Created),
        (Some(_), None) => kinds.push(Deleted),
        (Some(before), Some(now)) => {
            let shown = |account: &Account| (account.email.clone(), account.roles.clone(), account.profile.clone());
            if shown(before) != shown(now) {
                kinds.push(Updated);
            }
        }
        (None, None) => {}
    }
    if let Some(now) = now {
        kinds.extend((now.email_verified && !was_verified).then_some(Verified));
        kinds.extend((now.disabled && !was_disabled).then_some(Disabled));
        kinds.extend((!now.disabled && was_disabled).then_some(Enabled));
    }
    kinds
}

async fn read(tx: &Tx, id: &UserId, lock: &str) -> Result<Option<Account>, Error> {
    // Bytes: of one account, whose profile has a limit.
    let sql = format!(
        concat!("SELECT ", user_columns!(), ", users.created_at, users.profile FROM users WHERE users.id = ?1{}"),
        lock
    );
    let each = |found: &mut Option<Account>, row: &RowRef<'_>| {
        let user: User = read_user(row, 0)?;
        *found = Some(Account {
            email: user.address().map(|email| email.as_str().to_owned()),
            id: user.id,
            email_verified: user.email_verified,
            roles: user.roles,
            disabled: user.disabled,
            created_at: row.get(USER_COLUMNS)?,
            profile: row.get(USER_COLUMNS + 1)?,
        });
        Ok(())
    };
    tx.fold(sql, params![id], None, each).await
}

impl fmt::Debug for AccountEvents {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("AccountEvents").field(&self.0.is_some()).finish()
    }
}

#[cfg(test)]
mod tests {
    use AccountEventKind::{Created, Deleted, Disabled, Enabled, Updated, Verified};

    use super::*;

    fn account(change: impl FnOnce(&mut Account)) -> Account {
        let mut account = Account {
            id: UserId::parse("ann").unwrap(),
            email: Some("ann@example.com".to_owned()),
            email_verified: false,
            roles: Roles::default(),
            disabled: false,
            created_at: Timestamp::UNIX_EPOCH,
            profile: None,
        };
        change(&mut account);
        account
    }

    #[test]
    fn a_difference_says_what_happened() {
        let plain = account(|_| {});
        let verified = account(|account| account.email_verified = true);
        let disabled = account(|account| account.disabled = true);
        let renamed = account(|account| (account.email, account.email_verified) = (Some("x@example.com".into()), true));
        let promoted = account(|account| account.roles = Roles::from(vec!["admin".to_owned()]));
        for (before, now, expected) in [
            (None, Some(&plain), vec![Created]),
            (None, Some(&verified), vec![Created, Verified]),
            (Some(&plain), None, vec![Deleted]),
            (Some(&plain), Some(&plain), vec![]),
            (Some(&plain), Some(&verified), vec![Verified]),
            (Some(&verified), Some(&plain), vec![]),
            (Some(&plain), Some(&disabled), vec![Disabled]),
            (Some(&disabled), Some(&disabled), vec![]),
            (Some(&disabled), Some(&plain), vec![Enabled]),
            (Some(&plain), Some(&renamed), vec![Updated, Verified]),
            (Some(&verified), Some(&renamed), vec![Updated]),
            (Some(&plain), Some(&promoted), vec![Updated]),
            (None, None, vec![]),
        ] {
            assert_eq!(changes(before, now), expected, "{before:?} {now:?}");
        }
    }
}
