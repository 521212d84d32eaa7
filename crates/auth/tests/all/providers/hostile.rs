//! Forged and invalid tokens.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use gatewright_auth::providers::ProviderError;
use gatewright_auth::providers::oidc::InvalidIdToken;
use hmac::{Hmac, KeyInit as _, Mac as _};
use serde_json::{Value, json};
use sha2::Sha256;

use super::{claims, identify, now, oidc, proofs};
use crate::support::{CLIENT_ID, FakeProvider, SigningKey, signed_part};

/// A token, the key set it is checked against, and the expected result.
struct Row {
    name: &'static str,
    token: String,
    keys: Value,
    outcome: Result<(), InvalidIdToken>,
}

#[tokio::test]
async fn a_hostile_token_is_refused_with_the_right_reason() {
    let provider = FakeProvider::start().await;
    let (rsa, ec) = (SigningKey::rsa("r"), SigningKey::ec("e"));
    let config = provider.oidc("idp", &[]);
    for Row { name, token, keys, outcome } in rows(&provider.issuer(), &rsa, &ec) {
        provider.says("/jwks", json!({ "keys": keys }));
        provider.gives(&token);
        // A fresh one each, so that no row sees another's keys.
        let (oidc, _) = oidc(config.clone());
        let result = identify(&oidc).await.map(|found| assert_eq!(found.identity.provider_id, "subject-1"));
        assert_eq!(result, outcome.map_err(ProviderError::IdToken), "{name}");
    }
}

fn rows(issuer: &str, rsa: &SigningKey, ec: &SigningKey) -> Vec<Row> {
    let mut rows = headers(issuer, rsa, ec);
    rows.extend(keys(issuer, rsa, ec));
    rows.extend(of_claims(issuer, ec));
    rows
}

