//! What is known of the providers that a configuration can name: addresses, scopes, and where their answers have what.
//!
//! A provider is one file here, and one line in [`ALL`]. The `providers` module carries the protocol out, and has the code of the
//! two that need some: Apple's client secret and Microsoft's issuers.

mod apple;
mod discord;
mod facebook;
mod gitlab;
mod linkedin;
mod microsoft;
mod slack;
mod spotify;
mod twitch;
mod x;

/// Every preset, in the order of the buttons.
pub const ALL: &[&Preset] = &[
    &apple::PRESET,
    &discord::PRESET,
    &facebook::PRESET,
    &gitlab::PRESET,
    &linkedin::PRESET,
    &microsoft::PRESET,
    &slack::PRESET,
    &spotify::PRESET,
    &twitch::PRESET,
    &x::PRESET,
];

/// A provider as its documentation describes it.
#[derive(Debug, PartialEq, Eq)]
pub struct Preset {
    /// Its name in paths, in stored links and in the configuration: `discord`. It must never change.
    pub name: &'static str,
    /// Its name on the button: `Discord`.
    pub label: &'static str,
    /// The protocol and its addresses.
    pub protocol: Protocol,
    /// How this program proves itself there.
    pub registration: Registration,
    /// The requested scopes.
    pub scopes: &'static [&'static str],
    /// Further parameters of the redirect.
    pub parameters: &'static [(&'static str, &'static str)],
    /// Whether it takes a PKCE challenge.
    pub takes_pkce: bool,
    /// Where its answer has what.
    pub claims: Claims,
}

/// The protocol of a provider.
#[derive(Debug, PartialEq, Eq)]
pub enum Protocol {
    /// OAuth 2.0 with an address that describes the user.
    OAuth2 {
        /// The authorization endpoint.
        authorize_url: &'static str,
        /// The token endpoint.
        token_url: &'static str,
        /// The endpoint that describes the user.
        userinfo_url: &'static str,
        /// Where the token endpoint takes the client secret.
        token_auth: TokenAuth,
    },
    /// OpenID Connect: the addresses are in the metadata of the issuer.
    OpenId {
        /// The issuer. Microsoft's has a placeholder for the tenant.
        issuer: &'static str,
        /// Whether it takes a nonce.
        takes_nonce: bool,
        /// Whether it sends its answer by a form (OAuth 2.0 Form Post Response Mode).
        posts: bool,
    },
}

/// How a token endpoint takes the client secret (RFC 6749, section 2.3.1).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TokenAuth {
    /// In the `Authorization` header: `client_secret_basic`.
    Basic,
    /// In the form: `client_secret_post`.
    Post,
}

/// The parts of a registration at a provider, besides the client id.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Registration {
    /// A client secret.
    Secret,
    /// A client secret, and the tenant whose accounts may sign in.
    Microsoft,
    /// A team, and a key that signs the client secret.
    Apple,
}

/// Where the description of a user has what. A place is a name, or the names on the way to it with dots in between; a
/// number counts in a list (`images.0.url`). An empty place is nowhere.
#[derive(Debug, PartialEq, Eq)]
pub struct Claims {
    /// The user's identifier.
    pub subject: &'static str,
    /// The address.
    pub email: &'static str,
    /// Who vouches for the address.
    pub email_verified: Vouched,
    /// The name to show; the first that is there.
    pub name: &'static [&'static str],
    /// The URL of a picture, or one with places in braces.
    pub picture: &'static str,
}

/// Whether an address is verified.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Vouched<T = &'static str> {
    /// If this place says so.
    By(T),
    /// Always: the provider sends verified addresses only, and says so.
    Always,
    /// Never: the provider says nothing about it.
    Never,
}

impl Claims {
    /// The names of OpenID Connect (Core, section 5.1).
    pub const STANDARD: Self = Self {
        subject: "sub",
        email: "email",
        email_verified: Vouched::By("email_verified"),
        name: &["name"],
        picture: "picture",
    };
}

impl Preset {
    /// The preset of this name.
    pub fn find(name: &str) -> Option<&'static Self> {
        ALL.iter().find(|preset| preset.name == name).copied()
    }

    /// Whether it sends its answer by a form, which a page of another site posts.
    pub fn posts(&self) -> bool {
        matches!(self.protocol, Protocol::OpenId { posts: true, .. })
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn every_preset_has_a_name_of_its_own() {
        let names: BTreeSet<&str> = ALL.iter().map(|preset| preset.name).chain(["google", "github"]).collect();
        assert_eq!(names.len(), ALL.len() + 2);
        assert!(ALL.is_sorted_by_key(|preset| preset.name));
        assert_eq!(Preset::find("slack").map(|preset| preset.label), Some("Slack"));
        assert_eq!(Preset::find("Slack"), None);
    }

    #[test]
    fn every_openid_preset_asks_for_an_id_token_and_only_linkedin_refuses_pkce_and_the_nonce() {
        for preset in ALL {
            match preset.protocol {
                Protocol::OpenId { takes_nonce, .. } => {
                    assert!(preset.scopes.contains(&"openid"), "{}", preset.name);
                    assert_eq!(takes_nonce, preset.name != "linkedin", "{}", preset.name);
                }
                Protocol::OAuth2 { .. } => assert!(!preset.scopes.contains(&"openid"), "{}", preset.name),
            }
            assert_eq!(preset.takes_pkce, preset.name != "linkedin", "{}", preset.name);
            assert_eq!(preset.posts(), preset.name == "apple", "{}", preset.name);
        }
    }

    /// By its documentation: Facebook says nothing about its addresses, and Spotify says that they are unverified.
    #[test]
    fn an_address_is_verified_only_where_the_provider_says_so() {
        let never: Vec<&str> = ALL
            .iter()
            .filter(|preset| preset.claims.email_verified == Vouched::Never)
            .map(|preset| preset.name)
            .collect();
        assert_eq!(never, ["facebook", "spotify"]);
        let always = ALL.iter().filter(|preset| preset.claims.email_verified == Vouched::Always);
        assert_eq!(always.map(|preset| preset.name).collect::<Vec<_>>(), ["x"], "`confirmed_email` has no other");
    }
}
