//! How the passwords of all accounts are hashed.

use std::collections::BTreeSet;

use gatewright_base::UserId;

use super::{HashSetting, PasswordHash};

/// A survey of the stored hashes.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct StoredHashes {
    /// The settings of all hashes, each once.
    pub settings: BTreeSet<HashSetting>,
    /// Hashes in no known format, damaged, or too costly: nobody can sign in with them.
    pub unknown: Unusable,
    /// Hashes that are usable only if [`AuthConfig::allow_weak_hashes`](crate::AuthConfig::allow_weak_hashes) is set.
    pub weak: Unusable,
}

/// Accounts whose hash is unusable.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Unusable {
    /// How many there are.
    pub count: u64,
    /// The first of them, at most 20.
    pub first: Vec<UserId>,
}

/// Most accounts that are named.
const NAMED: usize = 20;

impl StoredHashes {
    /// Logs how many accounts have a password that nobody can give, and which.
    pub(crate) fn log_unusable(&self, allow_weak: bool) {
        let names = |unusable: &Unusable| unusable.first.iter().map(UserId::as_str).collect::<Vec<_>>().join(", ");
        let StoredHashes { unknown, weak, .. } = self;
        if unknown.count > 0 {
            tracing::error!(
                count = unknown.count,
                users = names(unknown),
                "stored password hashes are in no known format, damaged or too costly; set new passwords with `gatewright \
                 user set-password`"
            );
        }
        if weak.count > 0 && !allow_weak {
            tracing::error!(
                count = weak.count,
                users = names(weak),
                "stored password hashes are weak and not used; `auth.allow_weak_hashes` allows them until each account's \
                 next sign-in"
            );
        }
    }

    /// Adds the hash of an account.
    pub fn add(&mut self, id: &UserId, hash: &str) {
        let setting = HashSetting::of_stored(hash);
        self.settings.extend(setting);
        let unusable = match setting {
            _ if !PasswordHash::from_stored(hash).is_readable() => &mut self.unknown,
            None => &mut self.unknown,
            Some(setting) if setting.is_weak() => &mut self.weak,
            Some(_) => return,
        };
        unusable.count += 1;
        if unusable.first.len() < NAMED {
            unusable.first.push(id.clone());
        }
    }
}
