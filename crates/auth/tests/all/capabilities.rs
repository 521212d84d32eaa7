//! What a host's store lacks, and what follows: a row of the table of store capabilities for each test, beside those that
//! stand with the feature they are about.
//!
//! | Capability | Test |
//! |---|---|
//! | email verifier, password setter | `mailed::capabilities` |
//! | session 2FA marker, session pending marker | `second_factor` |
//! | user lister, user disabler | here |
//! | links, enriched links, user creator, token refresher, account lister and unlinker, password checker | `oauth` |

use std::sync::Arc;

use gatewright_auth::plugins::tokens::{TokenDraft, TokensPlugin};
use gatewright_auth::users::{ListUsers, MemoryUserStore};
use gatewright_auth::{AccountError, AuthConfig};
use gatewright_base::Subject;
use serde_json::json;

use crate::support::{ANN, Call, Sessions, Site, Users, config};

/// A site over a host's stores that can do what is required and no more.
async fn bare() -> (Site, Arc<Users>) {
    let mut users = None;
    let config = AuthConfig { allow_in_memory_stores: true, ..config() };
    let site = Site::with_ambient(config, |builder, ambient| {
        users = Some(Users::new(ambient, false));
        let sessions = Sessions::new(ambient, false);
        builder.users(users.clone().unwrap()).sessions(sessions).plugin(TokensPlugin::new())
    })
    .await;
    site.register_ann().await;
    (site, users.unwrap())
}

#[tokio::test]
async fn without_a_user_lister_listing_is_unsupported_and_never_empty() {
    let (site, _) = bare().await;
    let error = site.auth.accounts().list(ListUsers::default()).await.unwrap_err();
    assert!(matches!(error, AccountError::ListUsersUnsupported));
    assert!(error.to_string().starts_with("list-users unsupported"), "{error}");
    // With one, the same store lists.
    let config = AuthConfig { allow_in_memory_stores: true, ..config() };
    let able =
        Site::with_ambient(config, |builder, ambient| builder.users(Arc::new(MemoryUserStore::new(ambient.clone()))))
            .await;
    able.register_ann().await;
    assert_eq!(able.auth.accounts().list(ListUsers::default()).await.unwrap().total, 1);
}

#[tokio::test]
async fn without_a_user_disabler_disabling_is_unsupported() {
    let (site, _) = bare().await;
    let ann = site.auth.accounts().find(ANN).await.unwrap();
    for error in [site.auth.accounts().disable(&ann.id).await, site.auth.accounts().enable(&ann.id).await] {
        assert!(matches!(error, Err(AccountError::Unsupported(_))));
    }
    site.login_ann().await.expect(200);
}

/// Sign-in, tokens and service accounts ask for no more than the four operations.
#[tokio::test]
async fn four_operations_are_enough_for_sign_in_and_tokens() {
    let (site, users) = bare().await;
    let session = site.login_ann().await.expect(200);
    site.me(&session).await.expect(200);
    let call = Call::post("/auth/tokens").json(&json!({ "name": "CI", "scopes": ["*:*"] })).cookie_of(&session);
    let token = call.send(&site).await.expect(200).token();
    let who = async |token: &str| Call::get("/whoami").bearer(token).send(&site).await.expect(200).json();
    assert_eq!(who(&token).await["credential"], "ApiToken");
    let robot = site.auth.service_accounts().unwrap().create("robot", ["r"].into_iter().collect()).await.unwrap();
    let draft = TokenDraft::parse("robot", &[""; 0], 0).unwrap();
    let of_robot = site.auth.api_tokens().unwrap().issue(Subject::Service(robot.id), draft).await.unwrap();
    assert_eq!(who(of_robot.plaintext.expose()).await["roles"], json!(["r"]));

    // Roles, and the end of the account, count at once.
    let ann = site.auth.accounts().find(ANN).await.unwrap();
    site.auth.accounts().set_roles(&ann.id, &["editor"].into_iter().collect()).await.unwrap();
    assert_eq!(who(&token).await["roles"], json!(["editor"]));
    users.inner.delete(&ann.id);
    assert_eq!(who(&token).await, "anonymous");
    assert_eq!(who(&session.token()).await, "anonymous");
    site.me(&session).await.expect(401);
}

/// A host that cannot be reached is not a host without the owner.
#[tokio::test]
async fn a_token_whose_owner_cannot_be_looked_up_is_503() {
    let (site, users) = bare().await;
    let session = site.login_ann().await;
    let call = Call::post("/auth/tokens").json(&json!({ "name": "CI" })).cookie_of(&session);
    let token = call.send(&site).await.expect(200).token();
    users.down.store(true, std::sync::atomic::Ordering::SeqCst);
    let answer = Call::get("/whoami").bearer(&token).send(&site).await.expect(503);
    assert!(!answer.body.contains("canary"), "{answer:?}");
    users.down.store(false, std::sync::atomic::Ordering::SeqCst);
    Call::get("/whoami").bearer(&token).send(&site).await.expect(200);
}
