use gatewright_auth::AuthBuilder;
use gatewright_auth::plugins::email_change::EmailChangePlugin;

use super::{Place, identity, session, with_public_url};
use crate::support::{ANN, Call, databases};

/// The attack: a stranger creates an account with the owner's address, at a provider that does not verify it.
#[tokio::test]
async fn the_owners_provider_sign_in_ends_a_strangers_access_to_an_unproven_account() {
    for database in databases().await {
        let place = Place::on(&database.db).await;
        let strangers = identity("666", Some(ANN), false);
        let stranger = session(&place.sign_in(&strangers).await.expect(303)).unwrap();
        place.site.advance(1);
        let begun = place.begin("/auth/oauth/beta", "").await;
        let code = place.beta.code(&identity("1", Some(ANN), true));
        let ann = session(&place.back("beta", &begun, &code, "").await.expect(303)).unwrap();
        let me = place.me(&ann).await.expect(200).json();
        assert_eq!((&me["user"]["email"], &me["emailVerified"]), (&ANN.into(), &true.into()));
        let accounts = place.accounts(&ann).await;
        assert_eq!(accounts.len(), 1, "{}: {accounts:?}", database.name);
        assert_eq!(accounts[0]["provider"], "beta");
        place.me(&stranger).await.expect(401);
        // The stranger's identity is unlinked now, and its unverified address still links to nothing.
        place.sign_in(&strangers).await.expect(409);
        let events = place.site.audit.events();
        let verified = events.iter().find(|event| event.kind.name() == "email.verified").unwrap();
        assert_eq!(verified.meta["dropped"], serde_json::json!(["sessions", "provider_links"]));
    }
}

/// The same with a password: the answer explains how to claim the account, and the claim removes the stranger's link.
#[tokio::test]
async fn a_claimed_account_loses_its_links() {
    for database in databases().await {
        let place = Place::on(&database.db).await;
        let stranger = place.ann().await;
        let strangers = identity("666", Some("eve@example.com"), true);
        place.link(&stranger, &strangers).await.expect(303);
        place.site.advance(1);
        let owner = session(&place.by_magic_link(ANN).await.expect(200)).unwrap();
        assert!(place.accounts(&owner).await.is_empty(), "{}", database.name);
        // The stranger's identity now creates its own account.
        let eve = session(&place.sign_in(&strangers).await.expect(303)).unwrap();
        assert_ne!(place.user(&eve).await, place.user(&owner).await);
    }
}

/// A thief has changed an account's address, and its owner signs in by a provider: no new account takes the address, which
/// would lock the owner out.
#[tokio::test]
async fn a_provider_sign_in_creates_no_account_with_a_reserved_address() {
    for database in databases().await {
        let db = database.db.clone();
        let with = |builder: AuthBuilder| builder.database(db).plugin(EmailChangePlugin::new());
        let place = Place::with(with_public_url(), with).await;
        let ann = place.by_magic_link(ANN).await.expect(200).cookie().unwrap();
        let new = "ann@new.example.com";
        let ask = Call::post("/auth/change-email").json(&serde_json::json!({ "email": new })).cookie(&ann);
        ask.send(&place.site).await.expect(200);
        let token = place.newest_token().await;
        let confirm =
            Call::post("/auth/change-email/confirm").json(&serde_json::json!({ "token": token })).cookie(&ann);
        confirm.send(&place.site).await.expect(200);
        let undo = place.newest_token().await;
        for verified in [true, false] {
            place.sign_in(&identity("9", Some(ANN), verified)).await.expect(409);
        }
        assert!(place.site.auth.accounts().find(ANN).await.is_err(), "{}", database.name);
        let undone = Call::post("/auth/change-email/undo").json(&serde_json::json!({ "token": undo }));
        undone.send(&place.site).await.expect(200);
        place.sign_in(&identity("9", Some(ANN), true)).await.expect(303);
    }
}
