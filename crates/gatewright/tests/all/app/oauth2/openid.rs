//! OpenID Connect: what programs learn, and how they want their users to be signed in.

use base64::Engine as _;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use futures_util::future::join_all;
use gatewright::auth::jwt::{ListedKey, RotateError};
use gatewright_testing::{Actor, Answer, TestApp};
use jiff::SignedDuration;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use url::form_urlencoded;

use super::sign_outs::end;
use super::{
    BASE, CALLBACK, MCP, answered, authorize, code, connected, exchange, form, parameter, public_client, refresh, text,
};

pub(super) const OPENID: &str = concat!(
    r#"
[authorization_server]
enabled = true
openid = true
dynamic_registration = true

[authorization_server.claims]
name = "profile.display_name"
groups = "roles"

[[auth.profile.field]]
name = "display_name"
type = "string"
"#,
    entity!(owned "notes" "title"),
);

pub(super) const SIGN_IN: &str = "openid profile email";

/// The parts of a JWT, whose signature is checked against the published keys.
pub(super) async fn claims(app: &TestApp, token: &str) -> (Value, Value) {
    let parts: Vec<&str> = token.split('.').collect();
    let decoded = |text: &str| BASE64_URL_SAFE_NO_PAD.decode(text).unwrap();
    let (header, claims): (Value, Value) =
        (serde_json::from_slice(&decoded(parts[0])).unwrap(), serde_json::from_slice(&decoded(parts[1])).unwrap());
    let published = app.anonymous().get("/.well-known/jwks.json").await.is(200).json();
    let key = published["keys"].as_array().unwrap().iter().find(|key| key["kid"] == header["kid"]);
    let key = key.unwrap_or_else(|| panic!("the key is published: {header} {published}")).clone();
    let key: jsonwebtoken::jwk::Jwk = serde_json::from_value(key).unwrap();
    let key = jsonwebtoken::DecodingKey::from_jwk(&key).unwrap();
    let mut validation = jsonwebtoken::Validation::new(header["alg"].as_str().unwrap().parse().unwrap());
    (validation.validate_aud, validation.validate_exp) = (false, false);
    validation.required_spec_claims.clear();
    jsonwebtoken::decode::<Value>(token, &key, &validation).expect("the signature is right");
    (header, claims)
}

/// Another session of a user.
pub(super) async fn again(app: &TestApp, email: &str) -> Actor {
    let mut actor = app.anonymous();
    actor.sign_in(email).await.is(200);
    actor
}

async fn signed_in(app: &TestApp, changes: &[(&str, &str)]) -> (Actor, String, Value) {
    let mut all = vec![("scope", SIGN_IN), ("nonce", "n-0S6")];
    all.extend(changes);
    connected(app, &all).await
}

