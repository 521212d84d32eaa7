use std::fmt;

use secrecy::{ExposeSecret, SecretString};
use subtle::ConstantTimeEq;

/// Text that must not leak: a password, a key, a token's plaintext.
///
/// It has no `Display` and no `Serialize`, its `Debug` shows only that it exists, its memory is cleared on drop, and
/// equality takes constant time. Only [`Secret::expose`] returns the text, so that a search for it finds every use of a
/// secret.
///
/// ```compile_fail
/// println!("{}", gatewright_base::Secret::new("hunter2"));
/// ```
/// ```compile_fail
/// fn serialise<T: serde::Serialize>(_: T) {}
/// serialise(gatewright_base::Secret::new("hunter2"));
/// ```
#[derive(Clone)]
pub struct Secret(SecretString);

impl Secret {
    /// Takes `text` in.
    pub fn new(text: impl Into<String>) -> Self {
        Self(SecretString::from(text.into()))
    }

    /// The text itself.
    pub fn expose(&self) -> &str {
        self.0.expose_secret()
    }

    /// Length in bytes.
    pub fn len(&self) -> usize {
        self.expose().len()
    }

    /// Whether the text is empty.
    pub fn is_empty(&self) -> bool {
        self.expose().is_empty()
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(…)")
    }
}

impl PartialEq for Secret {
    fn eq(&self, other: &Self) -> bool {
        self.expose().as_bytes().ct_eq(other.expose().as_bytes()).into()
    }
}

impl Eq for Secret {}

impl From<String> for Secret {
    fn from(text: String) -> Self {
        Self::new(text)
    }
}

impl<'de> serde::Deserialize<'de> for Secret {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer).map(Self::new)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn debug_does_not_show_the_text() {
        assert!(!format!("{:?}", Secret::new("canary-7f3a")).contains("canary"));
    }

    #[test]
    fn equality_compares_the_text() {
        assert_eq!(Secret::new("a"), Secret::new("a"));
        assert_ne!(Secret::new("a"), Secret::new("b"));
        assert_ne!(Secret::new("a"), Secret::new("aa"));
    }
}
