//! A token outlives the session that creates it. If its user has a second factor, the session must have proven it.

use gatewright_auth::audit::AuditKind;
use gatewright_auth::plugins::tokens::TokensPlugin;
use gatewright_auth::plugins::two_factor::TwoFactorPlugin;
use serde_json::json;

use super::{issue, list, revoke, token_of};
use crate::support::{Call, Site, config, databases};
use crate::two_factor::{Enrolled, enroll_ann};

/// The attack: a person at an open browser keeps access although its owner turns on a second factor.
#[tokio::test]
async fn a_session_from_before_the_second_factor_creates_no_token() {
    for db in databases().await {
        let site = Site::with(config(), |builder| {
            builder.database(db.db.clone()).plugin(TokensPlugin::new()).plugin(TwoFactorPlugin::new("Test"))
        });
        let site = site.await;
        let open = site.signed_in_ann().await;
        let (_, id) = token_of(&site, &open).await;
        let Enrolled { session, app, .. } = enroll_ann(&site).await;
        let before = site.audited();
        let refused = issue(&site, &open, &json!({ "name": "thief" })).await.expect(403);
        assert_eq!(refused.detail(), "two-factor verification required");
        assert_eq!(refused.json()["code"], "two_factor_required");
        assert_eq!(site.audited(), before);
        assert_eq!(list(&site, &session).await.len(), 1);

        token_of(&site, &session).await;
        let pending = site.login_ann().await.expect(200);
        issue(&site, &pending, &json!({ "name": "half" })).await.expect(403);
        let code = json!({ "code": app.code(&site) });
        let passed = Call::post("/auth/2fa/challenge").json(&code).cookie_of(&pending).send(&site).await.expect(200);
        token_of(&site, &passed).await;

        // Listing and revoking need only a session.
        assert_eq!(list(&site, &open).await.len(), 3);
        revoke(&site, &open, &id).await.expect(204);
        assert!(site.audited().contains(&AuditKind::TokenRevoked));
    }
}
