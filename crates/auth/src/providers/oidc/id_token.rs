//! The checks of an `id_token` (OpenID Connect Core, section 3.1.3.7), in their order.

use aws_lc_rs::signature::ParsedPublicKey;
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use gatewright_base::Secret;
use jiff::Timestamp;
use serde_json::Value;

use super::InvalidIdToken;
use super::keys::Algorithm;
use crate::providers::fields::{self, Fields};

/// A parsed `id_token` that is not verified yet.
pub(super) struct Unverified<'a> {
    signed: &'a str,
    payload: &'a str,
    signature: Vec<u8>,
    pub(super) algorithm: Algorithm,
    pub(super) key_id: Option<String>,
}

/// The expected values of the claims.
pub(super) struct Expected<'a> {
    pub(super) issuer: &'a str,
    pub(super) client_id: &'a str,
    /// The nonce that was sent, if one was.
    pub(super) nonce: Option<&'a str>,
    pub(super) now: Timestamp,
}

/// The longest token looked at, in bytes. Large ones, with groups, have some thousands.
const MAX_BYTES: usize = 16 * 1024;
/// The tolerance for the issuer's clock in either direction, in seconds: for `exp`, `nbf` and `iat`.
const SKEW: f64 = 60.0;

impl<'a> Unverified<'a> {
    /// Reads the token's shape and header. The algorithm is settled here, before any key is looked for.
    pub(super) fn read(token: &'a Secret) -> Result<Self, InvalidIdToken> {
        let token = token.expose();
        if token.len() > MAX_BYTES {
            return Err(InvalidIdToken::Oversized);
        }
        let (signed, signature) = token.rsplit_once('.').ok_or(InvalidIdToken::NotAJwt)?;
        let (header, payload) = signed.split_once('.').ok_or(InvalidIdToken::NotAJwt)?;
        if payload.contains('.') {
            return Err(InvalidIdToken::NotAJwt);
        }
        let header = object(header)?;
        if header.contains_key("crit") {
            return Err(InvalidIdToken::Critical);
        }
        let algorithm = header.get("alg").and_then(Value::as_str).and_then(Algorithm::parse);
        let algorithm = algorithm.ok_or(InvalidIdToken::Algorithm)?;
        let key_id = match header.get("kid") {
            None => None,
            Some(Value::String(id)) => Some(id.clone()),
            Some(_) => return Err(InvalidIdToken::NotAJwt),
        };
        let signature = URL_SAFE_NO_PAD.decode(signature).map_err(|_| InvalidIdToken::NotAJwt)?;
        Ok(Self { signed, payload, signature, algorithm, key_id })
    }

    /// The claims, if the signature is the key's.
    pub(super) fn verify(&self, key: &ParsedPublicKey) -> Result<Fields, InvalidIdToken> {
        key.verify_sig(self.signed.as_bytes(), &self.signature).map_err(|_| InvalidIdToken::Signature)?;
        object(self.payload)
    }
}

impl Expected<'_> {
    /// Checks the claims about the token itself.
    pub(super) fn check(&self, claims: &Fields) -> Result<(), InvalidIdToken> {
        if claims.get("iss").and_then(Value::as_str) != Some(self.issuer) {
            return Err(InvalidIdToken::Issuer);
        }
        self.check_audience(claims)?;
        self.check_times(claims)?;
        if self.nonce.is_some_and(|nonce| claims.get("nonce").and_then(Value::as_str) != Some(nonce)) {
            return Err(InvalidIdToken::Nonce);
        }
        let subject = claims.get("sub").is_some_and(Value::is_string) && fields::identifier(claims, "sub").is_some();
        if subject { Ok(()) } else { Err(InvalidIdToken::Subject) }
    }

    fn check_audience(&self, claims: &Fields) -> Result<(), InvalidIdToken> {
        let several = match claims.get("aud") {
            Some(Value::String(one)) if one == self.client_id => false,
            Some(Value::Array(all)) if all.iter().any(|one| one == self.client_id) => all.len() > 1,
            _ => return Err(InvalidIdToken::Audience),
        };
        match claims.get("azp") {
            Some(party) if party == self.client_id => Ok(()),
            None if !several => Ok(()),
            _ => Err(InvalidIdToken::AuthorizedParty),
        }
    }

    fn check_times(&self, claims: &Fields) -> Result<(), InvalidIdToken> {
        let now = self.now.as_duration().as_secs_f64();
        let time = |name: &str| match claims.get(name) {
            None => Ok(None),
            Some(value) => value.as_f64().map(Some).ok_or(InvalidIdToken::MalformedClaims),
        };
        let expires = time("exp")?.ok_or(InvalidIdToken::MalformedClaims)?;
        let issued = time("iat")?.ok_or(InvalidIdToken::MalformedClaims)?;
        if now >= expires + SKEW {
            return Err(InvalidIdToken::Expired);
        }
        if time("nbf")?.is_some_and(|begins| begins > now + SKEW) {
            return Err(InvalidIdToken::NotYetValid);
        }
        if issued > now + SKEW { Err(InvalidIdToken::IssuedInFuture) } else { Ok(()) }
    }
}

fn object(part: &str) -> Result<Fields, InvalidIdToken> {
    let bytes = URL_SAFE_NO_PAD.decode(part).map_err(|_| InvalidIdToken::NotAJwt)?;
    serde_json::from_slice(&bytes).map_err(|_| InvalidIdToken::NotAJwt)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// Every input gets an answer, and the claims of an unsigned token are never read.
        #[test]
        fn random_tokens_are_refused(token in ".*", header in ".*", payload in ".*", signature in ".*") {
            let parts = [header, payload, signature].map(|part| URL_SAFE_NO_PAD.encode(part)).join(".");
            for token in [token, parts] {
                let token = Secret::new(token);
                prop_assert!(Unverified::read(&token).is_err());
            }
        }

        /// Claims of any shape are refused, unless they are the ones that must be.
        #[test]
        fn claims_of_any_shape_are_refused_unless_they_are_the_expected_ones(
            name in prop_oneof!["iss", "aud", "azp", "sub", "exp", "iat", "nbf", "nonce"],
            value in prop_oneof![
                Just(Value::Null),
                any::<bool>().prop_map(Value::from),
                any::<i64>().prop_map(Value::from),
                any::<f64>().prop_map(Value::from),
                ".*".prop_map(Value::from),
                prop::collection::vec(".*", 0..3).prop_map(Value::from),
            ],
        ) {
            let now = Timestamp::UNIX_EPOCH;
            let expected = Expected { issuer: "https://idp", client_id: "c", nonce: Some("n"), now };
            let good = serde_json::json!({ "iss": "https://idp", "aud": "c", "sub": "s", "exp": 1, "iat": 0, "nonce": "n" });
            let mut claims = good.as_object().unwrap().clone();
            prop_assert_eq!(expected.check(&claims), Ok(()));
            claims.insert(name.clone(), value.clone());
            let accepted = expected.check(&claims).is_ok();
            let number = value.as_f64();
            let sound = match name.as_str() {
                "iss" => value == "https://idp",
                "nonce" => value == "n",
                "aud" | "azp" => value == "c" || (name == "aud" && value == serde_json::json!(["c"])),
                "sub" => value.as_str().is_some_and(|text| !text.is_empty()),
                "exp" => number.is_some_and(|number| number > -60.0),
                _ => number.is_some_and(|number| number <= 60.0),
            };
            prop_assert!(!accepted || sound, "{} {}", name, value);
        }
    }
}
