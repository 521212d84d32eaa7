//! No credential in logs, audit events, errors or `Debug`: every one of them is a canary here.

use std::sync::Arc;

use gatewright_auth::password::PasswordAlgorithm;
use gatewright_base::Secret;
use gatewright_db::params;
use serde_json::json;

use crate::support::{Call, Factor, FakeFactor, Site, config, databases};
use gatewright_base::testing::Log;

const PASSWORD: &str = "canary-password-1";
const OTHER: &str = "canary-password-2";
const SECRET: &str = "canary-jwt-secret-of-more-than-32-bytes";

#[tokio::test]
async fn no_credential_is_in_logs_answers_or_debug() {
    let log = Log::default();
    // For the whole process: hashing and databases log from threads of their own.
    log.record_process();
    for db in databases().await {
        let mut config = config();
        config.jwt.secret = Secret::new(SECRET);
        let factor = FakeFactor::default();
        let shown = format!("{config:?}");
        let site = Site::with(config.clone(), |builder| {
            builder.database(db.db.clone()).second_factor(Arc::new(factor.clone()))
        })
        .await
        .and_screens();
        let mut bodies = vec![shown, format!("{:?}", site.auth)];
        let mut credentials = vec![PASSWORD.to_owned(), OTHER.to_owned(), SECRET.to_owned()];

        let given = json!({ "email": "ann@example.com", "password": PASSWORD });
        let registered = Call::post("/auth/register").json(&given).send(&site).await.expect(200);
        site.advance(1);
        let login = site.login("ann@example.com", PASSWORD).await.expect(200);
        credentials.extend([registered.token(), login.token()]);
        let cookie = login.cookie().unwrap();
        credentials.push(cookie.split_once('=').unwrap().1.to_owned());
        let device = crate::devices::device_of(&login).unwrap();
        credentials.push(device.split_once('=').unwrap().1.to_owned());
        // Every failure, each with a credential.
        for answer in [
            site.login("ann@example.com", OTHER).await,
            site.login(OTHER, PASSWORD).await,
            site.login("nobody@example.com", PASSWORD).await,
            Call::post("/auth/login").form(&[("email", "x"), ("password", PASSWORD)]).send(&site).await,
            Call::post("/auth/login")
                .body("application/json", format!("{{\"password\":\"{PASSWORD}\""))
                .send(&site)
                .await,
            Call::post("/auth/login")
                .json(&json!({ "email": [PASSWORD], "password": { "a": OTHER } }))
                .send(&site)
                .await,
            Call::post("/auth/register").json(&given).send(&site).await,
            Call::get("/whoami").bearer(&format!("{}x", login.token())).send(&site).await,
            site.me(&login).await,
            Call::get("/auth/me").bearer(&login.token()).send(&site).await,
        ] {
            bodies.push(format!("{answer:?}"));
        }
        factor.set(Factor::Broken);
        bodies.push(format!("{:?}", site.login("ann@example.com", PASSWORD).await.expect(500)));
        factor.set(Factor::Absent);
        // A hash that cannot be read, and one that is renewed.
        let hash: String = db
            .db
            .query_opt("SELECT password_hash FROM users", params![])
            .await
            .unwrap()
            .unwrap()
            .get("password_hash")
            .unwrap();
        credentials.push(hash);
        config.password = PasswordAlgorithm::Bcrypt { cost: 5 };
        let changed = Site::with(config, |builder| builder.database(db.db.clone())).await;
        changed.login("ann@example.com", PASSWORD).await.expect(200);
        db.db.execute("UPDATE users SET password_hash = ?1", params!["canary-broken-hash"]).await.unwrap();
        bodies.push(format!("{:?}", changed.login("ann@example.com", PASSWORD).await.expect(401)));
        credentials.push("canary-broken-hash".to_owned());
        Call::post("/auth/logout").cookie_of(&login).send(&site).await.expect(204);

        // A second factor: its secret, its backup codes, and codes that are wrong.
        let fresh = databases().await;
        let factored = crate::two_factor::site(fresh.iter().find(|other| other.name == db.name).unwrap()).await;
        let ann = crate::two_factor::enroll_ann(&factored).await;
        credentials.extend(ann.codes.iter().cloned().chain([ann.app.secret.clone(), "canary-wrong-code".to_owned()]));
        let pending = factored.login_ann().await.expect(200);
        for code in ["canary-wrong-code", &ann.codes[0], &ann.codes[0]] {
            let call = Call::post("/auth/2fa/challenge").json(&json!({ "code": code })).cookie_of(&pending);
            bodies.push(call.send(&factored).await.body);
        }
        bodies.push(format!("{:?} {:?}", factored.auth, factored.audit.events()));

        // Providers: codes, client secrets and tokens.
        let (shown, secrets) = crate::providers::in_trouble().await;
        bodies.extend(shown);
        credentials.extend(secrets);

        bodies.push(format!("{:?}", site.audit.events()));
        bodies.push(format!("{:?}", changed.audit.events()));
        bodies.push(log.text());
        assert!(bodies.last().unwrap().contains("cannot be read"), "the log was caught");
        for credential in &credentials {
            for body in &bodies {
                assert!(!body.contains(credential.as_str()), "{credential} in {body}");
            }
        }
    }
}
