use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use async_trait::async_trait;
use gatewright_auth::audit::{AuditEvent, AuditKind, AuditSink, SqlAuditSink};
use gatewright_auth::plugins::tokens::TokensPlugin;
use gatewright_auth::plugins::two_factor::TwoFactorPlugin;
use gatewright_auth::users::BoxError;
use gatewright_base::Ambient;
use gatewright_db::params;
use gatewright_db::testing::TestDb;
use serde_json::{Value, json};

use crate::support::{ANN, Answer, Call, PASSWORD, Site, WRONG, config, databases};
use crate::two_factor::Authenticator;

#[tokio::test]
async fn the_table_records_what_happened_to_whom_from_where() {
    for db in databases().await {
        let site = Site::with(config(), |builder| builder.database(db.db.clone()).audit_to_database()).await;
        let id = site.register_ann().await.json()["user"]["id"].clone();
        site.login(ANN, WRONG).await.expect(401);
        site.advance(1);
        site.login("nobody@example.com", WRONG).await.expect(401);
        site.advance(1);
        let session = site.login_ann().await.expect(200);
        site.advance(1);
        Call::post("/auth/logout").cookie_of(&session).send(&site).await.expect(204);
        let sql = "SELECT kind, user_id, remote, meta FROM audit_log ORDER BY created_at, id";
        let rows = db.db.query(sql, params![]).await.unwrap();
        let told: Vec<(String, Option<String>, String, Value)> = rows
            .iter()
            .map(|row| {
                let meta: String = row.get("meta").unwrap();
                let meta = serde_json::from_str(&meta).unwrap();
                (row.get("kind").unwrap(), row.get("user_id").unwrap(), row.get("remote").unwrap(), meta)
            })
            .collect();
        let ann = id.as_str().map(str::to_owned);
        let expected = [
            ("register.succeeded", ann.clone()),
            ("login.failed", ann.clone()),
            ("login.failed", None),
            ("login.succeeded", ann.clone()),
            ("session.revoked", ann),
        ];
        let kinds: Vec<_> = told.iter().map(|(kind, user, _, _)| (kind.as_str(), user.clone())).collect();
        assert_eq!(kinds, expected);
        assert!(told.iter().all(|(_, _, remote, _)| remote == "203.0.113.7"));
        assert_eq!(told[2].3, json!({ "reason": "invalid credentials", "email": "nobody@example.com" }));
    }
}

#[tokio::test]
async fn refused_tokens_are_recorded_by_prefix_and_limited_in_number() {
    for db in databases().await {
        let site = Site::with(config(), |builder| {
            builder.database(db.db.clone()).plugin(TokensPlugin::new()).audit_to_database()
        })
        .await;
        let refused = async |token: &str| {
            Call::get("/whoami").bearer(token).send(&site).await.expect(200);
        };
        for token in ["svc_11111111aaaa", "svc_22222222aaaa", "svc_11111111bbbb"] {
            refused(token).await;
        }
        let rows = async || {
            let sql = "SELECT meta FROM audit_log WHERE kind = 'token.auth_failed'";
            let rows = db.db.query(sql, params![]).await.unwrap();
            let mut metas: Vec<String> = rows.iter().map(|row| row.get("meta").unwrap()).collect();
            metas.sort();
            metas.iter().map(|meta| serde_json::from_str::<Value>(meta).unwrap()).collect::<Vec<_>>()
        };
        let told: Vec<_> = rows().await.iter().map(|meta| (meta["token"].clone(), meta["count"].clone())).collect();
        assert!(told.contains(&(json!("svc_11111111"), json!(2))), "{told:?}");
        assert!(told.contains(&(json!("svc_22222222"), Value::Null)) && told.len() == 2, "{told:?}");
        for guess in 0..150 {
            refused(&format!("svc_{guess:08}")).await;
        }
        assert_eq!(rows().await.len(), 99, "100 are audited, of which two are one row");
    }
}

#[tokio::test]
async fn a_failing_or_panicking_sink_refuses_sign_ins_and_breaks_nothing_else() {
    struct Bad(bool, Arc<AtomicBool>);
    #[async_trait]
    impl AuditSink for Bad {
        async fn record(&self, _: AuditEvent) -> Result<(), BoxError> {
            let fails = self.1.load(Ordering::Relaxed);
            assert!(!self.0 || !fails, "a bug in the host's sink");
            if fails { Err("the disk is full".into()) } else { Ok(()) }
        }
    }
    for db in databases().await {
        for panics in [false, true] {
            let fails = Arc::new(AtomicBool::new(false));
            let sink = Arc::new(Bad(panics, fails.clone()));
            let site = Site::with(config(), |builder| builder.database(db.db.clone()).audit(sink)).await;
            if !panics {
                site.register_ann().await;
            }
            let session = site.login_ann().await.expect(200);
            fails.store(true, Ordering::Relaxed);
            let refused = site.login_ann().await.expect(503);
            assert_eq!(refused.cookie(), None);
            site.login(ANN, WRONG).await.expect(401);
            let sessions = Call::get("/auth/sessions").cookie_of(&session).send(&site).await.expect(200);
            assert_eq!(sessions.json()["sessions"].as_array().unwrap().len(), 1, "no session of the refused one");
            Call::post("/auth/logout").cookie_of(&session).send(&site).await.expect(204);
            fails.store(false, Ordering::Relaxed);
            let session = site.login_ann().await.expect(200);
            Call::post("/auth/logout").cookie_of(&session).send(&site).await.expect(204);
        }
    }
}

