use std::net::SocketAddr;

use gatewright_base::{Roles, Secret};
use url::Url;

use super::scalar::Keyword;

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
