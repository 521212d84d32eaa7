//! What the schema knows and this version cannot do yet. It is refused by name, since a setting that is ignored is
//! worse than one that is missing. A feature that gets built loses its rows here, and needs no other change.

use gatewright_entities::Entity;

use super::read::{Table, Value};
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
const UNBUILT: &[(&str, &str, Asked<Config>)] = &[
    ("audit.entities", "the audit of entity writes", Asked::Value(|config| config.audit.entities)),
    ("mcp.enabled", "the tool surface", Asked::SwitchedOn),
    ("docs.enabled", "the documentation page", Asked::SwitchedOn),
];

/// The same for the keys of an entity. What their values ask for, the declarations refuse themselves.
const UNBUILT_OF_ENTITY: &[(&str, &str, Asked<Entity>)] = &[("mcp", "the tool surface", Asked::SwitchedOn)];

/// How a feature is asked for.
enum Asked<T: 'static> {
    /// By a value, whether it came from a file or from a program.
    Value(fn(&T) -> bool),
    /// By writing `true`, which is the default of a feature that exists.
    SwitchedOn,
}

/// Refuses what values ask for.
pub(super) fn check(config: &Config, faults: &mut Faults) {
    for (key, feature, asked) in UNBUILT {
        if matches!(asked, Asked::Value(asked) if asked(config)) {
            refuse(faults, (*key).to_owned(), feature);
        }
    }
    for (index, plugin) in config.auth.plugins.iter().flatten().enumerate() {
        if !BUILT_PLUGINS.contains(plugin) {
            refuse(faults, format!("auth.plugins[{index}]"), &format!("the plugin \"{}\"", plugin.name()));
        }
    }
}

/// Refuses what only a file or the environment can ask for.
pub(super) fn check_written(tree: &Table, config: &Config, faults: &mut Faults) {
    let entities = (0..config.entities.len()).flat_map(|index| {
        UNBUILT_OF_ENTITY
            .iter()
            .map(move |(key, feature, asked)| (format!("entity[{index}].{key}"), *feature, asked.is_written_as()))
    });
    let sections = UNBUILT.iter().map(|(key, feature, asked)| ((*key).to_owned(), *feature, asked.is_written_as()));
    for (key, feature, test) in sections.chain(entities) {
        let written = tree.find(&key).is_some_and(|node| test.is_some_and(|test| test(&node.value)));
        if written && faults.0.iter().all(|fault| fault.key != key) {
            refuse(faults, key, feature);
        }
    }
}

impl<T> Asked<T> {
    fn is_written_as(&self) -> Option<fn(&Value) -> bool> {
        match self {
            Self::Value(_) => None,
            Self::SwitchedOn => Some(|value| matches!(value, Value::Bool(true))),
        }
    }
}

fn refuse(faults: &mut Faults, key: String, feature: &str) {
    let message = format!("this version does not have {feature} yet; take the setting out");
    faults.add(key, message);
}
