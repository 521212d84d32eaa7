//! Operators who act as users.

use std::collections::BTreeSet;

use futures_util::future::join_all;
use gatewright_base::UserId;
use gatewright_db::params;
use gatewright_testing::{Actor, Answer, TestApp};
use jiff::SignedDuration;
use serde_json::{Value, json};

use super::{ENTITIES, OPERATOR, enrolled, id_of, operator, totp};

const ANN: &str = "ann@example.com";

fn toml() -> String {
    format!("[auth]\nimpersonation = true\n{ENTITIES}")
}

async fn ask(operator: &Actor, id: &str) -> Answer {
    operator.post(&format!("/admin/api/users/{id}/impersonate"), json!({ "reason": "ticket 42" })).await
}

/// A browser in which the operator acts as this user. The operator's own browser keeps its session.
async fn acting(app: &TestApp, operator: &Actor, id: &str) -> Actor {
    let answer = ask(operator, id).await.is(200);
    let mut acting = app.anonymous();
    acting.keep_cookies(&answer);
    acting
}

#[tokio::test]
async fn an_operator_acts_as_a_user_and_the_audit_log_says_who_and_why() {
    for app in TestApp::on_every_engine(&toml()).await {
        let operator = operator(&app).await;
        let ann = app.signed_in(ANN).await;
        let (id, own) = (id_of(&app, ANN).await, id_of(&app, OPERATOR).await);
        let before = ann.get("/auth/sessions").await.is(200).text().to_owned();
        let answer = ask(&operator, &id).await.is(200);
        let cookie = answer.header("set-cookie").unwrap().to_owned();
        assert!(cookie.contains("Max-Age=3600") && cookie.contains("HttpOnly"), "{cookie}");
        let mut acting = app.anonymous();
        acting.keep_cookies(&answer);

        let me = acting.get("/auth/me").await.is(200);
        assert_eq!((me.at("/user/id"), me.at("/impersonatedBy")), (json!(id), json!(own)));
        let page = acting.get("/account").await.is(200);
        assert!(
            page.text().contains("An operator acts as this user") && !page.text().contains("<h2"),
            "{}",
            page.text()
        );
        let made = acting.post("/notes", json!({ "title": "by the operator" })).await.is(201);
        assert_eq!(ann.get("/notes").await.is(200).at("/data/0/id"), made.at("/data/id"));
        // The user's own sessions, devices and page show nothing.
        assert_eq!(ann.get("/auth/sessions").await.is(200).text(), before);
        assert_eq!(ann.get("/auth/me").await.is(200).at("/impersonatedBy"), Value::Null);
        assert!(!ann.get("/account/devices").await.is(200).text().contains("An operator acts"));

        let audited = async |kind: &str| {
            let sql = "SELECT meta FROM audit_log WHERE kind = ?1 AND user_id = ?2 ORDER BY created_at DESC";
            let rows = app.app().db().query(sql, params![kind, &id]).await.unwrap();
            rows.iter().map(|row| row.get::<String>("meta").unwrap().parse::<Value>().unwrap()).collect::<Vec<_>>()
        };
        let started = audited("impersonation.started").await.remove(0);
        assert_eq!((&started["operator"], &started["reason"]), (&json!(own), &json!("ticket 42")));
        assert_eq!(audited("entity.created").await.remove(0)["impersonated_by"], json!(own));
        assert_eq!(audited("admin.acted").await.remove(0)["reason"], json!("ticket 42"));
        acting.sign_out().await.is(204);
        assert_eq!(audited("impersonation.ended").await.remove(0)["operator"], json!(own));
        operator.get("/admin/api/me").await.is(200);
        ann.get("/auth/me").await.is(200);
    }
}

