//! Providers: the requests to them, and which answers are trusted.

mod apple;
mod hostile;
mod issuer;
mod known;
pub(crate) mod microsoft;
mod presets;
mod tokens;
mod transport;

use std::sync::Arc;

use gatewright_auth::providers::oidc::{Oidc, OidcConfig};
use gatewright_auth::providers::{
    Authorization, Callback, GitHub, Google, Identified, Proofs, Provider, ProviderError, ProviderHttp,
};
use gatewright_base::{Ambient, ManualClock, Secret};
use jiff::Timestamp;
use serde_json::{Value, json};
use url::Url;

use crate::support::{APPLE_KEY, CLIENT_ID, CLIENT_SECRET, FakeProvider, SigningKey};

/// What the code is.
pub(crate) const CODE: &str = "canary-code";
const STATE: &str = "st/ate";

pub(crate) fn ambient() -> (Ambient, Arc<ManualClock>) {
    Ambient::manual("2026-01-02T03:04:05.5Z".parse().unwrap(), 7)
}

/// The second in which tests begin.
pub(crate) fn now() -> i64 {
    "2026-01-02T03:04:05Z".parse::<Timestamp>().unwrap().as_second()
}

pub(crate) fn back() -> Url {
    Url::parse("https://app.example.com/auth/oauth/x/callback").unwrap()
}

/// The proofs of every flow here.
pub(crate) fn proofs() -> Proofs {
    Proofs::new(&Secret::new("a browser's secret"), STATE)
}

/// Where a browser is sent.
pub(crate) async fn authorize(provider: &dyn Provider) -> Result<Url, ProviderError> {
    provider.authorize_url(&Authorization::new(STATE, &back(), &proofs())).await
}

pub(crate) async fn identify(provider: &dyn Provider) -> Result<Identified, ProviderError> {
    identify_from(provider, None).await
}

/// The same for a callback with `iss`.
pub(crate) async fn identify_from(provider: &dyn Provider, issuer: Option<&str>) -> Result<Identified, ProviderError> {
    let (code, back, proofs) = (Secret::new(CODE), back(), proofs());
    provider.identify(&Callback::new(&code, &back, &proofs).issuer(issuer)).await
}

pub(crate) fn oidc(config: OidcConfig) -> (Oidc, Arc<ManualClock>) {
    let (ambient, clock) = ambient();
    (Oidc::new(config, ProviderHttp::new().unwrap(), ambient).unwrap(), clock)
}

/// Claims that pass every check, with changes; a change to null takes a claim out.
pub(crate) fn claims(issuer: &str, changes: &Value) -> Value {
    let mut claims = json!({
        "iss": issuer, "aud": CLIENT_ID, "sub": "subject-1", "iat": now(), "exp": now() + 300,
        "email": "ann@example.com", "email_verified": true, "name": "Ann", "nonce": proofs().nonce(),
    });
    let all = claims.as_object_mut().unwrap();
    all.extend(changes.as_object().unwrap().clone());
    all.retain(|_, value| !value.is_null());
    claims
}

/// Providers with secrets, in every failure: the texts that were shown, and what must not be in them or in the log.
pub(crate) async fn in_trouble() -> (Vec<String>, Vec<String>) {
    let (provider, key) = (FakeProvider::start().await, SigningKey::ec("e"));
    let (oidc, _) = oidc(provider.oidc("idp", &[&key]));
    let http = ProviderHttp::new().unwrap();
    let google = Google::new(provider.google(), http.clone(), ambient().0).unwrap();
    let github = GitHub::new(provider.github(), http.clone(), ambient().0).unwrap();
    let (apple, discord) = (provider.preset("apple", &[&key]), provider.preset("discord", &[]));
    let mut shown = vec![format!("{apple:?} {discord:?}")];
    let (apple, discord) = (presets::made(apple), presets::made(discord));
    let good = key.token(&claims(&provider.issuer(), &json!({})));
    let expired = key.token(&claims(&provider.issuer(), &json!({ "exp": 1, "name": "canary-name" })));
    let tokens = json!({ "access_token": "canary-access", "refresh_token": "canary-refresh", "id_token": good });
    shown.push(format!("{:?} {oidc:?} {google:?} {github:?} {http:?}", provider.google()));
    for (status, answer) in [
        (200, tokens.clone()),
        (200, json!({ "access_token": "canary-access", "id_token": expired })),
        (200, json!({ "access_token": "canary-access", "id_token": "canary-id-token" })),
        (200, json!({ "access_token": ["canary-access"] })),
        (200, json!({ "access_token": "canary-access", "token_type": "canary-type" })),
        (200, json!({ "access_token": "canary-access", "expires_in": "canary-soon" })),
        (400, json!({ "error": "canary-access refused", "error_description": "canary-refresh" })),
        (500, tokens),
        (302, json!("canary-access")),
    ] {
        for path in ["/token", "/login/oauth/access_token"] {
            provider.says_with(status, path, answer.clone());
        }
        for provider in [&oidc as &dyn Provider, &google, &github, &*apple, &*discord] {
            shown.push(format!("{:?}", identify(provider).await));
            shown.push(format!("{:?}", provider.refresh(&Secret::new("canary-refresh")).await));
        }
    }
    for error in [identify(&oidc).await.unwrap_err(), identify(&google).await.unwrap_err()] {
        shown.push(error.to_string());
    }
    let private_key = APPLE_KEY.lines().nth(1).unwrap();
    let secrets =
        [private_key, CODE, CLIENT_SECRET, "canary-access", "canary-refresh", "canary-id-token", &good, &expired];
    let encoded = url::form_urlencoded::byte_serialize(CLIENT_SECRET.as_bytes()).collect();
    (shown, secrets.map(str::to_owned).into_iter().chain([encoded]).collect())
}