/// Cases for the header and the signature.
fn headers(issuer: &str, rsa: &SigningKey, ec: &SigningKey) -> Vec<Row> {
    use InvalidIdToken as No;
    let good = claims(issuer, &json!({}));
    let both = json!([rsa.jwk(), ec.jwk()]);
    let row = |name, token: String, outcome| Row { name, token, keys: both.clone(), outcome };
    let unsigned = |header: Value, tail: &str| format!("{}.{tail}", signed_part(&header, &good));
    let mac = |header: Value, key: &[u8]| {
        let signed = signed_part(&header, &good);
        let mac = Hmac::<Sha256>::new_from_slice(key).unwrap().chain_update(&signed).finalize().into_bytes();
        format!("{signed}.{}", URL_SAFE_NO_PAD.encode(mac))
    };
    let hs256 = || json!({ "alg": "HS256", "kid": "r" });
    let (rs, es) = (rsa.token(&good), ec.token(&good));
    let signature_of = |token: &str| token.rsplit('.').next().unwrap().to_owned();
    let cut = |token: &str| token.rsplit_once('.').unwrap().0.to_owned();
    let mut flipped = URL_SAFE_NO_PAD.decode(signature_of(&es)).unwrap();
    flipped[5] ^= 1;
    let other = ec.token(&claims(issuer, &json!({ "sub": "somebody-else" })));
    vec![
        row("RS256 as it should be", rs.clone(), Ok(())),
        row("ES256 as it should be", es.clone(), Ok(())),
        row("alg none", unsigned(json!({ "alg": "none" }), ""), Err(No::Algorithm)),
        row("alg None", unsigned(json!({ "alg": "None", "kid": "r" }), ""), Err(No::Algorithm)),
        row("alg none with a signature", unsigned(json!({ "alg": "none" }), &signature_of(&rs)), Err(No::Algorithm)),
        row("no alg", unsigned(json!({ "kid": "r" }), &signature_of(&rs)), Err(No::Algorithm)),
        row("alg that is a list", unsigned(json!({ "alg": ["RS256"] }), &signature_of(&rs)), Err(No::Algorithm)),
        row("HS256 with the public key", mac(hs256(), &rsa.public_der()), Err(No::Algorithm)),
        row("HS256 with the client secret", mac(hs256(), crate::support::CLIENT_SECRET.as_bytes()), Err(No::Algorithm)),
        row("HS256 with no key", mac(hs256(), b""), Err(No::Algorithm)),
        row("rs256", rsa.sign(&json!({ "alg": "rs256", "kid": "r" }), &good), Err(No::Algorithm)),
        row("es256", ec.sign(&json!({ "alg": "es256", "kid": "e" }), &good), Err(No::Algorithm)),
        row("RS512", rsa.sign(&json!({ "alg": "RS512", "kid": "r" }), &good), Err(No::Algorithm)),
        row("PS256", rsa.sign(&json!({ "alg": "PS256", "kid": "r" }), &good), Err(No::Algorithm)),
        row("RS256 and a space", rsa.sign(&json!({ "alg": "RS256 ", "kid": "r" }), &good), Err(No::Algorithm)),
        row("an ES256 key under RS256", ec.sign(&json!({ "alg": "RS256", "kid": "e" }), &good), Err(No::KeyMismatch)),
        row("an RS256 key under ES256", rsa.sign(&json!({ "alg": "ES256", "kid": "r" }), &good), Err(No::KeyMismatch)),
        row(
            "unknown crit",
            rsa.sign(&json!({ "alg": "RS256", "kid": "r", "crit": ["exp"] }), &good),
            Err(No::Critical),
        ),
        row("empty crit", rsa.sign(&json!({ "alg": "RS256", "kid": "r", "crit": null }), &good), Err(No::Critical)),
        row(
            "unencoded payload",
            rsa.sign(&json!({ "alg": "RS256", "kid": "r", "b64": false, "crit": ["b64"] }), &good),
            Err(No::Critical),
        ),
        row("a key of the token's own", own_key(&good), Err(No::UnknownKey)),
        row("an unknown kid", rsa.sign(&json!({ "alg": "RS256", "kid": "nobody's" }), &good), Err(No::UnknownKey)),
        row("a kid that is no text", rsa.sign(&json!({ "alg": "RS256", "kid": 1 }), &good), Err(No::NotAJwt)),
        row("somebody else's key under this kid", SigningKey::ec("e").token(&good), Err(No::Signature)),
        row("a changed payload", format!("{}.{}", cut(&other), signature_of(&es)), Err(No::Signature)),
        row("a flipped bit", format!("{}.{}", cut(&es), URL_SAFE_NO_PAD.encode(flipped)), Err(No::Signature)),
        row("no signature", format!("{}.", cut(&es)), Err(No::Signature)),
        row("an all-zero signature", format!("{}.{}", cut(&es), URL_SAFE_NO_PAD.encode([0; 64])), Err(No::Signature)),
        row("two parts", cut(&es), Err(No::NotAJwt)),
        row("four parts", format!("{es}.x"), Err(No::NotAJwt)),
        row("five parts", "e30.e30.e30.e30.e30".to_owned(), Err(No::NotAJwt)),
        row("a padded signature", format!("{es}=="), Err(No::NotAJwt)),
        row("a header that is no object", format!("{}.e30.e30", URL_SAFE_NO_PAD.encode("[]")), Err(No::NotAJwt)),
        row("nothing", String::new(), Err(No::NotAJwt)),
        row("oversized", rsa.token(&claims(issuer, &json!({ "x": "x".repeat(16 * 1024) }))), Err(No::Oversized)),
    ]
}

/// A token whose header brings the key that it is signed with.
fn own_key(good: &Value) -> String {
    let key = SigningKey::ec("mine");
    key.sign(&json!({ "alg": "ES256", "kid": "mine", "jwk": key.jwk(), "jku": "https://evil.example.com/" }), good)
}

