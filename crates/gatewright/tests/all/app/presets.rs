//! Providers with a preset and OAuth 2.0 services as a file configures them, in a whole application.

use std::net::SocketAddr;

use axum::body::Body;
use axum::extract::Path;
use axum::routing::{get, post};
use axum::{Json, Router};
use gatewright_testing::{Actor, Answer, TestApp};
use http::Method;
use jiff::SignedDuration;
use serde_json::{Value, json};
use tokio::net::TcpListener;
use url::Url;

const ANN: &str = "ann@example.com";
const PASSWORD: &str = "correct horse battery";

/// Answers in place of each, in its shape.
async fn stand_in() -> SocketAddr {
    async fn user(Path(name): Path<String>) -> Json<Value> {
        Json(match &*name {
            "discord" => json!({
                "id": "80351110224678912", "username": "ann", "global_name": "Ann of Discord", "avatar": "8342729096ea",
                "verified": true, "email": ANN,
            }),
            "facebook" => {
                json!({ "id": "10222", "name": "Ann", "email": ANN, "picture": { "data": { "url": "https://i.example/f" } } })
            }
            "spotify" => json!({ "id": "wizzler", "display_name": "Ann", "email": ANN, "images": [] }),
            "x" => json!({ "data": { "id": "2244994945", "name": "Ann", "username": "ann", "confirmed_email": ANN } }),
            "mapped" => json!({ "user": { "id": 7, "mail": ANN, "mail_ok": true } }),
            "unmapped" => json!({ "user": { "id": 7, "mail": ANN }, "email_verified": true }),
            other => panic!("{other}"),
        })
    }
    let token = post(async || Json(json!({ "access_token": "a", "token_type": "bearer", "expires_in": 3600 })));
    let metadata = |at: SocketAddr| {
        json!({
            "issuer": format!("http://{at}/apple"), "authorization_endpoint": format!("http://{at}/apple/authorize"),
            "token_endpoint": format!("http://{at}/apple/token"), "jwks_uri": format!("http://{at}/apple/keys"),
            "token_endpoint_auth_methods_supported": ["client_secret_post"],
        })
    };
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let at = listener.local_addr().unwrap();
    let router = Router::new()
        .route("/{name}/token", token)
        .route("/{name}/user", get(user))
        .route("/apple/.well-known/openid-configuration", get(move || async move { Json(metadata(at)) }));
    tokio::spawn(async { axum::serve(listener, router).await.unwrap() });
    at
}

fn configuration(at: SocketAddr) -> String {
    let registered = |name: &str| {
        format!(
            "client_id = \"c\"\nclient_secret = \"s\"\nauthorize_url = \"http://{at}/{name}/authorize\"\n\
             token_url = \"http://{at}/{name}/token\"\nuserinfo_url = \"http://{at}/{name}/user\"\n"
        )
    };
    let presets =
        ["discord", "facebook", "spotify", "x"].map(|name| format!("[auth.oauth.{name}]\n{}", registered(name)));
    let service = |name: &str, verified: &str| {
        let claims = format!("claims = {{ subject = \"user.id\", email = \"user.mail\"{verified} }}\n");
        format!("[[auth.oauth.oauth2]]\nname = \"{name}\"\nscopes = [\"me\"]\n{}{claims}", registered(name))
    };
    presets.concat() + &service("mapped", ", email_verified = \"user.mail_ok\"") + &service("unmapped", "")
}

/// Goes to a provider and returns with a code.
async fn walk(actor: &mut Actor, start: &str) -> Answer {
    let away = actor.get(start).await.is(303);
    actor.keep_cookies(&away);
    let provider = Url::parse(away.header("location").unwrap()).unwrap();
    let state = provider.query_pairs().find(|(name, _)| name == "state").unwrap().1.into_owned();
    let name = start.split(['/', '?']).nth(3).unwrap();
    let back = actor.get(&format!("/auth/oauth/{name}/callback?code=c&state={state}")).await;
    actor.keep_cookies(&back);
    back
}

#[tokio::test]
async fn the_address_of_a_provider_signs_in_only_if_the_provider_vouches_for_it() {
    let at = stand_in().await;
    for app in TestApp::on_every_engine(&configuration(at)).await {
        let page = app.anonymous().get("/login").await.is(200);
        for label in ["Discord", "Facebook", "Spotify", "Continue with X", "Mapped", "Unmapped"] {
            assert!(page.text().contains(label), "{label}: {}", page.text());
        }
        // An account without a password, of a provider that vouches.
        walk(&mut app.anonymous(), "/auth/oauth/discord").await.is(303);
        let id = app.user_id(ANN).await;
        for name in ["facebook", "spotify", "unmapped"] {
            let refused = walk(&mut app.anonymous(), &format!("/auth/oauth/{name}")).await.is(409);
            assert_eq!(refused.at("/code"), "email_unverified", "{name} on {}", app.engine());
        }
        for name in ["x", "mapped", "discord"] {
            app.wait(SignedDuration::from_secs(1));
            let mut ann = app.anonymous();
            walk(&mut ann, &format!("/auth/oauth/{name}")).await.is(303);
            assert_eq!(ann.get("/auth/me").await.is(200).at("/user/id"), id.as_str(), "{name}");
        }
    }
}

