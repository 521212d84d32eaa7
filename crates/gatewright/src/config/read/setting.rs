/// One key of the configuration file, as the parser reads it. The texts are Markdown, with links relative to
/// `docs/configuration.md`.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Setting {
    /// The path of its section, such as `auth.limits.login`, or `entity.field` for `[[entity.field]]`.
    pub section: String,
    /// The key. `NAME` in a section with free keys.
    pub key: &'static str,
    /// Its type, with the unit or the allowed words.
    pub kind: String,
    /// The effect of leaving it out.
    pub default: Absent,
    /// Its description.
    pub about: &'static str,
}

/// The type of secrets, and of lists of them, as the reference names it.
pub(super) const SECRET: &str = "secret";
const SECRETS: &str = "list of secrets";

/// The effect of leaving a key out.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Absent {
    /// The configuration is refused.
    Refused,
    /// The feature of the key is off.
    Nothing,
    /// This value, as TOML.
    Value(String),
    /// A default that depends on other settings, described in words.
    Derived(&'static str),
}

impl Setting {
    /// Whether its value is a secret or a list of secrets. Such a value may be in a file.
    pub fn is_secret(&self) -> bool {
        self.kind == SECRET || self.kind == SECRETS
    }

    /// Whether its value is a list.
    pub(crate) fn is_secret_list(&self) -> bool {
        self.kind == SECRETS
    }

    /// `kind` is the type of the key's values, unless the key names a unit.
    pub(super) fn new(
        section: &str,
        key: &'static str,
        kind: impl FnOnce() -> String,
        default: Absent,
        about: &'static str,
    ) -> Self {
        let units = [("_seconds", "seconds"), ("_ms", "milliseconds"), ("_days", "days"), ("_bytes", "bytes")];
        let unit = units.iter().find(|(suffix, _)| key.ends_with(suffix));
        let kind = match unit {
            Some((_, unit)) => format!("whole {unit}"),
            None => kind(),
        };
        Self { section: section.to_owned(), key, kind, default, about }
    }
}
