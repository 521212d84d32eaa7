use gatewright_auth::audit::AuditKind;
use serde_json::json;

use crate::support::{ANN, Call, PASSWORD, Site, config, databases, unlimited};

#[tokio::test]
async fn json_registration_answers_user_and_token_and_mints_no_session() {
    for db in databases().await {
        let site = Site::on(&db).await;
        let answer = site.register_ann().await;
        let body = answer.json();
        assert_eq!(body["user"]["email"], ANN);
        assert_eq!(body["user"]["roles"], json!(["user"]));
        assert_eq!(body["user"].as_object().unwrap().len(), 3, "id, email and roles alone");
        assert_eq!(body.as_object().unwrap().len(), 2);
        assert!(answer.set_cookie().is_none());
        assert_eq!(answer.headers["cache-control"], "no-store");
        let who = Call::get("/whoami").bearer(&answer.token()).send(&site).await;
        assert_eq!(who.json(), json!({ "id": body["user"]["id"], "roles": ["user"], "credential": "Jwt" }));
        assert_eq!(site.audited(), [AuditKind::RegisterSucceeded]);
    }
}

#[tokio::test]
async fn form_registration_signs_in_and_redirects_to_next() {
    for db in databases().await {
        let site = Site::on(&db).await;
        let fields = [("email", " Ann@Example.com "), ("password", PASSWORD), ("next", "/welcome?a=b")];
        let answer = Call::post("/auth/register").form(&fields).send(&site).await.expect(303);
        assert_eq!(answer.location(), Some("/welcome?a=b"));
        assert_eq!(site.me(&answer).await.expect(200).json()["user"]["email"], ANN);
        assert_eq!(site.audited(), [AuditKind::RegisterSucceeded, AuditKind::LoginSucceeded]);

        let fields = [("email", "bob@example.com"), ("password", PASSWORD)];
        let answer = Call::post("/auth/register?next=/home").multipart(&fields).send(&site).await.expect(303);
        assert_eq!(answer.location(), Some("/home"));
        assert!(answer.cookie().is_some());
    }
}

#[tokio::test]
async fn roles_in_a_request_are_ignored() {
    for db in databases().await {
        let site = Site::on(&db).await;
        let body = json!({ "email": ANN, "password": PASSWORD, "roles": ["admin"] });
        let answer = Call::post("/auth/register").json(&body).send(&site).await.expect(200);
        assert_eq!(answer.json()["user"]["roles"], json!(["user"]));
        let me = Call::get("/auth/me").bearer(&answer.token()).send(&site).await.expect(200);
        assert_eq!(me.json()["emailVerified"], false);
        let fields = [("email", "bob@example.com"), ("password", PASSWORD), ("roles", "admin"), ("roles", "root")];
        let answer = Call::post("/auth/register").form(&fields).send(&site).await.expect(303);
        assert_eq!(site.me(&answer).await.json()["user"]["roles"], json!(["user"]));
    }
}

#[tokio::test]
async fn configured_default_roles_are_stamped() {
    for db in databases().await {
        let mut config = config();
        config.default_roles = ["member", "reader"].into_iter().collect();
        let site = Site::with(config, |builder| builder.database(db.db.clone())).await;
        assert_eq!(site.register_ann().await.json()["user"]["roles"], json!(["member", "reader"]));
    }
}

#[tokio::test]
async fn a_taken_address_is_a_conflict_in_every_spelling() {
    for db in databases().await {
        let site = Site::on(&db).await;
        site.register_ann().await;
        for spelling in [ANN, "ANN@EXAMPLE.COM", " ann@example.com\n"] {
            let body = json!({ "email": spelling, "password": PASSWORD });
            let answer = Call::post("/auth/register").json(&body).send(&site).await.expect(409);
            assert_eq!(answer.detail(), "email already registered");
            assert_eq!(answer.json()["code"], "email_taken");
        }
    }
}

