use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;

use gatewright_base::UserId;
use icu_normalizer::ComposingNormalizerBorrowed;

/// A normalised email address: trimmed, lower-cased, its domain in ASCII (IDNA, UTS 46: `bücher.example` is
/// `xn--bcher-kva.example`), at most 254 characters (RFC 5321, 4.5.3.1.3).
///
/// Two spellings of one address are one account, so every lookup and every limiter key uses this type. Two different
/// addresses are never one account. Therefore an address is invalid if normalising would turn a character outside ASCII
/// into an ASCII character (the Kelvin sign U+212A is a `k` in lower case, `ｇ` a `g` in a domain), because its mail may
/// go to another mailbox than that of the normalised address. Similar-looking characters stay different. The syntax
/// check is simpler than RFC 5322: it catches typing errors and refuses everything that is unsafe in a mail header, a
/// log line or a page. Only a mail can show whether the mailbox exists.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct EmailAddress(Arc<str>);

/// The text is not an email address. The error does not contain the text, because people type passwords into the wrong
/// field.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("not a valid email address")]
pub struct InvalidEmail;

/// The domain of the reserved addresses of guests (RFC 2606, section 2). No mailbox has it.
pub(crate) const GUEST_DOMAIN: &str = "@guest.invalid";
/// How the reserved address of a guest begins, so that they are together in the index of addresses.
const GUEST_PREFIX: &str = "guest-";

/// Most characters (and, in ASCII, bytes) of an address.
const MAX_LENGTH: usize = 254;
/// Most bytes before the `@` (RFC 5321, 4.5.3.1.1).
const MAX_LOCAL: usize = 64;

impl EmailAddress {
    /// Trims, lower-cases and checks `text`. The reserved addresses of guests are invalid: nobody can name them.
    pub fn parse(text: &str) -> Result<Self, InvalidEmail> {
        Self::stored(text).and_then(|email| if email.is_of_guest() { Err(InvalidEmail) } else { Ok(email) })
    }

    /// The reserved address of a guest. It is stored where an address is required.
    pub fn of_guest(id: &UserId) -> Self {
        Self(format!("{GUEST_PREFIX}{id}{GUEST_DOMAIN}").into())
    }

    /// Whether this is a reserved address of guests, which is none to anybody. It is written as null, and shown as "guest".
    pub fn is_of_guest(&self) -> bool {
        self.0.ends_with(GUEST_DOMAIN)
    }

    /// The same as [`parse`](Self::parse) for stored text, which may be the reserved address of a guest.
    pub fn stored(text: &str) -> Result<Self, InvalidEmail> {
        let text = text.trim();
        // Lower-casing never shortens below a quarter, so a giant text is turned away before it is copied.
        if text.len() > MAX_LENGTH * 4 {
            return Err(InvalidEmail);
        }
        let composed = composed(text).ok_or(InvalidEmail)?;
        let text = composed.as_ref();
        let (local, domain) = text.rsplit_once('@').ok_or(InvalidEmail)?;
        // Most stored addresses are already canonical: there is nothing to convert.
        if text.len() <= MAX_LENGTH && text.bytes().all(is_lower) {
            let is_sane = local_is_sane(local) && domain_is_sane(domain);
            return is_sane.then(|| Self(text.into())).ok_or(InvalidEmail);
        }
        let (local, domain) = (lower_local(local).ok_or(InvalidEmail)?, ascii_domain(domain).ok_or(InvalidEmail)?);
        let text = format!("{local}@{domain}");
        if text.chars().count() <= MAX_LENGTH { Ok(Self(text.into())) } else { Err(InvalidEmail) }
    }

    /// The address.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// The text in normalization form C, as most systems type it: some write `é` as two characters. `None` if a character beyond
/// ASCII becomes ASCII.
fn composed(text: &str) -> Option<Cow<'_, str>> {
    if text.is_ascii() {
        return Some(text.into());
    }
    let form = ComposingNormalizerBorrowed::new_nfc();
    let becomes_ascii = |c: char| !c.is_ascii() && form.normalize_iter(std::iter::once(c)).any(|c| c.is_ascii());
    if text.chars().any(becomes_ascii) { None } else { Some(form.normalize(text)) }
}

/// Whether a character of an address is ASCII and has no other case to be folded to.
fn is_lower(byte: u8) -> bool {
    byte.is_ascii_lowercase() || byte.is_ascii_digit() || matches!(byte, b'@' | b'.' | b'-' | b'_' | b'+')
}

/// The part before the `@` in lower case, if it is sane and nothing beyond ASCII became ASCII.
fn lower_local(local: &str) -> Option<String> {
    let becomes_ascii = |c: char| !c.is_ascii() && c.to_lowercase().any(|lower| lower.is_ascii());
    if local.chars().any(becomes_ascii) {
        return None;
    }
    let lower = local.to_lowercase();
    local_is_sane(&lower).then_some(lower)
}

