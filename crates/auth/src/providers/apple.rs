//! What only Apple has: a client secret that this program signs, and a user's name in the answer's form.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use gatewright_base::{Ambient, Secret};
use serde::Deserialize;
use serde_json::json;

use super::ProviderError;
use crate::jwt::keys::Pair;

/// The registration of a program at Apple.
#[derive(Debug, Clone)]
pub struct AppleConfig {
    /// The services id.
    pub client_id: String,
    /// The team that it belongs to: ten letters and digits.
    pub team_id: String,
    /// The id of the key: ten letters and digits.
    pub key_id: String,
    /// The private key, PEM: the content of `AuthKey_….p8`.
    pub private_key: Secret,
}

/// Signs client secrets ([Creating a client
/// secret](https://developer.apple.com/documentation/accountorganizationaldatasharing/creating-a-client-secret)).
pub(super) struct ClientSecrets {
    pair: Pair,
    key_id: String,
    team_id: String,
    client_id: String,
    audience: String,
}

/// How long a client secret is valid, in seconds. Each request gets a new one; Apple allows six months.
const LIFETIME: i64 = 300;

/// The longest `user` that is read, in bytes.
const MAX_USER: usize = 4096;

/// Whether this is a private key that Apple's client secrets can be signed with: PEM, on the curve P-256.
pub fn is_apple_key(pem: &Secret) -> bool {
    pair(pem).is_some()
}

/// Whether this can be a team's or a key's id at Apple: ten capital letters and digits.
pub fn is_apple_id(text: &str) -> bool {
    text.len() == 10 && text.bytes().all(|byte| byte.is_ascii_uppercase() || byte.is_ascii_digit())
}

/// The pair of a key. Environment files write the ends of lines as `\n`.
fn pair(pem: &Secret) -> Option<Pair> {
    let lines = Secret::new(pem.expose().replace("\\n", "\n"));
    Pair::of_pem(&lines).filter(|pair| matches!(pair, Pair::Es256(_)))
}

impl ClientSecrets {
    /// `None` if the key is invalid. The secrets are for `audience`, Apple's issuer.
    pub(super) fn new(config: AppleConfig, audience: String) -> Option<Self> {
        let AppleConfig { client_id, team_id, key_id, private_key } = config;
        Some(Self { pair: pair(&private_key)?, key_id, team_id, client_id, audience })
    }

    /// A client secret of now.
    pub(super) fn sign(&self, ambient: &Ambient) -> Result<Secret, ProviderError> {
        let now = ambient.now().as_second();
        let header = json!({ "alg": "ES256", "kid": self.key_id });
        let claims = json!({
            "iss": self.team_id, "sub": self.client_id, "aud": self.audience, "iat": now, "exp": now + LIFETIME,
        });
        let signed = [header, claims].map(|part| URL_SAFE_NO_PAD.encode(part.to_string())).join(".");
        let failed = |_| ProviderError::Failed("the client secret could not be signed");
        let signature = self.pair.sign(signed.as_bytes()).map_err(failed)?;
        Ok(Secret::new(format!("{signed}.{}", URL_SAFE_NO_PAD.encode(signature))))
    }
}

impl std::fmt::Debug for ClientSecrets {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ClientSecrets").field("key_id", &self.key_id).finish_non_exhaustive()
    }
}

/// `user` of the answer's form.
#[derive(Deserialize)]
struct User {
    name: Option<Name>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Name {
    #[serde(default)]
    first_name: String,
    #[serde(default)]
    last_name: String,
}

/// The name in `user`. Its address is not read, because nobody signs this text: only the `id_token` has an address.
pub(super) fn name(user: &str) -> Option<String> {
    let user = (user.len() <= MAX_USER).then(|| serde_json::from_str::<User>(user).ok())??;
    let Name { first_name, last_name } = user.name?;
    let name = [first_name.trim(), last_name.trim()].join(" ");
    let name = name.trim();
    (!name.is_empty()).then(|| name.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_name_is_read_from_the_form_and_nothing_else() {
        for (user, expected) in [
            (r#"{"name":{"firstName":"Ann","lastName":"Example"},"email":"ann@example.com"}"#, Some("Ann Example")),
            (r#"{"name":{"firstName":"Ann","lastName":""}}"#, Some("Ann")),
            (r#"{"name":{"lastName":"Example"}}"#, Some("Example")),
            (r#"{"name":{}}"#, None),
            (r#"{"email":"ann@example.com"}"#, None),
            (r#"{"name":"Ann"}"#, None),
            ("Ann", None),
            ("", None),
            (&format!(r#"{{"name":{{"firstName":"{}"}}}}"#, "a".repeat(MAX_USER)), None),
        ] {
            assert_eq!(name(user).as_deref(), expected, "{user}");
        }
    }

    #[test]
    fn ids_have_ten_capitals_and_digits() {
        for (text, expected) in
            [("ABCDE12345", true), ("abcde12345", false), ("ABCDE1234", false), ("ABCDE123456", false), ("", false)]
        {
            assert_eq!(is_apple_id(text), expected, "{text}");
        }
    }
}
