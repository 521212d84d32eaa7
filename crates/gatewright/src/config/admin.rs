use std::time::Duration;

use super::Config;
use super::read::Section;

/// `[admin]`: the admin API and the console.
#[derive(Debug, Clone)]
pub struct Admin {
    /// Whether both are mounted. Absent: only in dev mode, if there are accounts.
    pub enabled: Option<bool>,
    /// The role of administrators.
    pub role: String,
    /// Whether they need a second factor.
    pub require_two_factor: bool,
    /// For actions that are hard to undo: the maximum time since the sign-in.
    pub fresh: Duration,
}

impl Default for Admin {
    fn default() -> Self {
        Self { enabled: None, role: "admin".to_owned(), require_two_factor: true, fresh: Duration::from_mins(10) }
    }
}

impl Admin {
    pub(super) fn read(section: &mut Section<'_>) -> Self {
        let default = Self::default();
        Self {
            enabled: section.derived("enabled", "`false`; `true` in dev mode", "Whether they are enabled."),
            role: section.value(
                "role",
                default.role,
                "The role whose holders may administer. It need not be in `[roles]`, which gives permissions on entities.",
            ),
            require_two_factor: section.value(
                "require_two_factor",
                default.require_two_factor,
                "Whether they need a second factor.",
            ),
            fresh: section.seconds(
                "fresh_sign_in_seconds",
                default.fresh,
                "How long ago a person may have signed in for actions that are hard to undo.",
            ),
        }
    }
}

impl Config {
    /// Whether the admin API and the console are mounted: `admin.enabled`, or in dev mode if there are accounts.
    pub fn has_admin(&self) -> bool {
        self.admin.enabled.unwrap_or(self.server.dev_mode && self.auth.enabled)
    }
}
