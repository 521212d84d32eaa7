//! Accounts: what a user is, the store that a host brings, and the two that come along.
//!
//! [`UserStore`] (`store.rs`) is the wall between sign-in and a host's own tables: four operations, and an accessor
//! for each further ability (`capability.rs`, and `links.rs` for those around
//! providers). [`SqlUserStore`] has every ability and is what the server uses;
//! [`MemoryUserStore`] has them too and forgets everything at the end, for tests and for trying things out.

mod capability;
mod error;
mod links;
mod listing;
mod memory;
mod rows;
mod search;
mod sql;
mod store;
mod user;

pub use capability::{
    EmailChanger, EmailVerifier, HashSettings, Holder, PasswordChecker, PasswordSetter, PasswordlessUsers, Sessions,
    SignOutEverywhere, UserDeleter, UserDisabler, UserLister, UserProfiles, UsersWithin,
};
pub use error::{BoxError, UserStoreError};
pub use links::{
    AccountLister, AccountUnlinker, LastLink, Linked, LinkedAccount, OAuthLinks, OAuthUserCreator, ProviderLink,
    Unlinked,
};
pub use listing::{ListUsers, UserPage, UserSummary};
pub use memory::MemoryUserStore;
pub(crate) use rows::{MIGRATIONS, read_user, roles_from_text, roles_text, user_columns};
pub use search::{FoundUser, SearchUsers};
pub use sql::SqlUserStore;
pub use store::UserStore;
pub use user::{NewPasswordlessUser, NewUser, User, UserWithHash};
