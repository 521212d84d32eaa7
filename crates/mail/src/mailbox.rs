use std::fmt;

use crate::{Address, InvalidAddress};

/// Whom mails come from: an address with or without a display name (RFC 5322, 3.4), as `[email] from` writes it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mailbox {
    name: Option<String>,
    address: Address,
}

/// Text that is not a mailbox.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum InvalidMailbox {
    /// A line break, or something else that cannot be seen.
    #[error("a sender must not contain line breaks or other control characters")]
    Control,
    /// `<` without `>` at the end, or the other way round.
    #[error("a sender with a name is written \"Example <noreply@example.com>\"")]
    Brackets,
    /// The address itself is invalid.
    #[error("the sender's address must be one such as noreply@example.com")]
    Address(#[from] InvalidAddress),
    /// The name is too long to be one.
    #[error("a sender's name has at most 128 characters")]
    Name,
}

impl Mailbox {
    /// Reads `noreply@example.com`, `Example <noreply@example.com>` or `"Example, Inc." <noreply@example.com>`.
    pub fn parse(text: &str) -> Result<Self, InvalidMailbox> {
        let text = text.trim_matches(' ');
        if text.chars().any(char::is_control) {
            return Err(InvalidMailbox::Control);
        }
        let Some((name, rest)) = text.rsplit_once('<') else {
            if text.contains('>') {
                return Err(InvalidMailbox::Brackets);
            }
            return Ok(Self { name: None, address: Address::parse(text)? });
        };
        let address = rest.strip_suffix('>').ok_or(InvalidMailbox::Brackets)?;
        let name = unquoted(name.trim_matches(' '));
        if name.contains(['<', '>']) {
            return Err(InvalidMailbox::Brackets);
        }
        if name.chars().count() > 128 {
            return Err(InvalidMailbox::Name);
        }
        let name = (!name.is_empty()).then(|| name.to_owned());
        Ok(Self { name, address: Address::parse(address.trim_matches(' '))? })
    }

    /// The display name: a good name for the product where the configuration has no other.
    pub fn name(&self) -> Option<&str> {
        self.name.as_deref()
    }

    /// The address.
    pub fn address(&self) -> &Address {
        &self.address
    }

    pub(crate) fn to_lettre(&self) -> lettre::message::Mailbox {
        lettre::message::Mailbox::new(self.name.clone(), self.address.to_lettre())
    }
}

fn unquoted(name: &str) -> &str {
    name.strip_prefix('"').and_then(|rest| rest.strip_suffix('"')).unwrap_or(name).trim_matches(' ')
}

impl fmt::Display for Mailbox {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.name {
            Some(name) => write!(f, "{name} <{}>", self.address),
            None => self.address.fmt(f),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sender_is_an_address_with_or_without_a_name() {
        let cases = [
            ("noreply@example.com", None),
            ("<noreply@example.com>", None),
            (" Gatewright <noreply@example.com> ", Some("Gatewright")),
            ("Gatewright<noreply@example.com>", Some("Gatewright")),
            ("\"Example, Inc.\" <noreply@example.com>", Some("Example, Inc.")),
            ("Bücher & Söhne <noreply@example.com>", Some("Bücher & Söhne")),
        ];
        for (text, name) in cases {
            let mailbox = Mailbox::parse(text).unwrap();
            assert_eq!((mailbox.name(), mailbox.address().as_str()), (name, "noreply@example.com"), "{text}");
        }
    }

    #[test]
    fn anything_else_is_refused_with_a_sentence() {
        let long = format!("{} <noreply@example.com>", "n".repeat(129));
        let cases = [
            ("Eve\r\nBcc: all@example.com <noreply@example.com>", InvalidMailbox::Control),
            ("noreply@example.com\n", InvalidMailbox::Control),
            ("Eve\u{85} <noreply@example.com>", InvalidMailbox::Control),
            ("Eve <noreply@example.com", InvalidMailbox::Brackets),
            ("noreply@example.com>", InvalidMailbox::Brackets),
            ("Eve <noreply@example.com> x", InvalidMailbox::Brackets),
            ("<eve@example.com> <noreply@example.com>", InvalidMailbox::Brackets),
            ("", InvalidMailbox::Address(InvalidAddress)),
            ("Eve", InvalidMailbox::Address(InvalidAddress)),
            ("Eve <>", InvalidMailbox::Address(InvalidAddress)),
            ("Eve <eve@example.com, ann@example.com>", InvalidMailbox::Address(InvalidAddress)),
            (&long, InvalidMailbox::Name),
        ];
        for (text, expected) in cases {
            assert_eq!(Mailbox::parse(text), Err(expected), "{text:?}");
        }
    }
}
