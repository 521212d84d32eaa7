//! Converts a provider's profile, which is untrusted text, into checked values.

use url::Url;

use super::decision;
use crate::email::EmailAddress;
use crate::providers::ProviderIdentity;
use crate::users::ProviderLink;

/// An identity with checked texts.
#[derive(Debug, Clone)]
pub(super) struct Profile {
    pub(super) link: ProviderLink,
    /// The address for finding or creating an account.
    pub(super) email: Option<EmailAddress>,
    /// Whether the provider vouches for it.
    pub(super) vouched: bool,
}

/// Most characters of a name.
const MAX_NAME: usize = 200;
/// Most bytes of a picture's address.
const MAX_AVATAR: usize = 2048;
/// Most characters of a provider's identifier.
const MAX_ID: usize = 255;

impl Profile {
    /// `None` if the identity has no identifier for a link.
    pub(super) fn of(provider: &str, identity: ProviderIdentity) -> Option<Self> {
        let ProviderIdentity { provider_id, email, email_verified, name, avatar_url } = identity;
        if provider_id.is_empty() || provider_id.chars().count() > MAX_ID || provider_id.contains(char::is_control) {
            return None;
        }
        let email = email.and_then(|text| EmailAddress::parse(&text).ok());
        let link = ProviderLink {
            provider: provider.to_owned(),
            provider_id,
            email: email.as_ref().map(|email| email.as_str().to_owned()),
            name: name.as_deref().and_then(shown),
            avatar_url: avatar_url.filter(|url| is_picture(url)),
        };
        Some(Self { vouched: email_verified && email.is_some(), link, email })
    }

    /// The facts about the address.
    pub(super) fn email_fact(&self) -> decision::Email<'_> {
        match (&self.email, self.vouched) {
            (None, _) => decision::Email::Absent,
            (Some(email), false) => decision::Email::Unverified(email),
            (Some(email), true) => decision::Email::Verified(email),
        }
    }
}

/// A name on one line, without characters that turn text around, of a sane length.
fn shown(name: &str) -> Option<String> {
    let turns = |c: char| matches!(c, '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    let name: String = name.chars().filter(|c| !c.is_control() && !turns(*c)).take(MAX_NAME).collect();
    let name = name.trim();
    (!name.is_empty()).then(|| name.to_owned())
}

/// A picture's address may end in pages of the host's own: never a script.
fn is_picture(text: &str) -> bool {
    text.len() <= MAX_AVATAR && Url::parse(text).is_ok_and(|url| matches!(url.scheme(), "http" | "https"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn identity(email: Option<&str>, verified: bool) -> ProviderIdentity {
        ProviderIdentity {
            provider_id: "42".to_owned(),
            email: email.map(str::to_owned),
            email_verified: verified,
            name: None,
            avatar_url: None,
        }
    }

    #[test]
    fn an_address_is_canonical_or_absent() {
        use decision::Email::{Absent, Unverified, Verified};
        let cases = [
            (Some(" Ann@Example.COM "), true, Some("ann@example.com")),
            (Some("ann@example.com"), false, Some("ann@example.com")),
            (Some("not an address"), true, None),
            (Some(""), true, None),
            (None, true, None),
            // U+212A, the Kelvin sign, is a `k` in lower case: this would be another user's mailbox.
            (Some("mi\u{212a}e@example.com"), true, None),
        ];
        for (email, verified, folded) in cases {
            let profile = Profile::of("google", identity(email, verified)).unwrap();
            let address = folded.map(|text| EmailAddress::parse(text).unwrap());
            let fact =
                address.as_ref().map_or(Absent, |email| if verified { Verified(email) } else { Unverified(email) });
            assert_eq!(profile.email_fact(), fact, "{email:?}");
            assert_eq!(profile.link.email.as_deref(), folded, "{email:?}");
        }
    }

    #[test]
    fn an_invalid_identifier_gives_no_identity() {
        for (provider_id, sound) in [
            (String::new(), false),
            ("a\nb".to_owned(), false),
            ("x".repeat(256), false),
            ("x".repeat(255), true),
            ("\u{e9}".repeat(255), true),
        ] {
            let identity = ProviderIdentity { provider_id, ..identity(None, false) };
            assert_eq!(Profile::of("google", identity.clone()).is_some(), sound, "{}", identity.provider_id);
        }
    }

    #[test]
    fn names_and_pictures_are_sanitised() {
        let of = |name: &str, avatar: &str| {
            let identity = ProviderIdentity {
                name: Some(name.to_owned()),
                avatar_url: Some(avatar.to_owned()),
                ..identity(None, false)
            };
            let link = Profile::of("google", identity).unwrap().link;
            (link.name, link.avatar_url)
        };
        let (name, avatar) = of(" Ann\r\n\u{202e}Example ", "https://img.example/a.png");
        assert_eq!((name.as_deref(), avatar.as_deref()), (Some("AnnExample"), Some("https://img.example/a.png")));
        for bad in
            ["javascript:alert(1)", "data:text/html,x", "/relative", "", &format!("https://x/{}", "a".repeat(3000))]
        {
            assert_eq!(of("\u{0}", bad), (None, None), "{bad}");
        }
        assert_eq!(of(&"n".repeat(10_000), "").0.map(|name| name.len()), Some(200));
    }
}
