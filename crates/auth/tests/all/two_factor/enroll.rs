use std::collections::HashSet;
use std::sync::Arc;

use axum::Extension;
use base64::Engine as _;
use gatewright_auth::AuthConfig;
use gatewright_auth::audit::AuditKind;
use gatewright_auth::plugins::two_factor::{MemoryTwoFactorStore, TwoFactorPlugin, TwoFactorStore};
use gatewright_base::JsonCase;
use gatewright_db::{Engine, params};
use serde_json::json;

use super::{INVALID, REQUIRED, begin, call, enroll, enroll_ann, send, site, text, wrong};
use crate::support::{ANN, Call, Sessions, Site, Users, config, databases};

#[tokio::test]
async fn enrolling_shows_the_secret_its_address_and_its_picture() {
    for db in databases().await {
        let site = site(&db).await;
        let session = site.login_ann().await;
        let begun = Call::post("/auth/2fa/enroll").cookie_of(&session).send(&site).await.expect(200);
        assert_eq!(begun.headers["cache-control"], "no-store");
        let body = begun.json();
        assert_eq!(body.as_object().unwrap().len(), 3);
        let (secret, url, qr) = (text(&body["secret"]), text(&body["url"]), text(&body["qr"]));
        assert!(secret.len() == 32 && secret.chars().all(|c| matches!(c, 'A'..='Z' | '2'..='7')));
        let url = url::Url::parse(&url).unwrap();
        assert_eq!((url.scheme(), url.host_str(), url.path()), ("otpauth", Some("totp"), "/Blog:ann%40example.com"));
        assert!(url.query_pairs().any(|pair| pair == ("secret".into(), secret.clone().into())));
        let encoded = qr.strip_prefix("data:image/svg+xml;base64,").unwrap();
        let svg = base64::engine::general_purpose::STANDARD.decode(encoded).unwrap();
        assert!(String::from_utf8(svg).unwrap().contains("<svg"));
    }
}

#[tokio::test]
async fn an_unfinished_enrollment_neither_protects_nor_locks_out() {
    for db in databases().await {
        let site = site(&db).await;
        begin(&site, &site.login_ann().await).await;
        let again = site.login_ann().await.expect(200);
        assert!(again.json().get("token").is_some());
        assert_eq!(site.me(&again).await.expect(200).json()["twoFactorEnabled"], false);
    }
}

#[tokio::test]
async fn a_first_code_enables_it_and_verifies_the_session() {
    for db in databases().await {
        let site = site(&db).await;
        let session = site.login_ann().await;
        let app = begin(&site, &session).await;
        let verified = send(&site, "verify", &session, &app.code(&site)).await.expect(200).json();
        assert_eq!((verified.as_object().unwrap().len(), &verified["enabled"]), (2, &json!(true)));
        let codes: HashSet<String> = verified["backupCodes"].as_array().unwrap().iter().map(text).collect();
        assert_eq!(codes.len(), 10);
        assert_eq!(site.me(&session).await.expect(200).json()["twoFactorEnabled"], true);
        let row = db.db.query_opt("SELECT two_factor_verified FROM sessions", vec![]).await.unwrap().unwrap();
        assert!(row.get::<bool>("two_factor_verified").unwrap());
        assert_eq!(site.audited().last(), Some(&AuditKind::TwoFactorEnrolled));
    }
}

#[tokio::test]
async fn the_keys_follow_the_configured_case() {
    for db in databases().await {
        let mut site = site(&db).await;
        site.router = site.router.layer(Extension(JsonCase::Snake));
        let session = site.login_ann().await;
        let app = begin(&site, &session).await;
        let verified = send(&site, "verify", &session, &app.code(&site)).await.expect(200).json();
        assert_eq!(verified["backup_codes"].as_array().unwrap().len(), 10);
        let fresh = Call::get("/auth/2fa/backup-codes").cookie_of(&session).send(&site).await.expect(200).json();
        assert_eq!(fresh["backup_codes"].as_array().unwrap().len(), 10);
    }
}

#[tokio::test]
async fn a_wrong_code_enables_nothing() {
    for db in databases().await {
        let site = site(&db).await;
        let session = site.login_ann().await;
        let app = begin(&site, &session).await;
        for code in [&wrong(&app, &site), "", "12345", "0123456", "aaaaaa", "0000-0000-0000-0000"] {
            let refused = send(&site, "verify", &session, code).await.expect(401);
            assert_eq!((refused.detail().as_str(), refused.json()["code"].as_str()), (INVALID, Some("invalid_code")));
        }
        assert!(site.login_ann().await.json().get("token").is_some());
        assert_eq!(site.audited().iter().filter(|kind| **kind == AuditKind::TwoFactorChallengeFailed).count(), 6);
        send(&site, "verify", &session, &app.code(&site)).await.expect(200);
    }
}

