//! A token's plaintext is only in the one answer that shows it.

use std::time::Duration;

use gatewright_base::Subject;
use serde_json::json;

use super::{issue, list, revoke, site, who};
use crate::support::{ANN, Call, databases};
use gatewright_base::testing::Log;

#[tokio::test]
async fn no_plaintext_is_in_logs_audit_events_answers_errors_or_debug() {
    let log = Log::default();
    let _recording = log.record();
    for db in databases().await {
        let site = site(&db).await;
        let session = site.login_ann().await;
        let issued = issue(&site, &session, &json!({ "name": "CI", "scopes": ["posts:read"] })).await.expect(200);
        let (token, id) = (issued.token(), issued.json()["id"].as_str().unwrap().to_owned());
        let tokens = site.auth.api_tokens().unwrap();
        let ann = site.auth.accounts().find(ANN).await.unwrap();
        let draft = gatewright_auth::tokens::TokenDraft::parse("CI", &[""; 0], 0).unwrap();
        let by_program = tokens.issue(Subject::User(ann.id), draft).await.unwrap();
        let guess = format!("svc_{}", "0123456789".repeat(4));
        let mut shown = vec![format!("{by_program:?} {tokens:?} {:?} {:?}", site.auth, site.auth.service_accounts())];
        who(&site, &token).await;
        shown.push(format!("{:?}", site.presented.lock().clone().unwrap()));
        site.auth.settle(Duration::from_secs(10)).await;
        shown.push(format!("{:?}", list(&site, &session).await));
        shown.push(format!("{:?}", tokens.list(None).await.unwrap()));
        for bad in [&token, &guess] {
            shown.push(format!("{:?}", Call::get("/auth/me").bearer(bad).send(&site).await));
            shown.push(format!("{:?}", issue(&site, &session, &json!({ "name": "CI", "scopes": [bad] })).await.status));
        }
        revoke(&site, &session, &id).await.expect(204);
        who(&site, &token).await;
        who(&site, &guess).await;
        db.db.execute("ALTER TABLE api_tokens RENAME TO elsewhere", vec![]).await.unwrap();
        shown.push(format!("{:?}", Call::get("/auth/me").bearer(&token).send(&site).await.expect(503)));
        shown.push(format!("{:?}", issue(&site, &session, &json!({ "name": "CI" })).await.expect(503)));
        shown.push(format!("{:?}", site.audit.events()));
        shown.push(format!("{:?}", db.db.query("SELECT * FROM elsewhere", vec![]).await.unwrap()));
        let logged = log.text();
        assert!(logged.contains("authentication is unavailable"), "the log is caught: {logged}");
        shown.push(logged);
        for credential in [token.as_str(), by_program.plaintext.expose(), &guess] {
            // What is shown of a token are its first 12 characters.
            for text in &shown {
                assert!(!text.contains(&credential[12..]), "{}: {credential} in {text}", db.name);
            }
        }
    }
}