#[tokio::test]
async fn it_ends_after_an_hour_and_with_the_operators_session_account_or_role() {
    for app in TestApp::on_every_engine(&toml()).await {
        let (operator, secret) = enrolled_operator(&app).await;
        app.registered(ANN).await;
        let (id, own) = (id_of(&app, ANN).await, id_of(&app, OPERATOR).await);
        let db = app.app().db().clone();
        let live = async |acting: &Actor, expected: u16| {
            acting.get("/auth/me").await.is(expected);
            acting.get("/notes").await.is(expected);
        };

        let first = acting(&app, &operator, &id).await;
        live(&first, 200).await;
        app.grant(OPERATOR, &["user"]).await;
        live(&first, 401).await;
        app.grant(OPERATOR, &["user", "admin"]).await;
        live(&first, 200).await;
        // The second factor of the operator's session was lost, for example because they enrolled another one.
        for verified in [false, true] {
            let sql = "UPDATE sessions SET two_factor_verified = ?2 WHERE user_id = ?1";
            db.execute(sql, params![&own, verified]).await.unwrap();
            live(&first, if verified { 200 } else { 401 }).await;
        }
        // The user becomes an operator.
        app.grant(ANN, &["user", "admin"]).await;
        live(&first, 401).await;
        app.grant(ANN, &["user"]).await;
        live(&first, 200).await;
        let accounts = app.app().auth().unwrap().accounts();
        accounts.disable(&user(&id)).await.unwrap();
        live(&first, 401).await;
        accounts.enable(&user(&id)).await.unwrap();

        // One session of an operator acts in one account at a time.
        let second = acting(&app, &operator, &id).await;
        live(&first, 401).await;
        live(&second, 200).await;
        app.wait(SignedDuration::from_secs(3600));
        live(&second, 401).await;

        let other = operator_again(&app, &secret).await;
        let third = acting(&app, &other, &id).await;
        live(&third, 200).await;
        other.post("/auth/logout", json!({})).await.is(204);
        live(&third, 401).await;
    }
}

#[tokio::test]
async fn a_changed_password_of_the_operator_and_a_disabled_operator_end_it() {
    for app in TestApp::on_every_engine(&toml()).await {
        let (operator, secret) = enrolled_operator(&app).await;
        app.registered(ANN).await;
        let (id, own) = (id_of(&app, ANN).await, id_of(&app, OPERATOR).await);
        let accounts = app.app().auth().unwrap().accounts();
        let one = acting(&app, &operator, &id).await;
        one.get("/auth/me").await.is(200);
        accounts.disable(&user(&own)).await.unwrap();
        one.get("/auth/me").await.is(401);
        accounts.enable(&user(&own)).await.unwrap();
        one.get("/auth/me").await.is(401);
        let other = operator_again(&app, &secret).await;
        let two = acting(&app, &other, &id).await;
        let change = json!({ "currentPassword": "correct horse battery", "password": "another longer passphrase 7" });
        let change = other.post("/auth/change-password", change).await;
        assert_eq!(change.status(), 200, "{}", change.text());
        two.get("/auth/me").await.is(401);
    }
}

#[tokio::test]
async fn nobody_acts_as_an_operator_or_from_an_impersonated_session_or_without_a_fresh_session() {
    for app in TestApp::on_every_engine(&toml()).await {
        let operator = operator(&app).await;
        for email in [ANN, "bob@example.com", "admin@example.com"] {
            app.registered(email).await;
        }
        app.grant("admin@example.com", &["admin"]).await;
        let (ann, bob) = (id_of(&app, ANN).await, id_of(&app, "bob@example.com").await);
        for refused in [id_of(&app, OPERATOR).await, id_of(&app, "admin@example.com").await] {
            assert_eq!(ask(&operator, &refused).await.is(403).at("/code"), "operator_account");
        }
        ask(&operator, "0198e0a0-0000-7000-8000-000000000000").await.is(404);
        for reason in ["", "  ", "a\u{7}", &"x".repeat(501)] {
            let path = format!("/admin/api/users/{ann}/impersonate");
            operator.post(&path, json!({ "reason": reason })).await.is(422);
        }
        operator.post(&format!("/admin/api/users/{ann}/impersonate"), json!({})).await.is(422);
        let acting = acting(&app, &operator, &ann).await;
        assert_eq!(ask(&acting, &bob).await.is(403).at("/code"), "impersonated");
        assert_eq!(acting.get("/admin/api/me").await.is(403).at("/code"), "impersonated");
        // A token has no browser.
        let token = json!({ "name": "ops", "scopes": ["admin:write", "admin:read"] });
        let token = operator.post("/auth/tokens", token).await.is(200);
        let program = app.anonymous().bearing(token.at("/token").as_str().unwrap());
        assert_eq!(ask(&program, &ann).await.is(403).at("/code"), "session_required");
        let accounts = app.app().auth().unwrap().accounts();
        accounts.disable(&user(&bob)).await.unwrap();
        assert_eq!(ask(&operator, &bob).await.is(409).at("/code"), "account_disabled");
        // An operator who signed in long ago signs in again first.
        app.wait(SignedDuration::from_hours(2));
        assert_eq!(ask(&operator, &ann).await.is(403).at("/code"), "fresh_sign_in_required");
    }
}

