//! What the schema knows and this version cannot do yet. It is refused by name, since a setting that is ignored is
//! worse than one that is missing.

use super::{Config, Faults, Plugin};

/// The plugins that exist; `auth.plugins` left out means all of them.
pub(crate) const BUILT_PLUGINS: &[Plugin] = &[
    Plugin::Core,
    Plugin::MagicLink,
    Plugin::OAuth,
    Plugin::TwoFactor,
    Plugin::Accounts,
    Plugin::EmailVerification,
    Plugin::PasswordReset,
    Plugin::Tokens,
];

/// Refuses what values ask for.
pub(super) fn check(config: &Config, faults: &mut Faults) {
    for (index, plugin) in config.auth.plugins.iter().flatten().enumerate() {
        if !BUILT_PLUGINS.contains(plugin) {
            let name = plugin.name();
            let message = format!("this version does not have the plugin \"{name}\" yet; take the setting out");
            faults.add(format!("auth.plugins[{index}]"), message);
        }
    }
}