/// Cases for the key set.
fn keys(issuer: &str, rsa: &SigningKey, ec: &SigningKey) -> Vec<Row> {
    use InvalidIdToken as No;
    let good = claims(issuer, &json!({}));
    let changed = |key: &SigningKey, changes: Value| {
        let mut jwk = key.jwk();
        jwk.as_object_mut().unwrap().extend(changes.as_object().unwrap().clone());
        jwk.as_object_mut().unwrap().retain(|_, value| !value.is_null());
        jwk
    };
    let with = |name, key: &SigningKey, keys: Value, outcome| Row { name, token: key.token(&good), keys, outcome };
    let without_kid = |name, key: &SigningKey, keys: Value, outcome| {
        let token = key.sign(&json!({ "alg": key.alg() }), &good);
        Row { name, token, keys, outcome }
    };
    let y = URL_SAFE_NO_PAD.decode(ec.jwk()["y"].as_str().unwrap()).unwrap();
    let mut off = y.clone();
    off[31] ^= 1;
    let n = URL_SAFE_NO_PAD.decode(rsa.jwk()["n"].as_str().unwrap()).unwrap();
    let text = |bytes: &[u8]| json!(URL_SAFE_NO_PAD.encode(bytes));
    let zeros = [vec![0; 128], n[..128].to_vec()].concat();
    let another = SigningKey::ec("e");
    vec![
        with("a key without alg and use", rsa, json!([changed(rsa, json!({ "alg": null, "use": null }))]), Ok(())),
        with("an RSA key of 1024 bits", rsa, json!([changed(rsa, json!({ "n": text(&n[..128]) }))]), Err(No::WeakKey)),
        with("1024 bits behind zeros", rsa, json!([changed(rsa, json!({ "n": text(&zeros) }))]), Err(No::WeakKey)),
        with("2040 bits", rsa, json!([changed(rsa, json!({ "n": text(&n[..255]) }))]), Err(No::WeakKey)),
        with(
            "a modulus behind a zero",
            rsa,
            json!([changed(rsa, json!({ "n": text(&[&[0], &n[..]].concat()) }))]),
            Ok(()),
        ),
        with("no modulus", rsa, json!([changed(rsa, json!({ "n": null }))]), Err(No::MalformedKey)),
        with("an exponent of one", rsa, json!([changed(rsa, json!({ "e": "AQ" }))]), Err(No::MalformedKey)),
        with("a point off the curve", ec, json!([changed(ec, json!({ "y": text(&off) }))]), Err(No::MalformedKey)),
        with(
            "the point at zero",
            ec,
            json!([changed(ec, json!({ "x": text(&[0; 32]), "y": text(&[0; 32]) }))]),
            Err(No::MalformedKey),
        ),
        with("a short coordinate", ec, json!([changed(ec, json!({ "y": text(&y[..31]) }))]), Err(No::MalformedKey)),
        with("another curve", ec, json!([changed(ec, json!({ "crv": "P-384" }))]), Err(No::KeyMismatch)),
        with("a key for encryption", rsa, json!([changed(rsa, json!({ "use": "enc" }))]), Err(No::KeyMismatch)),
        with(
            "a key for another algorithm",
            rsa,
            json!([changed(rsa, json!({ "alg": "RS512" }))]),
            Err(No::KeyMismatch),
        ),
        with("a key that only signs", rsa, json!([changed(rsa, json!({ "key_ops": ["sign"] }))]), Err(No::KeyMismatch)),
        with("a symmetric key", rsa, json!([{ "kty": "oct", "kid": "r", "k": "AAAA" }]), Err(No::KeyMismatch)),
        with("two keys of one kid", ec, json!([ec.jwk(), another.jwk()]), Err(No::AmbiguousKey)),
        with("the same key twice", ec, json!([ec.jwk(), ec.jwk()]), Ok(())),
        with("one kid for two kinds", ec, json!([changed(rsa, json!({ "kid": "e" })), ec.jwk()]), Ok(())),
        with("an unsound key beside a sound one", ec, json!([changed(rsa, json!({ "n": "AQ" })), ec.jwk()]), Ok(())),
        without_kid("no kid, one key that fits", ec, json!([rsa.jwk(), ec.jwk()]), Ok(())),
        without_kid(
            "no kid, two keys that fit",
            ec,
            json!([ec.jwk(), SigningKey::ec("f").jwk()]),
            Err(No::AmbiguousKey),
        ),
        without_kid(
            "no kid, one sound key that fits",
            rsa,
            json!([changed(&SigningKey::rsa("weak"), json!({ "n": text(&n[..128]) })), rsa.jwk()]),
            Ok(()),
        ),
        without_kid(
            "no kid, one key that fits, which is unsound",
            ec,
            json!([rsa.jwk(), changed(ec, json!({ "y": text(&off) }))]),
            Err(No::MalformedKey),
        ),
        without_kid("no kid, no key that fits", ec, json!([rsa.jwk()]), Err(No::KeyMismatch)),
    ]
}

