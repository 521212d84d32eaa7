use std::sync::Arc;

use async_trait::async_trait;
use gatewright_auth::audit::{AuditEvent, AuditKind, AuditSink};
use gatewright_auth::plugins::tokens::TokensPlugin;
use gatewright_auth::users::BoxError;
use gatewright_db::params;
use serde_json::{Value, json};

use crate::support::{ANN, Call, Site, WRONG, config, databases};

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
async fn a_failing_or_panicking_sink_does_not_break_logins() {
    struct Bad(bool);
    #[async_trait]
    impl AuditSink for Bad {
        async fn record(&self, _: AuditEvent) -> Result<(), BoxError> {
            assert!(!self.0, "a bug in the host's sink");
            Err("the disk is full".into())
        }
    }
    for db in databases().await {
        for panics in [false, true] {
            let site =
                Site::with(config(), |builder| builder.database(db.db.clone()).audit(Arc::new(Bad(panics)))).await;
            if !panics {
                site.register_ann().await;
            }
            let session = site.login_ann().await.expect(200);
            site.login(ANN, WRONG).await.expect(401);
            Call::post("/auth/logout").cookie_of(&session).send(&site).await.expect(204);
        }
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