#[tokio::test]
async fn a_program_learns_who_signed_in() {
    for app in TestApp::on_every_engine(OPENID).await {
        let before = app.now().as_second();
        let (user, client, tokens) = signed_in(&app, &[]).await;
        let me = user.get("/auth/me").await.is(200);
        user.patch("/auth/me", json!({ "profile": { "displayName": "Ada" } })).await.is(200);
        let (header, first) = claims(&app, &text(&tokens, "id_token")).await;
        assert_eq!((&header["alg"], &header["typ"]), (&json!("ES256"), &json!("JWT")), "{header}");
        assert_eq!(tokens["scope"], SIGN_IN);
        let access = text(&tokens, "access_token");
        let half = &Sha256::digest(&access)[..16];
        for (name, expected) in [
            ("iss", json!(BASE)),
            ("aud", json!(client)),
            ("sub", me.at("/user/id").clone()),
            ("nonce", json!("n-0S6")),
            ("email", json!("ada@example.com")),
            ("email_verified", json!(false)),
            ("acr", json!("aal1")),
            ("groups", json!(["user"])),
            ("at_hash", json!(BASE64_URL_SAFE_NO_PAD.encode(half))),
        ] {
            assert_eq!(first[name], expected, "{name} {first}");
        }
        let (issued, expires) = (first["iat"].as_i64().unwrap(), first["exp"].as_i64().unwrap());
        assert_eq!(expires - issued, 3_600);
        assert!(first["auth_time"].as_i64().unwrap() >= before && first["sid"].is_string(), "{first}");

        let program = app.anonymous().bearing(&access);
        let info = program.get("/auth/oauth2/userinfo").await.is(200);
        assert_eq!(info.header("cache-control"), Some("no-store"));
        let info = info.json();
        assert_eq!((&info["sub"], &info["name"], &info["email"]), (&first["sub"], &json!("Ada"), &first["email"]));
        let posted = form(&app.anonymous(), "/auth/oauth2/userinfo", &[("access_token", &access)]).await.is(200).json();
        assert_eq!(posted, info);
        assert!(info.get("iss").is_none() && info.get("nonce").is_none(), "{info}");

        app.wait(SignedDuration::from_mins(10));
        let next = refresh(&app, &client, &text(&tokens, "refresh_token")).await.is(200).json();
        let (_, second) = claims(&app, &text(&next, "id_token")).await;
        assert_eq!((&second["sub"], &second["auth_time"]), (&first["sub"], &first["auth_time"]));
        assert!(second.get("nonce").is_none() && second["name"] == "Ada", "{second}");
        assert_eq!(second["iat"].as_i64().unwrap(), app.now().as_second());
        // A narrower request learns less.
        let pairs = [
            ("grant_type", "refresh_token"),
            ("client_id", &*client),
            ("refresh_token", &text(&next, "refresh_token")),
            ("scope", "openid"),
        ];
        let narrow = form(&app.anonymous(), "/auth/oauth2/token", &pairs).await.is(200).json();
        let program = app.anonymous().bearing(&text(&narrow, "access_token"));
        let info = program.get("/auth/oauth2/userinfo").await.is(200).json();
        assert_eq!(info, json!({ "sub": first["sub"], "groups": ["user"] }), "{}", app.engine());
    }
}

/// None of these tokens is a credential, and other tokens learn nothing.
#[tokio::test]
async fn tokens_of_one_kind_are_not_accepted_as_another() {
    for app in TestApp::on_every_engine(OPENID).await {
        let (user, client, tokens) = signed_in(&app, &[]).await;
        let id_token = text(&tokens, "id_token");
        for path in ["/auth/me", "/notes", "/auth/oauth2/userinfo"] {
            app.anonymous().bearing(&id_token).get(path).await.is(401);
        }
        // An access token that only signs in reaches no record.
        let program = app.anonymous().bearing(&text(&tokens, "access_token"));
        program.get("/notes").await.is(403);
        program.post("/notes", json!({ "title": "x" })).await.is(403);
        // One of the API learns nothing about its user.
        let api = code(&user, &client, &[("scope", "notes:read")]).await;
        let api = exchange(&app, &client, &api, &[]).await.is(200).json();
        assert!(api.get("id_token").is_none());
        let refused = app.anonymous().bearing(&text(&api, "access_token")).get("/auth/oauth2/userinfo").await.is(403);
        assert!(refused.header("www-authenticate").unwrap().contains("insufficient_scope"));
        let pasted = user.post("/auth/tokens", json!({ "name": "ci", "scopes": ["*:*"] })).await.is(200);
        app.anonymous().bearing(pasted.at("/token").as_str().unwrap()).get("/auth/oauth2/userinfo").await.is(401);
        let none = app.anonymous().get("/auth/oauth2/userinfo").await.is(401);
        assert!(none.header("www-authenticate").unwrap().starts_with("Bearer resource_metadata="));
        user.get("/auth/oauth2/userinfo").await.is(401);
        let twice = [("access_token", &*text(&tokens, "access_token"))];
        form(&program, "/auth/oauth2/userinfo", &twice).await.is(400);
        // The inner spelling of these scopes is none on the wire.
        for scope in ["openid:id", "openid openid:email", "profile", "email"] {
            let answer = user.get(&authorize(&client, &[("scope", scope)])).await.is(303);
            assert_eq!(parameter(&answered(&answer), "error").as_deref(), Some("invalid_scope"), "{scope}");
        }
        // A JWT of this service is no id_token.
        let body = json!({ "email": "ada@example.com", "password": "correct horse battery" });
        let hint = app.anonymous().post("/auth/login", body).await.is(200).at("/token").as_str().unwrap().to_owned();
        user.get(&end(&[("id_token_hint", &hint)])).await.is(200);
    }
}