/// Cases for the claims.
fn of_claims(issuer: &str, key: &SigningKey) -> Vec<Row> {
    use InvalidIdToken as No;
    let rows: Vec<(&str, Value, Result<(), No>)> = vec![
        ("no nonce", json!({ "nonce": null }), Err(No::Nonce)),
        ("the nonce of another flow", json!({ "nonce": "another" }), Err(No::Nonce)),
        ("an empty nonce", json!({ "nonce": "" }), Err(No::Nonce)),
        ("a nonce that is a list", json!({ "nonce": [proofs().nonce()] }), Err(No::Nonce)),
        ("another issuer", json!({ "iss": "https://evil.example.com" }), Err(No::Issuer)),
        ("the issuer and a slash", json!({ "iss": format!("{issuer}/") }), Err(No::Issuer)),
        ("no issuer", json!({ "iss": null }), Err(No::Issuer)),
        ("issuers in a list", json!({ "iss": [issuer] }), Err(No::Issuer)),
        ("another audience", json!({ "aud": "client-2" }), Err(No::Audience)),
        ("an audience with ours within", json!({ "aud": format!("{CLIENT_ID}2") }), Err(No::Audience)),
        ("no audience", json!({ "aud": null }), Err(No::Audience)),
        ("an empty list of audiences", json!({ "aud": [] }), Err(No::Audience)),
        ("a list of one", json!({ "aud": [CLIENT_ID] }), Ok(())),
        ("two audiences without azp", json!({ "aud": [CLIENT_ID, "client-2"] }), Err(No::AuthorizedParty)),
        ("two audiences, our azp", json!({ "aud": [CLIENT_ID, "client-2"], "azp": CLIENT_ID }), Ok(())),
        ("two audiences, another azp", json!({ "aud": [CLIENT_ID, "c"], "azp": "c" }), Err(No::AuthorizedParty)),
        ("one audience, another azp", json!({ "azp": "client-2" }), Err(No::AuthorizedParty)),
        ("one audience, our azp", json!({ "azp": CLIENT_ID }), Ok(())),
        ("azp that is no text", json!({ "azp": [CLIENT_ID] }), Err(No::AuthorizedParty)),
        ("expired within the grace", json!({ "exp": now() - 59 }), Ok(())),
        ("expired beyond the grace", json!({ "exp": now() - 60 }), Err(No::Expired)),
        ("no exp", json!({ "exp": null }), Err(No::MalformedClaims)),
        ("exp as text", json!({ "exp": (now() + 300).to_string() }), Err(No::MalformedClaims)),
        ("exp with a fraction", json!({ "exp": 1_999_999_999.5 }), Ok(())),
        ("nbf now", json!({ "nbf": now() }), Ok(())),
        ("nbf of a clock ahead", json!({ "nbf": now() + 58 }), Ok(())),
        ("nbf ahead", json!({ "nbf": now() + 75 }), Err(No::NotYetValid)),
        ("nbf as text", json!({ "nbf": "0" }), Err(No::MalformedClaims)),
        ("iat of a clock ahead", json!({ "iat": now() + 58 }), Ok(())),
        ("iat ahead", json!({ "iat": now() + 75 }), Err(No::IssuedInFuture)),
        ("no iat", json!({ "iat": null }), Err(No::MalformedClaims)),
        ("empty sub", json!({ "sub": "" }), Err(No::Subject)),
        ("no sub", json!({ "sub": null }), Err(No::Subject)),
        ("sub that is a number", json!({ "sub": 1 }), Err(No::Subject)),
        ("sub of 256 characters", json!({ "sub": "s".repeat(256) }), Err(No::Subject)),
    ];
    let row = |(name, changes, outcome)| {
        let token = key.token(&claims(issuer, &changes));
        Row { name, token, keys: json!([key.jwk()]), outcome }
    };
    rows.into_iter().map(row).collect()
}
