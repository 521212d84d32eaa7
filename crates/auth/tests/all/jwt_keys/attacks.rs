//! Attacks on the choice of algorithm and key (RFC 8725).

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use gatewright_auth::jwt::JwtAlgorithm;
use hmac::{Hmac, KeyInit, Mac};
use serde_json::{Value, json};
use sha2::Sha256;

use super::{accepts, ann, published, server, settings, token};
use crate::support::databases;

fn forge(header: &Value, claims: &str, sign: impl Fn(&[u8]) -> Vec<u8>) -> String {
    let signed = format!("{}.{claims}", URL_SAFE_NO_PAD.encode(header.to_string()));
    let signature = sign(signed.as_bytes());
    format!("{signed}.{}", URL_SAFE_NO_PAD.encode(signature))
}

fn hmac(key: &[u8]) -> impl Fn(&[u8]) -> Vec<u8> {
    move |message| {
        let mut mac = Hmac::<Sha256>::new_from_slice(key).unwrap();
        mac.update(message);
        mac.finalize().into_bytes().to_vec()
    }
}

#[tokio::test]
async fn no_header_chooses_another_algorithm_or_key() {
    for db in databases().await {
        for algorithm in [JwtAlgorithm::Es256, JwtAlgorithm::EdDsa, JwtAlgorithm::Rs256] {
            for table in ["auth_jwt_signers", "users"] {
                let _ = db.db.execute(format!("DELETE FROM {table}"), Vec::new()).await;
            }
            let site = server(&db, settings(algorithm), 0).await;
            ann(&site).await;
            let good = token(&site).await;
            let claims = good.split('.').nth(1).unwrap();
            let signature = URL_SAFE_NO_PAD.decode(good.rsplit('.').next().unwrap()).unwrap();
            let jwk = published(&site).await.json()["keys"][0].clone();
            let kid = jwk["kid"].as_str().unwrap().to_owned();
            let member = |name: &str| URL_SAFE_NO_PAD.decode(jwk[name].as_str().unwrap_or_default()).unwrap();
            let der = [&member("x")[..], &member("y"), &member("n")].concat();
            let pem = format!("-----BEGIN PUBLIC KEY-----\n{}\n-----END PUBLIC KEY-----\n", STANDARD.encode(&der));
            // The public key as the secret of an HMAC, in every spelling that a careless verifier would use.
            for key in [jwk.to_string().into_bytes(), der, pem.into_bytes(), kid.clone().into_bytes(), Vec::new()] {
                for header in [
                    json!({ "alg": "HS256" }),
                    json!({ "alg": "HS256", "typ": "JWT" }),
                    json!({ "alg": "HS256", "kid": kid }),
                    json!({ "alg": algorithm.as_str(), "kid": kid }),
                ] {
                    assert!(!accepts(&site, &forge(&header, claims, hmac(&key))).await, "{header}");
                }
            }
            let unsigned = |_: &[u8]| Vec::new();
            let replayed = |_: &[u8]| signature.clone();
            let name = algorithm.as_str();
            let embedded = json!({ "alg": name, "jwk": jwk, "jku": "https://evil.example/jwks.json", "kid": "evil" });
            let refused = [
                forge(&json!({ "alg": "none" }), claims, unsigned),
                forge(&json!({ "alg": "none", "kid": kid }), claims, unsigned),
                forge(&json!({ "alg": "None", "kid": kid }), claims, unsigned),
                forge(&json!({ "alg": name, "kid": kid }), claims, unsigned),
                forge(&json!({ "alg": name, "kid": kid, "crit": ["exp"] }), claims, replayed),
                forge(&json!({ "alg": name, "kid": "../../../dev/null" }), claims, replayed),
                forge(&json!({ "alg": name, "kid": "' OR 1=1 --" }), claims, replayed),
                forge(&json!({ "alg": name }), claims, replayed),
                forge(&json!({ "alg": name, "kid": null }), claims, replayed),
                forge(&json!({ "alg": name, "kid": [kid] }), claims, replayed),
                forge(&embedded, claims, replayed),
                format!("{good}.{}", "x"),
                good.replace('.', ".."),
                forge(&json!({ "typ": "JWT", "alg": name, "kid": kid }), &URL_SAFE_NO_PAD.encode("{}"), replayed),
            ];
            for (index, token) in refused.iter().enumerate() {
                assert!(!accepts(&site, token).await, "{name}, {index}");
            }
            for other in JwtAlgorithm::ALL.into_iter().filter(|other| *other != algorithm) {
                let header = json!({ "typ": "JWT", "alg": other.as_str(), "kid": kid });
                assert!(!accepts(&site, &forge(&header, claims, replayed)).await, "{name} as {}", other.as_str());
            }
            assert!(accepts(&site, &good).await);
        }
    }
}

/// The attack: a flood of tokens that name unknown keys keeps a new key from being known.
#[tokio::test]
async fn tokens_with_unknown_keys_do_not_hide_a_new_one() {
    for db in databases().await {
        let one = server(&db, settings(JwtAlgorithm::Es256), 0).await;
        ann(&one).await;
        let two = server(&db, settings(JwtAlgorithm::Es256), 0).await;
        // A key that signs at once, because nobody could sign otherwise.
        let mut other = settings(JwtAlgorithm::Es256);
        other.jwt.keys.secret = gatewright_base::Secret::new("c".repeat(32));
        let three = server(&db, other, 0).await;
        let new = token(&three).await;
        let flood = (0..50).map(|number| {
            let header = json!({ "alg": "ES256", "kid": format!("unknown {number}") });
            let forged = forge(&header, "e30", |_| vec![0; 64]);
            let two = &two;
            async move { accepts(two, &forged).await }
        });
        let (flood, known) =
            futures_util::future::join(futures_util::future::join_all(flood), accepts(&two, &new)).await;
        assert!(known && flood.iter().all(|accepted| !accepted));
    }
}