/// Makes every statement on the audit log fail, or puts it back.
async fn break_log(db: &TestDb, is_broken: bool) {
    let (from, to) = if is_broken { ("audit_log", "audit_away") } else { ("audit_away", "audit_log") };
    db.db.execute(format!("ALTER TABLE {from} RENAME TO {to}"), params![]).await.unwrap();
}

#[tokio::test]
async fn what_gives_access_or_changes_a_credential_is_refused_while_the_audit_log_cannot_be_written() {
    for db in databases().await {
        let site = Site::with(config(), |builder| {
            let builder = builder.database(db.db.clone()).audit_to_database();
            builder.plugin(TokensPlugin::new()).plugin(TwoFactorPlugin::new("Blog"))
        })
        .await;
        site.register_ann().await;
        let session = site.login_ann().await.expect(200);
        let begun = Call::post("/auth/2fa/enroll").json(&json!({})).cookie_of(&session).send(&site).await.expect(200);
        let app = Authenticator::new(begun.json()["secret"].as_str().unwrap());
        let code = app.code(&site);
        let token = json!({ "name": "CI" });
        let change = json!({ "currentPassword": PASSWORD, "password": "another horse battery" });
        let doors = [
            ("/auth/login", json!({ "email": ANN, "password": PASSWORD }), "login.succeeded", 200),
            ("/auth/tokens", token, "token.created", 200),
            ("/auth/2fa/verify", json!({ "code": code }), "2fa.enrolled", 200),
            ("/auth/2fa/backup-codes", json!({}), "2fa.backup_codes_regenerated", 200),
            ("/auth/change-password", change, "password.reset_completed", 200),
        ];
        // A sign-in with the cookie of a session would end it.
        let send = |path: &str, body: &Value, session: &Answer| {
            let call = Call::post(path).json(body);
            if path == "/auth/login" { call } else { call.cookie_of(session) }
        };
        for (path, body, kind, _) in &doors {
            // What is asked of a factor that is not there yet.
            if *kind == "2fa.backup_codes_regenerated" {
                continue;
            }
            break_log(&db, true).await;
            let refused = send(path, body, &session).send(&site).await;
            assert_eq!(refused.status, 503, "{path}: {}", refused.body);
            assert!(!refused.body.contains("audit"), "{}", refused.body);
            break_log(&db, false).await;
        }
        // Nothing has changed: the password is the old one, there is no token and no factor.
        assert_eq!(site.login_ann().await.expect(200).json().get("two_factor_required"), None);
        let tokens = Call::get("/auth/tokens").cookie_of(&session).send(&site).await.expect(200);
        assert_eq!(tokens.json()["tokens"], json!([]));
        for (path, body, kind, status) in &doors {
            let done = send(path, body, &session).send(&site).await;
            assert_eq!(done.status, *status, "{path}: {}", done.body);
            let sql = "SELECT meta FROM audit_log WHERE kind = ?1 ORDER BY created_at, id";
            let rows = db.db.query(sql, params![*kind]).await.unwrap();
            let metas: Vec<String> = rows.iter().map(|row| row.get("meta").unwrap()).collect();
            let expected = if *kind == "login.succeeded" { 3 } else { 1 };
            assert_eq!(metas.len(), expected, "{kind}: {metas:?}");
            assert!(metas.iter().all(|meta| !meta.contains("pending")), "{kind}: {metas:?}");
        }
        // What ends access is never refused.
        let session = site.login(ANN, "another horse battery").await.expect(200);
        break_log(&db, true).await;
        Call::post("/auth/logout").cookie_of(&session).send(&site).await.expect(204);
        break_log(&db, false).await;
    }
}

#[tokio::test]
async fn the_event_of_an_act_that_was_refused_is_removed() {
    for db in databases().await {
        let sink = SqlAuditSink::new(db.db.clone(), Ambient::system());
        let _tables = Site::with(config(), |builder| builder.database(db.db.clone()).audit_to_database()).await;
        let event = || AuditEvent::new(AuditKind::PasskeyAdded, jiff::Timestamp::UNIX_EPOCH).with("name", "key");
        let metas = async || {
            let rows = db.db.query("SELECT meta FROM audit_log", params![]).await.unwrap();
            rows.iter().map(|row| row.get::<String>("meta").unwrap()).collect::<Vec<_>>()
        };
        let id = sink.begin(&event()).await.unwrap().expect("it is stored");
        assert!(metas().await[0].contains("pending"));
        sink.settle(&id, None).await.unwrap();
        assert_eq!(metas().await, Vec::<String>::new());
        let id = sink.begin(&event()).await.unwrap().unwrap();
        sink.settle(&id, Some(event().with("dropped", 2))).await.unwrap();
        let meta: Value = serde_json::from_str(&metas().await[0]).unwrap();
        assert_eq!(meta, json!({ "name": "key", "dropped": 2 }));
    }
}

#[tokio::test]
async fn text_typed_into_the_wrong_field_is_not_recorded() {
    for db in databases().await {
        let site = Site::on(&db).await;
        site.login("my secret password", WRONG).await.expect(401);
        let events = site.audit.events();
        assert_eq!(events[0].kind, AuditKind::LoginFailed);
        assert_eq!(events[0].meta.get("email"), None);
    }
}