#[tokio::test]
async fn a_client_chooses_the_algorithm() {
    for app in TestApp::on_every_engine(OPENID).await {
        let body = json!({ "redirect_uris": [CALLBACK], "id_token_signed_response_alg": "RS256" });
        let registered = app.anonymous().post("/auth/oauth2/register", body).await.is(201).json();
        assert_eq!(registered["id_token_signed_response_alg"], "RS256", "{registered}");
        let client = text(&registered, "client_id");
        let user = app.signed_in("ada@example.com").await;
        let code = code(&user, &client, &[("scope", "openid")]).await;
        let tokens = exchange(&app, &client, &code, &[]).await.is(200).json();
        let (header, _) = claims(&app, &text(&tokens, "id_token")).await;
        assert_eq!(header["alg"], "RS256");
        for alg in ["HS256", "none", "EdDSA"] {
            let body = json!({ "redirect_uris": [CALLBACK], "id_token_signed_response_alg": alg });
            let refused = app.anonymous().post("/auth/oauth2/register", body).await.is(400).json();
            assert_eq!(refused["error"], "invalid_client_metadata", "{alg}");
        }
        let body = json!({ "redirect_uris": [CALLBACK], "scope": "openid email notes:read" });
        let registered = app.anonymous().post("/auth/oauth2/register", body).await.is(201).json();
        assert_eq!(
            (&registered["scope"], &registered["id_token_signed_response_alg"]),
            (&json!("openid email notes:read"), &json!("ES256"))
        );
        let limited = text(&registered, "client_id");
        user.get(&authorize(&limited, &[("scope", "openid notes:read")])).await.is(200);
        user.get(&authorize(&limited, &[("scope", "openid profile")])).await.is(400);
    }
}

#[tokio::test]
async fn keys_of_id_tokens_rotate_without_a_refused_token() {
    let stored = format!("[auth]\njwt_secret = \"a secret of at least thirty-two bytes\"\n{OPENID}");
    for app in TestApp::on_every_engine(&stored).await {
        let (user, client, tokens) = signed_in(&app, &[]).await;
        let first = text(&tokens, "id_token");
        let keys = app.app().auth().unwrap().signing_keys();
        let published = async || {
            let set = app.anonymous().get("/.well-known/jwks.json").await.is(200).json();
            set["keys"].as_array().unwrap().len()
        };
        let kinds = |listed: &[ListedKey]| listed.iter().map(|key| (key.algorithm, key.id_tokens)).collect::<Vec<_>>();
        let before = [("HS256", false), ("ES256", true), ("RS256", true)];
        assert_eq!(kinds(&keys.list().await.unwrap()), before, "{}", app.engine());
        assert_eq!(published().await, 2);
        let after = keys.rotate().await.unwrap();
        assert_eq!(kinds(&after).len(), 5, "{}", app.engine());
        assert_eq!(published().await, 4, "they are published before they sign");
        assert!(matches!(keys.rotate().await, Err(RotateError::Waiting { .. })));
        let again = refresh(&app, &client, &text(&tokens, "refresh_token")).await.is(200).json();
        assert_eq!(claims(&app, &text(&again, "id_token")).await.0, claims(&app, &first).await.0);
        app.wait(SignedDuration::from_mins(8));
        let again = refresh(&app, &client, &text(&again, "refresh_token")).await.is(200).json();
        let second = text(&again, "id_token");
        assert_ne!(claims(&app, &second).await.0, claims(&app, &first).await.0, "{}", app.engine());
        app.wait(SignedDuration::from_mins(61));
        app.app().auth().unwrap().sweep().await;
        assert_eq!(published().await, 2, "the last token of the old keys has expired");
        // A sign-out with a token whose key is gone asks the user.
        let page = user.get(&end(&[("id_token_hint", &first)])).await.is(200);
        assert!(page.text().contains("Sign out?"));
        // A private key is in no column as it is.
        for row in app.app().db().query("SELECT sealed FROM auth_id_token_signers", vec![]).await.unwrap() {
            let sealed: Vec<u8> = row.get("sealed").unwrap();
            assert!(sealed.first() != Some(&0x30) && sealed.len() > 100, "{}", app.engine());
        }
    }
}

