use gatewright_auth::audit::AuditKind;
use serde_json::json;

use super::{INVALID, enroll, enroll_ann, send, site, wrong};
use crate::support::{ANN, Call, databases};

#[tokio::test]
async fn a_code_disables_it() {
    for db in databases().await {
        for by_backup_code in [false, true] {
            let site = super::with(&db, crate::support::config()).await;
            if !by_backup_code {
                site.register_ann().await;
            }
            let ann = enroll_ann(&site).await;
            let code = if by_backup_code { ann.codes[3].clone() } else { ann.app.code(&site) };
            let disabled = send(&site, "disable", &ann.session, &code).await.expect(200);
            assert_eq!(disabled.json(), json!({ "disabled": true }));
            assert_eq!(site.audited().last(), Some(&AuditKind::TwoFactorDisabled));
            assert_eq!(site.me(&ann.session).await.expect(200).json()["twoFactorEnabled"], false);
            assert!(site.login_ann().await.json().get("token").is_some());
            for table in ["two_factor", "two_factor_backup_codes"] {
                let sql = format!("SELECT user_id FROM {table}");
                assert!(db.db.query(sql, vec![]).await.unwrap().is_empty(), "{table}");
            }
        }
    }
}

#[tokio::test]
async fn a_wrong_or_spent_code_disables_nothing() {
    for db in databases().await {
        let site = site(&db).await;
        let ann = enroll_ann(&site).await;
        let spent = ann.app.code(&site);
        let pending = site.login_ann().await;
        send(&site, "challenge", &pending, &spent).await.expect(200);
        for code in [&spent, &wrong(&ann.app, &site), ""] {
            assert_eq!(send(&site, "disable", &ann.session, code).await.expect(401).detail(), INVALID);
        }
        assert_eq!(site.login_ann().await.json()["two_factor_required"], true);
    }
}

#[tokio::test]
async fn without_a_second_factor_disabling_and_new_codes_are_refused() {
    for db in databases().await {
        let site = site(&db).await;
        let session = site.login_ann().await;
        send(&site, "disable", &session, "000000").await.expect(409);
        Call::get("/auth/2fa/backup-codes").cookie_of(&session).send(&site).await.expect(409);
        super::begin(&site, &session).await;
        send(&site, "disable", &session, "000000").await.expect(409);
        Call::post("/auth/2fa/backup-codes").cookie_of(&session).send(&site).await.expect(409);
    }
}

#[tokio::test]
async fn enrolling_again_gives_a_new_secret_and_new_codes() {
    for db in databases().await {
        let site = site(&db).await;
        let first = enroll_ann(&site).await;
        send(&site, "disable", &first.session, &first.app.code(&site)).await.expect(200);
        site.advance(60);
        let second = enroll(&site, first.session).await;
        assert_ne!(first.app.secret, second.app.secret);
        let pending = site.login_ann().await;
        send(&site, "challenge", &pending, &first.codes[0]).await.expect(401);
        send(&site, "challenge", &pending, &first.app.code(&site)).await.expect(401);
        send(&site, "challenge", &pending, &second.codes[0]).await.expect(200);
    }
}

#[tokio::test]
async fn an_operator_removes_the_second_factor_and_it_is_audited() {
    for db in databases().await {
        let site = site(&db).await;
        let ann = enroll_ann(&site).await;
        let accounts = site.auth.accounts();
        let id = accounts.find(ANN).await.unwrap().id;
        assert!(accounts.disable_two_factor(&id).await.unwrap());
        assert!(!accounts.disable_two_factor(&id).await.unwrap(), "there is none any more");
        let disabled: Vec<_> =
            site.audit.events().into_iter().filter(|event| event.kind == AuditKind::TwoFactorDisabled).collect();
        assert_eq!(disabled.len(), 1);
        assert_eq!(disabled[0].user_id.as_ref(), Some(&id));
        site.me(&ann.session).await.expect(200);
        site.login_ann().await.expect(200).token();
    }
}
