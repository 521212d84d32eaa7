use std::fmt;

/// An address that a mail can be sent to: one mailbox at one domain, without characters that could break a mail header,
/// an SMTP command or a log line.
///
/// Quoted local parts, address literals (`ann@[127.0.0.1]`), comments and white space are refused. A domain with letters
/// beyond ASCII is stored in its ASCII form (IDNA), which every mail server accepts; such letters before the `@` stay and
/// need a server with `SMTPUTF8` (RFC 6531). `Debug` shows only the domain.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Address {
    text: String,
    wire: lettre::Address,
}

/// Text that is not an address. The error does not repeat it: it may be anything, and errors are logged.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("not an address that a mail can be sent to")]
pub struct InvalidAddress;

/// Most bytes of an address (RFC 5321, 4.5.3.1.3).
const MAX_LENGTH: usize = 254;
/// Most bytes before the `@` (RFC 5321, 4.5.3.1.1).
const MAX_LOCAL: usize = 64;

impl Address {
    /// Checks `text`, which must have no white space around it.
    pub fn parse(text: &str) -> Result<Self, InvalidAddress> {
        let (local, domain) = text.rsplit_once('@').ok_or(InvalidAddress)?;
        if !is_dot_atom(local) {
            return Err(InvalidAddress);
        }
        let wire = lettre::Address::new(local, ascii_domain(domain)?).map_err(|_| InvalidAddress)?;
        if AsRef::<str>::as_ref(&wire).len() > MAX_LENGTH {
            return Err(InvalidAddress);
        }
        Ok(Self { text: text.to_owned(), wire })
    }

    /// The address as it was written.
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// The part after the `@`, in ASCII: the only part that may be logged.
    pub fn domain(&self) -> &str {
        self.wire.domain()
    }

    /// The address as mail servers get it.
    pub(crate) fn to_lettre(&self) -> lettre::Address {
        self.wire.clone()
    }
}

/// RFC 5322's dot-atom, with letters and digits of every script (RFC 6531).
fn is_dot_atom(local: &str) -> bool {
    let allowed = |c: char| c.is_alphanumeric() || "!#$%&'*+-/=?^_`{|}~".contains(c);
    local.len() <= MAX_LOCAL && local.split('.').all(|atom| !atom.is_empty() && atom.chars().all(allowed))
}

fn ascii_domain(domain: &str) -> Result<String, InvalidAddress> {
    // The parser below decodes percent signs and reads numbers as addresses, which no domain of a mail is.
    let plain = |c: char| c.is_alphanumeric() || matches!(c, '.' | '-');
    if domain.len() > MAX_LENGTH || domain.ends_with('.') || !domain.chars().all(plain) {
        return Err(InvalidAddress);
    }
    match url::Host::parse(domain) {
        Ok(url::Host::Domain(ascii)) => Ok(ascii),
        Ok(url::Host::Ipv4(_) | url::Host::Ipv6(_)) | Err(_) => Err(InvalidAddress),
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl fmt::Debug for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Address(…@{})", self.domain())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn usual_addresses_pass() {
        let cases = [
            ("ann@example.com", "ann@example.com"),
            ("a@b", "a@b"),
            ("root@localhost", "root@localhost"),
            ("o'brien+tag@Mail.Example.co.uk", "o'brien+tag@mail.example.co.uk"),
            ("a.b_c-d@x-y.z", "a.b_c-d@x-y.z"),
            ("jürgen@example.com", "jürgen@example.com"),
            ("ann@bücher.example", "ann@xn--bcher-kva.example"),
            ("用户@例子.example", "用户@xn--fsqu00a.example"),
        ];
        for (text, expected) in cases {
            let address = Address::parse(text).unwrap();
            assert_eq!((address.as_str(), &*address.to_lettre().to_string()), (text, expected));
        }
        assert!(Address::parse(&format!("{}@{}.example", "a".repeat(64), "b".repeat(60))).is_ok());
    }

    #[test]
    fn characters_that_could_end_their_context_are_refused() {
        let long_domain = format!("a@{}", vec!["b".repeat(60); 4].join(".") + ".example.com");
        let long_local = format!("{}@example.com", "a".repeat(65));
        let giant = format!("a@{}", "b".repeat(1_000_000));
        let cases = [
            "",
            "@",
            "ann",
            "ann@",
            "@example.com",
            " ann@example.com",
            "ann@example.com ",
            "ann@example.com\r\nBcc: eve@example.com",
            "ann\r\nRCPT TO:<eve@example.com>@example.com",
            "ann\n@example.com",
            "ann@example.com\n",
            "ann\0@example.com",
            "ann@exam\u{0}ple.com",
            "ann@eve.com@example.com",
            "ann,eve@example.com",
            "ann;eve@example.com",
            "ann@example.com,eve@example.com",
            "<ann@example.com>",
            "Ann <ann@example.com>",
            "ann@example.com> SIZE=1 <",
            "\"ann\"@example.com",
            "\"a\\\r\nb\"@example.com",
            "ann(comment)@example.com",
            "ann\\@example.com",
            "ann\u{85}@example.com",
            "ann\u{2028}@example.com",
            "ann\u{202e}@example.com",
            "ann\u{200b}@example.com",
            "ann@exa\u{ad}mple.com",
            "ann@[127.0.0.1]",
            "ann@127.0.0.1",
            "ann@0x7f.1",
            "ann@[IPv6:::1]",
            "ann@exa%6dple.com",
            "ann@exa mple.com",
            "ann@example..com",
            "ann@.example.com",
            "ann@example.com.",
            "ann@-example.com",
            ".ann@example.com",
            "ann.@example.com",
            "a..b@example.com",
            &long_domain,
            &long_local,
            &giant,
        ];
        for text in cases {
            assert_eq!(Address::parse(text), Err(InvalidAddress), "{:?}", text.chars().take(80).collect::<String>());
        }
    }

    #[test]
    fn debug_shows_only_the_domain() {
        assert_eq!(format!("{:?}", Address::parse("canary@example.com").unwrap()), "Address(…@example.com)");
    }

    proptest! {
        #[test]
        fn accepted_addresses_cannot_end_a_command_or_a_header(text in "\\PC{0,12}@\\PC{0,20}|.{0,40}") {
            if let Ok(address) = Address::parse(&text) {
                let bad = |c: char| c.is_control() || c.is_whitespace() || "<>()[],:;\\\"".contains(c);
                prop_assert!(!address.as_str().contains(bad));
                prop_assert_eq!(address.as_str().matches('@').count(), 1);
                prop_assert!(address.domain().is_ascii());
            }
        }
    }
}
