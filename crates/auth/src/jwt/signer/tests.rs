use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use gatewright_base::{ManualClock, Roles, UserId};
use hmac::{Hmac, KeyInit as _, Mac as _};
use jiff::SignedDuration;
use serde_json::{Value, json};
use sha2::Sha256;
use std::sync::Arc;

use super::*;
use crate::email::EmailAddress;

const SECRET: &str = "a-secret-of-at-least-thirty-two-bytes";
const OTHER: &str = "another-secret-of-thirty-two-bytes-or-more";

fn config(secret: &str, previous: &[&str]) -> JwtConfig {
    JwtConfig {
        secret: Secret::new(secret),
        previous_secrets: previous.iter().map(|text| Secret::new(*text)).collect(),
        ..JwtConfig::default()
    }
}

fn jwts(secret: &str, previous: &[&str]) -> (Jwts, Arc<ManualClock>) {
    let (ambient, clock) = Ambient::manual("2026-01-02T03:04:05.678Z".parse().unwrap(), 1);
    (Jwts::new(&config(secret, previous), false, None, ambient).unwrap(), clock)
}

fn user() -> User {
    let roles = ["user"].into_iter().collect::<Roles>();
    User::new(UserId::parse("u1").unwrap(), EmailAddress::parse("ann@example.com").unwrap(), roles)
}

/// A name, and a change of valid claims.
type Change<'a> = (&'a str, &'a dyn Fn(&mut Value));

/// A token built by hand, correctly signed with `key` whatever its header says.
fn forge(header: &Value, claims: &Value, key: &[u8]) -> Secret {
    let part = |value: &Value| URL_SAFE_NO_PAD.encode(value.to_string());
    let signed = format!("{}.{}", part(header), part(claims));
    let mut mac = Hmac::<Sha256>::new_from_slice(key).unwrap();
    mac.update(signed.as_bytes());
    Secret::new(format!("{signed}.{}", URL_SAFE_NO_PAD.encode(mac.finalize().into_bytes())))
}

fn good_claims() -> Value {
    json!({
        "iss": "gatewright", "sub": "u1", "email": "ann@example.com", "roles": ["user"],
        "iat": 1_767_323_045, "exp": 1_767_326_645, "jti": "019b7ca5-cd6e-7000-8000-000000000000",
    })
}

fn key() -> Key {
    Secret::new(SECRET).derive_key(LABEL)
}

#[test]
fn an_issued_token_contains_user_and_expiry() {
    let (jwts, clock) = jwts(SECRET, &[]);
    let claims = jwts.verify(&jwts.issue(&user(), jwts.ambient.now())).unwrap();
    assert_eq!(
        (claims.iss.as_str(), claims.sub.as_str(), claims.email.as_deref().unwrap()),
        ("gatewright", "u1", "ann@example.com")
    );
    assert_eq!((claims.iat, claims.exp), (1_767_323_045, 1_767_326_645));
    assert_eq!(claims.issued_millis(), Some(1_767_323_045_678));
    assert_eq!(claims.expires_at().as_second(), claims.exp);
    let token = jwts.issue(&user(), jwts.ambient.now());
    clock.advance(SignedDuration::from_secs(3599));
    assert!(jwts.verify(&token).is_ok());
    clock.advance(SignedDuration::from_secs(1));
    assert_eq!(jwts.verify(&token).err(), Some(InvalidJwt), "an hour later it is over");
}

#[test]
fn two_tokens_of_one_moment_differ() {
    let (jwts, _) = jwts(SECRET, &[]);
    let ids = [0; 2].map(|_| jwts.verify(&jwts.issue(&user(), jwts.ambient.now())).unwrap().jti);
    assert_ne!(ids[0], ids[1]);
}

#[test]
fn forgeries_are_refused() {
    let (jwts, _) = jwts(SECRET, &[]);
    let with = |change: &dyn Fn(&mut Value)| {
        let mut claims = good_claims();
        change(&mut claims);
        claims
    };
    let header = |alg: &str| json!({"typ": "JWT", "alg": alg});
    assert!(jwts.verify(&forge(&header("HS256"), &good_claims(), &*key())).is_ok(), "the control passes");

    let mut forgeries: Vec<(String, Secret)> = Vec::new();
    for alg in
        ["none", "None", "NONE", "nOnE", "", "hs256", "Hs256", "HS384", "HS512", "RS256", "ES256", "PS256", "EdDSA"]
    {
        forgeries.push((format!("alg {alg}"), forge(&header(alg), &good_claims(), &*key())));
    }
    for (name, header) in [
        ("no alg", json!({"typ": "JWT"})),
        ("alg twice over", json!({"alg": ["HS256"]})),
        ("a critical extension", json!({"alg": "HS256", "crit": ["b64"], "b64": false})),
    ] {
        forgeries.push((name.to_owned(), forge(&header, &good_claims(), &*key())));
    }
    let claims: [Change<'_>; 12] = [
        ("another issuer", &|c| c["iss"] = json!("evil")),
        ("an issuer of another case", &|c| c["iss"] = json!("Gatewright")),
        ("no issuer", &|c| drop(c.as_object_mut().unwrap().remove("iss"))),
        ("expired", &|c| c["exp"] = json!(1_767_323_045)),
        ("no expiry", &|c| drop(c.as_object_mut().unwrap().remove("exp"))),
        ("an expiry in text", &|c| c["exp"] = json!("1767326645")),
        ("an expiry without end", &|c| c["exp"] = json!(1e300)),
        ("no subject", &|c| drop(c.as_object_mut().unwrap().remove("sub"))),
        ("an empty subject", &|c| c["sub"] = json!("")),
        ("an audience", &|c| c["aud"] = json!("another service")),
        ("no jti", &|c| drop(c.as_object_mut().unwrap().remove("jti"))),
        ("a jti without time", &|c| c["jti"] = json!("7a0f1c6e-5b1d-4c43-9d3e-2f6f6f0f0f0f")),
    ];
    for (name, change) in claims {
        forgeries.push((name.to_owned(), forge(&header("HS256"), &with(change), &*key())));
    }
    forgeries.push(("another key".into(), forge(&header("HS256"), &good_claims(), &[0; 32])));
    forgeries.push(("the bare secret as key".into(), forge(&header("HS256"), &good_claims(), SECRET.as_bytes())));
    forgeries.push(("an empty key".into(), forge(&header("HS256"), &good_claims(), b"")));
    let good = forge(&header("HS256"), &good_claims(), &*key());
    let parts: Vec<&str> = good.expose().split('.').collect();
    let other = URL_SAFE_NO_PAD.encode(with(&|c| c["sub"] = json!("root")).to_string());
    for (name, text) in [
        ("another payload", format!("{}.{other}.{}", parts[0], parts[2])),
        ("no signature", format!("{}.{}.", parts[0], parts[1])),
        ("two parts", format!("{}.{}", parts[0], parts[1])),
        ("four parts", format!("{}.x", good.expose())),
        ("nothing", String::new()),
        ("dots", "..".to_owned()),
        ("noise", "\u{0}\u{ff}.🦀.x".to_owned()),
        ("a giant", "a".repeat(1 << 20)),
    ] {
        forgeries.push((name.to_owned(), Secret::new(text)));
    }
    for (name, token) in forgeries {
        assert!(jwts.verify(&token).is_err(), "{name}");
    }
}

