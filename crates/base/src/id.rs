use std::borrow::{Borrow, Cow};
use std::fmt;
use std::hash::{Hash, Hasher};
use std::marker::PhantomData;
use std::sync::Arc;

use crate::Ambient;

/// The identifier of a `T`: opaque text, cheap to clone, and a distinct type for each kind of thing.
///
/// Gatewright creates UUID version 7; a program's own user store may use any text of 1 to 200 visible characters. A UUID is
/// always in lower case here ([`canonical_id`]), also one that such a store makes.
pub struct Id<T>(Arc<str>, PhantomData<fn() -> T>);

/// The marker types of [`Id`].
pub(crate) mod kind {
    #[derive(Debug)]
    pub enum User {}
    #[derive(Debug)]
    pub enum Service {}
    #[derive(Debug)]
    pub enum Session {}
    #[derive(Debug)]
    pub enum Token {}
    #[derive(Debug)]
    pub enum Tenant {}
    #[derive(Debug)]
    pub enum Invitation {}
}

/// A user's identifier.
pub type UserId = Id<kind::User>;
/// A service account's identifier.
pub type ServiceId = Id<kind::Service>;
/// A session's public identifier, for listings. It is not the secret of the cookie.
pub type SessionId = Id<kind::Session>;
/// An API token's identifier.
pub type TokenId = Id<kind::Token>;
/// An invitation's identifier.
pub type InvitationId = Id<kind::Invitation>;
/// A tenant's identifier, as requests name it.
pub type TenantId = Id<kind::Tenant>;

/// Text that cannot be an identifier: empty, over 200 bytes, or with spaces or control characters.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("an identifier is 1 to 200 visible characters")]
pub struct InvalidId;

/// The one spelling of an identifier that somebody gives: a UUID with hyphens in lower case, as RFC 9562, section 4 wants
/// of readers. Other text stays unchanged. Every place that takes an identifier as text reads it with this function.
///
/// ```
/// use gatewright_base::canonical_id;
/// assert_eq!(canonical_id("0191D2B3-0000-7000-8000-00000000000A"), "0191d2b3-0000-7000-8000-00000000000a");
/// assert_eq!(canonical_id("Acme"), "Acme");
/// ```
pub fn canonical_id(text: &str) -> Cow<'_, str> {
    if is_upper_uuid(text.as_bytes()) { Cow::Owned(text.to_ascii_lowercase()) } else { Cow::Borrowed(text) }
}

/// Whether `text` is a UUID with hyphens that has a digit in upper case: never the identifier of anything that is stored.
pub fn is_upper_uuid(text: &[u8]) -> bool {
    let Ok(text) = <&[u8; 36]>::try_from(text) else { return false };
    let is_upper = |byte: &u8| matches!(byte, b'A'..=b'F');
    let fits = |(at, byte): (usize, &u8)| match at {
        8 | 13 | 18 | 23 => *byte == b'-',
        _ => byte.is_ascii_hexdigit(),
    };
    text.iter().any(is_upper) && text.iter().enumerate().all(fits)
}

impl<T> Id<T> {
    /// A fresh identifier (UUID version 7).
    pub fn generate(ambient: &Ambient) -> Self {
        Self(ambient.uuid().to_string().into(), PhantomData)
    }

    /// Checks `text`, and takes it in its [canonical](canonical_id) spelling.
    pub fn parse(text: &str) -> Result<Self, InvalidId> {
        let visible = |c: char| !c.is_control() && !c.is_whitespace();
        // Ours are ASCII, of which no character needs a table.
        let is_visible = text.bytes().all(|byte| byte.is_ascii_graphic()) || text.chars().all(visible);
        if text.is_empty() || text.len() > 200 || !is_visible {
            return Err(InvalidId);
        }
        Ok(Self((&*canonical_id(text)).into(), PhantomData))
    }

    /// The text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl<T> Clone for Id<T> {
    fn clone(&self) -> Self {
        Self(self.0.clone(), PhantomData)
    }
}
impl<T> PartialEq for Id<T> {
    fn eq(&self, other: &Self) -> bool {
        self.0 == other.0
    }
}
impl<T> Eq for Id<T> {}
impl<T> PartialOrd for Id<T> {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}
impl<T> Ord for Id<T> {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.0.cmp(&other.0)
    }
}
impl<T> Hash for Id<T> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.0.hash(state);
    }
}
impl<T> Borrow<str> for Id<T> {
    fn borrow(&self) -> &str {
        &self.0
    }
}
impl<T> fmt::Debug for Id<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.0, f)
    }
}
impl<T> fmt::Display for Id<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}
impl<T> serde::Serialize for Id<T> {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.0)
    }
}
impl<'de, T> serde::Deserialize<'de> for Id<T> {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        Self::parse(&text).map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_uuid_is_read_in_any_case_and_other_text_as_it_is() {
        let lower = "0191d2b3-abcd-7000-8000-00000000000a";
        for (given, read) in [
            (lower, lower),
            ("0191D2B3-ABCD-7000-8000-00000000000A", lower),
            ("0191d2b3-abcd-7000-8000-00000000000A", lower),
            ("0191D2B3ABCD7000800000000000000A", "0191D2B3ABCD7000800000000000000A"),
            ("0191D2B3-ABCD-7000-8000-00000000000G", "0191D2B3-ABCD-7000-8000-00000000000G"),
            ("0191D2B3-ABCD-7000-8000000-0000000-0A", "0191D2B3-ABCD-7000-8000000-0000000-0A"),
            ("ABCDABCDABCDABCDABCDABCDABCDABCDABCD", "ABCDABCDABCDABCDABCDABCDABCDABCDABCD"),
            ("Ann", "Ann"),
            ("", ""),
        ] {
            assert_eq!(canonical_id(given), read, "{given}");
            assert_eq!(is_upper_uuid(given.as_bytes()), given != read, "{given}");
            assert_eq!(UserId::parse(given).ok().as_ref().map(UserId::as_str), Some(read).filter(|id| !id.is_empty()));
        }
    }
}
