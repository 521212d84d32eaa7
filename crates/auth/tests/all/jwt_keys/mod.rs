//! JWTs that are signed with key pairs: several servers over one database, with one clock.

mod attacks;
mod changes;
mod files;
mod rotation;

use gatewright_auth::AuthConfig;
use gatewright_auth::jwt::JwtAlgorithm;
use gatewright_base::Secret;
use gatewright_db::testing::TestDb;
use jsonwebtoken::jwk::JwkSet;
use jsonwebtoken::{Algorithm, DecodingKey, Validation};
use serde_json::Value;

use crate::support::{ANN, Answer, Call, PASSWORD, Site, config, databases, unlimited};

const JWKS: &str = "/.well-known/jwks.json";

fn settings(algorithm: JwtAlgorithm) -> AuthConfig {
    let mut config = config();
    config.jwt.algorithm = algorithm;
    for limit in [&mut config.limits.login, &mut config.limits.login_account, &mut config.limits.register] {
        limit.policy = unlimited();
    }
    config
}

/// One server, some seconds after the first one started.
async fn server(db: &TestDb, config: AuthConfig, seconds: i64) -> Site {
    let mut site = Site::starting(config, seconds, |builder| builder.database(db.db.clone())).await;
    site.router = site.router.clone().merge(site.auth.well_known());
    site
}

async fn ann(site: &Site) {
    site.auth.accounts().create(ANN, Some(Secret::new(PASSWORD)), None).await.unwrap();
}

async fn token(site: &Site) -> String {
    site.login(ANN, PASSWORD).await.expect(200).token()
}

async fn accepts(site: &Site, token: &str) -> bool {
    let who = Call::get("/whoami").bearer(token).send(site).await.expect(200).json();
    who["credential"] == "Jwt"
}

async fn published(site: &Site) -> Answer {
    Call::get(JWKS).send(site).await
}

/// Verifies a token as another service does: with a library, and nothing except the published set.
fn verify(set: &Answer, token: &str) -> Option<Value> {
    let header = jsonwebtoken::decode_header(token).ok()?;
    let set: JwkSet = serde_json::from_str(&set.body).ok()?;
    let key = DecodingKey::from_jwk(set.find(&header.kid?)?).ok()?;
    let mut validation = Validation::new(header.alg);
    validation.validate_exp = false;
    validation.set_issuer(&["gatewright"]);
    jsonwebtoken::decode::<Value>(token, &key, &validation).ok().map(|decoded| decoded.claims)
}

#[tokio::test]
async fn another_service_verifies_tokens_with_the_published_keys_alone() {
    for db in databases().await {
        for (algorithm, expected) in [
            (JwtAlgorithm::Es256, Algorithm::ES256),
            (JwtAlgorithm::EdDsa, Algorithm::EdDSA),
            (JwtAlgorithm::Rs256, Algorithm::RS256),
        ] {
            for table in ["auth_jwt_signers", "sessions", "users"] {
                // Each algorithm is the first of its server.
                let _ = db.db.execute(format!("DELETE FROM {table}"), Vec::new()).await;
            }
            let site = server(&db, settings(algorithm), 0).await;
            ann(&site).await;
            let token = token(&site).await;
            assert!(accepts(&site, &token).await);
            let set = published(&site).await.expect(200);
            assert_eq!(set.headers["cache-control"], "public, max-age=300");
            assert_eq!(set.headers["access-control-allow-origin"], "*");
            assert_eq!(set.json()["keys"].as_array().unwrap().len(), 1);
            assert_eq!(set.json()["keys"][0]["use"], "sig");
            assert!(set.json()["keys"][0].get("d").is_none());
            assert_eq!(jsonwebtoken::decode_header(&token).unwrap().alg, expected);
            let claims = verify(&set, &token).expect("a library verifies it");
            assert_eq!(claims["email"], ANN);
            let cut = &token[..token.len() - 4];
            assert!(verify(&set, cut).is_none() && !accepts(&site, cut).await);
        }
    }
}

#[tokio::test]
async fn there_is_no_set_of_keys_while_a_secret_signs() {
    for db in databases().await {
        let site = server(&db, settings(JwtAlgorithm::Hs256), 0).await;
        let none = published(&site).await.expect(404);
        assert_eq!(none.headers["cache-control"], "no-store");
        assert!(!none.body.contains("\"keys\""));
    }
}