#[test]
fn every_altered_byte_is_detected() {
    let (jwts, _) = jwts(SECRET, &[]);
    let token = jwts.issue(&user(), jwts.ambient.now());
    for position in 0..token.len() {
        let mut bytes = token.expose().as_bytes().to_vec();
        // Flips a high bit of the character's base64 value; the lowest ones of the last character carry no data.
        bytes[position] = match bytes[position] {
            b'A'..=b'Z' => bytes[position] + 32,
            b'a'..=b'z' => bytes[position] - 32,
            _ => b'A',
        };
        assert!(jwts.verify(&Secret::new(String::from_utf8(bytes).unwrap())).is_err(), "byte {position}");
    }
}

#[test]
fn rotation_verifies_the_previous_secret_until_it_is_removed() {
    let (before, _) = jwts(SECRET, &[]);
    let old = before.issue(&user(), before.ambient.now());
    let (during, _) = jwts(OTHER, &[SECRET]);
    assert!(during.verify(&old).is_ok());
    let new = during.issue(&user(), during.ambient.now());
    assert!(before.verify(&new).is_err(), "new tokens are signed with the new secret");
    let (after, _) = jwts(OTHER, &[]);
    assert!(after.verify(&new).is_ok());
    assert!(after.verify(&old).is_err());
}

#[test]
fn secrets_are_checked_before_anything_starts() {
    let short = "thirty-one-bytes-are-not-enough";
    assert_eq!(short.len(), 31);
    let cases: [(&str, &[&str], bool, Option<&str>); 11] = [
        ("", &[], false, Some("MissingJwtSecret")),
        ("", &[], true, None),
        ("", &[SECRET], false, Some("PreviousJwtSecretsOnly")),
        ("", &[SECRET], true, Some("PreviousJwtSecretsOnly")),
        (short, &[], false, Some("ShortSecret")),
        (short, &[], true, None),
        (SECRET, &[short], false, Some("ShortSecret")),
        (SECRET, &[""], false, Some("ShortSecret")),
        (SECRET, &[""], true, Some("ShortSecret")),
        (SECRET, &[], false, None),
        (SECRET, &[OTHER], false, None),
    ];
    for (secret, previous, dev_mode, expected) in cases {
        let result = Jwts::new(&config(secret, previous), dev_mode, None, Ambient::system());
        let error = result.err().map(|error| format!("{error:?}"));
        let matches = match (&error, expected) {
            (Some(error), Some(expected)) => error.starts_with(expected),
            (error, expected) => error.is_none() && expected.is_none(),
        };
        assert!(matches, "{secret:?} {previous:?} dev {dev_mode}: {error:?}");
    }
    let no_time = JwtConfig { expiry: Duration::ZERO, ..config(SECRET, &[]) };
    assert!(Jwts::new(&no_time, false, None, Ambient::system()).is_err());
}

#[test]
fn in_dev_mode_without_a_secret_tokens_are_invalid_after_a_restart() {
    let start = || Jwts::new(&config("", &[]), true, None, Ambient::system()).unwrap();
    let (first, second) = (start(), start());
    let token = first.issue(&user(), first.ambient.now());
    assert!(first.verify(&token).is_ok());
    assert!(second.verify(&token).is_err());
}

#[test]
fn a_token_issued_in_the_millisecond_of_a_refusal_stays_valid() {
    let (jwts, _) = jwts(SECRET, &[]);
    let now = jwts.ambient.now();
    let mut user = user();
    let before = jwts.verify(&jwts.issue(&user, now)).unwrap();
    user.tokens_valid_after = Some(now);
    let after = jwts.verify(&jwts.issue(&user, now)).unwrap();
    assert!(!user.accepts_token_from(before.issued_millis().unwrap()));
    assert!(user.accepts_token_from(after.issued_millis().unwrap()));
}
