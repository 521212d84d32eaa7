use gatewright_base::Scopes;
use serde::Deserialize;

use super::error::{Code, OAuthError};
use super::openid::relying::{InvalidRelyingParty, Relying, RelyingParty};
use super::redirect::{InvalidRedirectUri, RedirectUri};
use super::scopes::SupportedScopes;
use super::token::DEVICE_CODE;
use crate::label::Label;

/// Client metadata (RFC 7591, section 2), as far as it is used here. Other members are ignored, as the RFC requires.
#[derive(Deserialize)]
pub(super) struct Metadata {
    pub(super) client_id: Option<String>,
    pub(super) client_name: Option<String>,
    #[serde(default)]
    pub(super) redirect_uris: Vec<String>,
    pub(super) grant_types: Option<Vec<String>>,
    pub(super) response_types: Option<Vec<String>>,
    pub(super) token_endpoint_auth_method: Option<String>,
    pub(super) scope: Option<String>,
    #[serde(flatten)]
    pub(super) relying_party: RelyingParty,
}

/// The most redirect URIs of a client.
const MAX_REDIRECTS: usize = 20;

impl Metadata {
    /// The client's name for users.
    pub(super) fn name(&self) -> Result<String, OAuthError> {
        let name = self.client_name.as_deref().unwrap_or("Unnamed application");
        let label = Label::parse(name)
            .map_err(|_| invalid("client_name has 1 to 100 visible characters, none of them control or invisible"))?;
        Ok(label.as_str().to_owned())
    }

    /// The redirect URIs, and that the client asks for no grant that it cannot have.
    pub(super) fn redirects(&self) -> Result<Vec<RedirectUri>, OAuthError> {
        let only = |list: &Option<Vec<String>>, known: &[&str]| {
            list.iter().flatten().all(|word| known.contains(&word.as_str()))
        };
        if !only(&self.grant_types, &["authorization_code", "refresh_token", DEVICE_CODE]) {
            return Err(invalid(
                "grant_types are authorization_code, refresh_token and urn:ietf:params:oauth:grant-type:device_code",
            ));
        }
        if !only(&self.response_types, &["code"]) {
            return Err(invalid("response_types is code"));
        }
        let wrong = |description| OAuthError::new(Code::InvalidRedirectUri, description);
        if self.redirect_uris.is_empty() && self.is_for_devices_only() {
            return Ok(Vec::new());
        }
        if self.redirect_uris.is_empty() || self.redirect_uris.len() > MAX_REDIRECTS {
            return Err(wrong("1 to 20 redirect_uris are required"));
        }
        let parsed = self.redirect_uris.iter().map(|uri| RedirectUri::parse(uri)).collect::<Result<_, _>>();
        parsed.map_err(|InvalidRedirectUri| wrong(InvalidRedirectUri::TEXT))
    }

    /// Whether it names the grant of devices.
    pub(super) fn is_for_devices(&self) -> bool {
        self.grant_types.iter().flatten().any(|word| word == DEVICE_CODE)
    }

    fn is_for_devices_only(&self) -> bool {
        self.is_for_devices() && !self.grant_types.iter().flatten().any(|word| word == "authorization_code")
    }

    /// How it signs its users in. A server without OpenID Connect ignores it.
    pub(super) fn relying_party(&self, openid: bool) -> Result<Relying, OAuthError> {
        if !openid {
            return Ok(Relying::default());
        }
        self.relying_party.check(false).map_err(|error| match error {
            InvalidRelyingParty::Algorithm => invalid("id_token_signed_response_alg is ES256 or RS256"),
            InvalidRelyingParty::PostLogout => {
                invalid("there are at most 20 post_logout_redirect_uris, each as a redirect URI")
            }
            InvalidRelyingParty::BackChannel => invalid(
                "backchannel_logout_uri is an https:// URL of at most 1024 bytes, without user information and fragment",
            ),
        })
    }

    /// The scopes that the client limits itself to.
    pub(super) fn scopes(&self, supported: &SupportedScopes) -> Result<Option<Scopes>, OAuthError> {
        let named = self.scope.as_deref().filter(|scope| !scope.trim().is_empty());
        named
            .map(|scope| supported.parse(Some(scope), None))
            .transpose()
            .map_err(|error| OAuthError::new(Code::InvalidClientMetadata, error.description))
    }
}

pub(super) fn invalid(description: &'static str) -> OAuthError {
    OAuthError::new(Code::InvalidClientMetadata, description)
}
