//! An issuer: the requests to it, their number, and what is cached.

use std::sync::Arc;

use gatewright_auth::providers::oidc::{InvalidIdToken, Oidc};
use gatewright_auth::providers::{OAuthClient, Provider, ProviderError, ProviderHttp, ProviderIdentity};
use gatewright_base::Secret;
use jiff::SignedDuration;
use serde_json::{Value, json};

use super::{CODE, ambient, authorize, back, claims, identify, identify_from, now, oidc, proofs};
use crate::support::{CLIENT_ID, FakeProvider, SigningKey};

const DOCUMENT: &str = "/.well-known/openid-configuration";
const SCOPE: &str = "scope=openid email profile";

/// As `service.md` describes it, for an issuer that refuses them.
#[tokio::test]
async fn an_issuer_that_refuses_pkce_or_nonce_gets_neither() {
    let (provider, key) = (FakeProvider::start().await, SigningKey::rsa("r"));
    for (send_pkce, send_nonce) in [(false, false), (false, true), (true, false), (true, true)] {
        let mut config = provider.oidc("idp", &[&key]);
        (config.send_pkce, config.send_nonce) = (send_pkce, send_nonce);
        let (oidc, _) = oidc(config);
        assert_eq!(oidc.sends_pkce(), send_pkce);
        let url = authorize(&oidc).await.unwrap();
        let sent = |name: &str| url.query_pairs().any(|(sent, _)| sent == name);
        let found = [sent("code_challenge"), sent("code_challenge_method"), sent("nonce")];
        assert_eq!(found, [send_pkce, send_pkce, send_nonce], "{url}");
        // An issuer that got no nonce sends none.
        let nonce = if send_nonce { json!({}) } else { json!({ "nonce": null }) };
        provider.gives(&key.token(&claims(&provider.issuer(), &nonce)));
        identify(&oidc).await.unwrap();
        let asked = provider.asked("/token").pop().unwrap();
        assert_eq!(asked.form.contains_key("code_verifier"), send_pkce);
    }
}

#[tokio::test]
async fn a_callback_of_another_issuer_is_refused_and_its_code_goes_nowhere() {
    let (provider, key) = (FakeProvider::start().await, SigningKey::ec("e"));
    let config = provider.oidc("idp", &[&key]);
    provider.gives(&key.token(&claims(&provider.issuer(), &json!({}))));
    let issuer = provider.issuer();
    let (silent, _) = oidc(config.clone());
    for (iss, accepted) in
        [(None, true), (Some(&*issuer), true), (Some("https://evil.example"), false), (Some(""), false)]
    {
        assert_eq!(identify_from(&silent, iss).await.map(|_| ()).is_ok(), accepted, "{iss:?}");
    }
    // An issuer that promises `iss` sends it.
    let document = json!({
        "issuer": issuer, "authorization_endpoint": provider.at("/auth"), "token_endpoint": provider.at("/token"),
        "jwks_uri": provider.at("/jwks"), "authorization_response_iss_parameter_supported": true,
    });
    provider.says(DOCUMENT, document);
    let (naming, _) = oidc(config);
    let exchanges = provider.asked("/token").len();
    for iss in [None, Some("https://evil.example"), Some(""), Some(&*format!("{issuer}/"))] {
        assert_eq!(identify_from(&naming, iss).await.map(|_| ()), Err(ProviderError::OtherIssuer), "{iss:?}");
    }
    assert_eq!(provider.asked("/token").len(), exchanges);
    identify_from(&naming, Some(&issuer)).await.unwrap();
}

