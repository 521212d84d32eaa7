//! Accounts: the type of a user, the trait of a user store, and the two built-in stores.
//!
//! [`UserStore`] (`store.rs`) is the interface between sign-in and a host's own tables: four operations, and an
//! accessor for each optional capability (`capability.rs`, and `links.rs` for those about providers). [`SqlUserStore`]
//! has every capability; the server uses it. [`MemoryUserStore`] has every capability too, for tests and trials; its
//! users are lost when the process ends.

mod capability;
mod error;
mod hashes;
mod links;
mod listing;
mod memory;
mod rows;
mod search;
mod sql;
mod store;
mod user;

pub use crate::mailbox::MailboxProof;
pub use capability::{
    EmailChanger, EmailVerifier, GuestUsers, HashSettings, Holder, PasswordChecker, PasswordSetter, PasswordlessUsers,
    Sessions, SignOutEverywhere, UserDeleter, UserDisabler, UserLister, UserProfiles, UsersWithin,
};
pub use error::{BoxError, UserStoreError};
pub use links::{
    AccountLister, AccountUnlinker, LastLink, Linked, LinkedAccount, OAuthLinks, OAuthUserCreator, ProviderLink,
    Unlinked,
};
pub use listing::{ListUsers, UserPage, UserSummary};
pub use memory::MemoryUserStore;
pub(crate) use rows::{MIGRATIONS, USER_COLUMNS, read_user, roles_from_text, roles_text, user_columns};
pub(crate) use search::dates;
pub use search::{AccountDates, FoundUser, SearchUsers};
pub use sql::SqlUserStore;
pub use store::UserStore;
pub use user::{GuestUpgrade, NewPasswordlessUser, NewUser, User, UserWithHash};
