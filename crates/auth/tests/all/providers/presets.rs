//! Providers with a preset, each against a double that answers as its documentation shows.

use std::sync::Arc;

use gatewright_auth::presets::{self, Protocol, TokenAuth, Vouched};
use gatewright_auth::providers::{
    OAuth2, OAuth2Config, OAuthClient, PresetConfig, Provider, ProviderError, ProviderHttp, ProviderIdentity,
    UserClaims,
};
use gatewright_base::Secret;
use serde_json::{Value, json};

use super::{ambient, authorize, claims, identify, identify_from, proofs};
use crate::support::{CLIENT_ID, CLIENT_SECRET, FakeProvider, SigningKey};

pub(super) fn made(config: PresetConfig) -> Arc<dyn Provider> {
    config.provider(ProviderHttp::new().unwrap(), ambient().0).unwrap()
}

fn expected(
    id: &str,
    email: Option<&str>,
    verified: bool,
    name: Option<&str>,
    picture: Option<&str>,
) -> ProviderIdentity {
    ProviderIdentity {
        provider_id: id.to_owned(),
        email: email.map(str::to_owned),
        email_verified: verified,
        name: name.map(str::to_owned),
        avatar_url: picture.map(str::to_owned),
    }
}

async fn identity_of(provider: &FakeProvider, name: &str, user: &Value) -> ProviderIdentity {
    provider.says("/token", json!({ "access_token": "canary-access", "token_type": "bearer", "expires_in": 3600 }));
    provider.says("/me", user.clone());
    identify(&*made(provider.preset(name, &[]))).await.unwrap_or_else(|error| panic!("{name}: {error}")).identity
}

#[tokio::test]
async fn discord_vouches_for_addresses_and_has_pictures_by_hash() {
    let provider = FakeProvider::start().await;
    let user = |changes: Value| {
        let mut user = json!({
            "id": "80351110224678912", "username": "nelly", "discriminator": "0", "global_name": "Nelly",
            "avatar": "8342729096ea3675442027381ff50dfe", "verified": true, "email": "nelly@example.com", "flags": 64,
            "locale": "en-US", "mfa_enabled": true, "premium_type": 1, "public_flags": 64,
        });
        user.as_object_mut().unwrap().extend(changes.as_object().unwrap().clone());
        user
    };
    let picture = "https://cdn.discordapp.com/avatars/80351110224678912/8342729096ea3675442027381ff50dfe.png";
    for (changes, verified, name, picture) in [
        (json!({}), true, "Nelly", Some(picture)),
        (json!({ "verified": false }), false, "Nelly", Some(picture)),
        (json!({ "verified": null, "global_name": null, "avatar": null }), false, "nelly", None),
        (json!({ "avatar": "../../../evil" }), true, "Nelly", None),
    ] {
        let found = identity_of(&provider, "discord", &user(changes.clone())).await;
        let email = Some("nelly@example.com");
        assert_eq!(found, expected("80351110224678912", email, verified, Some(name), picture), "{changes}");
    }
    let asked = provider.asked("/token").pop().unwrap();
    assert!(asked.authorization.starts_with("Basic "), "{asked:?}");
    assert_eq!(asked.form["code_verifier"], proofs().verifier().expose());
}

/// Facebook says nothing about its addresses, and Spotify documents them as unverified.
#[tokio::test]
async fn facebook_and_spotify_vouch_for_no_address() {
    let provider = FakeProvider::start().await;
    let facebook = json!({
        "id": "10222333444555666", "name": "Ann Example", "email": "ann@example.com", "verified": true, "email_verified": true,
        "picture": { "data": { "height": 256, "is_silhouette": false, "url": "https://lookaside.example/p.jpg?a=1", "width": 256 } },
    });
    let found = identity_of(&provider, "facebook", &facebook).await;
    let picture = Some("https://lookaside.example/p.jpg?a=1");
    assert_eq!(found, expected("10222333444555666", Some("ann@example.com"), false, Some("Ann Example"), picture));
    assert_eq!(provider.asked("/token").pop().unwrap().form["client_secret"], CLIENT_SECRET);

    let spotify = json!({
        "country": "SE", "display_name": "JM Wizzler", "email": "ann@example.com", "email_verified": true,
        "explicit_content": { "filter_enabled": false, "filter_locked": false }, "product": "premium",
        "external_urls": { "spotify": "https://open.spotify.com/user/wizzler" }, "followers": { "href": null, "total": 3829 },
        "href": "https://api.spotify.com/v1/users/wizzler", "id": "wizzler", "type": "user", "uri": "spotify:user:wizzler",
        "images": [{ "url": "https://i.scdn.co/image/ab67616d0000b273ff9ca", "height": 300, "width": 300 }],
    });
    let found = identity_of(&provider, "spotify", &spotify).await;
    let picture = Some("https://i.scdn.co/image/ab67616d0000b273ff9ca");
    assert_eq!(found, expected("wizzler", Some("ann@example.com"), false, Some("JM Wizzler"), picture));
}

