use axum::body::Body;
use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use futures_util::future::join_all;
use gatewright::auth::plugins::authorization_server::ClientPurpose;
use gatewright_testing::{Answer, TestApp};
use http::{Method, header};
use serde_json::json;

use super::{CALLBACK, ENTITIES, MCP, code, connected, exchange, form, refresh, text};

/// A client that acts as a new service account with `roles`, within `scopes`: its id and secret.
async fn service(app: &TestApp, scopes: &str) -> (String, String) {
    let auth = app.app().auth().unwrap();
    let account = auth.service_accounts().unwrap().create("robot", std::iter::empty::<&str>().collect()).await.unwrap();
    let scopes = scopes.split(' ').map(|scope| scope.parse().unwrap()).collect();
    let purpose = ClientPurpose::Service { account: account.id, scopes };
    let (client, secret) = auth.oauth2_clients().unwrap().create("Robot", purpose).await.unwrap();
    (client.id, secret.unwrap().expose().to_owned())
}

async fn basic(app: &TestApp, path: &str, id: &str, secret: &str, body: &str) -> Answer {
    let anonymous = app.anonymous();
    let request = anonymous
        .request(Method::POST, path)
        .header(header::CONTENT_TYPE, "application/x-www-form-urlencoded")
        .header(header::AUTHORIZATION, format!("Basic {}", BASE64_STANDARD.encode(format!("{id}:{secret}"))));
    anonymous.send(request.body(Body::from(body.to_owned())).unwrap()).await
}

#[tokio::test]
async fn a_service_gets_tokens_by_its_own_credentials() {
    for app in TestApp::on_every_engine(ENTITIES).await {
        let (id, secret) = service(&app, "notes:*").await;
        let token = "/auth/oauth2/token";
        let asked = "grant_type=client_credentials&scope=notes:read";
        let tokens = basic(&app, token, &id, &secret, asked).await.is(200).json();
        assert_eq!((&tokens["scope"], tokens.get("refresh_token")), (&json!("notes:read"), None));
        app.anonymous().bearing(&text(&tokens, "access_token")).get("/notes").await.is(200);
        let tools = format!("grant_type=client_credentials&resource={MCP}");
        let tokens = basic(&app, token, &id, &secret, &tools).await.is(200).json();
        app.anonymous().bearing(&text(&tokens, "access_token")).rpc("tools/list", json!({})).await.is(200);

        basic(&app, token, &id, "gws_wrong", asked).await.is(401);
        basic(&app, token, "nobody", &secret, asked).await.is(401);
        let wider = "grant_type=client_credentials&scope=drafts:read";
        assert_eq!(basic(&app, token, &id, &secret, wider).await.is(400).json()["error"], "invalid_scope");
        let twice = format!("{asked}&client_secret={secret}");
        assert_eq!(basic(&app, token, &id, &secret, &twice).await.is(400).json()["error"], "invalid_request");

        let accounts = app.app().auth().unwrap().service_accounts().unwrap();
        let account = accounts.find("robot").await.unwrap();
        accounts.disable(&account.id).await.unwrap();
        basic(&app, token, &id, &secret, asked).await.is(400);
        app.anonymous().bearing(&text(&tokens, "access_token")).rpc("tools/list", json!({})).await.is(401);
    }
}

#[tokio::test]
async fn a_registered_client_never_gets_client_credentials() {
    for app in TestApp::on_every_engine(ENTITIES).await {
        let register = "/auth/oauth2/register";
        let asked = json!({ "redirect_uris": [CALLBACK], "grant_types": ["client_credentials"] });
        let refused = app.anonymous().post(register, asked).await.is(400).json();
        assert_eq!(refused["error"], "invalid_client_metadata");
        let asked = json!({
            "client_name": "Confidential", "redirect_uris": [CALLBACK],
            "token_endpoint_auth_method": "client_secret_post", "scope": "notes:read",
        });
        let client = app.anonymous().post(register, asked).await.is(201).json();
        let (id, secret) = (text(&client, "client_id"), text(&client, "client_secret"));
        let pairs = [("grant_type", "client_credentials"), ("client_id", &*id), ("client_secret", &*secret)];
        let refused = form(&app.anonymous(), "/auth/oauth2/token", &pairs).await.is(400).json();
        assert_eq!(refused["error"], "unauthorized_client");

        // Its own limit of scopes applies, and its secret is required.
        let user = app.signed_in("ada@example.com").await;
        let code = code(&user, &id, &[]).await;
        exchange(&app, &id, &code, &[]).await.is(401);
        exchange(&app, &id, &code, &[("client_secret", &secret)]).await.is(200);
    }
}

