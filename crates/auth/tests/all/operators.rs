//! Operators and accounts that a stranger may have registered.

use gatewright_auth::plugins::email_verification::EmailVerificationPlugin;
use gatewright_auth::plugins::magic_link::MagicLinkPlugin;
use gatewright_auth::plugins::tokens::TokensPlugin;
use gatewright_auth::plugins::two_factor::TwoFactorPlugin;
use gatewright_auth::{AccountError, AccountName, AuthConfig, Unverified};
use gatewright_base::Secret;
use gatewright_db::testing::TestDb;
use serde_json::json;

use crate::support::{ANN, Call, PASSWORD, Site, config, databases, set_proven};
use crate::two_factor::enroll_ann;

const BY_OPERATOR: &str = "the operator's own password";

async fn site(db: &TestDb) -> Site {
    let config = AuthConfig { public_url: Some("https://app.example.com".parse().unwrap()), ..config() };
    Site::with(config, |builder| {
        let builder = builder.database(db.db.clone()).plugin(TokensPlugin::new()).plugin(TwoFactorPlugin::new("Test"));
        builder.plugin(MagicLinkPlugin::new()).plugin(EmailVerificationPlugin::new())
    })
    .await
}

#[tokio::test]
async fn an_account_that_a_stranger_may_have_registered_is_refused_unless_the_operator_insists() {
    for db in databases().await {
        let site = site(&db).await;
        let accounts = site.auth.accounts();
        site.register_ann().await;
        let id = accounts.find(ANN).await.unwrap().id;
        for name in [AccountName::Address(ANN), AccountName::Address(" Ann@Example.com "), AccountName::Id(&id)] {
            let refused = accounts.resolve(name, Unverified::Refuse).await;
            let error = refused.unwrap_err();
            assert!(matches!(&error, AccountError::Unverified(email) if email.as_str() == ANN), "{name:?}");
            assert!(error.to_string().contains("nobody has confirmed the address ann@example.com"), "{error}");
            assert_eq!(accounts.resolve(name, Unverified::Accept).await.unwrap().id, id);
        }
        set_proven(&db.db, ANN, true).await;
        assert_eq!(
            accounts.resolve(AccountName::Address(ANN), Unverified::Refuse).await.unwrap().id,
            id,
            "{}",
            db.name
        );
        // Those that an operator created.
        for (email, password) in [("bob@example.com", Some(Secret::new(PASSWORD))), ("cid@example.com", None)] {
            let created = accounts.create(email, password, None).await.unwrap();
            assert!(!created.email_verified);
            let found = accounts.resolve(AccountName::Address(email), Unverified::Refuse).await;
            assert_eq!(found.unwrap().id, created.id, "{}", db.name);
            accounts.delete(&created.id).await.unwrap();
        }
        let left = db.db.query("SELECT user_id FROM users_of_operators", vec![]).await.unwrap();
        assert!(left.is_empty(), "a deleted account leaves nothing");
    }
}

/// The stranger has a session, a token and a second factor on the account that an operator gives a password.
#[tokio::test]
async fn a_password_set_by_an_operator_claims_an_account_that_nobody_has_proven() {
    for db in databases().await {
        let site = site(&db).await;
        let accounts = site.auth.accounts();
        site.register_ann().await;
        let stranger = enroll_ann(&site).await;
        let body = json!({ "name": "mine", "scopes": ["*:*"] });
        let call = Call::post("/auth/tokens").json(&body).cookie_of(&stranger.session);
        let token = call.send(&site).await.expect(200).token();
        let id = accounts.find(ANN).await.unwrap().id;
        accounts.set_password(&id, Secret::new(BY_OPERATOR)).await.unwrap();
        site.me(&stranger.session).await.expect(401);
        assert_eq!(Call::get("/whoami").bearer(&token).send(&site).await.json(), "anonymous");
        assert!(!accounts.has_second_factor(&id).await.unwrap(), "{}", db.name);
        site.login(ANN, PASSWORD).await.expect(401);
        site.advance(1);
        let session = site.login(ANN, BY_OPERATOR).await.expect(200);
        // From now on only the operator has put something on it, and the mailbox is not proven.
        let ann = accounts.resolve(AccountName::Address(ANN), Unverified::Refuse).await.unwrap();
        assert!(!ann.email_verified, "an operator does not prove a mailbox");
        let body = json!({ "name": "own", "scopes": ["*:*"] });
        let call = Call::post("/auth/tokens").json(&body).cookie_of(&session);
        let token = call.send(&site).await.expect(200).token();
        accounts.set_password(&id, Secret::new(PASSWORD)).await.unwrap();
        assert_ne!(Call::get("/whoami").bearer(&token).send(&site).await.json(), "anonymous", "{}", db.name);
    }
}

#[tokio::test]
async fn a_password_set_by_an_operator_removes_nothing_else_from_a_proven_account() {
    for db in databases().await {
        let site = site(&db).await;
        let accounts = site.auth.accounts();
        site.register_ann().await;
        set_proven(&db.db, ANN, true).await;
        let owner = enroll_ann(&site).await;
        let id = accounts.find(ANN).await.unwrap().id;
        accounts.set_password(&id, Secret::new(BY_OPERATOR)).await.unwrap();
        assert!(accounts.has_second_factor(&id).await.unwrap(), "{}", db.name);
        site.me(&owner.session).await.expect(401);
    }
}
