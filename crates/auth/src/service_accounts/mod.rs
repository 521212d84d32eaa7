//! Service accounts: identities of programs. They have roles and authenticate only by API token.
//!
//! Only trusted server code creates and disables them ([`ServiceAccounts`], `gatewright service-account`); there is no
//! route for it. [`tokens`](crate::tokens) stores their tokens and has the tables of both.

mod memory;
mod sql;
mod store;
mod trusted;

pub use memory::MemoryServiceAccountStore;
pub use sql::SqlServiceAccountStore;
pub use store::{ServiceAccount, ServiceAccountStore, ServiceAccountStoreError};
pub use trusted::{ServiceAccountError, ServiceAccounts};