#[tokio::test]
async fn invalid_registrations_are_refused_with_the_field_name() {
    for db in databases().await {
        let mut config = config();
        config.limits.register.policy = unlimited();
        let site = Site::with(config, |builder| builder.database(db.db.clone())).await;
        let long = "a".repeat(129);
        let over_bcrypt = "ä".repeat(37);
        let megabyte = "a".repeat(60_000);
        let cases = [
            (json!({ "email": ANN, "password": "short77" }), 422, "password"),
            (json!({ "email": ANN, "password": long }), 422, "password"),
            (json!({ "email": ANN, "password": over_bcrypt }), 422, "password"),
            (json!({ "email": ANN, "password": megabyte }), 422, "password"),
            (json!({ "email": "ann", "password": PASSWORD }), 422, "email"),
            (json!({ "email": "", "password": PASSWORD }), 422, "email"),
            (json!({ "email": format!("{}@example.com", "a".repeat(300)), "password": PASSWORD }), 422, "email"),
            (json!({ "email": ANN }), 422, "password"),
            (json!({ "password": PASSWORD }), 422, "email"),
            (json!({ "email": 7, "password": PASSWORD }), 422, "email"),
            (json!({ "email": ANN, "password": ["a"] }), 422, "password"),
        ];
        for (body, status, field) in cases {
            let answer = Call::post("/auth/register").json(&body).send(&site).await.expect(status);
            assert_eq!(answer.json()["errors"][0]["field"], field, "{answer:?}");
            assert!(!answer.body.contains("horse"), "a password is never repeated");
        }
        Call::post("/auth/register").body("application/json", "{").send(&site).await.expect(400);
        Call::post("/auth/register").body("application/xml", "<a/>").send(&site).await.expect(415);
        let exact = json!({ "email": ANN, "password": "a".repeat(72) });
        Call::post("/auth/register").json(&exact).send(&site).await.expect(200);
    }
}

#[tokio::test]
async fn all_invalid_fields_are_reported_at_once() {
    for db in databases().await {
        let site = Site::on(&db).await.and_screens();
        let wrong = json!({ "email": "ann", "password": "short", "emailVerified": true, "id": 1, "roles": ["admin"] });
        let answer = Call::post("/auth/register").json(&wrong).send(&site).await.expect(422).json();
        let errors: Vec<_> = answer["errors"].as_array().unwrap().iter().map(|e| (&e["field"], &e["code"])).collect();
        let expected = [
            (&json!("email"), &json!("invalid")),
            (&json!("password"), &json!("too_short")),
            (&json!("emailVerified"), &json!("unknown")),
            (&json!("id"), &json!("unknown")),
        ];
        assert_eq!(errors, expected, "{}", db.name);
        let nothing = Call::post("/auth/register").json(&json!({})).send(&site).await.expect(422).json();
        assert_eq!(nothing["errors"].as_array().unwrap().len(), 2, "{nothing}");
        let form = Call::post("/auth/register").form(&[("email", "ann"), ("password", "short")]);
        let page = form.send(&site).await.expect(422).body;
        for part in ["not a valid email address", "at least 8 characters", "value=\"ann\""] {
            assert!(page.contains(part), "{part}: {page}");
        }
        let form = Call::post("/auth/register").form(&[("email", ANN), ("password", PASSWORD), ("_csrf", "x")]);
        form.send(&site).await.expect(303);
        assert!(!site.audited().contains(&AuditKind::LoginFailed));
    }
}

#[tokio::test]
async fn one_of_twenty_parallel_registrations_succeeds() {
    for db in databases().await {
        let mut config = config();
        config.limits.register.policy = unlimited();
        let site = Site::with(config, |builder| builder.database(db.db.clone())).await;
        let body = json!({ "email": ANN, "password": PASSWORD });
        let all = (0..20).map(|_| Call::post("/auth/register").json(&body).send(&site));
        let answers = futures_util::future::join_all(all).await;
        let count = |status| answers.iter().filter(|answer| answer.status.as_u16() == status).count();
        assert_eq!((count(200), count(409)), (1, 19), "{}", db.name);
    }
}

#[tokio::test]
async fn without_tokens_in_responses_there_is_no_token() {
    for db in databases().await {
        let mut config = config();
        config.tokens_in_responses = false;
        let site = Site::with(config, |builder| builder.database(db.db.clone())).await;
        assert!(site.register_ann().await.json().get("token").is_none());
        let login = site.login_ann().await.expect(200);
        assert!(login.json().get("token").is_none());
        site.me(&login).await.expect(200);
    }
}