#[tokio::test]
async fn the_discovery_document_names_what_there_is() {
    for app in TestApp::on_every_engine(OPENID).await {
        let answer = app.anonymous().get("/.well-known/openid-configuration").await.is(200);
        assert_eq!(answer.header("access-control-allow-origin"), Some("*"));
        let document = answer.json();
        assert_eq!(document["issuer"], BASE);
        for (name, path) in [
            ("authorization_endpoint", "/auth/oauth2/authorize"),
            ("token_endpoint", "/auth/oauth2/token"),
            ("userinfo_endpoint", "/auth/oauth2/userinfo"),
            ("end_session_endpoint", "/auth/oauth2/end_session"),
            ("jwks_uri", "/.well-known/jwks.json"),
            ("registration_endpoint", "/auth/oauth2/register"),
        ] {
            assert_eq!(document[name], format!("{BASE}{path}"), "{name}");
        }
        assert_eq!(document["id_token_signing_alg_values_supported"], json!(["ES256", "RS256"]));
        assert_eq!(document["subject_types_supported"], json!(["public"]));
        assert_eq!(document["backchannel_logout_supported"], true);
        let scopes = document["scopes_supported"].as_array().unwrap();
        for scope in ["openid", "profile", "email", "offline_access", "notes:read"] {
            assert!(scopes.contains(&json!(scope)), "{scope} {document}");
        }
        for claim in ["sub", "email", "name", "groups", "sid"] {
            assert!(document["claims_supported"].as_array().unwrap().contains(&json!(claim)), "{claim}");
        }
        let other = app.anonymous().get("/.well-known/oauth-authorization-server").await.is(200).json();
        assert_eq!(other, document);
        let resource = app.anonymous().get("/.well-known/oauth-protected-resource").await.is(200).json();
        assert_eq!(resource["scopes_supported"], json!(["notes:read", "notes:write"]));
    }
    let off = OPENID
        .replace("openid = true\n", "")
        .replace("[authorization_server.claims]\nname = \"profile.display_name\"\ngroups = \"roles\"\n", "");
    let app = TestApp::on_every_engine(&off).await.remove(0);
    app.anonymous().get("/.well-known/openid-configuration").await.is(404);
    app.anonymous().get("/.well-known/jwks.json").await.is(404);
    app.anonymous().get("/auth/oauth2/userinfo").await.is(404);
    let user = app.signed_in("ada@example.com").await;
    let client = public_client(&app).await;
    let answer = user.get(&authorize(&client, &[("scope", "openid")])).await.is(303);
    assert_eq!(parameter(&answered(&answer), "error").as_deref(), Some("invalid_scope"));
}

