//! Service accounts: identities of programs. They hold roles and authenticate by API token alone.
//!
//! They are created and disabled from trusted server code ([`ServiceAccounts`], `gatewright service-account`) and by no
//! route. Their tokens are kept by [`tokens`](crate::tokens), which has the tables of both.

mod memory;
mod sql;
mod store;
mod trusted;

pub use memory::MemoryServiceAccountStore;
pub use sql::SqlServiceAccountStore;
pub use store::{ServiceAccount, ServiceAccountStore, ServiceAccountStoreError};
pub use trusted::{ServiceAccountError, ServiceAccounts};