#[tokio::test]
async fn registration_is_checked_and_limited_for_each_address() {
    for app in TestApp::on_every_engine(ENTITIES).await {
        for (bad, error) in [
            (json!({}), "invalid_redirect_uri"),
            (json!({ "redirect_uris": ["http://app.example.com/"] }), "invalid_redirect_uri"),
            (json!({ "redirect_uris": ["javascript:alert(1)"] }), "invalid_redirect_uri"),
            (json!({ "redirect_uris": [CALLBACK], "client_name": "a\u{0}b" }), "invalid_client_metadata"),
            (json!({ "redirect_uris": [CALLBACK], "scope": "admin:write" }), "invalid_client_metadata"),
            (
                json!({ "redirect_uris": [CALLBACK], "token_endpoint_auth_method": "private_key_jwt" }),
                "invalid_client_metadata",
            ),
        ] {
            let refused = app.anonymous().post("/auth/oauth2/register", bad.clone()).await.is(400).json();
            assert_eq!(refused["error"], error, "{bad}");
        }
        let good = json!({ "redirect_uris": [CALLBACK] });
        for _ in 0..4 {
            app.anonymous().post("/auth/oauth2/register", good.clone()).await.is(201);
        }
        app.anonymous().post("/auth/oauth2/register", good.clone()).await.is(429);
        let elsewhere = app.anonymous().from_address("192.0.2.7".parse().unwrap());
        elsewhere.post("/auth/oauth2/register", good).await.is(201);
    }
}

#[tokio::test]
async fn registration_and_documents_can_be_off() {
    let off = ENTITIES.replace("dynamic_registration = true", "client_metadata_documents = false");
    for app in TestApp::on_every_engine(&off).await {
        app.anonymous().post("/auth/oauth2/register", json!({ "redirect_uris": [CALLBACK] })).await.is(404);
        let user = app.signed_in("ada@example.com").await;
        let url = "https://app.example.com/client.json";
        let refused = user.get(&super::authorize(url, &[])).await.is(400);
        assert!(refused.text().contains("turned off"), "{}", refused.text());
    }
}

#[tokio::test]
async fn a_client_revokes_its_tokens() {
    for app in TestApp::on_every_engine(ENTITIES).await {
        let (user, client, tokens) = connected(&app, &[]).await;
        let access = text(&tokens, "access_token");
        let revoke = async |client: &str, token: &str| {
            form(&app.anonymous(), "/auth/oauth2/revoke", &[("client_id", client), ("token", token)]).await
        };
        let other = super::public_client(&app).await;
        revoke(&other, &access).await.is(200);
        app.anonymous().bearing(&access).get("/notes").await.is(200);
        revoke("nobody", &access).await.is(401);
        revoke(&other, &text(&tokens, "refresh_token")).await.is(200);
        refresh(&app, &client, &text(&tokens, "refresh_token")).await.is(200);
        revoke(&client, "gwr_unknown").await.is(200);
        drop(user);
    }
}

/// A token of a connection, in every state that it can be in when its client gives it back.
#[tokio::test]
async fn a_revocation_ends_the_grant_whatever_the_state_of_its_token() {
    for app in TestApp::on_every_engine(ENTITIES).await {
        let user = app.signed_in("ada@example.com").await;
        let client = super::public_client(&app).await;
        // The expired one is the last, because the user's session is too old for a consent then.
        for state in ["access", "spent refresh", "refresh", "first of many access", "spent twice ago", "expired access"]
        {
            let code = code(&user, &client, &[]).await;
            let first = exchange(&app, &client, &code, &[]).await.is(200).json();
            let mut newest = first.clone();
            let refreshes = match state {
                "access" | "refresh" => 0,
                "spent refresh" | "expired access" => 1,
                "spent twice ago" => 2,
                _ => 6,
            };
            for _ in 0..refreshes {
                app.wait(jiff::SignedDuration::from_millis(1));
                newest = refresh(&app, &client, &text(&newest, "refresh_token")).await.is(200).json();
            }
            if state == "expired access" {
                app.wait(jiff::SignedDuration::from_mins(61));
                newest = refresh(&app, &client, &text(&newest, "refresh_token")).await.is(200).json();
            }
            let kind = if state.contains("access") { "access_token" } else { "refresh_token" };
            let program = app.anonymous().bearing(&text(&newest, "access_token"));
            program.get("/notes").await.is(200);
            let pairs = [("client_id", &*client), ("token", &*text(&first, kind))];
            form(&app.anonymous(), "/auth/oauth2/revoke", &pairs).await.is(200);
            assert_eq!(program.get("/notes").await.status(), 401, "{state} on {}", app.engine());
            refresh(&app, &client, &text(&newest, "refresh_token")).await.is(400);
            // Once more changes nothing.
            form(&app.anonymous(), "/auth/oauth2/revoke", &pairs).await.is(200);
        }
    }
}

