//! A mailed token is a credential: it is only in the mail and in the page that its owner opened.

use std::sync::atomic::Ordering;

use super::{NEW_PASSWORD, Place, VERIFY};
use crate::support::{ANN, Call, databases};
use gatewright_base::testing::Log;

#[tokio::test]
async fn no_token_is_in_logs_audit_events_answers_or_debug() {
    let log = Log::default();
    let _recording = log.record();
    for database in databases().await {
        let place = Place::on(&database.db).await;
        let session = place.site.signed_in_ann().await;
        let verification = place.verification_token(&session, ANN).await;
        let reset = place.reset_token(ANN).await;
        let unused = place.magic_token(ANN).await;
        let magic = place.magic_token(ANN).await;
        let mut shown = vec![format!("{:?} {:?}", place.site.auth, place.mails().await)];
        shown.push(place.scan(&verification).await.expect(200).body);
        shown.push(place.verify_email(&session, &verification).await.expect(200).body);
        shown.push(place.reset(&reset, NEW_PASSWORD).await.expect(200).body);
        shown.push(place.reset(&reset, NEW_PASSWORD).await.expect(401).body);
        shown.push(place.redeem(&magic).await.expect(200).body);
        shown.push(place.redeem(&magic).await.expect(401).body);
        shown.push(Call::get(&format!("{VERIFY}?token={magic}")).send(&place.site).await.expect(401).body);
        place.post.fails.store(true, Ordering::SeqCst);
        let body = serde_json::json!({ "email": ANN });
        shown.push(Call::post(super::FORGOT).json(&body).send(&place.site).await.expect(200).body);
        place.mails().await;
        shown.push(format!("{:?}", place.site.audit.events()));
        let logged = log.text();
        assert!(logged.contains("canary-mail-host is down"), "the log is caught: {logged}");
        shown.push(logged);
        for token in [&verification, &reset, &unused, &magic] {
            for text in &shown {
                assert!(!text.contains(token.as_str()), "{}: {token} in {text}", database.name);
            }
        }
    }
}
