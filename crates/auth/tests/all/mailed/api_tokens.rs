//! What becomes of API tokens when a mailbox is proven.

use gatewright_auth::audit::AuditKind;
use gatewright_auth::plugins::tokens::TokensPlugin;
use gatewright_db::Db;
use serde_json::json;

use super::{NEW_PASSWORD, Place, plugins, with_public_url};
use crate::support::{ANN, Answer, Call, databases};

async fn place(db: &Db) -> Place {
    Place::with(with_public_url(), |builder| plugins(builder).plugin(TokensPlugin::new()).database(db.clone())).await
}

async fn issue(place: &Place, session: &Answer) -> String {
    let call = Call::post("/auth/tokens").json(&json!({ "name": "CI" })).cookie_of(session);
    call.send(&place.site).await.expect(200).token()
}

async fn is_good(place: &Place, token: &str) -> bool {
    Call::get("/whoami").bearer(token).send(&place.site).await.expect(200).json() != "anonymous"
}

#[tokio::test]
async fn the_first_magic_link_drops_the_tokens_of_whoever_registered_the_address() {
    for database in databases().await {
        let place = place(&database.db).await;
        // Eve registers Ann's address, leaves a token behind, and waits.
        place.site.register_ann().await;
        let session = place.site.login_ann().await;
        let eves = issue(&place, &session).await;
        assert!(is_good(&place, &eves).await);
        place.site.advance(1);
        let link = place.magic_token(ANN).await;
        let ann = place.redeem(&link).await.expect(200);
        assert!(!is_good(&place, &eves).await, "{}", database.name);
        let events = place.site.audit.events();
        let verified = events.iter().find(|event| event.kind == AuditKind::EmailVerified).unwrap();
        assert!(verified.meta["dropped"].as_array().unwrap().contains(&json!("api_tokens")), "{verified:?}");

        // From now on the mailbox is Ann's, and so are her tokens.
        let anns = issue(&place, &ann).await;
        place.site.advance(1);
        let link = place.magic_token(ANN).await;
        place.redeem(&link).await.expect(200);
        assert!(is_good(&place, &anns).await);
    }
}

#[tokio::test]
async fn a_password_reset_of_a_proven_account_leaves_tokens_alone() {
    for database in databases().await {
        let place = place(&database.db).await;
        place.site.register_ann().await;
        let session = place.site.login_ann().await;
        let verification = place.verification_token(&session, ANN).await;
        place.verify_email(&session, &verification).await.expect(200);
        let token = issue(&place, &session).await;
        let link = place.reset_token(ANN).await;
        place.reset(&link, NEW_PASSWORD).await.expect(200);
        place.site.me(&session).await.expect(401);
        assert!(is_good(&place, &token).await, "{}", database.name);
    }
}
