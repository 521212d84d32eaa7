//! What a client says about itself as a relying party: a program that signs its users in here.

use std::net::IpAddr;

use serde::{Deserialize, Serialize};
use url::{Host, Url};

use super::super::redirect::{InvalidRedirectUri, RedirectUri};
use crate::jwt::JwtAlgorithm;
use crate::jwt::id_tokens::IdTokens;

/// The wishes of a program that signs its users in by OpenID Connect.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct RelyingParty {
    /// `ES256`, which is the default, or `RS256`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub id_token_signed_response_alg: Option<String>,
    /// Where the browser may go after a sign-out. They are compared as they are written.
    #[serde(skip_serializing_if = "Vec::is_empty", deserialize_with = "or_none")]
    pub post_logout_redirect_uris: Vec<String>,
    /// Where the program is told that a user's session has ended.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub backchannel_logout_uri: Option<String>,
}

/// Null is like an absent list: some programs send it.
fn or_none<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<Vec<String>, D::Error> {
    Option::deserialize(deserializer).map(Option::unwrap_or_default)
}

/// Why such wishes are refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum InvalidRelyingParty {
    /// The algorithm.
    #[error("id_token_signed_response_alg is ES256 or RS256")]
    Algorithm,
    /// An address for the browser.
    #[error("there are at most 20 post_logout_redirect_uris, each as a redirect URI")]
    PostLogout,
    /// An address for the server.
    #[error("backchannel_logout_uri is an https:// URL of at most 1024 bytes, without user information and fragment")]
    BackChannel,
}

/// The same, checked.
#[derive(Debug, Clone)]
pub(in super::super) struct Relying {
    pub(in super::super) algorithm: JwtAlgorithm,
    pub(in super::super) after_sign_out: Vec<RedirectUri>,
    pub(in super::super) back_channel: Option<Url>,
}

/// The most addresses after a sign-out.
const MOST: usize = 20;
const MAX_URL: usize = 1_024;

impl RelyingParty {
    /// `plain`: whether a `http` URL of the back channel is accepted, as of the operator's own programs.
    pub(in super::super) fn check(&self, plain: bool) -> Result<Relying, InvalidRelyingParty> {
        let algorithm = match &self.id_token_signed_response_alg {
            None => IdTokens::ALGORITHMS[0],
            Some(name) => {
                let known = IdTokens::ALGORITHMS.into_iter().find(|algorithm| algorithm.as_str() == name);
                known.ok_or(InvalidRelyingParty::Algorithm)?
            }
        };
        let after = &self.post_logout_redirect_uris;
        let after = Some(after).filter(|uris| uris.len() <= MOST).ok_or(InvalidRelyingParty::PostLogout)?;
        let after = after.iter().map(|uri| RedirectUri::parse(uri)).collect::<Result<_, InvalidRedirectUri>>();
        let back_channel = self.backchannel_logout_uri.as_deref().map(|uri| back_channel(uri, plain)).transpose()?;
        Ok(Relying { algorithm, after_sign_out: after.map_err(|_| InvalidRelyingParty::PostLogout)?, back_channel })
    }
}

fn back_channel(text: &str, plain: bool) -> Result<Url, InvalidRelyingParty> {
    let url = Url::parse(text).ok().filter(|_| text.len() <= MAX_URL).ok_or(InvalidRelyingParty::BackChannel)?;
    let bare = url.username().is_empty() && url.password().is_none() && url.fragment().is_none();
    let here = match url.host() {
        Some(Host::Domain(name)) => name == "localhost",
        Some(Host::Ipv4(address)) => IpAddr::V4(address).is_loopback(),
        Some(Host::Ipv6(address)) => IpAddr::V6(address).is_loopback(),
        None => return Err(InvalidRelyingParty::BackChannel),
    };
    let is_secure = url.scheme() == "https" || (url.scheme() == "http" && (plain || here));
    if bare && is_secure { Ok(url) } else { Err(InvalidRelyingParty::BackChannel) }
}

impl Default for Relying {
    fn default() -> Self {
        Self { algorithm: IdTokens::ALGORITHMS[0], after_sign_out: Vec::new(), back_channel: None }
    }
}

impl Relying {
    /// As it is stored and shown.
    pub(in super::super) fn shown(&self) -> RelyingParty {
        RelyingParty {
            id_token_signed_response_alg: Some(self.algorithm.as_str().to_owned()),
            post_logout_redirect_uris: self.after_sign_out.iter().map(|uri| uri.as_str().to_owned()).collect(),
            backchannel_logout_uri: self.back_channel.as_ref().map(|url| url.as_str().to_owned()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_safe_addresses_and_known_algorithms_are_accepted() {
        let of = |uri: &str| RelyingParty { backchannel_logout_uri: Some(uri.to_owned()), ..RelyingParty::default() };
        for (uri, registered, operator) in [
            ("https://app.example.com/logout", true, true),
            ("http://127.0.0.1:8080/logout", true, true),
            ("http://app.internal/logout", false, true),
            ("https://user@app.example.com/logout", false, false),
            ("https://app.example.com/logout#x", false, false),
            ("ftp://app.example.com/", false, false),
            ("javascript:alert(1)", false, false),
            ("/logout", false, false),
        ] {
            assert_eq!((of(uri).check(false).is_ok(), of(uri).check(true).is_ok()), (registered, operator), "{uri}");
        }
        for (name, known) in [("ES256", true), ("RS256", true), ("HS256", false), ("none", false), ("EdDSA", false)] {
            let party = RelyingParty { id_token_signed_response_alg: Some(name.to_owned()), ..RelyingParty::default() };
            assert_eq!(party.check(true).is_ok(), known, "{name}");
        }
        let many = vec!["https://app.example.com/".to_owned(); MOST + 1];
        for uris in [many, vec!["javascript:alert(1)".to_owned()]] {
            let party = RelyingParty { post_logout_redirect_uris: uris, ..RelyingParty::default() };
            assert_eq!(party.check(true).unwrap_err(), InvalidRelyingParty::PostLogout);
        }
    }
}
