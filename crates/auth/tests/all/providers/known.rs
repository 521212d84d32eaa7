//! Google and GitHub, in the shapes that they really answer.

use gatewright_auth::providers::{GitHub, Google, Provider, ProviderError, ProviderHttp, ProviderIdentity};
use gatewright_base::Secret;
use serde_json::json;

use super::{CODE, ambient, authorize, identify, now, proofs};
use crate::support::{CLIENT_SECRET, FakeProvider};

fn google(provider: &FakeProvider) -> Google {
    Google::new(provider.google(), ProviderHttp::new().unwrap(), ambient().0).unwrap()
}

fn github(provider: &FakeProvider) -> GitHub {
    GitHub::new(provider.github(), ProviderHttp::new().unwrap(), ambient().0).unwrap()
}

/// As `https://oauth2.googleapis.com/token` answers the first time that somebody consents.
fn google_tokens(provider: &FakeProvider) {
    let tokens = json!({
        "access_token": "ya29.canary-access", "expires_in": 3599, "refresh_token": "1//canary-refresh",
        "scope": "openid https://www.googleapis.com/auth/userinfo.email https://www.googleapis.com/auth/userinfo.profile",
        "token_type": "Bearer", "id_token": "canary.id.token",
    });
    provider.says("/token", tokens);
}

fn github_tokens(provider: &FakeProvider) {
    let tokens = json!({ "access_token": "gho_canary", "token_type": "bearer", "scope": "read:user,user:email" });
    provider.says("/login/oauth/access_token", tokens);
}

/// As `https://api.github.com/user` answers, shortened.
fn octocat(provider: &FakeProvider) {
    let user = json!({
        "login": "octocat", "id": 583_231, "node_id": "MDQ6VXNlcjU4MzIzMQ==", "gravatar_id": "",
        "avatar_url": "https://avatars.githubusercontent.com/u/583231?v=4", "type": "User", "site_admin": false,
        "name": "The Octocat", "company": "@github", "email": "octocat@github.com", "two_factor_authentication": true,
    });
    provider.says("/user", user);
}

#[tokio::test]
async fn google_and_github_get_a_pkce_challenge_unless_it_is_turned_off() {
    let provider = FakeProvider::start().await;
    google_tokens(&provider);
    github_tokens(&provider);
    octocat(&provider);
    provider.says("/user/emails", json!([]));
    provider.says("/v1/userinfo", json!({ "sub": "1" }));
    for send_pkce in [true, false] {
        let (mut google, mut github) = (provider.google(), provider.github());
        (google.send_pkce, github.send_pkce) = (send_pkce, send_pkce);
        let google = Google::new(google, ProviderHttp::new().unwrap(), ambient().0).unwrap();
        let github = GitHub::new(github, ProviderHttp::new().unwrap(), ambient().0).unwrap();
        for (known, token) in [(&google as &dyn Provider, "/token"), (&github, "/login/oauth/access_token")] {
            assert_eq!(known.sends_pkce(), send_pkce);
            let (url, proofs) = (authorize(known).await.unwrap(), proofs());
            for (name, expected) in proofs.challenge() {
                let sent = url.query_pairs().find(|(sent, _)| sent == name).map(|(_, value)| value.into_owned());
                assert_eq!(sent.as_deref(), send_pkce.then_some(expected), "{url}");
            }
            identify(known).await.unwrap();
            let asked = provider.asked(token).pop().unwrap();
            let verifier = asked.form.get("code_verifier").map(String::as_str);
            assert_eq!(verifier, send_pkce.then_some(proofs.verifier().expose()), "{token}");
        }
    }
}

#[tokio::test]
async fn google_is_asked_for_offline_access_and_returns_the_profile() {
    let provider = FakeProvider::start().await;
    let google = google(&provider);
    let url = authorize(&google).await.unwrap();
    assert!(url.query_pairs().any(|(name, value)| name == "access_type" && value == "offline"), "{url}");

    google_tokens(&provider);
    let user = json!({
        "sub": "110169484474386276334", "name": "Ann Example", "given_name": "Ann", "family_name": "Example",
        "picture": "https://lh3.googleusercontent.com/a/ACg8=s96-c", "email": "ann@gmail.com", "email_verified": true,
    });
    provider.says("/v1/userinfo", user);
    let found = identify(&google).await.unwrap();
    let identity = ProviderIdentity {
        provider_id: "110169484474386276334".into(),
        email: Some("ann@gmail.com".into()),
        email_verified: true,
        name: Some("Ann Example".into()),
        avatar_url: Some("https://lh3.googleusercontent.com/a/ACg8=s96-c".into()),
    };
    assert_eq!(found.identity, identity);
    assert_eq!(found.tokens.expires_at.unwrap().as_second(), now() + 3599);
    assert_eq!(found.tokens.refresh.unwrap().expose(), "1//canary-refresh");
    let asked = &provider.asked("/token")[0].form;
    assert_eq!((asked["code"].as_str(), asked["client_secret"].as_str()), (CODE, CLIENT_SECRET));
    assert_eq!(provider.asked("/v1/userinfo")[0].authorization, "Bearer ya29.canary-access");
}

