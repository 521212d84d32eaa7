//! What the schema knows and this version cannot do yet. It is refused by name, since a setting that is ignored is
//! worse than one that is missing. A feature that gets built loses its rows here, and needs no other change.

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

/// Settings by path, the feature they ask for, and how one sees that it is asked for.
const UNBUILT: &[(&str, &str, IsAsked)] =
    &[("audit.entities", "the audit of entity writes", |config| config.audit.entities)];

type IsAsked = fn(&Config) -> bool;

/// Refuses what values ask for.
pub(super) fn check(config: &Config, faults: &mut Faults) {
    for (key, feature, is_asked) in UNBUILT {
        if is_asked(config) {
            refuse(faults, (*key).to_owned(), feature);
        }
    }
    for (index, plugin) in config.auth.plugins.iter().flatten().enumerate() {
        if !BUILT_PLUGINS.contains(plugin) {
            refuse(faults, format!("auth.plugins[{index}]"), &format!("the plugin \"{}\"", plugin.name()));
        }
    }
}

fn refuse(faults: &mut Faults, key: String, feature: &str) {
    let message = format!("this version does not have {feature} yet; take the setting out");
    faults.add(key, message);
}
