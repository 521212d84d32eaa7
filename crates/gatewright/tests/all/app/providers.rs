//! Sign-in with Google and GitHub as a file configures it, with each of their addresses replaced.

use std::net::SocketAddr;

use axum::routing::{get, post};
use axum::{Json, Router};
use gatewright_testing::{Actor, TestApp};
use jiff::SignedDuration;
use serde_json::{Value, json};
use tokio::net::TcpListener;
use url::Url;

/// Answers in place of both, in their shapes.
async fn stand_in() -> SocketAddr {
    let says = |answer: Value| get(move || async move { Json(answer) });
    let gives = |answer: Value| post(move || async move { Json(answer) });
    let google = json!({ "sub": "110169", "email": "ada@example.com", "email_verified": true, "name": "Ada" });
    let github = json!({ "id": 583_231, "login": "ada", "email": null, "name": null });
    let listing = json!([{ "email": "ada@example.com", "primary": true, "verified": true, "visibility": null }]);
    let router = Router::new()
        .route("/google/token", gives(json!({ "access_token": "a", "expires_in": 3599, "token_type": "Bearer" })))
        .route("/google/userinfo", says(google))
        .route("/github/token", gives(json!({ "access_token": "b", "token_type": "bearer", "scope": "user:email" })))
        .route("/github/user", says(github))
        .route("/github/emails", says(listing));
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async { axum::serve(listener, router).await.unwrap() });
    address
}

fn configuration(at: SocketAddr) -> String {
    let provider = |name: &str| {
        format!(
            "[auth.oauth.{name}]\nclient_id = \"id-at-{name}\"\nclient_secret = \"s\"\n\
             authorize_url = \"http://{at}/{name}/authorize\"\ntoken_url = \"http://{at}/{name}/token\"\n"
        )
    };
    format!(
        "[server]\njson_case = \"snake\"\nallow_public_dev_mode = true\npublic_url = \"http://app.example.com\"\n{}userinfo_url = \
         \"http://{at}/google/userinfo\"\n{}userinfo_url = \"http://{at}/github/user\"\nemails_url = \
         \"http://{at}/github/emails\"\nredirect_url = \"https://other.example.com/back\"\n",
        provider("google"),
        provider("github"),
    )
}

/// Goes to a provider and returns with a code. Returns the requested addresses.
async fn walk(actor: &mut Actor, name: &str) -> Url {
    let away = actor.get(&format!("/auth/oauth/{name}")).await.is(303);
    actor.keep_cookies(&away);
    let provider = Url::parse(away.header("location").unwrap()).unwrap();
    let state = provider.query_pairs().find(|(name, _)| name == "state").unwrap().1.into_owned();
    let back = actor.get(&format!("/auth/oauth/{name}/callback?code=c&state={state}")).await.is(303);
    actor.keep_cookies(&back);
    provider
}

#[tokio::test]
async fn providers_are_called_at_their_configured_addresses() {
    let at = stand_in().await;
    for app in TestApp::on_every_engine(&configuration(at)).await {
        let mut ada = app.anonymous();
        for (name, redirect) in [
            ("google", "http://app.example.com/auth/oauth/google/callback"),
            ("github", "https://other.example.com/back"),
        ] {
            let sent_to = walk(&mut ada, name).await;
            assert_eq!(sent_to.as_str().split('?').next(), Some(&*format!("http://{at}/{name}/authorize")));
            let asked = |key: &str| sent_to.query_pairs().find(|(name, _)| name == key).unwrap().1.into_owned();
            assert_eq!((asked("client_id"), asked("redirect_uri")), (format!("id-at-{name}"), redirect.to_owned()));
            ada.get("/auth/me").await.is(200);
            app.wait(SignedDuration::from_secs(1));
        }
        assert_eq!(ada.get("/auth/me").await.at("/user/email"), "ada@example.com");
        let accounts = ada.get("/auth/accounts").await.is(200).at("/accounts");
        let ids: Vec<_> = accounts.as_array().unwrap().iter().map(|account| account["provider_id"].clone()).collect();
        assert_eq!(ids, ["110169", "583231"], "{}", app.engine());
        assert!(accounts[0]["linked_at"].is_string() && accounts[0].get("avatar_url").is_some());
    }
}
