/// One key of the configuration file, as the parser reads it. The texts are Markdown, with links as of `docs/configuration.md`.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Setting {
    /// The path of its section, such as `auth.limits.login`, or `entity.field` for `[[entity.field]]`.
    pub section: String,
    /// The key. `NAME` in a section whose keys the operator chooses.
    pub key: &'static str,
    /// Its type, with the unit or the allowed words.
    pub kind: String,
    /// What holds where it is absent.
    pub default: Absent,
    /// What it does.
    pub about: &'static str,
}

/// What holds where a key is absent.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Absent {
    /// The configuration is refused.
    Refused,
    /// Nothing: what the key is for is off.
    Nothing,
    /// This value, as TOML.
    Value(String),
    /// What these words say, which depends on other settings.
    Derived(&'static str),
}

impl Setting {
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
