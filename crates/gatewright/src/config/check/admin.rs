use super::Faults;
use crate::config::{Config, Plugin};

/// Where the admin API and the console are mounted.
const PATH: &str = "/admin";

pub(super) fn check(config: &Config, faults: &mut Faults) {
    let admin = &config.admin;
    faults.require((1..=365).contains(&config.auth.guest_days), "auth.guest_days", "must be 1 to 365");
    faults.require(
        !config.auth.impersonation || (config.has_admin() && config.audit.enabled),
        "auth.impersonation",
        "needs `admin.enabled = true` and `audit.enabled = true`",
    );
    faults.require(!admin.role.trim().is_empty(), "admin.role", "must name a role");
    faults.require(!admin.fresh.is_zero(), "admin.fresh_sign_in_seconds", "must be at least 1");
    if !config.has_admin() {
        return;
    }
    faults.require(config.auth.enabled, "admin.enabled", "needs `auth.enabled = true`");
    faults.require(
        !admin.require_two_factor || config.server.dev_mode || config.plugins().contains(&Plugin::TwoFactor),
        "admin.require_two_factor",
        "needs \"two_factor\" in `auth.plugins`: without it nobody can verify a second factor",
    );
    for (key, path) in [("server.api_prefix", config.api_prefix()), ("auth.base_path", &*config.auth.base_path)] {
        faults.require(
            path != PATH && !path.starts_with("/admin/"),
            key,
            "must not be /admin or lie below it: the admin API is there",
        );
    }
}