/// `https://www.googleapis.com/oauth2/v2/userinfo` has other names for the same.
#[tokio::test]
async fn the_legacy_form_of_googles_userinfo_is_read_too() {
    let provider = FakeProvider::start().await;
    google_tokens(&provider);
    for verified in [true, false] {
        let user = json!({
            "id": "110169484474386276334", "email": "ann@gmail.com", "verified_email": verified, "name": "Ann",
            "given_name": "Ann", "picture": "https://lh3.googleusercontent.com/a/x", "locale": "en", "hd": "example.com",
        });
        provider.says("/v1/userinfo", user);
        let identity = identify(&google(&provider)).await.unwrap().identity;
        assert_eq!(identity.provider_id, "110169484474386276334");
        assert_eq!(identity.email_verified, verified);
    }
}

#[tokio::test]
async fn the_github_address_list_decides_which_is_verified() {
    let provider = FakeProvider::start().await;
    let github = github(&provider);
    let url = authorize(&github).await.unwrap();
    assert!(url.query_pairs().any(|(name, value)| name == "scope" && value == "read:user user:email"), "{url}");
    github_tokens(&provider);
    octocat(&provider);
    let listing = json!([
        { "email": "old@example.com", "primary": false, "verified": true, "visibility": null },
        { "email": "octo@example.com", "primary": true, "verified": true, "visibility": "private" },
        { "email": "583231+octocat@users.noreply.github.com", "primary": false, "verified": true, "visibility": null },
    ]);
    provider.says("/user/emails", listing);
    let found = identify(&github).await.unwrap();
    let identity = ProviderIdentity {
        provider_id: "583231".into(),
        email: Some("octo@example.com".into()),
        email_verified: true,
        name: Some("The Octocat".into()),
        avatar_url: Some("https://avatars.githubusercontent.com/u/583231?v=4".into()),
    };
    assert_eq!(found.identity, identity);
    assert_eq!((found.tokens.refresh.is_none(), found.tokens.expires_at), (true, None), "they do not end");
    for path in ["/user", "/user/emails"] {
        let asked = &provider.asked(path)[0];
        assert_eq!(asked.authorization, "Bearer gho_canary");
        assert!(asked.user_agent.starts_with("Gatewright/"), "GitHub refuses those without one");
    }
}

#[tokio::test]
async fn without_the_list_a_github_address_is_unverified() {
    let provider = FakeProvider::start().await;
    github_tokens(&provider);
    octocat(&provider);
    for status in [403, 404] {
        provider.says_with(status, "/user/emails", json!({ "message": "Not Found", "status": status.to_string() }));
        let identity = identify(&github(&provider)).await.unwrap().identity;
        assert_eq!((identity.email.as_deref(), identity.email_verified), (Some("octocat@github.com"), false));
    }
    // Nor is a missing permission: GitHub answers that with 403, too.
    provider.says_with(403, "/user/emails", json!({ "message": "You have exceeded a secondary rate limit." }));
    for (name, value) in [("retry-after", "60"), ("x-ratelimit-remaining", "0")] {
        provider.adds("/user/emails", name, value);
        assert!(matches!(identify(&github(&provider)).await, Err(ProviderError::Unavailable(_))), "{name}");
    }
    // A listing that is out of order may well have held the address of an account here.
    provider.says_with(500, "/user/emails", json!({}));
    assert!(matches!(identify(&github(&provider)).await, Err(ProviderError::Failed(_))));
}

#[tokio::test]
async fn a_spent_code_is_refused_even_with_status_200() {
    let provider = FakeProvider::start().await;
    let body = json!({
        "error": "bad_verification_code", "error_description": "The code passed is incorrect or expired.",
        "error_uri": "https://docs.github.com/apps/managing-oauth-apps/troubleshooting-oauth-app-access-token-request-errors",
    });
    provider.says("/login/oauth/access_token", body);
    let refused = identify(&github(&provider)).await.unwrap_err();
    assert_eq!(refused, ProviderError::Refused { code: "bad_verification_code".into() });
    assert!(provider.asked("/user").is_empty());
}

#[tokio::test]
async fn a_token_that_the_profile_endpoint_refuses_gives_no_identity() {
    let provider = FakeProvider::start().await;
    google_tokens(&provider);
    provider.says_with(401, "/v1/userinfo", json!({ "error": { "code": 401, "message": "canary" } }));
    let refused = identify(&google(&provider)).await.unwrap_err();
    assert_eq!(refused, ProviderError::Refused { code: "access_denied".into() });
}

#[tokio::test]
async fn a_google_refresh_returns_no_refresh_token() {
    let provider = FakeProvider::start().await;
    let answer = json!({ "access_token": "ya29.next", "expires_in": 3599, "scope": "openid", "token_type": "Bearer" });
    provider.says("/token", answer);
    let tokens = google(&provider).refresh(&Secret::new("1//canary-refresh")).await.unwrap();
    assert_eq!((tokens.access.expose(), tokens.refresh.is_none()), ("ya29.next", true));
}

#[tokio::test]
async fn an_endpoint_without_tls_is_refused() {
    let provider = FakeProvider::start().await;
    let mut config = provider.google();
    config.token_url = Some("http://oauth2.example.com/token".parse().unwrap());
    let refused = Google::new(config, ProviderHttp::new().unwrap(), ambient().0).unwrap_err().to_string();
    assert!(refused.contains("google") && refused.contains("https"), "{refused}");
    let mut config = provider.github();
    config.client.secret = Secret::new("");
    assert!(GitHub::new(config, ProviderHttp::new().unwrap(), ambient().0).is_err());
}