#[tokio::test]
async fn of_20_parallel_requests_one_session_is_left() {
    for app in TestApp::on_every_engine(&toml()).await {
        let operator = operator(&app).await;
        app.registered(ANN).await;
        let id = id_of(&app, ANN).await;
        let answers = join_all((0..20).map(|_| ask(&operator, &id))).await;
        let mut live = BTreeSet::new();
        for answer in answers {
            let mut acting = app.anonymous();
            acting.keep_cookies(&answer.is(200));
            if acting.get("/auth/me").await.status() == 200 {
                live.insert(acting.cookies().clone());
            }
        }
        assert_eq!(live.len(), 1);
    }
}

#[tokio::test]
async fn without_the_setting_nobody_acts_as_a_user() {
    for app in TestApp::on_every_engine(ENTITIES).await {
        let operator = operator(&app).await;
        app.registered(ANN).await;
        let answer = ask(&operator, &id_of(&app, ANN).await).await.is(404);
        assert_eq!(answer.at("/code"), "impersonation_off");
        assert_eq!(answer.header("set-cookie"), None);
    }
}

#[tokio::test]
async fn a_deleted_user_leaves_no_trace_of_it_and_expired_ones_are_swept() {
    for app in TestApp::on_every_engine(&toml()).await {
        let operator = operator(&app).await;
        app.registered(ANN).await;
        let id = id_of(&app, ANN).await;
        let rows = async || {
            let rows = app.app().db().query("SELECT id FROM auth_impersonations", params![]).await.unwrap();
            rows.len()
        };
        acting(&app, &operator, &id).await.get("/auth/me").await.is(200);
        assert_eq!(rows().await, 1);
        operator.delete(&format!("/admin/api/users/{id}")).await;
        let auth = app.app().auth().unwrap();
        for _ in 0..200 {
            auth.sweep().await;
            if rows().await == 0 {
                break;
            }
            tokio::task::yield_now().await;
            std::thread::sleep(std::time::Duration::from_millis(5));
        }
        assert_eq!(rows().await, 0);
        app.registered("bob@example.com").await;
        acting(&app, &operator, &id_of(&app, "bob@example.com").await).await;
        app.wait(SignedDuration::from_secs(3601));
        auth.sweep().await;
        assert_eq!(rows().await, 0);
    }
}

/// An operator, and the secret of their second factor.
async fn enrolled_operator(app: &TestApp) -> (Actor, String) {
    let (_, secret) = enrolled(app, OPERATOR).await;
    app.grant(OPERATOR, &["user", "admin"]).await;
    (operator_again(app, &secret).await, secret)
}

/// The operator in another session of theirs.
async fn operator_again(app: &TestApp, secret: &str) -> Actor {
    // A code works once.
    app.wait(SignedDuration::from_secs(60));
    let mut again = app.anonymous();
    again.sign_in(OPERATOR).await.is(200);
    let passed = again.post("/auth/2fa/challenge", json!({ "code": totp(app, secret) })).await.is(200);
    again.keep_cookies(&passed);
    again
}

fn user(id: &str) -> UserId {
    UserId::parse(id).unwrap()
}
