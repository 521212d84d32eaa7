//! What becomes of API tokens when a mailbox is proven.

use gatewright_auth::audit::AuditKind;
use serde_json::json;

use super::{NEW_PASSWORD, Place};
use crate::support::{ANN, databases};

#[tokio::test]
async fn the_first_magic_link_drops_the_tokens_of_the_unproven_account() {
    for database in databases().await {
        let place = Place::with_tokens(&database.db).await;
        // Eve registers Ann's address, leaves a token behind, and waits.
        let session = place.site.signed_in_ann().await;
        let eves = place.issue(&session).await;
        assert!(place.is_good(&eves).await);
        place.site.advance(1);
        let link = place.magic_token(ANN).await;
        let ann = place.redeem(&link).await.expect(200);
        assert!(!place.is_good(&eves).await, "{}", database.name);
        let events = place.site.audit.events();
        let verified = events.iter().find(|event| event.kind == AuditKind::EmailVerified).unwrap();
        assert!(verified.meta["dropped"].as_array().unwrap().contains(&json!("api_tokens")), "{verified:?}");

        // From now on the mailbox is Ann's, and so are her tokens.
        let anns = place.issue(&ann).await;
        place.site.advance(1);
        let link = place.magic_token(ANN).await;
        place.redeem(&link).await.expect(200);
        assert!(place.is_good(&anns).await);
    }
}

#[tokio::test]
async fn a_password_reset_of_a_proven_account_ends_its_tokens() {
    for database in databases().await {
        let place = Place::with_tokens(&database.db).await;
        let session = place.site.signed_in_ann().await;
        let verification = place.verification_token(&session, ANN).await;
        place.verify_email(&session, &verification).await.expect(200);
        let token = place.issue(&session).await;
        let link = place.reset_token(ANN).await;
        place.reset(&link, NEW_PASSWORD).await.expect(200);
        place.site.me(&session).await.expect(401);
        assert!(!place.is_good(&token).await, "{}", database.name);
    }
}
