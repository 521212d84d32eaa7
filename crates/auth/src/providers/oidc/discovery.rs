use serde::Deserialize;

use crate::providers::ProviderError;
use crate::providers::client::ClientAuth;
use crate::providers::endpoint::Endpoint;

/// Where an issuer's endpoints are (OpenID Connect Discovery, section 3).
#[derive(Debug)]
pub(super) struct Discovered {
    pub(super) authorize: Endpoint,
    pub(super) token: Endpoint,
    pub(super) keys: Endpoint,
    pub(super) userinfo: Option<Endpoint>,
    pub(super) auth: ClientAuth,
    /// Whether every callback has `iss` (RFC 9207, section 3).
    pub(super) names_itself: bool,
}

/// The published document.
#[derive(Deserialize)]
pub(super) struct Published {
    issuer: String,
    authorization_endpoint: String,
    token_endpoint: String,
    jwks_uri: String,
    userinfo_endpoint: Option<String>,
    token_endpoint_auth_methods_supported: Option<Vec<String>>,
    #[serde(default)]
    authorization_response_iss_parameter_supported: bool,
}

/// The address of the document of `issuer` (section 4). `None` if the issuer is invalid.
pub(super) fn document(issuer: &str) -> Option<Endpoint> {
    let endpoint = Endpoint::parse(issuer).ok()?;
    if endpoint.url().query().is_some() {
        return None;
    }
    Endpoint::parse(&format!("{}/.well-known/openid-configuration", issuer.trim_end_matches('/'))).ok()
}

/// Whether `text` can be an issuer: https, or plain http at `localhost` or `127.0.0.1`, without user information, query
/// and fragment.
pub fn is_issuer(text: &str) -> bool {
    document(text).is_some()
}

impl Published {
    /// Checks the document against the configured `issuer`, byte for byte: if it differs, even only in a slash, it is
    /// another issuer, and its tokens must not be accepted.
    pub(super) fn check(self, issuer: &str) -> Result<Discovered, ProviderError> {
        if self.issuer != issuer {
            return Err(ProviderError::Misconfigured("its discovery document names another issuer"));
        }
        // An issuer elsewhere must not use addresses of this computer or plain http.
        let document = document(issuer);
        let secure = document.as_ref().is_some_and(Endpoint::is_https);
        let here = document.as_ref().is_some_and(Endpoint::is_here);
        let endpoint = |text: &str| {
            let refused = ProviderError::Malformed("its discovery document names an endpoint that is not secure");
            let sound = |endpoint: &Endpoint| (endpoint.is_https() || !secure) && (here || !endpoint.is_here());
            Endpoint::parse(text).ok().filter(sound).ok_or(refused)
        };
        Ok(Discovered {
            authorize: endpoint(&self.authorization_endpoint)?,
            token: endpoint(&self.token_endpoint)?,
            keys: endpoint(&self.jwks_uri)?,
            userinfo: self.userinfo_endpoint.as_deref().map(endpoint).transpose()?,
            auth: client_auth(self.token_endpoint_auth_methods_supported.as_deref())?,
            names_itself: self.authorization_response_iss_parameter_supported,
        })
    }
}

/// Without a list, the standard's default applies: the header.
fn client_auth(supported: Option<&[String]>) -> Result<ClientAuth, ProviderError> {
    let Some(supported) = supported else { return Ok(ClientAuth::Basic) };
    let has = |method: &str| supported.iter().any(|one| one == method);
    if has("client_secret_basic") {
        Ok(ClientAuth::Basic)
    } else if has("client_secret_post") {
        Ok(ClientAuth::Post)
    } else {
        Err(ProviderError::Malformed("its token endpoint takes no client secret"))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    const ISSUER: &str = "https://idp.example.com/realms/one";

    fn check(issuer: &str, change: &Value) -> Result<Discovered, ProviderError> {
        let mut document = json!({
            "issuer": ISSUER,
            "authorization_endpoint": format!("{ISSUER}/auth"),
            "token_endpoint": format!("{ISSUER}/token"),
            "jwks_uri": format!("{ISSUER}/jwks"),
            "userinfo_endpoint": format!("{ISSUER}/me"),
        });
        document.as_object_mut().unwrap().extend(change.as_object().unwrap().clone());
        serde_json::from_value::<Published>(document).unwrap().check(issuer)
    }

    #[test]
    fn the_issuer_is_the_configured_one_to_the_byte() {
        assert!(check(ISSUER, &json!({})).is_ok());
        for other in [
            "https://idp.example.com/realms/one/",
            "https://idp.example.com/realms/two",
            "https://IDP.example.com/realms/one",
            "https://idp.example.com:443/realms/one",
            "http://localhost/realms/one",
        ] {
            let refused = check(other, &json!({})).unwrap_err();
            assert!(matches!(refused, ProviderError::Misconfigured(_)), "{other}");
        }
    }

    #[test]
    fn a_remote_issuer_cannot_use_local_addresses_or_plain_http() {
        for name in ["authorization_endpoint", "token_endpoint", "jwks_uri", "userinfo_endpoint"] {
            for address in [
                "http://idp.example.com/x",
                "http://localhost:6379/",
                "http://127.0.0.1/",
                "https://localhost:8443/",
                "https://x.localhost./",
                "https://127.0.0.2/",
                "https://0.0.0.0/",
                "https://[::1]/",
                "https://[::ffff:127.0.0.1]/",
                "https://2130706433/",
                "file:///etc/passwd",
                "",
            ] {
                assert!(check(ISSUER, &json!({ name: address })).is_err(), "{name} {address}");
            }
        }
        assert!(check(ISSUER, &json!({ "token_endpoint": "https://elsewhere.example.com/token" })).is_ok());
        let all = ["authorization_endpoint", "token_endpoint", "jwks_uri", "userinfo_endpoint"];
        for here in ["http://localhost:4000", "https://localhost:4000", "https://[::1]:4000"] {
            let mut change: serde_json::Map<String, Value> =
                all.iter().map(|name| ((*name).to_owned(), json!(format!("{here}/{name}")))).collect();
            change.insert("issuer".to_owned(), json!(here));
            assert!(check(here, &Value::Object(change)).is_ok(), "{here}");
        }
    }

    #[test]
    fn the_secret_is_sent_by_the_method_that_the_issuer_supports() {
        for (methods, expected) in [
            (json!(null), Some(ClientAuth::Basic)),
            (json!(["client_secret_post", "client_secret_basic"]), Some(ClientAuth::Basic)),
            (json!(["client_secret_post", "none"]), Some(ClientAuth::Post)),
            (json!(["private_key_jwt"]), None),
        ] {
            let discovered = check(ISSUER, &json!({ "token_endpoint_auth_methods_supported": methods }));
            assert_eq!(discovered.ok().map(|discovered| discovered.auth), expected, "{methods}");
        }
    }

    #[test]
    fn the_document_is_found_with_and_without_a_slash() {
        let at = |issuer| document(issuer).map(|endpoint| endpoint.url().to_string());
        let expected = Some("https://idp.example.com/a/.well-known/openid-configuration".to_owned());
        assert_eq!(at("https://idp.example.com/a"), expected);
        assert_eq!(at("https://idp.example.com/a/"), expected);
        for no_issuer in ["http://idp.example.com", "https://idp.example.com?x=y", "https://idp.example.com/#x", "x"] {
            assert_eq!(at(no_issuer), None, "{no_issuer}");
        }
    }
}