/// `prompt`, `max_age` and `login_hint`.
#[tokio::test]
async fn a_program_says_how_its_user_is_signed_in() {
    for app in TestApp::on_every_engine(OPENID).await {
        let client = public_client(&app).await;
        let scope = ("scope", "openid");
        let error = |answer: &Answer| parameter(&answered(answer), "error");
        // Without a session.
        let silent = app.anonymous().get(&authorize(&client, &[scope, ("prompt", "none")])).await.is(303);
        assert_eq!(error(&silent).as_deref(), Some("login_required"));
        assert_eq!(parameter(&answered(&silent), "state").as_deref(), Some("the state"));
        let asked = app.anonymous().get(&authorize(&client, &[scope, ("login_hint", "ada@example.com")])).await.is(303);
        let to = asked.header("location").unwrap();
        assert!(to.starts_with("/login?") && to.ends_with("&login_hint=ada%40example.com"), "{to}");
        let page = app.anonymous().get(to).await.is(200);
        assert!(page.text().contains("value=\"ada@example.com\""), "{}", page.text());

        let user = app.signed_in("ada@example.com").await;
        let silent = user.get(&authorize(&client, &[scope, ("prompt", "none")])).await.is(303);
        assert_eq!(error(&silent).as_deref(), Some("consent_required"));
        let first = code(&user, &client, &[scope]).await;
        let tokens = exchange(&app, &client, &first, &[]).await.is(200).json();
        let (_, signed_in) = claims(&app, &text(&tokens, "id_token")).await;
        // An old session still signs in, silently too.
        app.wait(SignedDuration::from_mins(30));
        let silent = user.get(&authorize(&client, &[scope, ("prompt", "none")])).await.is(303);
        let code_again = parameter(&answered(&silent), "code").expect("a code");
        let tokens = exchange(&app, &client, &code_again, &[]).await.is(200).json();
        let (_, same) = claims(&app, &text(&tokens, "id_token")).await;
        assert_eq!(same["auth_time"], signed_in["auth_time"]);
        // Access that outlives the session needs a proof.
        for more in ["openid offline_access", "openid notes:read"] {
            let silent = user.get(&authorize(&client, &[("scope", more), ("prompt", "none")])).await.is(303);
            assert_eq!(error(&silent).as_deref(), Some("login_required"), "{more}");
        }
        for (name, value) in [("prompt", "login"), ("max_age", "60"), ("max_age", "0"), ("prompt", "select_account")] {
            let both = user.get(&authorize(&client, &[scope, (name, value), ("prompt", "none")])).await.is(303);
            if name == "max_age" {
                assert_eq!(error(&both).as_deref(), Some("login_required"), "{name}");
            }
            let sent = user.get(&authorize(&client, &[scope, (name, value)])).await.is(303);
            let to = sent.header("location").unwrap().to_owned();
            assert!(to.starts_with("/login?next=") && to.contains("as=other"), "{name}={value}: {to}");
            let query = to.split_once('?').unwrap().1;
            let next =
                form_urlencoded::parse(query.as_bytes()).find(|(name, _)| name == "next").unwrap().1.into_owned();
            // The old session is sent again, a new one is enough.
            assert!(user.get(&next).await.is(303).header("location").unwrap().starts_with("/login"), "{name}={value}");
            app.wait(SignedDuration::from_secs(2));
            let renewed = again(&app, "ada@example.com").await;
            let answer = renewed.get(&next).await.is(303);
            let code = parameter(&answered(&answer), "code").expect("a code");
            let tokens = exchange(&app, &client, &code, &[]).await.is(200).json();
            let (_, later) = claims(&app, &text(&tokens, "id_token")).await;
            assert!(later["auth_time"].as_i64() > signed_in["auth_time"].as_i64(), "{name}={value}");
        }
        let enough = user.get(&authorize(&client, &[scope, ("max_age", "100000")])).await.is(303);
        assert!(parameter(&answered(&enough), "code").is_some());
        for (name, value, code) in [
            ("request", "x", "request_not_supported"),
            ("request_uri", "https://x.example", "request_uri_not_supported"),
            ("prompt", "none login", "invalid_request"),
            ("max_age", "x", "invalid_request"),
        ] {
            let refused = user.get(&authorize(&client, &[scope, (name, value)])).await.is(303);
            assert_eq!(error(&refused).as_deref(), Some(code), "{name}");
        }
    }
}

