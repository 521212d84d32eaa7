use gatewright::auth::tokens::TokenDraft;
use gatewright::base::{Roles, Subject, UserId};
use gatewright_testing::{Actor, TestApp};
use http::Method;
use jiff::SignedDuration;
use serde_json::json;

use super::{ENTITIES, OPERATOR, enrolled, id_of, operator, totp};

/// One path of each kind.
const READ: &str = "/admin/api/users";

#[tokio::test]
async fn the_role_and_the_second_factor_are_required() {
    for app in TestApp::on_every_engine(ENTITIES).await {
        app.anonymous().get(READ).await.is(401);

        let user = app.signed_in("user@example.com").await;
        assert_eq!(user.get(READ).await.is(403).at("/code"), "forbidden");

        // The role without a second factor is not enough, by session and by JWT.
        let half = app.signed_in("half@example.com").await;
        app.grant("half@example.com", &["admin"]).await;
        assert_eq!(half.get(READ).await.is(403).at("/code"), "two_factor_required");
        let jwt = app.with_jwt("jwt@example.com").await;
        app.grant("jwt@example.com", &["admin"]).await;
        assert_eq!(jwt.get(READ).await.is(403).at("/code"), "two_factor_required");

        // Nor is the second factor without the role.
        let (factor, _) = enrolled(&app, "factor@example.com").await;
        assert_eq!(factor.get(READ).await.is(403).at("/code"), "forbidden");

        let operator = operator(&app).await;
        operator.get(READ).await.is(200);
        app.grant(OPERATOR, &["user"]).await;
        operator.get(READ).await.is(403);
    }
}

/// The factor of a user who lost their phone is removed: earlier proofs by it no longer count.
#[tokio::test]
async fn a_session_loses_admin_access_when_its_second_factor_is_removed() {
    for app in TestApp::on_every_engine(ENTITIES).await {
        let operator = operator(&app).await;
        operator.get(READ).await.is(200);
        let id = app.user_id(OPERATOR).await;
        assert!(app.app().auth().unwrap().accounts().disable_two_factor(&id).await.unwrap());
        assert_eq!(operator.get(READ).await.is(403).at("/code"), "two_factor_required");
    }
}

#[tokio::test]
async fn a_pending_session_is_refused_and_a_jwt_after_the_second_factor_passes() {
    for app in TestApp::on_every_engine(ENTITIES).await {
        let (_, secret) = enrolled(&app, "two@example.com").await;
        app.grant("two@example.com", &["admin"]).await;
        app.wait(SignedDuration::from_secs(60));
        let mut pending = app.anonymous();
        pending.sign_in("two@example.com").await.is(200);
        pending.get(READ).await.is(403);
        let passed = pending.post("/auth/2fa/challenge", json!({ "code": totp(&app, &secret) })).await.is(200);
        let jwt = passed.at("/token");
        let by_jwt = app.anonymous().bearing(jwt.as_str().unwrap());
        by_jwt.get(READ).await.is(200);
        // The present role decides.
        app.grant("two@example.com", &[]).await;
        by_jwt.get(READ).await.is(403);
    }
}

#[tokio::test]
async fn a_token_needs_the_explicit_admin_scope() {
    for app in TestApp::on_every_engine(ENTITIES).await {
        operator(&app).await;
        let owner = Subject::User(UserId::parse(&id_of(&app, OPERATOR).await).unwrap());
        let unlock = "/admin/api/lockouts/unlock";
        let key = json!({ "key": "login_ip:203.0.113.7" });
        for (scopes, reads, writes) in [
            (&["*:*"][..], 403, 403),
            (&["*:read", "users:read"], 403, 403),
            (&["admin:read"], 200, 403),
            (&["admin:write"], 403, 204),
            (&["admin:read", "admin:write"], 200, 204),
            (&["admin:*"], 200, 204),
            (&[], 403, 403),
        ] {
            let token = token(&app, owner.clone(), scopes).await;
            token.get(READ).await.is(reads);
            token.post(unlock, key.clone()).await.is(writes);
        }
        let token = token(&app, owner, &["admin:read"]).await;
        app.grant(OPERATOR, &["user"]).await;
        token.get(READ).await.is(403);
        app.grant(OPERATOR, &["admin"]).await;
        token.get(READ).await.is(200);
        // Without a second factor the owner is not an operator, so the token is refused.
        let accounts = app.app().auth().unwrap().accounts();
        accounts.disable_two_factor(&UserId::parse(&id_of(&app, OPERATOR).await).unwrap()).await.unwrap();
        assert_eq!(token.get(READ).await.is(403).at("/code"), "two_factor_required");
    }
}

