//! The accounts on which nobody except an operator has put credentials, although nobody has proven their mailbox: those
//! that an operator created, or whose password an operator set, which removes all others.
//!
//! Anybody can register an address that is not theirs. An operator who means the owner of the address must not give roles,
//! memberships or tokens to such an account. [`Accounts::resolve`] decides it for every tool of operators.

use gatewright_base::UserId;
use gatewright_db::{Db, Error, Step, params};
use jiff::Timestamp;

use crate::accounts::{AccountError, Accounts};
use crate::users::User;

/// The account that an operator means.
#[derive(Debug, Clone, Copy)]
pub enum AccountName<'a> {
    /// The one with this address.
    Address(&'a str),
    /// The one with this id.
    Id(&'a UserId),
}

/// Whether an operator insists on an account that a stranger may have registered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unverified {
    /// Such an account is refused.
    Refuse,
    /// The operator has decided that it is the right one.
    Accept,
}

/// The accounts in the table `users_of_operators`. Cheap to clone.
#[derive(Clone)]
pub(crate) struct OperatorAccounts {
    db: Db,
}

/// The name under which the steps are remembered.
pub(crate) const COMPONENT: &str = "operator_accounts";

/// The steps that create the table. There is no foreign key: users may be in a program's own store.
pub(crate) const MIGRATIONS: &[Step] = &[Step {
    version: 1,
    name: "accounts of operators",
    sql: "CREATE TABLE users_of_operators (user_id {text} PRIMARY KEY, since {time} NOT NULL)",
}];

impl OperatorAccounts {
    pub(crate) fn new(db: Db) -> Self {
        Self { db }
    }

    pub(crate) async fn put(&self, user: &UserId, now: Timestamp) -> Result<(), Error> {
        let sql = "INSERT INTO users_of_operators (user_id, since) VALUES (?1, ?2) ON CONFLICT (user_id) DO NOTHING";
        self.db.execute(sql, params![user, now]).await.map(|_| ())
    }

    async fn has(&self, user: &UserId) -> Result<bool, Error> {
        let sql = "SELECT user_id FROM users_of_operators WHERE user_id = ?1";
        Ok(self.db.query_opt(sql, params![user]).await?.is_some())
    }

    /// Removes the account, which is deleted.
    pub(crate) async fn forget(&self, user: &UserId) -> Result<(), Error> {
        self.db.execute("DELETE FROM users_of_operators WHERE user_id = ?1", params![user]).await.map(|_| ())
    }
}

impl From<bool> for Unverified {
    /// The value of a flag.
    fn from(accept: bool) -> Self {
        if accept { Self::Accept } else { Self::Refuse }
    }
}

impl Accounts {
    /// The account that an operator names in order to give it something: a password, roles, a membership, a token. Every
    /// tool of operators calls this. Unless the operator insists, it fails with [`AccountError::Unverified`] if nobody has
    /// proven the mailbox and no operator created the account: anybody may have registered it.
    pub async fn resolve(&self, name: AccountName<'_>, unverified: Unverified) -> Result<User, AccountError> {
        let user = match name {
            AccountName::Address(email) => self.find(email).await?,
            AccountName::Id(id) => self.find_by_id(id).await?,
        };
        if unverified == Unverified::Refuse && self.may_be_a_strangers(&user).await? {
            return Err(AccountError::Unverified(user.email));
        }
        Ok(user)
    }

    /// Whether a stranger may have credentials on this account.
    pub(crate) async fn may_be_a_strangers(&self, user: &User) -> Result<bool, AccountError> {
        if user.email_verified {
            return Ok(false);
        }
        match &self.core().operator_accounts {
            Some(accounts) => Ok(!accounts.has(&user.id).await?),
            None => Ok(true),
        }
    }

    /// Records that only an operator has put credentials on this account.
    pub(crate) async fn record_as_operators(&self, id: &UserId) -> Result<(), AccountError> {
        let core = self.core();
        match &core.operator_accounts {
            Some(accounts) => Ok(accounts.put(id, core.ambient.now()).await?),
            None => Ok(()),
        }
    }
}