/// The domain in lower case and ASCII, if it is sane and each label beyond ASCII is one that DNS spells `xn--`.
fn ascii_domain(domain: &str) -> Option<String> {
    let lower = domain.to_lowercase();
    if !domain_is_sane(&lower) {
        return None;
    }
    if domain.is_ascii() {
        return Some(lower);
    }
    let Ok(url::Host::Domain(ascii)) = url::Host::parse(domain) else { return None };
    let same = |(label, ascii): (&str, &str)| label.is_ascii() || ascii.starts_with("xn--");
    let kept = domain.split('.').count() == ascii.split('.').count()
        && domain.split('.').zip(ascii.split('.')).all(same)
        && domain_is_sane(&ascii);
    kept.then_some(ascii)
}

fn local_is_sane(local: &str) -> bool {
    let allowed = |c: char| {
        c.is_alphanumeric()
            || (c.is_ascii_punctuation()
                && !matches!(c, '"' | '(' | ')' | ',' | ':' | ';' | '<' | '>' | '@' | '[' | ']' | '\\'))
    };
    !local.is_empty()
        && local.len() <= MAX_LOCAL
        && local.chars().all(allowed)
        && !local.starts_with('.')
        && !local.ends_with('.')
        && !local.contains("..")
}

fn domain_is_sane(domain: &str) -> bool {
    let label_is_sane = |label: &str| {
        !label.is_empty()
            && label.chars().count() <= 63
            && label.chars().all(|c| c.is_alphanumeric() || c == '-')
            && !label.starts_with('-')
            && !label.ends_with('-')
    };
    domain.split('.').all(label_is_sane)
}

impl From<EmailAddress> for Arc<str> {
    fn from(email: EmailAddress) -> Self {
        email.0
    }
}
impl fmt::Display for EmailAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.is_of_guest() { "guest" } else { &self.0 })
    }
}
impl fmt::Debug for EmailAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.0, f)
    }
}
impl serde::Serialize for EmailAddress {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        if self.is_of_guest() { serializer.serialize_none() } else { serializer.serialize_str(&self.0) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spellings_of_one_address_are_one() {
        for spelling in ["ann@example.com", " Ann@Example.COM\t", "ANN@EXAMPLE.COM\r\n"] {
            assert_eq!(EmailAddress::parse(spelling).unwrap().as_str(), "ann@example.com");
        }
    }

    #[test]
    fn all_spellings_of_a_domain_are_equal() {
        for (spelling, folded) in [
            ("ann@bücher.example", "ann@xn--bcher-kva.example"),
            ("Ann@BÜCHER.example", "ann@xn--bcher-kva.example"),
            ("ann@xn--bcher-kva.example", "ann@xn--bcher-kva.example"),
            ("ann@XN--BCHER-KVA.example", "ann@xn--bcher-kva.example"),
            ("JÜRGEN@example.com", "jürgen@example.com"),
            ("Ju\u{308}rgen@example.com", "jürgen@example.com"),
            ("ann@bu\u{308}cher.example", "ann@xn--bcher-kva.example"),
            // Cyrillic letters that look like Latin ones.
            ("\u{430}nn@example.com", "\u{430}nn@example.com"),
            ("ann@\u{435}xample.com", "ann@xn--xample-2of.com"),
        ] {
            assert_eq!(EmailAddress::parse(spelling).unwrap().as_str(), folded, "{spelling}");
        }
    }

    #[test]
    fn characters_beyond_ascii_are_not_folded_into_another_address() {
        for bad in [
            "mi\u{212a}e@example.com",
            "ann\u{37e}@example.com",
            "ann\u{1fef}@example.com",
            "m\u{130}ke@example.com",
            "ann@\u{212a}.example",
            "ann@\u{ff47}mail.com",
            "ann@example\u{3002}com",
            "ann@ex\u{ad}ample.com",
            "ann@\u{2460}27.0.0.1",
        ] {
            assert_eq!(EmailAddress::parse(bad), Err(InvalidEmail), "{bad:?}");
        }
    }

    #[test]
    fn usual_addresses_pass() {
        for good in
            ["a@b", "o'brien+tag@mail.example.co.uk", "jürgen@bücher.example", "a.b_c-d@x-y.z", "root@localhost"]
        {
            assert!(EmailAddress::parse(good).is_ok(), "{good}");
        }
        assert!(EmailAddress::parse(&format!("{}@{}.example", "a".repeat(64), "b".repeat(60))).is_ok());
    }

    #[test]
    fn nonsense_is_refused() {
        let long_domain = format!("a@{}", vec!["b".repeat(63); 4].join("."));
        let long_local = format!("{}@example.com", "a".repeat(65));
        let giant = format!("{}@example.com", "a".repeat(1_000_000));
        for bad in [
            "",
            "@",
            "ann",
            "@example.com",
            "ann@",
            "a b@example.com",
            "ann@exa mple.com",
            "ann@example..com",
            "ann@.example.com",
            "ann@example.com.",
            "ann@-example.com",
            ".ann@example.com",
            "a..b@example.com",
            "ann@example.com\r\nBcc: eve@example.com",
            "ann\u{0}@example.com",
            "<ann@example.com>",
            "\"ann\"@example.com",
            "ann@[127.0.0.1]",
            "ann@example.com,eve@example.com",
            "ann\u{202e}@example.com",
            &long_domain,
            &long_local,
            &giant,
        ] {
            assert_eq!(EmailAddress::parse(bad), Err(InvalidEmail), "{bad:?}");
        }
    }
}