#[tokio::test]
async fn a_sign_in_exchanges_a_code_with_the_client_secret() {
    let (provider, key) = (FakeProvider::start().await, SigningKey::rsa("r"));
    let (oidc, _) = oidc(provider.oidc("keycloak", &[&key]));
    assert_eq!((oidc.name(), oidc.label()), ("keycloak", "Keycloak"));
    assert!(provider.asked(DOCUMENT).is_empty(), "nothing is asked before somebody signs in");

    let url = authorize(&oidc).await.unwrap();
    assert!(url.as_str().starts_with(provider.at("/auth").as_str()));
    let query: Vec<_> = url.query_pairs().map(|(name, value)| format!("{name}={value}")).collect();
    let redirect = format!("redirect_uri={}", back());
    let (proofs, plain) = (proofs(), ["response_type=code", "client_id=client-1", &redirect, SCOPE, "state=st/ate"]);
    let [(_, challenge), _] = proofs.challenge();
    let (challenge, nonce) = (format!("code_challenge={challenge}"), format!("nonce={}", proofs.nonce()));
    assert_eq!(query, [&plain[..], &[&challenge, "code_challenge_method=S256", &nonce]].concat());
    assert!(!url.as_str().contains(proofs.verifier().expose()));

    provider.gives(&key.token(&claims(&provider.issuer(), &json!({ "picture": "https://example.com/ann.png" }))));
    let found = identify(&oidc).await.unwrap();
    let identity = ProviderIdentity {
        provider_id: "subject-1".into(),
        email: Some("ann@example.com".into()),
        email_verified: true,
        name: Some("Ann".into()),
        avatar_url: Some("https://example.com/ann.png".into()),
    };
    assert_eq!(found.identity, identity);
    assert_eq!(found.tokens.access.expose(), "canary-access");
    assert_eq!(found.tokens.refresh.unwrap().expose(), "canary-refresh");
    assert_eq!(found.tokens.expires_at.unwrap().as_second(), now() + 3600);

    let [asked] = &provider.asked("/token")[..] else { panic!("one call") };
    let field = |name: &str| asked.form.get(name).map(String::as_str);
    assert_eq!(field("grant_type"), Some("authorization_code"));
    assert_eq!(field("code"), Some(CODE));
    assert_eq!(field("redirect_uri"), Some(back().as_str()));
    assert_eq!(field("code_verifier"), Some(proofs.verifier().expose()));
    assert_eq!(field("client_secret"), None, "it goes into the header");
    // RFC 6749, section 2.3.1: form-encoded, joined by a colon, and only then base64.
    let expected = "Basic Y2xpZW50LTE6Y2FuYXJ5LWNsaWVudC1zZWNyZXQlM0ElMjYlM0QlMkI=";
    assert_eq!(asked.authorization, expected);
    assert_eq!(asked.accept, "application/json");
    assert!(asked.user_agent.starts_with("Gatewright/"));
}

#[tokio::test]
async fn discovery_is_cached_and_failures_are_retried() {
    let (provider, key) = (FakeProvider::start().await, SigningKey::ec("e"));
    let config = provider.oidc("idp", &[&key]);
    let document = json!({ "issuer": "https://elsewhere.example.com", "authorization_endpoint": provider.at("/auth"),
        "token_endpoint": provider.at("/token"), "jwks_uri": provider.at("/jwks") });
    provider.says(DOCUMENT, document);
    let (oidc, clock) = oidc(config);
    for _ in 0..5 {
        let refused = authorize(&oidc).await.unwrap_err();
        assert!(matches!(refused, ProviderError::Misconfigured(_)), "{refused}");
    }
    assert_eq!(provider.asked(DOCUMENT).len(), 1, "a failure holds for a moment");

    provider.oidc("idp", &[&key]);
    clock.advance(SignedDuration::from_secs(5));
    provider.gives(&key.token(&claims(&provider.issuer(), &json!({ "exp": now() + 100_000 }))));
    for _ in 0..5 {
        identify(&oidc).await.unwrap();
    }
    assert_eq!(provider.asked(DOCUMENT).len(), 2);
    assert_eq!(provider.asked("/jwks").len(), 1);
    clock.advance(SignedDuration::from_hours(1));
    identify(&oidc).await.unwrap();
    assert_eq!(provider.asked(DOCUMENT).len(), 2, "kept for the life of the process");
    assert_eq!(provider.asked("/jwks").len(), 2, "kept for an hour");
}

