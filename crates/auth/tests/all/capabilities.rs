//! What happens if a custom store lacks a capability: a row of the table of store capabilities for each test, except those
//! that are tested with their feature.
//!
//! | Capability | Test |
//! |---|---|
//! | email verifier, password setter | `mailed::capabilities` |
//! | session 2FA marker, session pending marker | `second_factor` |
//! | user lister, user disabler, user deleter, email changer, profiles, invitations | here |
//! | users within transactions | `invitations::outside` without, `invitations::attacks` with |
//! | tenants within transactions | `invitations::outside` |
//! | links, enriched links, user creator, token refresher, account lister and unlinker, password checker | `oauth` |

use std::sync::Arc;

use gatewright_auth::plugins::account_deletion::AccountDeletionPlugin;
use gatewright_auth::plugins::account_export::AccountExportPlugin;
use gatewright_auth::plugins::email_change::EmailChangePlugin;
use gatewright_auth::plugins::invitations::InvitationsPlugin;
use gatewright_auth::plugins::profile::{ProfileFields, ProfilePlugin};
use gatewright_auth::plugins::tokens::TokensPlugin;
use gatewright_auth::tokens::TokenDraft;
use gatewright_auth::users::{ListUsers, MemoryUserStore};
use gatewright_auth::{AccountError, Auth, AuthConfig, Registration};
use gatewright_base::Subject;
use gatewright_http::Problem;
use http::Method;
use serde_json::{Map, Value, json};

use crate::mailed::Post;
use crate::support::{ANN, Call, PASSWORD, Sessions, Site, Users, config, databases, invitation};

/// A site over custom stores with only the required operations.
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

/// Sign-in, tokens and service accounts need only the four operations.
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

/// A store that cannot be reached is not a store without the owner.
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

#[tokio::test]
async fn without_a_user_deleter_there_is_no_way_to_delete_an_account() {
    let (site, _) = bare().await;
    let ann = site.auth.accounts().find(ANN).await.unwrap();
    assert!(matches!(site.auth.accounts().delete(&ann.id).await, Err(AccountError::Unsupported(_))));
    assert!(matches!(site.auth.accounts().request_deletion(&ann.id).await, Err(AccountError::Unsupported(_))));
    site.login_ann().await.expect(200);
    let config = || AuthConfig { allow_in_memory_stores: true, ..config() };
    let bare = Auth::builder(config()).users(Users::new(&site.ambient, false)).plugin(AccountDeletionPlugin);
    let error = bare.build().await.err().unwrap().to_string();
    assert!(error.starts_with("the account_deletion plugin needs a user store with a user deleter"), "{error}");
    // A store in memory, without a database: the account is removed, and nothing is left to sweep.
    let able = Site::with_ambient(config(), |builder, ambient| {
        builder.users(Arc::new(MemoryUserStore::new(ambient.clone()))).plugin(AccountDeletionPlugin)
    })
    .await;
    let session = able.signed_in_ann().await;
    let call = Call::post("/auth/delete-account").json(&json!({ "password": PASSWORD })).cookie_of(&session);
    call.send(&able).await.expect(200);
    able.me(&session).await.expect(401);
    able.login_ann().await.expect(401);
    assert_eq!(able.auth.sweep().await, 0);
}

#[tokio::test]
async fn without_an_email_changer_there_is_no_change_of_email() {
    let (ambient, _) = gatewright_base::Ambient::manual("2026-01-02T03:04:05Z".parse().unwrap(), 96);
    let public_url = Some("https://app.example.com".parse().unwrap());
    let config = AuthConfig { allow_in_memory_stores: true, public_url, ..config() };
    let builder = Auth::builder(config).users(Users::new(&ambient, true)).plugin(EmailChangePlugin::new());
    let error = builder.build().await.err().unwrap().to_string();
    assert!(error.starts_with("the email_change plugin needs a user store with an email changer"), "{error}");
}

/// Fields of a host's own: any text under `word`.
pub(crate) struct OneWord;

impl ProfileFields for OneWord {
    fn merge(&self, _: Option<&str>, body: &[u8], _: bool) -> Result<String, Problem> {
        let body: Value = serde_json::from_slice(body).map_err(|_| Problem::bad_request("no JSON"))?;
        Ok(body["profile"]["word"].as_str().ok_or_else(|| Problem::unprocessable("no word"))?.to_owned())
    }

    fn shown(&self, stored: Option<&str>) -> Map<String, Value> {
        Map::from_iter([("word".to_owned(), stored.into())])
    }
}