#[tokio::test]
async fn a_service_account_needs_only_the_scope() {
    for app in TestApp::on_every_engine(ENTITIES).await {
        let services = app.app().auth().unwrap().service_accounts().unwrap();
        let account = services.create("ops", Roles::default()).await.unwrap();
        let reader = token(&app, Subject::Service(account.id.clone()), &["admin:read"]).await;
        let me = reader.get("/admin/api/me").await.is(200);
        assert_eq!((me.at("/data/kind"), me.at("/data/mayWrite")), (json!("service"), json!(false)));
        token(&app, Subject::Service(account.id), &["*:*"]).await.get(READ).await.is(403);
    }
}

#[tokio::test]
async fn only_a_session_after_the_second_factor_creates_an_admin_token() {
    for app in TestApp::on_every_engine(ENTITIES).await {
        let body = json!({ "name": "ops", "scopes": ["admin:read"] });
        // Its user has no second factor at all.
        let user = app.signed_in("user@example.com").await;
        app.grant("user@example.com", &["admin"]).await;
        assert_eq!(user.post("/auth/tokens", body.clone()).await.is(403).at("/code"), "two_factor_required");
        user.post("/auth/tokens", json!({ "name": "own", "scopes": ["*:*"] })).await.is(200);

        let operator = operator(&app).await;
        let token = operator.post("/auth/tokens", body.clone()).await.is(200).at("/token");
        app.anonymous().bearing(token.as_str().unwrap()).get(READ).await.is(200);
        // The token passes where a recent sign-in is required, so it needs one itself.
        app.wait(SignedDuration::from_mins(5));
        assert_eq!(operator.post("/auth/tokens", body).await.is(403).at("/code"), "session_too_old");
        let own = json!({ "name": "own", "scopes": ["*:*"] });
        assert_eq!(operator.post("/auth/tokens", own).await.is(403).at("/code"), "session_too_old");
    }
}

#[tokio::test]
async fn no_other_site_reads_or_writes_with_the_operators_cookie() {
    for app in TestApp::on_every_engine(ENTITIES).await {
        let operator = operator(&app).await;
        for (name, value) in [
            ("origin", "https://evil.example"),
            ("origin", "http://127.0.0.1:9999"),
            ("origin", "null"),
            ("sec-fetch-site", "cross-site"),
            ("sec-fetch-site", "same-site"),
        ] {
            let foreign = operator.clone().sending(name, value);
            assert_eq!(foreign.get(READ).await.is(403).at("/code"), "cross_site", "{name} {value}");
            foreign.post("/admin/api/lockouts/unlock", json!({ "key": "a:b" })).await.is(403);
        }
        operator.clone().sending("sec-fetch-site", "same-origin").get(READ).await.is(200);
    }
}

#[tokio::test]
async fn actions_that_are_hard_to_undo_need_a_recent_sign_in() {
    for app in TestApp::on_every_engine(ENTITIES).await {
        let operator = operator(&app).await;
        app.registered("ann@example.com").await;
        app.prove_mailbox("ann@example.com").await;
        let id = id_of(&app, "ann@example.com").await;
        let roles = async |status: u16| {
            let body = json!({ "roles": ["user", "editor"] });
            let answer = operator.json(Method::PUT, &format!("/admin/api/users/{id}/roles"), &body).await;
            answer.is(status)
        };
        roles(204).await;
        app.wait(SignedDuration::from_mins(11));
        assert_eq!(roles(403).await.at("/code"), "fresh_sign_in_required");
        let reset = operator.delete(&format!("/admin/api/users/{id}/two-factor")).await.is(403);
        assert_eq!(reset.at("/code"), "fresh_sign_in_required");
        operator.get(READ).await.is(200);
        assert_eq!(operator.get("/admin/api/me").await.is(200).at("/data/fresh"), json!(false));
    }
}