#[tokio::test]
async fn a_new_key_is_fetched_and_a_forged_kid_causes_no_further_fetch() {
    let (provider, old) = (FakeProvider::start().await, SigningKey::ec("old"));
    let (oidc, clock) = oidc(provider.oidc("idp", &[&old]));
    let claims = claims(&provider.issuer(), &json!({}));
    provider.gives(&old.token(&claims));
    identify(&oidc).await.unwrap();

    let new = SigningKey::rsa("new");
    provider.publishes(&[&old, &new]);
    provider.gives(&new.token(&claims));
    identify(&oidc).await.expect("the keys are fetched anew for a kid that is not there");
    assert_eq!(provider.asked("/jwks").len(), 2);

    // Forged ones, many at once and one after the other.
    provider.gives(&new.sign(&json!({ "alg": "RS256", "kid": "forged" }), &claims));
    let oidc = Arc::new(oidc);
    let tries = (0..20).map(|_| {
        let oidc = oidc.clone();
        tokio::spawn(async move { identify(&*oidc).await.map(|_| ()) })
    });
    for refused in tries.collect::<Vec<_>>() {
        assert_eq!(refused.await.unwrap(), Err(ProviderError::IdToken(InvalidIdToken::UnknownKey)));
    }
    assert_eq!(provider.asked("/jwks").len(), 2, "not within a minute");
    clock.advance(SignedDuration::from_secs(60));
    for _ in 0..5 {
        identify(&*oidc).await.unwrap_err();
    }
    assert_eq!(provider.asked("/jwks").len(), 3, "once in the next");
    provider.gives(&new.token(&claims));
    identify(&*oidc).await.expect("meanwhile others sign in");
}

#[tokio::test]
async fn a_withdrawn_key_is_refused_once_the_cache_expires() {
    let (provider, leaked) = (FakeProvider::start().await, SigningKey::ec("leaked"));
    let mut config = provider.oidc("idp", &[&leaked]);
    config.jwks_cache = std::time::Duration::from_secs(30);
    let (oidc, clock) = oidc(config);
    provider.gives(&leaked.token(&claims(&provider.issuer(), &json!({}))));
    identify(&oidc).await.unwrap();
    provider.publishes(&[&SigningKey::ec("fresh")]);
    clock.advance(SignedDuration::from_secs(29));
    identify(&oidc).await.unwrap();
    clock.advance(SignedDuration::from_secs(1));
    let refused = identify(&oidc).await.unwrap_err();
    assert_eq!(refused, ProviderError::IdToken(InvalidIdToken::UnknownKey));
    // Nor is an old answer good enough when there is no new one.
    clock.advance(SignedDuration::from_secs(90));
    provider.says_with(503, "/jwks", json!({}));
    assert!(matches!(identify(&oidc).await.unwrap_err(), ProviderError::Failed(_)));
}

#[tokio::test]
async fn userinfo_is_requested_only_for_a_missing_address() {
    let (provider, key) = (FakeProvider::start().await, SigningKey::ec("e"));
    let (oidc, _) = oidc(provider.oidc("idp", &[&key]));
    provider
        .says("/me", json!({ "sub": "subject-1", "email": "me@example.com", "email_verified": true, "name": "Me" }));
    provider.gives(&key.token(&claims(&provider.issuer(), &json!({}))));
    assert_eq!(identify(&oidc).await.unwrap().identity.email.as_deref(), Some("ann@example.com"));
    assert!(provider.asked("/me").is_empty());

    for absent in [json!(null), json!(""), json!(" ")] {
        let claims = claims(&provider.issuer(), &json!({ "email": absent, "email_verified": null }));
        provider.gives(&key.token(&claims));
        let identity = identify(&oidc).await.unwrap().identity;
        assert_eq!((identity.email.as_deref(), identity.email_verified), (Some("me@example.com"), true));
        assert_eq!(identity.name.as_deref(), Some("Ann"), "what is there stays");
    }
    assert!(provider.asked("/me").iter().all(|asked| asked.authorization == "Bearer canary-access"));

    provider.says("/me", json!({ "sub": "subject-2", "email": "eve@example.com", "email_verified": true }));
    assert!(matches!(identify(&oidc).await.unwrap_err(), ProviderError::Malformed(_)), "about somebody else");
}