/// The account of somebody who registered with this address and a password stays theirs.
#[tokio::test]
async fn no_provider_takes_over_an_account_with_a_password() {
    let at = stand_in().await;
    for app in TestApp::on_every_engine(&configuration(at)).await {
        app.anonymous().post("/auth/register", json!({ "email": ANN, "password": PASSWORD })).await.is(200);
        for (name, code) in [
            ("discord", "account_exists"),
            ("x", "account_exists"),
            ("mapped", "account_exists"),
            ("facebook", "email_unverified"),
            ("spotify", "email_unverified"),
            ("unmapped", "email_unverified"),
        ] {
            let mut eve = app.anonymous();
            let refused = walk(&mut eve, &format!("/auth/oauth/{name}")).await.is(409);
            assert_eq!(refused.at("/code"), code, "{name}");
            eve.get("/auth/me").await.is(401);
        }
    }
}

#[tokio::test]
async fn name_and_picture_fill_empty_profile_fields() {
    let at = stand_in().await;
    let field = |name: &str| format!("[[auth.profile.field]]\nname = \"{name}\"\ntype = \"string\"\n");
    let configuration =
        configuration(at) + &field("display_name") + "required = true\n" + &field("avatar_url") + &field("nickname");
    for app in TestApp::on_every_engine(&configuration).await {
        let mut ann = app.anonymous();
        let answer = walk(&mut ann, "/auth/oauth/discord?next=/there").await.is(303);
        assert_eq!(answer.header("location"), Some("/there"), "the required name is there");
        let profile = ann.get("/auth/me").await.at("/user/profile");
        let picture = "https://cdn.discordapp.com/avatars/80351110224678912/8342729096ea.png";
        assert_eq!(profile, json!({ "displayName": "Ann of Discord", "avatarUrl": picture, "nickname": null }));

        // What the user wrote stays, and what is empty is filled.
        let own = json!({ "profile": { "displayName": "Annie", "avatarUrl": null } });
        ann.patch("/auth/me", own).await.is(200);
        app.wait(SignedDuration::from_secs(1));
        let mut again = app.anonymous();
        walk(&mut again, "/auth/oauth/discord").await.is(303);
        let profile = again.get("/auth/me").await.at("/user/profile");
        assert_eq!(profile, json!({ "displayName": "Annie", "avatarUrl": picture, "nickname": null }));
    }
    // A field that cannot have the value stays empty, and the sign-in succeeds.
    let number =
        self::configuration(at) + "[[auth.profile.field]]\nname = \"display_name\"\ntype = \"string\"\nmax = 3\n";
    for app in TestApp::on_every_engine(&number).await {
        let mut ann = app.anonymous();
        walk(&mut ann, "/auth/oauth/discord").await.is(303);
        assert_eq!(ann.get("/auth/me").await.is(200).at("/user/profile/displayName"), Value::Null);
    }
}

/// Sends a form as the page of another site does.
async fn post_form(actor: &Actor, path: &str, body: &str) -> Answer {
    let request = actor.request(Method::POST, path).header("content-type", "application/x-www-form-urlencoded");
    let request = request.header("origin", "https://appleid.apple.com").header("sec-fetch-site", "cross-site");
    actor.send(request.body(Body::from(body.to_owned())).unwrap()).await
}

#[tokio::test]
async fn apples_form_passes_the_csrf_check_and_the_browser_backend_and_nothing_else_does() {
    let at = stand_in().await;
    let apple = format!(
        "[auth.oauth.apple]\nclient_id = \"c\"\nteam_id = \"ABCDE12345\"\nkey_id = \"ABCDE12345\"\nprivate_key = {}\n\
         issuer = \"http://{at}/apple\"\n",
        crate::all::config::APPLE_KEY
    );
    let backend = "[browser_backend]\nallowed_origins = [\"https://app.example.com\"]\n";
    for more in ["", "[csrf]\nenabled = true\n", backend] {
        for app in TestApp::on_every_engine(&format!("{}{apple}{more}", configuration(at))).await {
            let mut ann = app.anonymous();
            let away = ann.get("/auth/oauth/apple").await.is(303);
            ann.keep_cookies(&away);
            let provider = Url::parse(away.header("location").unwrap()).unwrap();
            let state = provider.query_pairs().find(|(name, _)| name == "state").unwrap().1.into_owned();
            let form = format!("state={state}&code=c");
            let posted = post_form(&ann, "/auth/oauth/apple/callback", &form).await.is(303);
            assert_eq!(posted.header("location"), Some(&*format!("?state={state}&code=c")), "{more}");
            assert_eq!(posted.header("access-control-allow-origin"), None);
            // Not in another browser, and not to another door.
            post_form(&app.anonymous(), "/auth/oauth/apple/callback", &form).await.is(400);
            for path in ["/auth/oauth/discord/callback", "/auth/oauth/apple/link", "/auth/login", "/auth/logout"] {
                let status = post_form(&ann, path, &form).await.status();
                assert!([403, 405].contains(&status), "{path}: {status}, {more}");
            }
        }
    }
}
