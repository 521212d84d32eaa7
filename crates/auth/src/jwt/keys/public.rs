//! A public key: what verifiers get (RFC 7517).

use aws_lc_rs::digest::{SHA256, digest};
use aws_lc_rs::signature::{
    ECDSA_P256_SHA256_FIXED, ED25519, RSA_PKCS1_2048_8192_SHA256, RsaPublicKeyComponents, UnparsedPublicKey,
};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::{Value, json};

use super::JwtAlgorithm;

/// The public key of one algorithm. A signature is only ever checked with the key's own algorithm.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::jwt) enum PublicKey {
    /// An uncompressed point: 4, x, y.
    Es256 {
        point: Vec<u8>,
    },
    EdDsa {
        point: Vec<u8>,
    },
    /// Big-endian numbers.
    Rs256 {
        modulus: Vec<u8>,
        exponent: Vec<u8>,
    },
}

/// The bytes of a coordinate of P-256.
const COORDINATE: usize = 32;

impl PublicKey {
    pub(in crate::jwt) fn algorithm(&self) -> JwtAlgorithm {
        match self {
            Self::Es256 { .. } => JwtAlgorithm::Es256,
            Self::EdDsa { .. } => JwtAlgorithm::EdDsa,
            Self::Rs256 { .. } => JwtAlgorithm::Rs256,
        }
    }

    pub(in crate::jwt) fn verify(&self, message: &[u8], signature: &[u8]) -> bool {
        match self {
            Self::Es256 { point } => UnparsedPublicKey::new(&ECDSA_P256_SHA256_FIXED, point).verify(message, signature),
            Self::EdDsa { point } => UnparsedPublicKey::new(&ED25519, point).verify(message, signature),
            Self::Rs256 { modulus, exponent } => RsaPublicKeyComponents { n: modulus, e: exponent }.verify(
                &RSA_PKCS1_2048_8192_SHA256,
                message,
                signature,
            ),
        }
        .is_ok()
    }

    /// The members that define the key, in the order of their names.
    fn members(&self) -> Vec<(&'static str, String)> {
        let text = |bytes: &[u8]| URL_SAFE_NO_PAD.encode(bytes);
        let named = |name: &str| name.to_owned();
        match self {
            Self::Es256 { point } => {
                let (x, y) = point.get(1..).unwrap_or_default().split_at_checked(COORDINATE).unwrap_or_default();
                vec![("crv", named("P-256")), ("kty", named("EC")), ("x", text(x)), ("y", text(y))]
            }
            Self::EdDsa { point } => vec![("crv", named("Ed25519")), ("kty", named("OKP")), ("x", text(point))],
            Self::Rs256 { modulus, exponent } => {
                vec![("e", text(exponent)), ("kty", named("RSA")), ("n", text(modulus))]
            }
        }
    }

    /// The thumbprint of the key (RFC 7638), in base64 for URLs.
    pub(super) fn kid(&self) -> String {
        let members = self.members().into_iter().map(|(name, value)| format!("\"{name}\":\"{value}\""));
        let text = format!("{{{}}}", members.collect::<Vec<_>>().join(","));
        URL_SAFE_NO_PAD.encode(digest(&SHA256, text.as_bytes()))
    }

    /// The key for a set of keys.
    pub(super) fn jwk(&self) -> Value {
        let mut jwk = json!({ "kid": self.kid(), "use": "sig", "alg": self.algorithm().as_str() });
        for (name, value) in self.members() {
            jwk[name] = value.into();
        }
        jwk
    }

    /// The key of a stored JWK; `None` if it is damaged.
    pub(super) fn of_jwk(text: &str) -> Option<Self> {
        let jwk: Value = serde_json::from_str(text).ok()?;
        let member = |name: &str| URL_SAFE_NO_PAD.decode(jwk[name].as_str()?).ok();
        match jwk["alg"].as_str()?.parse().ok()? {
            JwtAlgorithm::Hs256 => None,
            JwtAlgorithm::Es256 => {
                let point = [vec![4], member("x")?, member("y")?].concat();
                (point.len() == 1 + 2 * COORDINATE).then_some(Self::Es256 { point })
            }
            JwtAlgorithm::EdDsa => Some(Self::EdDsa { point: member("x")? }),
            JwtAlgorithm::Rs256 => Some(Self::Rs256 { modulus: member("n")?, exponent: member("e")? }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The example of RFC 7638, section 3.1, and that of RFC 8037, appendix A.
    #[test]
    fn a_kid_is_the_thumbprint_of_the_key() {
        let rsa = r#"{"kty":"RSA","alg":"RS256","n":"0vx7agoebGcQSuuPiLJXZptN9nndrQmbXEps2aiAFbWhM78LhWx4cbbfAAtVT86zwu1RK7aPFFxuhDR1L6tSoc_BJECPebWKRXjBZCiFV4n3oknjhMstn64tZ_2W-5JsGY4Hc5n9yBXArwl93lqt7_RN5w6Cf0h4QyQ5v-65YGjQR0_FDW2QvzqY368QQMicAtaSqzs8KJZgnYb9c7d0zgdAZHzu6qMQvRL5hajrn1n91CbOpbISD08qNLyrdkt-bFTWhAI4vMQFh6WeZu0fM4lFd2NcRwr3XPksINHaQ-G_xBniIqbw0Ls1jF44-csFCur-kEgU8awapJzKnqDKgw","e":"AQAB"}"#;
        assert_eq!(PublicKey::of_jwk(rsa).unwrap().kid(), "NzbLsXh8uDCcd-6MNwXF4W_7noWXFZAfHkxZsRGC9Xs");
        let okp = r#"{"kty":"OKP","crv":"Ed25519","alg":"EdDSA","x":"11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo"}"#;
        assert_eq!(PublicKey::of_jwk(okp).unwrap().kid(), "kPrK_qmxVWaYVA9wwBF6Iuo3vVzz7TxHCTwXBygrS4k");
    }
}
