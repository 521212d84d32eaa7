//! Two-factor authentication by app and backup code, from outside.

mod authenticator;
mod backup_codes;
mod challenge;
mod disable;
mod enroll;
mod limits;
mod notices;
mod races;
mod screens;
mod step_up;
mod stores;
mod theft;

use gatewright_auth::AuthConfig;
use gatewright_auth::plugins::two_factor::TwoFactorPlugin;
use gatewright_base::Ambient;
use gatewright_db::testing::TestDb;
use serde_json::{Value, json};

use crate::support::{Answer, Call, Site, config};

pub(crate) use authenticator::Authenticator;

/// The message of every refusal of a code.
const INVALID: &str = "invalid code";
/// The message of every refusal because of a missing second factor.
const REQUIRED: &str = "two-factor verification required";

/// A site with the plugin, over a database, where Ann is registered.
pub(crate) async fn site(db: &TestDb) -> Site {
    let site = with(db, config()).await;
    site.register_ann().await;
    site
}

async fn with(db: &TestDb, config: AuthConfig) -> Site {
    Site::with(config, |builder| builder.database(db.db.clone()).plugin(TwoFactorPlugin::new("Blog"))).await
}

/// Ann's session in which she enrolled, her app and her backup codes.
pub(crate) struct Enrolled {
    pub(crate) session: Answer,
    pub(crate) app: Authenticator,
    pub(crate) codes: Vec<String>,
}

/// Signs Ann in and enrolls her; the clock is in the next step then.
pub(crate) async fn enroll_ann(site: &Site) -> Enrolled {
    enroll(site, site.login_ann().await.expect(200)).await
}

/// Enrolls the user of this session; the clock is in the next step then.
pub(crate) async fn enroll(site: &Site, session: Answer) -> Enrolled {
    let app = begin(site, &session).await;
    let verified = send(site, "verify", &session, &app.code(site)).await.expect(200);
    let codes = verified.json()["backupCodes"].as_array().unwrap().iter().map(text).collect();
    site.advance(30);
    Enrolled { session, app, codes }
}

/// Begins to enroll, and gives the app with the secret.
pub(crate) async fn begin(site: &Site, session: &Answer) -> Authenticator {
    let begun = Call::post("/auth/2fa/enroll").json(&json!({})).cookie_of(session).send(site).await.expect(200);
    Authenticator::new(&text(&begun.json()["secret"]))
}

/// Sends a code to one of the endpoints.
async fn send(site: &Site, endpoint: &str, session: &Answer, code: &str) -> Answer {
    call(endpoint, code).cookie_of(session).send(site).await
}

fn call(endpoint: &str, code: &str) -> Call {
    Call::post(&format!("/auth/2fa/{endpoint}")).json(&json!({ "code": code }))
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_else(|| panic!("not text: {value}")).to_owned()
}

/// The wrong code that is nearest to a right one.
fn wrong(app: &Authenticator, site: &Site) -> String {
    let taken: Vec<String> = (-2..=2).map(|steps| app.code_in(site, steps)).collect();
    (0..10).map(|n| format!("{n:06}")).find(|code| !taken.contains(code)).unwrap()
}

fn system() -> Ambient {
    Ambient::system()
}
