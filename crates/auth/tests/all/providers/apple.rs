//! Apple, as its documentation shows it.

use aws_lc_rs::signature::{ECDSA_P256_SHA256_FIXED, UnparsedPublicKey};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use gatewright_auth::providers::{
    Callback, Identified, PresetAccount, Provider, ProviderError, ProviderHttp, is_apple_key,
};
use gatewright_base::Secret;
use serde_json::{Value, json};

use super::presets::made;
use super::{CODE, ambient, authorize, back, claims, now, proofs};
use crate::support::{APPLE_KEY, APPLE_POINT, CLIENT_ID, FakeProvider, SigningKey};

async fn identify_as(provider: &dyn Provider, user: Option<&str>) -> Result<Identified, ProviderError> {
    let (code, back, proofs) = (Secret::new(CODE), back(), proofs());
    provider.identify(&Callback::new(&code, &back, &proofs).user(user)).await
}

/// The token of a user, whose address is verified by a text.
fn token(issuer: &str, changes: &Value) -> Value {
    let mut own = json!({
        "sub": "001999.0a1b2c3d4e5f.1234", "email": "ab12@privaterelay.appleid.com", "email_verified": "true",
        "is_private_email": "true", "auth_time": now(), "nonce_supported": true, "at_hash": "x", "name": null,
    });
    own.as_object_mut().unwrap().extend(changes.as_object().unwrap().clone());
    claims(issuer, &own)
}

#[tokio::test]
async fn apple_gets_a_client_secret_that_the_key_has_signed() {
    let (provider, key) = (FakeProvider::start().await, SigningKey::rsa("k"));
    let apple = made(provider.preset("apple", &[&key]));
    assert!(apple.posts_its_answer());
    let url = authorize(&*apple).await.unwrap();
    for (name, value) in [("response_mode", "form_post"), ("scope", "openid name email"), ("nonce", proofs().nonce())] {
        assert!(url.query_pairs().any(|(sent, sent_value)| sent == name && sent_value == value), "{name}: {url}");
    }
    provider.gives(&key.token(&token(&provider.issuer(), &json!({}))));
    identify_as(&*apple, None).await.unwrap();
    apple.refresh(&Secret::new("canary-refresh")).await.unwrap();

    let point: Vec<u8> =
        (0..APPLE_POINT.len()).step_by(2).map(|at| u8::from_str_radix(&APPLE_POINT[at..at + 2], 16).unwrap()).collect();
    let part = |text: &str| -> Value { serde_json::from_slice(&URL_SAFE_NO_PAD.decode(text).unwrap()).unwrap() };
    let asked = provider.asked("/token");
    assert_eq!(asked.len(), 2);
    for asked in asked {
        // The double's metadata has no list of methods, so the secret is in the header.
        let basic = base64::engine::general_purpose::STANDARD.decode(&asked.authorization["Basic ".len()..]).unwrap();
        let basic = String::from_utf8(basic).unwrap();
        let (id, secret) = basic.split_once(':').unwrap();
        assert_eq!(id, CLIENT_ID);
        let (signed, signature) = secret.rsplit_once('.').unwrap();
        let signature = URL_SAFE_NO_PAD.decode(signature).unwrap();
        UnparsedPublicKey::new(&ECDSA_P256_SHA256_FIXED, &point).verify(signed.as_bytes(), &signature).unwrap();
        let (header, payload) = signed.split_once('.').unwrap();
        assert_eq!(part(header), json!({ "alg": "ES256", "kid": "KEY0123456" }));
        let expected = json!({
            "iss": "TEAM012345", "sub": CLIENT_ID, "aud": provider.issuer(), "iat": now(), "exp": now() + 300,
        });
        assert_eq!(part(payload), expected);
    }
}

/// Anybody can change the form in the browser: an address in it is not read.
#[tokio::test]
async fn of_apples_form_only_the_name_is_read() {
    let (provider, key) = (FakeProvider::start().await, SigningKey::rsa("k"));
    let apple = made(provider.preset("apple", &[&key]));
    let user = r#"{"name":{"firstName":"Ann","lastName":"Example"},"email":"victim@example.com"}"#;
    for (said, email, verified) in [
        (json!({}), Some("ab12@privaterelay.appleid.com"), true),
        (json!({ "email_verified": true }), Some("ab12@privaterelay.appleid.com"), true),
        (json!({ "email_verified": "false" }), Some("ab12@privaterelay.appleid.com"), false),
        (json!({ "email": null, "email_verified": null }), None, false),
    ] {
        provider.says("/me", json!({ "sub": "001999.0a1b2c3d4e5f.1234" }));
        provider.gives(&key.token(&token(&provider.issuer(), &said)));
        for (user, name) in [(Some(user), Some("Ann Example")), (None, None), (Some("{"), None)] {
            let found = identify_as(&*apple, user).await.unwrap().identity;
            assert_eq!(found.provider_id, "001999.0a1b2c3d4e5f.1234");
            assert_eq!((found.email.as_deref(), found.email_verified), (email, verified), "{said}");
            assert_eq!(found.name.as_deref(), name);
        }
    }
}

#[tokio::test]
async fn another_key_than_one_on_p256_is_refused_and_none_is_shown() {
    for pem in [
        "",
        "canary",
        "-----BEGIN PRIVATE KEY-----\nY2FuYXJ5\n-----END PRIVATE KEY-----\n",
        &APPLE_KEY.replace("PRIVATE KEY", "PUBLIC KEY"),
        // On the curve Ed25519.
        "-----BEGIN PRIVATE KEY-----\nMC4CAQAwBQYDK2VwBCIEINTuctv5E1hK1bbY8fdp+K06/nwoy/HU++CXqI9EdVhC\n-----END PRIVATE KEY-----",
    ] {
        let provider = FakeProvider::start().await;
        let mut config = provider.preset("apple", &[]);
        let PresetAccount::Apple(apple) = &mut config.account else { panic!("Apple's account") };
        apple.private_key = Secret::new(pem);
        assert!(!is_apple_key(&apple.private_key), "{pem}");
        let shown = format!("{config:?}");
        let refused = config.provider(ProviderHttp::new().unwrap(), ambient().0).map(|_| ()).unwrap_err().to_string();
        assert!(refused.contains("apple") && refused.contains("P-256"), "{refused}");
        assert!(!format!("{shown}{refused}").contains("canary"), "{refused}");
    }
    // Environment files write the ends of lines as two characters.
    assert!(is_apple_key(&Secret::new(APPLE_KEY)) && is_apple_key(&Secret::new(APPLE_KEY.replace('\n', "\\n"))));
    let config = FakeProvider::start().await.preset("apple", &[]);
    let secret = APPLE_KEY.lines().nth(1).unwrap();
    assert!(!format!("{config:?}").contains(secret));
    let made = config.provider(ProviderHttp::new().unwrap(), ambient().0);
    assert!(made.is_ok());
}