#[tokio::test]
async fn enrolling_twice_is_a_conflict_and_keeps_the_first_secret() {
    for db in databases().await {
        let site = site(&db).await;
        let ann = enroll_ann(&site).await;
        Call::post("/auth/2fa/enroll").cookie_of(&ann.session).send(&site).await.expect(409);
        send(&site, "verify", &ann.session, &ann.app.code(&site)).await.expect(409);
        let pending = site.login_ann().await;
        send(&site, "challenge", &pending, &ann.app.code(&site)).await.expect(200);
    }
}

#[tokio::test]
async fn verifying_needs_an_enrollment_that_was_begun_and_only_the_latest_counts() {
    for db in databases().await {
        let site = site(&db).await;
        let session = site.login_ann().await;
        send(&site, "verify", &session, "000000").await.expect(409);
        let first = begin(&site, &session).await;
        let second = begin(&site, &session).await;
        send(&site, "verify", &session, &first.code(&site)).await.expect(401);
        send(&site, "verify", &session, &second.code(&site)).await.expect(200);
    }
}

#[tokio::test]
async fn the_code_of_the_enrollment_is_spent() {
    for db in databases().await {
        let site = site(&db).await;
        let session = site.login_ann().await;
        let app = begin(&site, &session).await;
        let code = app.code(&site);
        send(&site, "verify", &session, &code).await.expect(200);
        let pending = site.login_ann().await;
        send(&site, "challenge", &pending, &code).await.expect(401);
        send(&site, "challenge", &pending, &app.code_in(&site, -1)).await.expect(401);
        send(&site, "challenge", &pending, &app.code_in(&site, 1)).await.expect(200);
    }
}

#[tokio::test]
async fn jwts_from_before_are_refused_and_sessions_live_on() {
    for db in databases().await {
        let site = site(&db).await;
        let before = site.login_ann().await;
        let ann = enroll_ann(&site).await;
        Call::get("/auth/me").bearer(&before.token()).send(&site).await.expect(401);
        Call::get("/auth/me").bearer(&ann.session.token()).send(&site).await.expect(401);
        site.me(&before).await.expect(200);
        site.me(&ann.session).await.expect(200);
    }
}

#[tokio::test]
async fn a_session_from_before_the_enrollment_does_not_pass() {
    for db in databases().await {
        let site = site(&db).await;
        let before = site.login_ann().await;
        let ann = enroll_ann(&site).await;
        let code = ann.app.code(&site);
        for call in [
            Call::post("/auth/2fa/enroll"),
            call("verify", &code),
            call("disable", &code),
            call("disable", &ann.codes[0]),
            Call::get("/auth/2fa/backup-codes"),
            Call::post("/auth/2fa/backup-codes"),
        ] {
            let refused = call.cookie_of(&before).send(&site).await.expect(403);
            assert_eq!(
                (refused.detail().as_str(), refused.json()["code"].as_str()),
                (REQUIRED, Some("two_factor_required"))
            );
        }
        // Neither a code nor an attempt was spent on them; the next step is to sign in again.
        let pending = site.login_ann().await;
        let passed = send(&site, "challenge", &pending, &code).await.expect(200);
        Call::post("/auth/2fa/backup-codes").cookie_of(&passed).send(&site).await.expect(200);
    }
}

#[tokio::test]
async fn a_new_factor_invalidates_verifications_of_the_former_one() {
    for db in databases().await {
        let site = site(&db).await;
        let first = enroll_ann(&site).await;
        let accounts = site.auth.accounts();
        let id = accounts.find(ANN).await.unwrap().id;
        assert!(accounts.disable_two_factor(&id).await.unwrap());
        let second = enroll(&site, site.login_ann().await).await;
        Call::get("/auth/2fa/backup-codes").cookie_of(&first.session).send(&site).await.expect(403);
        Call::get("/auth/2fa/backup-codes").cookie_of(&second.session).send(&site).await.expect(200);
    }
}

