//! Known devices: browsers in which an account has signed in before.
//!
//! Every sign-in ends at [`Devices::remember`], which sets a cookie ([`DeviceCookie`]) with a new token for the account
//! and stores the token's hash (`rows.rs`). A browser with the token of its last sign-in is a known device. It does not
//! prove who uses it. But it has its own limit of failures, so that somebody else's wrong passwords do not lock the
//! owner out, and no notice is mailed when it signs in.
//!
//! Tokens rotate: the old one becomes invalid. If a copied cookie is used first, the owner gets the notice at the next
//! sign-in; otherwise the copy is invalid.

mod cookie;
mod name;
mod rows;
mod sign_in;

use gatewright_base::{Ambient, UserId};
use gatewright_db::{Db, Error};
use jiff::{SignedDuration, Timestamp};
use uuid::Uuid;

pub(crate) use cookie::DeviceCookie;
pub(crate) use name::device_name;
#[cfg(feature = "authorization-server")]
pub(crate) use name::safe_name;
use rows::Rows;
pub(crate) use rows::{COMPONENT, MIGRATIONS, OWNERS, OWNERS_OF_BEFORE, StoredDevice};
pub(crate) use sign_in::{Browser, Counted, DeviceBudget, current};

/// How long a device that is not used stays known.
const REMEMBERED: SignedDuration = SignedDuration::from_hours(180 * 24);

/// The known devices of a database. Cheap to clone.
#[derive(Debug, Clone)]
pub(crate) struct Devices {
    rows: Rows,
    ambient: Ambient,
}

impl Devices {
    pub(crate) fn new(db: Db, ambient: Ambient) -> Self {
        Self { rows: Rows::new(db), ambient }
    }

    /// The devices of an account, the latest used first.
    pub(crate) async fn list(&self, user: &UserId) -> Result<Vec<StoredDevice>, Error> {
        self.rows.list(user, self.oldest()).await
    }

    /// Forgets one device of an account; `false` if it has none with this id.
    pub(crate) async fn forget(&self, user: &UserId, id: Uuid) -> Result<bool, Error> {
        self.rows.remove(user, id).await
    }

    /// Forgets all devices of an account except one, and returns how many there were. The next sign-in elsewhere causes a
    /// notice.
    pub(crate) async fn forget_all(&self, user: &UserId, keep: Option<Uuid>) -> Result<u64, Error> {
        self.rows.remove_all(user, keep).await
    }

    /// Removes all data: the account is deleted, or gets another holder.
    pub(crate) async fn forget_account(&self, user: &UserId) -> Result<(), Error> {
        self.rows.remove_account(user).await
    }

    /// Removes devices that were not used for a long time.
    pub(crate) async fn sweep(&self, limit: u32) -> Result<u64, Error> {
        self.rows.sweep(self.oldest(), limit).await
    }

    fn oldest(&self) -> Timestamp {
        self.ambient.now().checked_sub(REMEMBERED).unwrap_or(Timestamp::MIN)
    }
}