#[tokio::test]
async fn x_sends_confirmed_addresses_only() {
    let provider = FakeProvider::start().await;
    let user = |email: Value| {
        json!({ "data": {
            "id": "2244994945", "name": "Ann at X", "username": "ann", "confirmed_email": email, "email": "eve@example.com",
            "profile_image_url": "https://pbs.twimg.com/profile_images/1/x_normal.jpg",
        }, "email": "eve@example.com", "id": "1" })
    };
    let picture = Some("https://pbs.twimg.com/profile_images/1/x_normal.jpg");
    let found = identity_of(&provider, "x", &user(json!("ann@example.com"))).await;
    assert_eq!(found, expected("2244994945", Some("ann@example.com"), true, Some("Ann at X"), picture));
    let found = identity_of(&provider, "x", &user(json!(null))).await;
    assert_eq!(found, expected("2244994945", None, false, Some("Ann at X"), picture));
    provider.says("/me", json!({ "errors": [{ "title": "Unauthorized" }] }));
    let refused = identify(&*made(provider.preset("x", &[]))).await.unwrap_err();
    assert!(matches!(refused, ProviderError::Malformed(_)), "{refused}");
}

#[tokio::test]
async fn errors_of_token_endpoints_are_read_in_the_shapes_of_their_providers() {
    let provider = FakeProvider::start().await;
    let facebook = json!({ "error": {
        "message": "This authorization code has been used. canary", "type": "OAuthException", "code": 100,
        "error_subcode": 36009, "fbtrace_id": "canary",
    } });
    for (name, status, answer, code) in [
        ("facebook", 400, facebook, "OAuthException"),
        ("discord", 400, json!({ "error": "invalid_grant", "error_description": "Invalid \"code\"" }), "invalid_grant"),
        ("x", 400, json!({ "error": "invalid_request", "error_description": "canary" }), "invalid_request"),
        ("slack", 200, json!({ "ok": false, "error": "invalid_code" }), "invalid_code"),
    ] {
        let key = SigningKey::rsa("k");
        let config = provider.preset(name, &[&key]);
        provider.says_with(status, "/token", answer);
        let refused = identify(&*made(config)).await.unwrap_err();
        assert_eq!(refused, ProviderError::Refused { code: code.to_owned() }, "{name}");
    }
}

/// The tokens of each OpenID Connect provider, and what is read of them.
fn tokens_of(issuer: &str) -> Vec<(&'static str, Value, ProviderIdentity)> {
    let standard = json!({ "picture": "https://img.example/ann.png" });
    let slack = json!({
        "sub": "U0R7MFMJM", "email": "bront@example.com", "email_verified": true, "date_email_verified": 1_622_128_723,
        "locale": "en-US", "name": "brent", "given_name": "", "family_name": "", "https://slack.com/team_id": "T0RR",
        "https://slack.com/user_id": "U0R7MFMJM", "https://slack.com/user_image_512": "https://avatars.slack-edge.com/x_512.png",
    });
    let twitch = json!({
        "sub": "713936733", "preferred_username": "ann_live", "email": "ann@example.com", "email_verified": true,
        "name": null, "picture": "https://static-cdn.jtvnw.net/x.png", "azp": CLIENT_ID,
    });
    let unverified = json!({ "email_verified": false });
    let of = |id: &str, verified, picture| expected(id, Some("ann@example.com"), verified, Some("Ann"), picture);
    let slack_picture = Some("https://avatars.slack-edge.com/x_512.png");
    let brent = expected("U0R7MFMJM", Some("bront@example.com"), true, Some("brent"), slack_picture);
    let twitch_picture = Some("https://static-cdn.jtvnw.net/x.png");
    let live = expected("713936733", Some("ann@example.com"), true, Some("ann_live"), twitch_picture);
    vec![
        ("gitlab", claims(issuer, &standard), of("subject-1", true, Some("https://img.example/ann.png"))),
        ("gitlab", claims(issuer, &unverified), of("subject-1", false, None)),
        ("slack", claims(issuer, &slack), brent),
        ("twitch", claims(issuer, &twitch), live),
        ("linkedin", claims(issuer, &json!({ "nonce": null })), of("subject-1", true, None)),
        ("linkedin", claims(issuer, &json!({ "nonce": null, "email_verified": null })), of("subject-1", false, None)),
    ]
}

