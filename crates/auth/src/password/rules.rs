use gatewright_base::Secret;

use super::algorithm::{BCRYPT_MAX_BYTES, PasswordAlgorithm};
use super::common::is_common;
use super::opaque::{Opaque, prepare};
use super::patterns::is_pattern;
use crate::email::EmailAddress;

/// Most bytes of a password.
pub(crate) const MAX_BYTES: usize = 1024;

/// The requirements of new passwords: `[auth.password_policy]`. Stored ones stay valid.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PasswordPolicy {
    /// The fewest characters, at least [`PasswordPolicy::FEWEST`].
    pub min_length: usize,
    /// Whether the most common passwords are refused, and those that continue one pattern.
    pub common: bool,
    /// Whether a password is refused that is the account's address, its local part, its display name or the service's host.
    pub personal: bool,
}

impl PasswordPolicy {
    /// The fewest characters that a policy may ask for.
    pub const FEWEST: usize = 8;
    /// The most characters that a policy may ask for. bcrypt takes 72 bytes.
    pub const LONGEST_MINIMUM: usize = 64;
}

impl Default for PasswordPolicy {
    fn default() -> Self {
        Self { min_length: Self::FEWEST, common: true, personal: true }
    }
}

/// The account that a password is for. What others know of it is no password.
#[derive(Debug, Clone, Copy, Default)]
pub struct PasswordOwner<'a> {
    /// Its address, if it is known.
    pub email: Option<&'a EmailAddress>,
    /// The name in its profile.
    pub display_name: Option<&'a str>,
}

/// A new password that meets the policy and the limits of the configured algorithm.
#[derive(Debug, Clone)]
pub struct NewPassword(Opaque);

/// Why a password was not accepted. The text is for the user.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum WeakPassword {
    /// Fewer characters than the policy requires.
    #[error("a password has at least {0} characters")]
    TooShort(usize),
    /// More than 1,024 bytes.
    #[error("a password has at most {MAX_BYTES} bytes")]
    TooLong,
    /// More than the 72 bytes that bcrypt accepts.
    #[error("a password has at most {BCRYPT_MAX_BYTES} bytes; letters outside ASCII count two to four each")]
    TooLongForBcrypt,
    /// A short piece that is repeated, or runs of an alphabet or a keyboard.
    #[error("this password continues one pattern, such as abcabc, 12345678 or qwertyui; choose another")]
    Pattern,
    /// On the list of common passwords.
    #[error("this password is one of the most common ones; choose another")]
    Common,
    /// The account's address, or the part before the `@`, with or without its `+tag`.
    #[error("the password is the email address, or its part before the @; choose another")]
    Address,
    /// The name in the account's profile.
    #[error("the password is the name of the account; choose another")]
    DisplayName,
    /// The host of the service.
    #[error("the password is the name of this site; choose another")]
    Host,
}

impl WeakPassword {
    /// Its word in answers: `too_short`, `too_long`, `common` or `personal`.
    pub(crate) fn code(self) -> &'static str {
        match self {
            Self::TooShort(_) => "too_short",
            Self::TooLong | Self::TooLongForBcrypt => "too_long",
            Self::Common | Self::Pattern => "common",
            Self::Address | Self::DisplayName | Self::Host => "personal",
        }
    }
}

/// The most characters of a password that is looked at for a pattern, except if the policy asks for more: a guesser must know the
/// length of a longer one.
const LONGEST_PATTERN: usize = 32;

/// What new passwords of one service must meet.
#[derive(Debug, Clone, Default)]
pub(super) struct Rules {
    pub(super) policy: PasswordPolicy,
    /// The host of the service's public URL, in lower case.
    pub(super) host: Option<String>,
}