#[tokio::test]
async fn without_profiles_in_the_user_store_no_fields_are_declared() {
    let (ambient, _) = gatewright_base::Ambient::manual("2026-01-02T03:04:05Z".parse().unwrap(), 97);
    let config = || AuthConfig { allow_in_memory_stores: true, ..config() };
    let plugin = || ProfilePlugin::new(Arc::new(OneWord));
    let error = Auth::builder(config()).users(Users::new(&ambient, true)).plugin(plugin()).build().await;
    let error = error.err().unwrap().to_string();
    assert!(error.starts_with("the profile plugin needs a user store with profiles"), "{error}");
    // A store in memory has them, but no table that records could be joined with.
    let able = Site::with_ambient(config(), |builder, ambient| {
        builder.users(Arc::new(MemoryUserStore::new(ambient.clone()))).plugin(plugin())
    })
    .await;
    assert_eq!(able.auth.profile_table(), None);
    let session = able.signed_in_ann().await;
    assert_eq!(session.json()["user"]["profile"], json!({ "word": null }));
    let change =
        async |body: Value| Call::new(Method::PATCH, "/auth/me").json(&body).cookie_of(&session).send(&able).await;
    change(json!({ "profile": { "word": 5 } })).await.expect(422);
    let changed = change(json!({ "profile": { "word": "hello" } })).await.expect(200);
    assert_eq!(changed.json()["user"]["profile"], json!({ "word": "hello" }));
    let me = able.me(&session).await.expect(200).json();
    assert_eq!(me["user"]["profile"], json!({ "word": "hello" }));
}

/// Data that a store cannot list is left out of the export; the rest is there.
#[tokio::test]
async fn four_operations_are_enough_for_an_export() {
    let config = AuthConfig { allow_in_memory_stores: true, ..config() };
    let site = Site::with_ambient(config, |builder, ambient| {
        builder.users(Users::new(ambient, false)).plugin(TokensPlugin::new()).plugin(AccountExportPlugin)
    })
    .await;
    let session = site.signed_in_ann().await;
    let all = Call::get("/auth/export").cookie_of(&session).send(&site).await.expect(200).json();
    assert_eq!((all["account"]["email"].as_str(), &all["records"]), (Some(ANN), &json!({})));
    assert_eq!((&all["audit"], &all["apiTokens"]), (&json!([]), &json!([])));
}

/// Invitations are in the service's database, also with a custom user store. Without an email verifier no mailbox is marked as proven.
#[tokio::test]
async fn four_operations_are_enough_for_invitations() {
    for db in databases().await {
        for able in [false, true] {
            let post = Arc::new(Post::default());
            let public_url = Some("https://app.example.com".parse().unwrap());
            let config = AuthConfig { public_url, registration: Registration::Invite, ..config() };
            let site = Site::with_ambient(config, |builder, ambient| {
                let builder = builder.users(Users::new(ambient, able)).database(db.db.clone()).mailer(post.clone());
                builder.plugin(InvitationsPlugin::new())
            })
            .await;
            let accounts = site.auth.accounts();
            let invited = async |email: &str, role: &str| {
                let link =
                    accounts.invite(invitation(email).roles(Some([role].into_iter().collect()))).await.unwrap().link;
                link.expose().split_once("?invite=").unwrap().1.to_owned()
            };
            let register = async |email: &str, invite: &str| {
                let body = json!({ "email": email, "password": PASSWORD, "invite": invite });
                Call::post("/auth/register").json(&body).send(&site).await.status.as_u16()
            };
            let token = invited(ANN, "editor").await;
            assert_eq!(register("eve@example.com", &token).await, 403, "for its address alone");
            assert_eq!(register(ANN, &token).await, 200, "{}", db.name);
            assert_ne!(register("eve@example.com", &token).await, 200, "it was used");
            let ann = accounts.find(ANN).await.unwrap();
            assert!(ann.roles.contains("editor"));
            assert_eq!(ann.email_verified, able, "{}", db.name);
            site.advance(1);
            let session = site.login_ann().await.expect(200);
            let accept =
                Call::post("/auth/invitations/accept").json(&json!({ "invite": invited(ANN, "auditor").await }));
            accept.cookie_of(&session).send(&site).await.expect(200);
            let roles = accounts.find(ANN).await.unwrap().roles;
            assert!(roles.contains("editor") && roles.contains("auditor"), "{roles:?}");
        }
    }
    let config = AuthConfig { allow_in_memory_stores: true, ..config() };
    let (ambient, _) = gatewright_base::Ambient::manual("2026-01-02T03:04:05Z".parse().unwrap(), 98);
    let bare = Auth::builder(config).users(Users::new(&ambient, true)).plugin(InvitationsPlugin::new());
    let error = bare.build().await.err().unwrap().to_string();
    assert!(error.contains("invitations") && error.contains("they need a database"), "{error}");
}