#[tokio::test]
async fn the_admin_api_is_404_while_it_is_off() {
    for app in TestApp::on_every_engine(&format!("[admin]\nenabled = false\n{ENTITIES}")).await {
        let user = app.signed_in("user@example.com").await;
        app.grant("user@example.com", &["admin"]).await;
        for path in [READ, "/admin/api/me", "/admin/api"] {
            user.get(path).await.is(404);
        }
        let document = user.get("/openapi.json").await.is(200);
        assert!(!document.text().contains("/admin/api"));
    }
}

#[tokio::test]
async fn if_no_second_factor_is_required_the_role_is_enough() {
    for app in
        TestApp::on_every_engine(&format!("[admin]\nrole = \"ops\"\nrequire_two_factor = false\n{ENTITIES}")).await
    {
        let user = app.signed_in("user@example.com").await;
        app.grant("user@example.com", &["admin"]).await;
        user.get(READ).await.is(403);
        app.grant("user@example.com", &["ops"]).await;
        user.get(READ).await.is(200);
    }
}

#[tokio::test]
async fn every_route_refuses_callers_who_are_not_operators() {
    for app in TestApp::on_every_engine(ENTITIES).await {
        let user = app.signed_in("user@example.com").await;
        let document = user.get("/openapi.json").await.is(200).json();
        let paths = document["paths"].as_object().unwrap();
        let mut tried = 0;
        for (path, operations) in paths.iter().filter(|(path, _)| path.starts_with("/admin/api")) {
            for (method, operation) in operations.as_object().unwrap() {
                assert_eq!(operation["tags"], json!(["admin"]), "{method} {path}");
                let path = path.replace("{entity}", "notes").replace("{id}", "1").replace("{session}", "2");
                let path = path.replace("{token}", "3");
                let method: Method = method.to_uppercase().parse().unwrap();
                app.anonymous().json(method.clone(), &path, &json!({})).await.is(401);
                user.json(method, &path, &json!({})).await.is(403);
                tried += 1;
            }
        }
        assert!(tried >= 28, "{tried}");
    }
}

async fn token(app: &TestApp, owner: Subject, scopes: &[&str]) -> Actor {
    let tokens = app.app().auth().unwrap().api_tokens().unwrap();
    let issued = tokens.issue(owner, TokenDraft::parse("token", scopes, 0).unwrap()).await.unwrap();
    app.anonymous().bearing(issued.plaintext.expose())
}

const METHODS: [Method; 5] = [Method::GET, Method::PUT, Method::POST, Method::PATCH, Method::DELETE];

#[tokio::test]
async fn an_unknown_parameter_is_refused_on_every_route() {
    for app in TestApp::on_every_engine(ENTITIES).await {
        let operator = operator(&app).await;
        let document = app.anonymous().get("/openapi.json").await.is(200).json();
        let mut tried = 0;
        for (path, operations) in document["paths"].as_object().unwrap() {
            // A stream has parameters of its own, and ignores others as streams do.
            if !path.starts_with("/admin/api/") || path.contains("/events/{entity}") {
                continue;
            }
            let real = path.replace("{entity}", "notes").replace(['{', '}'], "");
            let methods =
                operations.as_object().unwrap().keys().filter_map(|key| key.to_uppercase().parse::<Method>().ok());
            for method in methods.filter(|method| METHODS.contains(method)) {
                for query in ["rolle=admin", "nonsense=1&limit=1"] {
                    let at = format!("{real}?{query}");
                    let is_read = method == Method::GET;
                    let answer = if is_read {
                        operator.get(&at).await
                    } else {
                        operator.json(method.clone(), &at, &json!({})).await
                    };
                    let is_absent = is_read && answer.status() == 404 && path.ends_with("/records/{entity}/{id}");
                    let (status, text) = (answer.status(), answer.text());
                    assert!(status == 400 || is_absent, "{method} {path}?{query}: {status} {text}");
                }
                tried += 1;
            }
        }
        assert!(tried > 45, "{tried}");
        operator.get("/admin/api/users?q=a&limit=1").await.is(200);
    }
}
