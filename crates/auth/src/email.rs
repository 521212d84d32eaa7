use std::fmt;
use std::sync::Arc;

/// An email address as accounts know it: trimmed, lower-cased, at most 254 characters (RFC 5321, 4.5.3.1.3).
///
/// Two spellings of one address are one account, so every lookup and every limiter key starts here. The syntax check
/// is that of a form, not of RFC 5322: enough to catch a slip and to keep anything out that a mail header, a log line
/// or a page could trip over. Whether the mailbox exists is for a mail to find out.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct EmailAddress(Arc<str>);

/// Text that is not an email address. What it was is not repeated: people type passwords into the wrong field.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("not a valid email address")]
pub struct InvalidEmail;

/// Most characters (and, in ASCII, bytes) of an address.
const MAX_LENGTH: usize = 254;
/// Most bytes before the `@` (RFC 5321, 4.5.3.1.1).
const MAX_LOCAL: usize = 64;

impl EmailAddress {
    /// Trims, lower-cases and checks `text`.
    pub fn parse(text: &str) -> Result<Self, InvalidEmail> {
        let text = text.trim();
        // Lower-casing never shortens below a quarter, so a giant text is turned away before it is copied.
        if text.len() > MAX_LENGTH * 4 {
            return Err(InvalidEmail);
        }
        let text = text.to_lowercase();
        let (local, domain) = text.rsplit_once('@').ok_or(InvalidEmail)?;
        let sane = text.chars().count() <= MAX_LENGTH && local_is_sane(local) && domain_is_sane(domain);
        if sane { Ok(Self(text.into())) } else { Err(InvalidEmail) }
    }

    /// The address.
    pub fn as_str(&self) -> &str {
        &self.0
    }
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
        f.write_str(&self.0)
    }
}
impl fmt::Debug for EmailAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.0, f)
    }
}
impl serde::Serialize for EmailAddress {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.0)
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
