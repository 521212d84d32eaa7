use gatewright_auth::presets::{self, Preset, Protocol, Registration};
use gatewright_base::Secret;
use url::Url;

use super::oauth::{redirect_url, send_nonce, send_pkce};
use super::read::Section;

/// `[auth.oauth.NAME]` of a provider with a preset.
#[derive(Debug, Clone)]
pub struct PresetProvider {
    /// What is known of the provider.
    pub preset: &'static Preset,
    /// The client's identifier at the provider.
    pub client_id: String,
    /// The rest of the registration.
    pub account: Account,
    /// The callback URL. Absent: built from the public URL.
    pub redirect_url: Option<Url>,
    /// Addresses that replace the provider's own.
    pub addresses: Addresses,
    /// The scopes to request.
    pub scopes: Vec<String>,
    /// Whether a PKCE challenge is sent, if the provider takes one.
    pub send_pkce: bool,
    /// Whether a nonce is sent, if the provider takes one.
    pub send_nonce: bool,
}

/// The parts of a registration besides the client id.
#[derive(Debug, Clone)]
pub enum Account {
    /// The client's secret at the provider.
    Secret(Secret),
    /// The same at Microsoft.
    Microsoft {
        /// The client's secret.
        client_secret: Secret,
        /// Whose accounts may sign in: a word or a tenant's id.
        tenant: String,
    },
    /// What Apple's client secrets are made of.
    Apple {
        /// The team's id.
        team_id: String,
        /// The key's id.
        key_id: String,
        /// The private key, PEM.
        private_key: Secret,
    },
}

/// Addresses that replace a provider's own.
#[derive(Debug, Clone, Default)]
pub struct Addresses {
    /// The authorization endpoint.
    pub authorize_url: Option<Url>,
    /// The token endpoint.
    pub token_url: Option<Url>,
    /// The endpoint that describes the user.
    pub userinfo_url: Option<Url>,
    /// The issuer, of a provider with metadata; for Microsoft, the beginning of its issuers.
    pub issuer: Option<String>,
}

impl PresetProvider {
    /// Every configured provider with a preset, in the order of the buttons.
    pub(super) fn read_all(section: &mut Section<'_>) -> Vec<Self> {
        let read = |preset: &&'static Preset| section.optional_section(preset.name, |s| Self::read(s, preset));
        presets::ALL.iter().filter_map(read).collect()
    }

    fn read(section: &mut Section<'_>, preset: &'static Preset) -> Self {
        let (takes_pkce, takes_nonce) = match preset.protocol {
            Protocol::OAuth2 { .. } => (preset.takes_pkce, false),
            Protocol::OpenId { takes_nonce, .. } => (preset.takes_pkce, takes_nonce),
        };
        let scopes: Vec<String> = preset.scopes.iter().map(|&scope| scope.to_owned()).collect();
        Self {
            preset,
            client_id: section.required("client_id", "The client id of the application at the provider."),
            account: Account::read(section, preset.registration),
            redirect_url: redirect_url(section),
            addresses: Addresses::read(section, preset),
            scopes: section.value("scopes", scopes, "The requested scopes."),
            send_pkce: !takes_pkce || send_pkce(section),
            send_nonce: !takes_nonce || send_nonce(section),
        }
    }
}

impl Account {
    fn read(section: &mut Section<'_>, registration: Registration) -> Self {
        const SECRET: &str = "The client secret of the application at the provider.";
        match registration {
            Registration::Secret => Self::Secret(section.required_secret("client_secret", SECRET)),
            Registration::Microsoft => Self::Microsoft {
                client_secret: section.required_secret("client_secret", SECRET),
                tenant: section.value(
                    "tenant",
                    "common".to_owned(),
                    "Whose accounts may sign in: `common` (all), `organizations` (work and school), `consumers` (personal), \
                     or the id of one tenant.",
                ),
            },
            Registration::Apple => Self::Apple {
                team_id: section.required("team_id", "The id of the team: ten capital letters and digits."),
                key_id: section.required("key_id", "The id of the private key: ten capital letters and digits."),
                private_key: section.required_secret(
                    "private_key",
                    "The private key, PEM: the content of `AuthKey_….p8`. It signs the client secrets.",
                ),
            },
        }
    }
}

impl Addresses {
    fn read(section: &mut Section<'_>, preset: &Preset) -> Self {
        match preset.protocol {
            Protocol::OAuth2 { .. } => Self {
                authorize_url: section.derived("authorize_url", "the provider's", "Its authorization endpoint."),
                token_url: section.derived("token_url", "the provider's", "Its token endpoint."),
                userinfo_url: section.derived(
                    "userinfo_url",
                    "the provider's",
                    "Its endpoint that describes the user.",
                ),
                issuer: None,
            },
            Protocol::OpenId { .. } if preset.registration == Registration::Microsoft => Self {
                issuer: section.derived(
                    "authority",
                    "the provider's",
                    "The beginning of its issuers, for a national cloud: `https://login.microsoftonline.us`.",
                ),
                ..Self::default()
            },
            Protocol::OpenId { .. } => Self {
                issuer: section.derived(
                    "issuer",
                    "the provider's",
                    "The URL of the issuer, from whose metadata the endpoints are read.",
                ),
                ..Self::default()
            },
        }
    }
}
