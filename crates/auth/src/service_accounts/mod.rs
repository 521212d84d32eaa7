//! Service accounts: identities of programs. They hold roles and authenticate by API token alone.
//!
//! They are created and disabled from trusted server code ([`ServiceAccounts`], `gatewright service-account`) and by no
//! route. Their tokens, and the tables of both, are the [`tokens`](crate::plugins::tokens) plugin's.

mod memory;
mod sql;
mod store;
mod trusted;

pub use memory::MemoryServiceAccountStore;
pub use sql::SqlServiceAccountStore;
pub use store::{ServiceAccount, ServiceAccountStore, ServiceAccountStoreError};
pub use trusted::{ServiceAccountError, ServiceAccounts};