#[tokio::test]
async fn openid_presets_read_their_tokens_and_send_pkce_and_a_nonce_except_linkedin() {
    let (provider, key) = (FakeProvider::start().await, SigningKey::rsa("k"));
    for (name, token, expected) in tokens_of(&provider.issuer()) {
        let made = made(provider.preset(name, &[&key]));
        let url = authorize(&*made).await.unwrap();
        let sent = |name: &str| url.query_pairs().find(|(sent, _)| sent == name).map(|(_, value)| value.into_owned());
        let proofs = proofs();
        let takes = name != "linkedin";
        assert_eq!(sent("nonce").as_deref(), takes.then_some(proofs.nonce()), "{url}");
        for (parameter, value) in proofs.challenge() {
            assert_eq!(sent(parameter).as_deref(), takes.then_some(value), "{url}");
        }
        assert_eq!(sent("claims").is_some(), name == "twitch", "{url}");
        // Twitch has a list of scopes.
        let tokens = json!({
            "access_token": "canary-access", "token_type": "bearer", "expires_in": 3600, "id_token": key.token(&token),
            "scope": if name == "twitch" { json!(["openid", "user:read:email"]) } else { json!("openid email profile") },
        });
        provider.says("/token", tokens);
        assert_eq!(identify(&*made).await.unwrap().identity, expected, "{name}");
        let asked = provider.asked("/token").pop().unwrap();
        assert_eq!(asked.form.contains_key("code_verifier"), takes, "{name}");
        // Another flow's nonce, another program's token and another issuer's.
        for (wrong, refused) in [
            (json!({ "nonce": "another" }), takes),
            (json!({ "aud": "another", "azp": null }), true),
            (json!({ "iss": "https://evil.example" }), true),
        ] {
            let mut claims = token.clone();
            claims.as_object_mut().unwrap().extend(wrong.as_object().unwrap().clone());
            provider.gives(&key.token(&claims));
            let found = identify(&*made).await;
            assert_eq!(matches!(found, Err(ProviderError::IdToken(_))), refused, "{name} {wrong}: {found:?}");
        }
        let other = identify_from(&*made, Some("https://evil.example")).await.unwrap_err();
        assert_eq!(other, ProviderError::OtherIssuer, "{name}");
    }
}

#[tokio::test]
async fn pkce_and_the_nonce_can_be_turned_off_for_each_preset() {
    let (provider, key) = (FakeProvider::start().await, SigningKey::rsa("k"));
    for preset in presets::ALL.iter().filter(|preset| preset.name != "microsoft") {
        let mut config = provider.preset(preset.name, &[&key]);
        (config.send_pkce, config.send_nonce) = (false, false);
        let made = made(config);
        let url = authorize(&*made).await.unwrap();
        let has = |name: &str| url.query_pairs().any(|(sent, _)| sent == name);
        assert!(!made.sends_pkce() && !has("code_challenge") && !has("nonce") && has("state"), "{url}");
        if let Protocol::OpenId { .. } = preset.protocol {
            provider.gives(&key.token(&claims(&provider.issuer(), &json!({ "nonce": null }))));
            assert_eq!(identify(&*made).await.unwrap().identity.provider_id, "subject-1", "{}", preset.name);
        }
    }
}

#[tokio::test]
async fn the_addresses_of_presets_are_sound() {
    for preset in presets::ALL {
        let provider = FakeProvider::start().await;
        let account = provider.preset(preset.name, &[]).account;
        let made = made(PresetConfig::new(preset, account));
        assert_eq!((made.name(), made.label()), (preset.name, preset.label));
        if let Protocol::OAuth2 { .. } = preset.protocol {
            let url = authorize(&*made).await.unwrap();
            assert_eq!(url.scheme(), "https", "{url}");
            assert!(
                url.query_pairs().any(|(name, value)| name == "scope" && value == preset.scopes.join(" ")),
                "{url}"
            );
        }
    }
}