#[tokio::test]
async fn an_invalid_answer_is_refused() {
    let (provider, key) = (FakeProvider::start().await, SigningKey::ec("e"));
    let (oidc, _) = oidc(provider.oidc("idp", &[&key]));
    let good = key.token(&claims(&provider.issuer(), &json!({})));
    let refused = |code: &str| ProviderError::Refused { code: code.to_owned() };
    let rows: Vec<(u16, Value, Option<ProviderError>)> = vec![
        (400, json!({ "error": "invalid_grant", "error_description": "canary" }), Some(refused("invalid_grant"))),
        (401, json!({ "error": "invalid_client" }), Some(refused("invalid_client"))),
        (200, json!({ "error": "bad_verification_code" }), Some(refused("bad_verification_code"))),
        (400, json!({ "error": "<script>alert(1)</script>" }), Some(refused("unknown_error"))),
        (200, json!({ "access_token": "canary-access", "token_type": "Bearer" }), None),
        (200, json!({ "access_token": "canary-access", "id_token": null }), None),
        (200, json!({ "id_token": good }), None),
        (200, json!({ "access_token": "a", "token_type": "DPoP", "id_token": good }), None),
        (500, json!({ "access_token": "a", "id_token": good }), None),
        (500, json!({ "error": "server_error" }), Some(ProviderError::Failed("it answered with a server error"))),
        (404, json!({ "access_token": "a", "id_token": good }), None),
        (200, json!("canary"), None),
    ];
    for (status, body, expected) in rows {
        provider.says_with(status, "/token", body.clone());
        let error = identify(&oidc).await.unwrap_err();
        assert!(!format!("{error} {error:?}").contains("canary"), "{error:?}");
        if let Some(expected) = expected {
            assert_eq!(error, expected, "{body}");
        }
    }
    provider.says_text("/token", format!("{{\"x\":\"{}\"}}", "x".repeat(512 * 1024)));
    assert_eq!(identify(&oidc).await.unwrap_err(), ProviderError::Malformed("it is longer than 512 KiB"));
    // A redirect would send the secret to its target.
    let elsewhere = FakeProvider::start().await;
    provider.redirects("/token", elsewhere.at("/token").as_str());
    assert!(matches!(identify(&oidc).await.unwrap_err(), ProviderError::Malformed(_)));
    assert!(elsewhere.asked("/token").is_empty());
}

#[tokio::test]
async fn an_unreachable_issuer_is_unavailable() {
    let provider = FakeProvider::start().await;
    let config = provider.oidc("idp", &[]);
    let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let (oidc, _) = oidc(gatewright_auth::providers::oidc::OidcConfig { issuer: format!("http://{free}"), ..config });
    let refused = authorize(&oidc).await.unwrap_err();
    assert_eq!(refused, ProviderError::Unavailable("no connection could be made"));
}

#[tokio::test]
async fn a_refresh_sends_the_token_and_may_get_no_new_one() {
    let (provider, key) = (FakeProvider::start().await, SigningKey::ec("e"));
    let (oidc, _) = oidc(provider.oidc("idp", &[&key]));
    provider.says("/token", json!({ "access_token": "next", "token_type": "bearer", "expires_in": "60" }));
    let tokens = oidc.refresh(&Secret::new("canary-refresh")).await.unwrap();
    assert_eq!(tokens.access.expose(), "next");
    assert!(tokens.refresh.is_none());
    assert_eq!(tokens.expires_at.unwrap().as_second(), now() + 60);
    let [asked] = &provider.asked("/token")[..] else { panic!("one call") };
    assert_eq!(asked.form["grant_type"], "refresh_token");
    assert_eq!(asked.form["refresh_token"], "canary-refresh");
}

#[tokio::test]
async fn an_unsound_configuration_is_refused_at_once() {
    let provider = FakeProvider::start().await;
    let sound = provider.oidc("idp", &[]);
    let change = |change: &dyn Fn(&mut gatewright_auth::providers::oidc::OidcConfig)| {
        let mut config = sound.clone();
        change(&mut config);
        Oidc::new(config, ProviderHttp::new().unwrap(), ambient().0).map(|_| ()).map_err(|error| error.to_string())
    };
    assert_eq!(change(&|_| ()), Ok(()));
    assert!(change(&|config| config.name = "a/b".into()).is_err());
    assert!(change(&|config| config.name = String::new()).is_err());
    assert!(change(&|config| config.issuer = "http://idp.example.com".into()).is_err());
    assert!(change(&|config| config.scopes = vec!["email".into()]).is_err());
    assert!(change(&|config| config.redirect_url = Some("http://app.example.com/".parse().unwrap())).is_err());
    for client in [(CLIENT_ID, ""), ("", "canary-secret")] {
        let refused = change(&|config| {
            config.client = OAuthClient { id: client.0.into(), secret: Secret::new(client.1) };
        });
        assert!(!refused.unwrap_err().contains("canary"));
    }
}
