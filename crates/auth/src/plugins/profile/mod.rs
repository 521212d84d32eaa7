//! Profiles of accounts, with fields that the program declares.
//!
//! `http.rs` accepts a change from a session, [`ProfileFields`] parses it and merges it into the stored profile, and
//! the user store ([`UserProfiles`](crate::users::UserProfiles)) replaces the stored text, unless it has changed
//! meanwhile (`profiles.rs` of this crate). `GET /me`, sign-in and the account's export show the profile. The audit log
//! has the names of changed fields, not their values. This crate does not know which fields there are.

mod http;
pub(crate) mod inputs;
pub(crate) mod section;

use std::sync::Arc;

use crate::foundation::Foundation;
use crate::init_error::AuthInitError;
use crate::plugins::{Plugin, Prepared};

use crate::profiles::Profiles;
pub use crate::profiles::{InputKind, ProfileFields, ProfileInput};
use section::ProfileSection;

/// The plugin for profiles of accounts.
pub struct ProfilePlugin {
    fields: Arc<dyn ProfileFields>,
}

impl ProfilePlugin {
    /// Profiles of these fields.
    pub fn new(fields: Arc<dyn ProfileFields>) -> Self {
        Self { fields }
    }
}

impl Plugin for ProfilePlugin {
    fn name(&self) -> &'static str {
        "profile"
    }

    fn prepare(self: Box<Self>, foundation: &Foundation) -> Result<Prepared, AuthInitError> {
        let Some(store) = foundation.users.profiles.clone() else {
            return Err(AuthInitError::MissingCapability {
                plugin: "profile",
                store: "user",
                capability: "profiles",
                remedy: "implement `user_profiles`",
            });
        };
        let profiles = Profiles::new(self.fields, store);
        let section = profiles.clone();
        Ok(Prepared::new()
            .profiles(profiles.clone())
            .account_section(|_| Arc::new(ProfileSection::new(section)))
            .routes(|core| http::routes(core, profiles)))
    }
}

impl std::fmt::Debug for ProfilePlugin {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ProfilePlugin").finish_non_exhaustive()
    }
}
