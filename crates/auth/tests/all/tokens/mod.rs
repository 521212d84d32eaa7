//! API tokens, service accounts, and the guards of routes.

mod claim;
mod effects;
mod fairness;
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
use gatewright_db::{Error, Tx, params};
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

/// Stores more tokens like the one with this id, directly.
async fn fill(db: &TestDb, id: &str, count: i64) {
    let id = id.to_owned();
    let fill = async move |tx: &Tx| -> Result<(), Error> {
        let sql = "INSERT INTO api_tokens (id, token_hash, prefix, name, owner_kind, owner_id, scopes, created_at) \
                   SELECT ?1, ?2, prefix, name, owner_kind, owner_id, scopes, created_at FROM api_tokens WHERE id = ?3";
        for n in 0..count {
            tx.execute(sql, params![format!("t{n}"), n.to_be_bytes().to_vec(), id.as_str()]).await?;
        }
        Ok(())
    };
    db.db.write(fill).await.unwrap();
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