/// A program that renews silently must not get the code of somebody else at the same browser.
#[tokio::test]
async fn a_program_that_means_another_user_gets_no_code() {
    for app in TestApp::on_every_engine(OPENID).await {
        let (ada, client, tokens) = signed_in(&app, &[("scope", "openid")]).await;
        let hint = text(&tokens, "id_token");
        let mine = [("scope", "openid"), ("id_token_hint", &*hint)];
        assert!(parameter(&answered(&ada.get(&authorize(&client, &mine)).await.is(303)), "code").is_some());
        let bob = app.signed_in("bob@example.com").await;
        code(&bob, &client, &[("scope", "openid")]).await;
        let silent = [("scope", "openid"), ("id_token_hint", &*hint), ("prompt", "none")];
        let refused = bob.get(&authorize(&client, &silent)).await.is(303);
        assert_eq!(parameter(&answered(&refused), "error").as_deref(), Some("login_required"), "{}", app.engine());
        let sent = bob.get(&authorize(&client, &mine)).await.is(303).header("location").unwrap().to_owned();
        let next = form_urlencoded::parse(sent.split_once('?').unwrap().1.as_bytes()).find(|(name, _)| name == "next");
        let next = next.unwrap().1.into_owned();
        app.wait(SignedDuration::from_secs(1));
        // Bob signs in again: an error, and no loop.
        let again = again(&app, "bob@example.com").await.get(&next).await.is(303);
        assert_eq!(parameter(&answered(&again), "error").as_deref(), Some("login_required"), "{}", app.engine());
    }
}

/// Introspection and claims reveal no address without its scope, and nothing of a tenant that the user has left.
#[tokio::test]
async fn a_program_without_the_scope_learns_no_address() {
    for app in TestApp::on_every_engine(OPENID).await {
        let body = json!({ "redirect_uris": [CALLBACK], "token_endpoint_auth_method": "client_secret_post" });
        let registered = app.anonymous().post("/auth/oauth2/register", body).await.is(201).json();
        let (client, secret) = (text(&registered, "client_id"), text(&registered, "client_secret"));
        let user = app.signed_in("ada@example.com").await;
        for (scope, address) in [("openid", None), ("openid email", Some("ada@example.com"))] {
            let code = code(&user, &client, &[("scope", scope)]).await;
            let tokens = exchange(&app, &client, &code, &[("client_secret", &secret)]).await.is(200).json();
            let token = text(&tokens, "access_token");
            let pairs = [("client_id", &*client), ("client_secret", &*secret), ("token", &*token)];
            let shown = form(&app.anonymous(), "/auth/oauth2/introspect", &pairs).await.is(200).json();
            assert_eq!((shown["active"].as_bool(), shown["username"].as_str()), (Some(true), address), "{shown}");
            assert_eq!(shown["scope"], scope);
            let (_, claims) = claims(&app, &text(&tokens, "id_token")).await;
            assert_eq!(claims["email"].as_str(), address, "{claims}");
        }
        // A token of the tools is not one of the API.
        let tools = code(&user, &client, &[("scope", "openid"), ("resource", MCP)]).await;
        let tools = exchange(&app, &client, &tools, &[("client_secret", &secret)]).await.is(200).json();
        app.anonymous().bearing(&text(&tools, "access_token")).get("/auth/oauth2/userinfo").await.is(401);
        let page = user.get(&authorize(&client, &[("scope", "openid"), ("prompt", "consent")])).await.is(200);
        assert!(page.text().contains("know which account is yours, and its roles"), "{}", page.text());
    }
}

/// A page of any site can send a browser here with `prompt=none` and a client that it has registered itself.
#[tokio::test]
async fn prompt_none_leads_no_browser_to_a_client_that_nobody_knows() {
    let app = TestApp::on_every_engine(OPENID).await.remove(0);
    let body = json!({ "redirect_uris": ["https://evil.example/"], "client_name": "Free prizes" });
    let evil = app.anonymous().post("/auth/oauth2/register", body).await.is(201).json();
    let changes = [("scope", "openid"), ("prompt", "none"), ("redirect_uri", "https://evil.example/")];
    let to = authorize(&text(&evil, "client_id"), &changes);
    app.anonymous().get(&to).await.is(400);
    app.signed_in("ada@example.com").await.get(&to).await.is(400);
    app.anonymous().get(&authorize("unknown", &changes)).await.is(400);
}

