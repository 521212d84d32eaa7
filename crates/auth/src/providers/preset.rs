//! The providers of [`presets`](crate::presets), as a configuration registers this program at them.

use std::sync::Arc;
use std::time::Duration;

use gatewright_base::{Ambient, Secret};
use url::Url;

use super::apple::{AppleConfig, ClientSecrets};
use super::oauth2::{OAuth2, OAuth2Config};
use super::oidc::{ClaimNames, MicrosoftTenant, Oidc, OidcConfig, SUBJECT, Tenants, Variant};
use super::{OAuthClient, Provider, ProviderHttp, setting};
use crate::init_error::AuthInitError;
use crate::presets::{Preset, Protocol, Vouched};

/// This program at a provider with a preset. What is absent is the preset's.
#[derive(Debug, Clone)]
pub struct PresetConfig {
    /// The provider.
    pub preset: &'static Preset,
    /// How this program proves itself there.
    pub account: PresetAccount,
    /// The callback URL. Absent: the one under the public URL.
    pub redirect_url: Option<Url>,
    /// The authorization endpoint, of a provider without metadata.
    pub authorize_url: Option<Url>,
    /// The token endpoint, of a provider without metadata.
    pub token_url: Option<Url>,
    /// The endpoint that describes the user, of a provider without metadata.
    pub userinfo_url: Option<Url>,
    /// The issuer, of a provider with metadata. For Microsoft, the beginning of its issuers.
    pub issuer: Option<String>,
    /// The scopes to request. Absent: the preset's.
    pub scopes: Option<Vec<String>>,
    /// Whether a PKCE challenge is sent, if the provider takes one.
    pub send_pkce: bool,
    /// Whether a nonce is sent, if the provider takes one.
    pub send_nonce: bool,
}

/// A registration at a provider.
#[derive(Debug, Clone)]
pub enum PresetAccount {
    /// With a client secret.
    Secret(OAuthClient),
    /// At Microsoft, for the accounts of these tenants.
    Microsoft(OAuthClient, MicrosoftTenant),
    /// At Apple, whose client secrets this program signs.
    Apple(AppleConfig),
}

/// Microsoft's authority.
const MICROSOFT: &str = "https://login.microsoftonline.com";

impl PresetConfig {
    /// A provider at its own addresses.
    pub fn new(preset: &'static Preset, account: PresetAccount) -> Self {
        Self {
            preset,
            account,
            redirect_url: None,
            authorize_url: None,
            token_url: None,
            userinfo_url: None,
            issuer: None,
            scopes: None,
            send_pkce: true,
            send_nonce: true,
        }
    }

    /// Checks the configuration. The provider is not contacted.
    pub fn provider(self, http: ProviderHttp, ambient: Ambient) -> Result<Arc<dyn Provider>, AuthInitError> {
        match self.preset.protocol {
            Protocol::OAuth2 { .. } => Ok(Arc::new(self.oauth2(http, ambient)?)),
            Protocol::OpenId { issuer, .. } => Ok(Arc::new(self.oidc(issuer, http, ambient)?)),
        }
    }

    fn oauth2(self, http: ProviderHttp, ambient: Ambient) -> Result<OAuth2, AuthInitError> {
        let Self { preset, account, redirect_url, scopes, .. } = self;
        let (Protocol::OAuth2 { authorize_url, token_url, userinfo_url, token_auth }, PresetAccount::Secret(client)) =
            (&preset.protocol, account)
        else {
            return Err(setting::wrong(preset.name, "its account is of another kind"));
        };
        let own = |configured: Option<Url>, own: &str| {
            let refused = |_| setting::wrong(preset.name, "an endpoint is no URL");
            configured.map_or_else(|| Url::parse(own).map_err(refused), Ok)
        };
        let config = OAuth2Config {
            name: preset.name.to_owned(),
            label: Some(preset.label.to_owned()),
            client,
            redirect_url,
            authorize_url: own(self.authorize_url, authorize_url)?,
            token_url: own(self.token_url, token_url)?,
            userinfo_url: own(self.userinfo_url, userinfo_url)?,
            scopes: scopes.unwrap_or_else(|| owned(preset.scopes)),
            parameters: preset.parameters.iter().map(|&(name, value)| (name.to_owned(), value.to_owned())).collect(),
            token_auth: *token_auth,
            issuer: None,
            claims: (&preset.claims).into(),
            send_pkce: self.send_pkce && preset.takes_pkce,
        };
        OAuth2::new(config, http, ambient)
    }

    fn oidc(self, own_issuer: &str, http: ProviderHttp, ambient: Ambient) -> Result<Oidc, AuthInitError> {
        let Self { preset, account, redirect_url, scopes, .. } = self;
        let Protocol::OpenId { takes_nonce, posts, .. } = preset.protocol else {
            return Err(setting::wrong(preset.name, "it has no issuer"));
        };
        let mut variant = Variant { parameters: preset.parameters, posts, ..Variant::default() };
        let mut claims = claim_names(preset);
        let mut issuer = self.issuer.unwrap_or_else(|| own_issuer.to_owned());
        let client = match account {
            PresetAccount::Secret(client) => client,
            PresetAccount::Microsoft(client, tenant) => {
                let authority = if issuer == own_issuer { MICROSOFT } else { &issuer };
                let tenants = Tenants::new(authority, tenant);
                issuer = tenants.published();
                variant.tenants = Some(tenants);
                SUBJECT.clone_into(&mut claims.subject);
                client
            }
            PresetAccount::Apple(apple) => {
                let client = OAuthClient { id: apple.client_id.clone(), secret: Secret::new("") };
                let secrets = ClientSecrets::new(apple, issuer.clone());
                let refused = || setting::wrong(preset.name, "the private key is no PEM of a key on the curve P-256");
                variant.secrets = Some(secrets.ok_or_else(refused)?);
                client
            }
        };
        let config = OidcConfig {
            name: preset.name.to_owned(),
            label: Some(preset.label.to_owned()),
            issuer,
            client,
            redirect_url,
            scopes: scopes.unwrap_or_else(|| owned(preset.scopes)),
            jwks_cache: Duration::from_hours(1),
            claims,
            send_pkce: self.send_pkce && preset.takes_pkce,
            send_nonce: self.send_nonce && takes_nonce,
        };
        Oidc::with(config, variant, http, ambient)
    }
}

fn claim_names(preset: &Preset) -> ClaimNames {
    let claims = &preset.claims;
    ClaimNames {
        subject: claims.subject.to_owned(),
        email: claims.email.to_owned(),
        name: claims.name.first().copied().unwrap_or_default().to_owned(),
        picture: claims.picture.to_owned(),
        // An empty name is the name of no claim.
        email_verified: match claims.email_verified {
            Vouched::By(claim) => claim.to_owned(),
            Vouched::Always | Vouched::Never => String::new(),
        },
    }
}

fn owned(scopes: &[&str]) -> Vec<String> {
    scopes.iter().map(|&scope| scope.to_owned()).collect()
}
