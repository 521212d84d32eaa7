//! Ids, clock, randomness, secrets and identity: the shared types of all crates.
//!
//! Nothing here does I/O, except asking the operating system for the time and for random bytes, and even those are
//! traits ([`Clock`], [`Rng`]) that a test replaces. A program creates one [`Ambient`] and passes clones of it on.
//!
//! The central type of the crate is [`Identity`]: authentication produces one, everything else only reads it. So the
//! sign-in code and the entity code do not depend on each other.

mod ambient;
mod budget;
mod casing;
mod clock;
mod fitting;
mod id;
mod identity;
#[cfg(feature = "keys")]
mod key;
mod live;
mod permission;
mod reauthenticate;
mod rng;
mod scope;
#[cfg(feature = "seal")]
mod sealing;
mod secret;
#[cfg(feature = "shares")]
mod shares;
#[cfg(feature = "keys")]
mod signing;
mod suggest;
#[cfg(feature = "testing")]
pub mod testing;
pub mod time;

pub use ambient::Ambient;
pub use budget::{Budget, Lease, OverBudget};
pub use casing::{JsonCase, to_camel, to_snake};
pub use clock::{Clock, ManualClock, SystemClock};
pub use fitting::Fitting;
pub use id::{
    Id, InvalidId, InvitationId, ServiceId, SessionId, TenantId, TokenId, UserId, canonical_id, is_upper_uuid,
};
pub use identity::{Credential, Grant, Identity, Principal, Subject, TenantLimit};
#[cfg(feature = "keys")]
pub use key::Key;
pub use live::Live;
pub use permission::{Grants, InvalidPermission, Permission, RolePermissions, Roles};
pub use reauthenticate::{Presented, Reauthenticate, Unavailable};
pub use rng::{OsRng, Rng, SeededRng};
pub use scope::{InvalidScope, Scope, Scopes};
#[cfg(feature = "seal")]
pub use sealing::SealingKey;
pub use secret::Secret;
#[cfg(feature = "shares")]
pub use shares::{Shares, Turn};
#[cfg(feature = "keys")]
pub use signing::SigningKey;
pub use suggest::nearest;
