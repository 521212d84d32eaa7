//! API tokens, service accounts, and the guards of routes.

mod claim;
mod effects;
mod guards;
mod manage;
mod races;
mod refused;
mod secrets;
mod services;
mod step_up;
mod stores;
mod uses;

use gatewright_auth::AuthConfig;
use gatewright_auth::plugins::tokens::TokensPlugin;
use gatewright_db::testing::TestDb;
use http::Method;
use serde_json::{Value, json};

use crate::support::{Answer, Call, Site, config};

/// The usual site over a database, with the plugin and Ann.
async fn site(db: &TestDb) -> Site {
    with(db, config()).await
}

async fn with(db: &TestDb, config: AuthConfig) -> Site {
    let site = Site::with(config, |builder| builder.database(db.db.clone()).plugin(TokensPlugin::new())).await;
    site.register_ann().await;
    site
}

/// Issues a token by the endpoint.
async fn issue(site: &Site, session: &Answer, body: &Value) -> Answer {
    Call::post("/auth/tokens").json(body).cookie_of(session).send(site).await
}

/// A token of Ann's without scopes, by the endpoint.
async fn token_of(site: &Site, session: &Answer) -> (String, String) {
    let issued = issue(site, session, &json!({ "name": "CI" })).await.expect(200);
    (issued.token(), issued.json()["id"].as_str().unwrap().to_owned())
}

async fn list(site: &Site, session: &Answer) -> Vec<Value> {
    let listed = Call::get("/auth/tokens").cookie_of(session).send(site).await.expect(200).json();
    listed["tokens"].as_array().unwrap().clone()
}

async fn revoke(site: &Site, session: &Answer, id: &str) -> Answer {
    Call::new(Method::DELETE, &format!("/auth/tokens/{id}")).cookie_of(session).send(site).await
}

/// What the middleware makes of a bearer: the kind of credential, or `anonymous`.
async fn who(site: &Site, token: &str) -> String {
    kind(&Call::get("/whoami").bearer(token).send(site).await.expect(200))
}

fn kind(answer: &Answer) -> String {
    let who = answer.json();
    who.as_str().or(who["credential"].as_str()).unwrap().to_owned()
}
