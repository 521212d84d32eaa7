//! The admin API: access, answers, actions and audit.

mod accounts;
mod gate;
mod impersonation;
mod mails;
mod management;
mod operations;
mod records;
mod tenants;

use gatewright_testing::{Actor, TestApp};
use jiff::SignedDuration;
use serde_json::json;

/// The entities that the tests administer.
const ENTITIES: &str = r#"
[audit]
entities = true
[outbox]
enabled = true
poll_interval_ms = 50
[[entity]]
name = "notes"
owner_field = "user_id"
soft_delete = true
search_fields = ["title"]
[entity.rules]
read = "title != 'private'"
[[entity.field]]
name = "title"
type = "string"
required = true
[[entity.field]]
name = "pin_canary"
type = "string"
hidden = true
[[entity]]
name = "invoices"
multi_tenant = true
[[entity.field]]
name = "number"
type = "int"
"#;

const OPERATOR: &str = "op@example.com";

/// An account with the admin role, signed in with a second factor.
pub(super) async fn operator(app: &TestApp) -> Actor {
    let (mut operator, secret) = enrolled(app, OPERATOR).await;
    app.grant(OPERATOR, &["user", "admin"]).await;
    // A code works once, so the next one is from a later step.
    app.wait(SignedDuration::from_secs(60));
    operator.sign_in(OPERATOR).await.is(200);
    let passed = operator.post("/auth/2fa/challenge", json!({ "code": totp(app, &secret) })).await.is(200);
    operator.keep_cookies(&passed);
    operator
}

/// A new account with an enabled second factor, in the session that enabled it, and its secret.
async fn enrolled(app: &TestApp, email: &str) -> (Actor, String) {
    let actor = app.signed_in(email).await;
    let secret = actor.post("/auth/2fa/enroll", json!({})).await.is(200).at("/secret");
    let secret = secret.as_str().unwrap().to_owned();
    actor.post("/auth/2fa/verify", json!({ "code": totp(app, &secret) })).await.is(200);
    (actor, secret)
}

/// The code of an authenticator at the application's time.
fn totp(app: &TestApp, secret: &str) -> String {
    let secret = totp_rs::Secret::try_from_base32(secret).unwrap();
    let authenticator = totp_rs::Builder::new().with_secret(secret).build().unwrap();
    authenticator.generate(u64::try_from(app.now().as_second()).unwrap()).to_string()
}

pub(super) async fn id_of(app: &TestApp, email: &str) -> String {
    app.user_id(email).await.to_string()
}