#[tokio::test]
async fn only_an_authenticated_session_manages_the_second_factor() {
    for db in databases().await {
        let site = site(&db).await;
        let registered = site.register("bob@example.com").await;
        let calls = || {
            [
                Call::post("/auth/2fa/enroll"),
                call("verify", "000000"),
                call("challenge", "000000"),
                call("disable", "000000"),
                Call::get("/auth/2fa/backup-codes"),
                Call::post("/auth/2fa/backup-codes"),
            ]
        };
        for call in calls() {
            call.send(&site).await.expect(401);
        }
        let signed_in = site.login_ann().await;
        for call in calls() {
            // Beside a cookie, too, the header is what the caller chose.
            call.bearer(&registered.token()).cookie_of(&signed_in).send(&site).await.expect(401);
        }
    }
}

#[tokio::test]
async fn a_pending_session_manages_nothing() {
    for db in databases().await {
        let site = site(&db).await;
        let ann = enroll_ann(&site).await;
        let pending = site.login_ann().await;
        for call in [
            Call::post("/auth/2fa/enroll"),
            call("verify", &ann.app.code(&site)),
            call("disable", &ann.app.code(&site)),
            Call::get("/auth/2fa/backup-codes"),
            Call::post("/auth/2fa/backup-codes"),
            Call::get("/auth/me"),
            Call::get("/auth/sessions"),
            Call::get("/session"),
        ] {
            assert_eq!(call.cookie_of(&pending).send(&site).await.expect(403).detail(), REQUIRED);
        }
        send(&site, "challenge", &pending, &ann.app.code(&site)).await.expect(200);
    }
}

/// The guard could never pass, so an enrolled user would be locked out.
#[tokio::test]
async fn an_enrollment_that_cannot_be_finished_is_undone() {
    let store = Arc::new(MemoryTwoFactorStore::new());
    let given = store.clone();
    let config = AuthConfig { allow_in_memory_stores: true, ..config() };
    let site = Site::with_ambient(config, |builder, ambient| {
        let (users, sessions) = (Users::new(ambient, true), Sessions::new(ambient, false));
        builder.users(users).sessions(sessions).plugin(TwoFactorPlugin::new("Blog").store(given))
    })
    .await;
    let session = site.signed_in_ann().await;
    let app = begin(&site, &session).await;
    send(&site, "verify", &session, &app.code(&site)).await.expect(500);
    let id = site.auth.accounts().find(ANN).await.unwrap().id;
    assert!(store.find(&id).await.unwrap().is_none());
    site.login_ann().await.expect(200).token();
}

/// A factor that is enabled without its session would be one whose backup codes nobody has seen.
#[tokio::test]
async fn an_enrollment_whose_session_cannot_be_marked_changes_nothing() {
    for db in databases().await {
        let site = site(&db).await;
        let session = site.login_ann().await.expect(200);
        let app = begin(&site, &session).await;
        let is_sqlite = db.db.engine() == Engine::Sqlite;
        let (create, drop): (&[&str], _) = if is_sqlite {
            let trigger = "CREATE TRIGGER refuses BEFORE UPDATE OF two_factor_verified ON sessions \
                           BEGIN SELECT RAISE(ABORT, 'a test'); END";
            (&[trigger], "DROP TRIGGER refuses")
        } else {
            let function = "CREATE FUNCTION refuses() RETURNS trigger LANGUAGE plpgsql \
                            AS 'BEGIN RAISE EXCEPTION ''a test''; END'";
            let trigger = "CREATE TRIGGER refuses BEFORE UPDATE OF two_factor_verified ON sessions \
                           FOR EACH ROW EXECUTE FUNCTION refuses()";
            (&[function, trigger], "DROP TRIGGER refuses ON sessions")
        };
        for statement in create {
            db.db.execute(*statement, params![]).await.unwrap();
        }
        assert!(send(&site, "verify", &session, &app.code(&site)).await.status.is_server_error(), "{}", db.name);
        let rows = db.db.query("SELECT enabled FROM two_factor", params![]).await.unwrap();
        let enabled: Vec<bool> = rows.iter().map(|row| row.get("enabled").unwrap()).collect();
        let codes = db.db.query("SELECT user_id FROM two_factor_backup_codes", params![]).await.unwrap();
        assert_eq!((enabled, codes.len()), (vec![false], 0), "{}", db.name);
        Call::get("/auth/me").bearer(&session.token()).send(&site).await.expect(200);
        // The same enrollment is confirmed afterwards, with the same code.
        db.db.execute(drop, params![]).await.unwrap();
        send(&site, "verify", &session, &app.code(&site)).await.expect(200);
        Call::get("/auth/me").bearer(&session.token()).send(&site).await.expect(401);
    }
}