impl Rules {
    /// Checks the form of `text` that is hashed. Comparisons ignore the case.
    pub(super) fn accept(
        &self,
        text: &Secret,
        algorithm: &PasswordAlgorithm,
        owner: PasswordOwner<'_>,
    ) -> Result<NewPassword, WeakPassword> {
        let password = Opaque::of(text).ok_or(WeakPassword::TooLong)?;
        let text = password.secret();
        if text.expose().chars().count() < self.policy.min_length {
            return Err(WeakPassword::TooShort(self.policy.min_length));
        }
        if !algorithm.takes(&password) {
            return Err(WeakPassword::TooLongForBcrypt);
        }
        let folded = Secret::new(fold(text.expose()));
        if let Some(weak) = self.personal(folded.expose(), owner).filter(|_| self.policy.personal) {
            return Err(weak);
        }
        let lower = Secret::new(text.expose().to_lowercase());
        if self.policy.common && is_common(lower.expose()) {
            return Err(WeakPassword::Common);
        }
        let is_short = text.expose().chars().count() <= LONGEST_PATTERN.max(self.policy.min_length);
        if self.policy.common && is_short && is_pattern(lower.expose()) {
            return Err(WeakPassword::Pattern);
        }
        Ok(NewPassword(password))
    }

    fn personal(&self, folded: &str, owner: PasswordOwner<'_>) -> Option<WeakPassword> {
        if owner.email.is_some_and(|email| is_address(folded, email)) {
            return Some(WeakPassword::Address);
        }
        if owner.display_name.is_some_and(|name| folded == fold(&prepare(name))) {
            return Some(WeakPassword::DisplayName);
        }
        let host = self.host.as_deref();
        host.is_some_and(|host| folded == fold(host) || ascii_host(folded).as_deref() == Some(host))
            .then_some(WeakPassword::Host)
    }
}

/// Without blanks around it, and without case: `STRASSE` and `straße` are equal.
fn fold(text: &str) -> String {
    text.trim().to_uppercase().to_lowercase()
}

/// Whether a folded password is an address, its local part, or one of these without the `+tag`. The domain may be spelled in
/// Unicode or as `xn--`.
fn is_address(folded: &str, email: &EmailAddress) -> bool {
    let address = fold(&prepare(email.as_str()));
    let Some((local, domain)) = address.rsplit_once('@') else { return false };
    let untagged = local.split_once('+').map_or(local, |(untagged, _)| untagged);
    if folded == local || folded == untagged {
        return true;
    }
    let Some((own_local, own_domain)) = folded.rsplit_once('@') else { return false };
    (own_local == local || own_local == untagged)
        && (own_domain == domain || ascii_host(own_domain).as_deref() == Some(domain))
}

/// The name of a host as DNS spells it.
fn ascii_host(text: &str) -> Option<String> {
    match url::Host::parse(text) {
        Ok(url::Host::Domain(ascii)) => Some(ascii),
        Ok(_) | Err(_) => None,
    }
}

impl NewPassword {
    /// The password itself, normalised.
    pub fn secret(&self) -> &Secret {
        self.0.secret()
    }

