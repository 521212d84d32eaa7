use std::net::SocketAddr;

use gatewright_base::{Roles, Secret};
use url::Url;

use super::scalar::{FromNode, Keyword};

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
    pub(super) fn new<T: FromNode>(section: &str, key: &'static str, default: Absent, about: &'static str) -> Self {
        let units = [("_seconds", "seconds"), ("_ms", "milliseconds"), ("_days", "days"), ("_bytes", "bytes")];
        let unit = units.iter().find(|(suffix, _)| key.ends_with(suffix));
        let kind = match unit {
            Some((_, unit)) => format!("whole {unit}"),
            None => T::kind(),
        };
        Self { section: section.to_owned(), key, kind, default, about }
    }
}

/// A default that the reference can show.
pub(crate) trait ToToml {
    /// The value as a configuration file spells it.
    fn toml(&self) -> String;
}

macro_rules! as_debug {
    ($($number:ty),*) => {$(
        impl ToToml for $number {
            fn toml(&self) -> String {
                format!("{self:?}")
            }
        }
    )*};
}

as_debug!(bool, u32, u64, usize, f64, String);

impl ToToml for Secret {
    fn toml(&self) -> String {
        format!("{:?}", self.expose())
    }
}

impl ToToml for SocketAddr {
    fn toml(&self) -> String {
        format!("\"{self}\"")
    }
}

impl ToToml for Url {
    fn toml(&self) -> String {
        format!("\"{self}\"")
    }
}

impl<T: ToToml> ToToml for Vec<T> {
    fn toml(&self) -> String {
        list(self.iter().map(ToToml::toml))
    }
}

impl ToToml for Roles {
    fn toml(&self) -> String {
        list(self.iter().map(|role| format!("{role:?}")))
    }
}

impl<K: Keyword> ToToml for K {
    fn toml(&self) -> String {
        K::WORDS.iter().find(|(_, meaning)| meaning == self).map_or_else(String::new, |(word, _)| format!("{word:?}"))
    }
}

fn list(items: impl Iterator<Item = String>) -> String {
    format!("[{}]", items.collect::<Vec<_>>().join(", "))
}