fn service(provider: &FakeProvider) -> OAuth2Config {
    OAuth2Config {
        name: "strava".to_owned(),
        label: None,
        client: OAuthClient { id: CLIENT_ID.to_owned(), secret: Secret::new(CLIENT_SECRET) },
        redirect_url: None,
        authorize_url: provider.at("/authorize"),
        token_url: provider.at("/token"),
        userinfo_url: provider.at("/me"),
        scopes: vec!["read".to_owned(), "profile".to_owned()],
        parameters: Vec::new(),
        token_auth: TokenAuth::Post,
        issuer: None,
        claims: UserClaims {
            subject: "user.id".to_owned(),
            email: "user.mail".to_owned(),
            email_verified: Vouched::Never,
            name: vec!["user.name".to_owned()],
            picture: "user.picture".to_owned(),
        },
        send_pkce: true,
    }
}

fn oauth2(config: OAuth2Config) -> Result<OAuth2, gatewright_auth::AuthInitError> {
    OAuth2::new(config, ProviderHttp::new().unwrap(), ambient().0)
}

#[tokio::test]
async fn a_service_is_read_by_its_mapping_and_unverified_without_one_of_the_verification() {
    let provider = FakeProvider::start().await;
    provider.says("/token", json!({ "access_token": "canary-access" }));
    let user = json!({
        "user": { "id": 7, "mail": "ann@example.com", "mail_ok": true, "name": "Ann", "picture": "https://img.example/a" },
        "email_verified": true, "sub": "another",
    });
    provider.says("/me", user);
    for (vouched, verified) in [
        (Vouched::Never, false),
        (Vouched::By("user.mail_ok".to_owned()), true),
        (Vouched::By("user.none".to_owned()), false),
    ] {
        let mut config = service(&provider);
        config.claims.email_verified = vouched.clone();
        let found = identify(&oauth2(config).unwrap()).await.unwrap().identity;
        let picture = Some("https://img.example/a");
        assert_eq!(found, expected("7", Some("ann@example.com"), verified, Some("Ann"), picture), "{vouched:?}");
    }
    let made = oauth2(service(&provider)).unwrap();
    assert_eq!((made.name(), made.label()), ("strava", "Strava"));
    for user in [
        json!({}),
        json!({ "user": { "id": "" } }),
        json!({ "user": { "id": null } }),
        json!({ "user": { "id": 1.5 } }),
    ] {
        provider.says("/me", user.clone());
        assert!(matches!(identify(&made).await, Err(ProviderError::Malformed(_))), "{user}");
    }
    let asked = provider.asked("/token").len();
    let mut config = service(&provider);
    config.issuer = Some("https://strava.example".to_owned());
    let named = oauth2(config).unwrap();
    for issuer in [None, Some("https://evil.example"), Some("https://strava.example/"), Some("")] {
        assert_eq!(identify_from(&named, issuer).await.unwrap_err(), ProviderError::OtherIssuer, "{issuer:?}");
    }
    assert_eq!(provider.asked("/token").len(), asked, "the code of another service was sent nowhere");
    provider.says("/me", json!({ "user": { "id": 7 } }));
    identify_from(&named, Some("https://strava.example")).await.unwrap();
}

#[tokio::test]
async fn a_service_that_cannot_be_trusted_is_refused_at_the_start() {
    let provider = FakeProvider::start().await;
    let plain = |path: &str| format!("http://strava.example/{path}").parse().unwrap();
    for change in [
        (|config, _| config.name = "a b".to_owned()) as fn(&mut OAuth2Config, &dyn Fn(&str) -> url::Url),
        |config, plain| config.token_url = plain("token"),
        |config, plain| config.userinfo_url = plain("me"),
        |config, plain| config.authorize_url = plain("authorize"),
        |config, _| config.client.secret = Secret::new(""),
        |config, _| config.client.id = String::new(),
        |config, _| config.claims.subject = String::new(),
    ] {
        let mut config = service(&provider);
        change(&mut config, &plain);
        assert!(oauth2(config.clone()).is_err(), "{config:?}");
    }
}
