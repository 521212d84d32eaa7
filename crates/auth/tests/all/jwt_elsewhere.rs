//! Another service verifies a JWT as `docs/authentication.md` describes, without any code of this crate: HKDF and HS256
//! are written out here over a plain HMAC-SHA256.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use hmac::{Hmac, KeyInit, Mac};
use serde_json::Value;
use sha2::Sha256;

use crate::support::{Site, config, databases};

const DOCS: &str = include_str!("../../../../docs/authentication.md");
const INFO: &str = "gatewright/jwt/v1";

fn hmac(key: &[u8], message: &[u8]) -> Vec<u8> {
    let mut mac = Hmac::<Sha256>::new_from_slice(key).unwrap();
    mac.update(message);
    mac.finalize().into_bytes().to_vec()
}

/// RFC 5869 for one block of output, with a salt of 32 zero bytes.
fn key(secret: &str, info: &str) -> Vec<u8> {
    let extracted = hmac(&[0; 32], secret.as_bytes());
    hmac(&extracted, &[info.as_bytes(), &[1]].concat())
}

fn verify(token: &str, key: &[u8]) -> Option<Value> {
    let (signed, signature) = token.rsplit_once('.')?;
    let (header, claims) = signed.split_once('.')?;
    let json = |part: &str| serde_json::from_slice::<Value>(&URL_SAFE_NO_PAD.decode(part).ok()?).ok();
    let signature = URL_SAFE_NO_PAD.decode(signature).ok()?;
    let claims = json(claims)?;
    let good =
        json(header)?["alg"] == "HS256" && hmac(key, signed.as_bytes()) == signature && claims["iss"] == "gatewright";
    good.then_some(claims)
}

#[tokio::test]
async fn another_service_verifies_a_token_as_documented() {
    for words in ["HKDF-SHA256", INFO, "32 zero bytes", "HS256", "iss", "exp"] {
        assert!(DOCS.contains(words), "docs/authentication.md does not say {words}");
    }
    for db in databases().await {
        let site = Site::on(&db).await;
        let registered = site.register_ann().await;
        let token = registered.token();
        let secret = config().jwt.secret;
        let claims = verify(&token, &key(secret.expose(), INFO)).expect("the token verifies");
        assert_eq!(claims["sub"], registered.json()["user"]["id"]);
        assert_eq!(claims["email"], "ann@example.com");
        assert!(claims["exp"].as_i64().unwrap() > claims["iat"].as_i64().unwrap());
        assert_eq!(verify(&token, secret.expose().as_bytes()), None, "the secret itself is not the key");
        assert_eq!(verify(&token, &key(secret.expose(), "gatewright/jwt/v2")), None);
        let forged = token.replace('.', "x.");
        assert_eq!(verify(&forged, &key(secret.expose(), INFO)), None);
    }
}