/// Two refreshes at once get one answer; a replay ends the family.
#[tokio::test]
async fn a_spent_refresh_token_gives_the_same_answer_for_ten_seconds() {
    for app in TestApp::on_every_engine(OPENID).await {
        let (user, client, tokens) = signed_in(&app, &[("scope", "openid email offline_access notes:read")]).await;
        let spent = text(&tokens, "refresh_token");
        let answers = join_all((0..20).map(|_| refresh(&app, &client, &spent))).await;
        let answers: Vec<Value> = answers.into_iter().map(|answer| answer.is(200).json()).collect();
        assert!(answers.iter().all(|answer| *answer == answers[0]), "{}: {answers:#?}", app.engine());
        let count = async |sql: &'static str| app.app().db().query(sql, vec![]).await.unwrap().len();
        assert_eq!(count("SELECT token_hash FROM oauth2_refresh_tokens").await, 2, "{}", app.engine());
        app.wait(SignedDuration::from_secs(9));
        assert_eq!(refresh(&app, &client, &spent).await.is(200).json(), answers[0], "{}", app.engine());
        // The answer is for the same request of the same client.
        let other = public_client(&app).await;
        refresh(&app, &other, &spent).await.is(400);
        let pairs =
            [("grant_type", "refresh_token"), ("client_id", &*client), ("refresh_token", &*spent), ("scope", "openid")];
        form(&app.anonymous(), "/auth/oauth2/token", &pairs).await.is(400);
        let program = app.anonymous().bearing(&text(&answers[0], "access_token"));
        program.get("/notes").await.is(200);
        // The next token works.
        let third = refresh(&app, &client, &text(&answers[0], "refresh_token")).await.is(200).json();
        assert_ne!(third["refresh_token"], answers[0]["refresh_token"]);
        // Nothing is stored in the clear.
        for column in ["answer", "token_hash"] {
            let sql = format!("SELECT {column} AS bytes FROM oauth2_refresh_tokens WHERE {column} IS NOT NULL");
            for row in app.app().db().query(sql, vec![]).await.unwrap() {
                let bytes: Vec<u8> = row.get("bytes").unwrap();
                let found = |secret: &str| bytes.windows(secret.len()).any(|part| part == secret.as_bytes());
                assert!(!found(&text(&answers[0], "refresh_token")) && !found(&text(&answers[0], "access_token")));
            }
        }
        app.wait(SignedDuration::from_secs(2));
        // What is not given again is not kept either.
        for _ in 0..100 {
            if count("SELECT answer FROM oauth2_refresh_tokens WHERE answer IS NOT NULL").await <= 1 {
                break;
            }
            tokio::time::sleep(std::time::Duration::from_millis(100)).await;
        }
        assert!(
            count("SELECT answer FROM oauth2_refresh_tokens WHERE answer IS NOT NULL").await <= 1,
            "{}",
            app.engine()
        );
        refresh(&app, &client, &spent).await.is(400);
        program.get("/notes").await.is(401);
        refresh(&app, &client, &text(&third, "refresh_token")).await.is(400);
        user.get("/auth/me").await.is(200);
    }
}

/// Without `offline_access`, access ends with the session; with it, it does not.
#[tokio::test]
async fn access_ends_with_the_session_unless_it_is_offline() {
    for app in TestApp::on_every_engine(OPENID).await {
        let (user, client, tokens) = signed_in(&app, &[]).await;
        let offline = code(&user, &client, &[("scope", "openid offline_access")]).await;
        let offline = exchange(&app, &client, &offline, &[]).await.is(200).json();
        let waiting = code(&user, &client, &[("scope", "openid")]).await;
        user.post("/auth/logout", json!({})).await.is(204);
        let refused = refresh(&app, &client, &text(&tokens, "refresh_token")).await.is(400).json();
        assert_eq!(refused["error"], "invalid_grant");
        exchange(&app, &client, &waiting, &[]).await.is(400);
        refresh(&app, &client, &text(&offline, "refresh_token")).await.is(200);
        let program = app.anonymous().bearing(&text(&tokens, "access_token"));
        program.get("/auth/oauth2/userinfo").await.is(401);
    }
}