/// A program that was closed before it redeemed its code gives it back.
#[tokio::test]
async fn a_revoked_code_is_not_redeemed_and_a_spent_one_ends_its_tokens() {
    for app in TestApp::on_every_engine(ENTITIES).await {
        let user = app.signed_in("ada@example.com").await;
        let (client, other) = (super::public_client(&app).await, super::public_client(&app).await);
        let revoke = async |client: &str, code: &str| {
            form(&app.anonymous(), "/auth/oauth2/revoke", &[("client_id", client), ("token", code)]).await.is(200);
        };
        let unspent = code(&user, &client, &[]).await;
        revoke(&client, &unspent).await;
        exchange(&app, &client, &unspent, &[]).await.is(400);

        let spent = code(&user, &client, &[]).await;
        revoke(&other, &spent).await;
        let tokens = exchange(&app, &client, &spent, &[]).await.is(200).json();
        let program = app.anonymous().bearing(&text(&tokens, "access_token"));
        program.get("/notes").await.is(200);
        revoke(&client, &spent).await;
        assert_eq!(program.get("/notes").await.status(), 401, "{}", app.engine());
        refresh(&app, &client, &text(&tokens, "refresh_token")).await.is(400);
    }
}

#[tokio::test]
async fn a_revocation_wins_every_race_with_a_refresh() {
    for app in TestApp::on_every_engine(ENTITIES).await {
        let user = app.signed_in("ada@example.com").await;
        let client = super::public_client(&app).await;
        let races = (0..20).map(async |round| {
            let code = code(&user, &client, &[]).await;
            let tokens = exchange(&app, &client, &code, &[]).await.is(200).json();
            let token = text(&tokens, "refresh_token");
            let pairs = [("client_id", &*client), ("token", &*token)];
            let anonymous = app.anonymous();
            let (refreshed, revoked) =
                tokio::join!(refresh(&app, &client, &token), form(&anonymous, "/auth/oauth2/revoke", &pairs));
            revoked.is(200);
            let mut alive = vec![tokens];
            if refreshed.status() == 200 {
                alive.push(refreshed.json());
            }
            for tokens in alive {
                let access = app.anonymous().bearing(&text(&tokens, "access_token"));
                assert_eq!(access.get("/notes").await.status(), 401, "round {round} on {}", app.engine());
                refresh(&app, &client, &text(&tokens, "refresh_token")).await.is(400);
            }
        });
        join_all(races).await;
        let sql = "SELECT id FROM oauth2_grants WHERE ended_at IS NULL";
        assert!(app.app().db().query(sql, vec![]).await.unwrap().is_empty(), "{}", app.engine());
    }
}

#[tokio::test]
async fn a_service_revokes_one_token_and_keeps_the_others() {
    for app in TestApp::on_every_engine(ENTITIES).await {
        let (id, secret) = service(&app, "notes:read").await;
        let issue = async || {
            let body = "grant_type=client_credentials";
            text(&basic(&app, "/auth/oauth2/token", &id, &secret, body).await.is(200).json(), "access_token")
        };
        let (first, second) = (issue().await, issue().await);
        basic(&app, "/auth/oauth2/revoke", &id, &secret, &format!("token={first}")).await.is(200);
        app.anonymous().bearing(&first).get("/notes").await.is(401);
        app.anonymous().bearing(&second).get("/notes").await.is(200);
    }
}

#[tokio::test]
async fn introspection_shows_a_confidential_client_its_own_tokens() {
    for app in TestApp::on_every_engine(ENTITIES).await {
        let (id, secret) = service(&app, "notes:read").await;
        let own = basic(&app, "/auth/oauth2/token", &id, &secret, "grant_type=client_credentials").await.is(200).json();
        let (_, public, others) = connected(&app, &[]).await;
        let ask = async |token: &str| {
            let body = format!("token={token}");
            basic(&app, "/auth/oauth2/introspect", &id, &secret, &body).await.is(200).json()
        };
        let told = ask(&text(&own, "access_token")).await;
        assert_eq!(
            (&told["active"], &told["client_id"], &told["username"]),
            (&json!(true), &json!(id), &json!("robot"))
        );
        assert_eq!(told["aud"], super::BASE);
        for inactive in [text(&others, "access_token"), text(&others, "refresh_token"), "svc_".to_owned()] {
            assert_eq!(ask(&inactive).await, json!({ "active": false }));
        }
        let token = text(&others, "access_token");
        let pairs = [("client_id", &*public), ("token", &*token)];
        form(&app.anonymous(), "/auth/oauth2/introspect", &pairs).await.is(401);
    }
}