    pub(super) fn opaque(&self) -> &Opaque {
        &self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BCRYPT: PasswordAlgorithm = PasswordAlgorithm::Bcrypt { cost: 4 };

    #[test]
    fn lengths_are_counted_in_characters_and_their_limits_in_bytes() {
        let argon = PasswordAlgorithm::argon2id();
        let short = Some(WeakPassword::TooShort(8));
        let cases = [
            ("b".repeat(7), short, short),
            ("é".repeat(7), short, short),
            ("éà".repeat(4), Some(WeakPassword::Pattern), Some(WeakPassword::Pattern)),
            ("éàîõüçñÿ".to_owned(), None, None),
            ("b".repeat(32), Some(WeakPassword::Pattern), Some(WeakPassword::Pattern)),
            ("b".repeat(33), None, None),
            ("e\u{301}".repeat(7), short, short),
            ("e\u{301}".repeat(36), None, None),
            ("e\u{301}".repeat(37), Some(WeakPassword::TooLongForBcrypt), None),
            ("e\u{301}".repeat(513), Some(WeakPassword::TooLong), Some(WeakPassword::TooLong)),
            ("b".repeat(72), None, None),
            ("b".repeat(73), Some(WeakPassword::TooLongForBcrypt), None),
            ("é".repeat(36), None, None),
            ("é".repeat(37), Some(WeakPassword::TooLongForBcrypt), None),
            ("🦀".repeat(256), Some(WeakPassword::TooLongForBcrypt), None),
            ("b".repeat(1_024), Some(WeakPassword::TooLongForBcrypt), None),
            ("b".repeat(1_025), Some(WeakPassword::TooLong), Some(WeakPassword::TooLong)),
            ("b".repeat(1_000_000), Some(WeakPassword::TooLong), Some(WeakPassword::TooLong)),
        ];
        for (text, with_bcrypt, with_argon) in cases {
            let verdict =
                |algorithm| Rules::default().accept(&Secret::new(&*text), algorithm, PasswordOwner::default()).err();
            assert_eq!(verdict(&BCRYPT), with_bcrypt, "bcrypt, {} bytes", text.len());
            assert_eq!(verdict(&argon), with_argon, "argon2id, {} bytes", text.len());
        }
    }

    #[test]
    fn common_and_personal_passwords_are_refused_in_any_case_unless_the_policy_allows_them() {
        let email = EmailAddress::parse("Ann.Example@example.com").unwrap();
        let owner = PasswordOwner { email: Some(&email), display_name: Some("Änn Example ") };
        let host = Some("help.example.com".to_owned());
        let cases = [
            ("password", Some(WeakPassword::Common)),
            ("PassWord", Some(WeakPassword::Common)),
            ("iloveyou", Some(WeakPassword::Common)),
            ("password!!", None),
            ("ann.example@example.com", Some(WeakPassword::Address)),
            ("ANN.EXAMPLE@example.com", Some(WeakPassword::Address)),
            ("Ann.Example", Some(WeakPassword::Address)),
            ("ann.example1", None),
            ("ÄNN example", Some(WeakPassword::DisplayName)),
            ("A\u{308}NN\u{a0}example", Some(WeakPassword::DisplayName)),
            ("Help.Example.com", Some(WeakPassword::Host)),
            ("bob@example.com", None),
            (" ann.example@example.com\u{a0}", Some(WeakPassword::Address)),
            (" Ann.Example ", Some(WeakPassword::Address)),
            (" help.example.com ", Some(WeakPassword::Host)),
            ("00000000", Some(WeakPassword::Pattern)),
            ("AAAAAAAA", Some(WeakPassword::Pattern)),
            ("adminadmin", Some(WeakPassword::Pattern)),
            ("AbcAbcAbc", Some(WeakPassword::Pattern)),
            ("ZYXWVUTS", Some(WeakPassword::Pattern)),
        ];
        for (text, weak) in cases {
            let verdict = |policy| {
                let rules = Rules { policy, host: host.clone() };
                rules.accept(&Secret::new(text), &BCRYPT, owner).err()
            };
            assert_eq!(verdict(PasswordPolicy::default()), weak, "{text}");
            let lenient = PasswordPolicy { common: false, personal: false, ..PasswordPolicy::default() };
            assert_eq!(verdict(lenient), None, "{text}");
            let long = PasswordPolicy { min_length: 30, ..PasswordPolicy::default() };
            assert_eq!(verdict(long), Some(WeakPassword::TooShort(30)), "{text}");
        }
    }

    #[test]
    fn a_personal_password_is_refused_in_every_spelling() {
        let tagged = EmailAddress::parse("Jürgen.Straße+shop@bücher.example").unwrap();
        let owner = PasswordOwner { email: Some(&tagged), display_name: Some("Jürgen STRASSE") };
        let rules = Rules { host: Some("xn--bcher-kva.example".to_owned()), ..Rules::default() };
        let verdict = |text: &str| rules.accept(&Secret::new(text), &BCRYPT, owner).err();
        for address in [
            "jürgen.straße+shop@bücher.example",
            "JÜRGEN.STRASSE+SHOP@BÜCHER.EXAMPLE",
            "jürgen.straße+shop@xn--bcher-kva.example",
            "jürgen.straße@bücher.example",
            "jürgen.strasse@XN--BCHER-KVA.example ",
            "jürgen.straße+shop",
            "Jürgen.Strasse",
        ] {
            assert_eq!(verdict(address), Some(WeakPassword::Address), "{address}");
        }
        for host in ["bücher.example", "BÜCHER.example", "xn--bcher-kva.example", " bu\u{308}cher.example"] {
            assert_eq!(verdict(host), Some(WeakPassword::Host), "{host}");
        }
        assert_eq!(verdict("jürgen straße"), Some(WeakPassword::DisplayName));
        for other in ["jürgen.straße+other", "jürgen.straße@other.example", "shop@bücher.example"] {
            assert_eq!(verdict(other), None, "{other}");
        }
    }
}
