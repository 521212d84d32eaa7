use gatewright_auth::audit::AuditKind;
use gatewright_auth::users::{ListUsers, UserStoreError};
use gatewright_auth::{AccountError, AuthConfig};
use gatewright_base::{Secret, UserId};

use crate::support::{ANN, Call, PASSWORD, Site, Users, WRONG, config, databases};

#[tokio::test]
async fn an_account_is_created_found_and_listed() {
    for db in databases().await {
        let site = Site::on(&db).await;
        let accounts = site.auth.accounts();
        let roles = ["admin"].into_iter().collect();
        let ann = accounts.create(" ANN@example.com", Some(Secret::new(PASSWORD)), Some(roles)).await.unwrap();
        let bob = accounts.create("bob@example.com", None, None).await.unwrap();
        assert!(ann.roles.contains("admin") && bob.roles.contains("user"));
        assert!(ann.password_set && !bob.password_set);
        assert_eq!(accounts.find(ANN).await.unwrap().id, ann.id);
        let page = accounts.list(ListUsers::default()).await.unwrap();
        assert_eq!((page.items.len(), page.total), (2, 2));
        assert_eq!(page.items[0].email.as_str(), ANN);
        let taken = accounts.create(ANN, None, None).await;
        assert!(matches!(taken, Err(AccountError::Users(UserStoreError::EmailTaken))));
        let weak = accounts.create("eve@example.com", Some(Secret::new("short")), None).await;
        assert!(matches!(weak, Err(AccountError::Password(_))));
        assert!(matches!(accounts.create("eve", None, None).await, Err(AccountError::Email(_))));
        site.login(ANN, PASSWORD).await.expect(200);
    }
}

#[tokio::test]
async fn a_new_password_ends_what_was_begun_with_the_old_one() {
    for db in databases().await {
        let site = Site::on(&db).await;
        let token = site.register_ann().await.token();
        let session = site.login_ann().await;
        let accounts = site.auth.accounts();
        let ann = accounts.find(ANN).await.unwrap();
        accounts.set_password(&ann.id, Secret::new("another horse battery")).await.unwrap();
        site.me(&session).await.expect(401);
        for token in [token, session.token()] {
            Call::get("/auth/me").bearer(&token).send(&site).await.expect(401);
        }
        site.advance(1);
        site.login(ANN, PASSWORD).await.expect(401);
        let next = site.login(ANN, "another horse battery").await.expect(200);
        site.me(&next).await.expect(200);
        Call::get("/auth/me").bearer(&next.token()).send(&site).await.expect(200);
        assert!(matches!(accounts.set_password(&ann.id, Secret::new("short")).await, Err(AccountError::Password(_))));
    }
}

#[tokio::test]
async fn signing_out_everywhere_takes_effect_at_once_for_one_user_alone() {
    for db in databases().await {
        let site = Site::on(&db).await;
        let token = site.register_ann().await.token();
        site.register("bob@example.com").await;
        let (one, two) = (site.login_ann().await, site.login_ann().await);
        let bob = site.login("bob@example.com", PASSWORD).await;
        let accounts = site.auth.accounts();
        let ann = accounts.find(ANN).await.unwrap();
        assert_eq!(accounts.sign_out_everywhere(&ann.id).await.unwrap(), 2);
        for session in [&one, &two] {
            site.me(session).await.expect(401);
            Call::get("/auth/me").bearer(&session.token()).send(&site).await.expect(401);
        }
        Call::get("/auth/me").bearer(&token).send(&site).await.expect(401);
        site.me(&bob).await.expect(200);
        Call::get("/auth/me").bearer(&bob.token()).send(&site).await.expect(200);
        assert_eq!(site.audited().last(), Some(&AuditKind::SessionRevoked));
        // Within the very moment of the logout, too.
        let next = site.login_ann().await.expect(200);
        site.me(&next).await.expect(200);
        Call::get("/auth/me").bearer(&next.token()).send(&site).await.expect(200);
    }
}

#[tokio::test]
async fn nobody_is_not_found() {
    for db in databases().await {
        let site = Site::on(&db).await;
        let accounts = site.auth.accounts();
        let nobody = UserId::parse("nobody").unwrap();
        let not_found =
            |result: Result<(), AccountError>| matches!(result, Err(AccountError::Users(UserStoreError::NotFound)));
        assert!(not_found(accounts.find(ANN).await.map(|_| ())));
        assert!(not_found(accounts.set_roles(&nobody, &["a"].into_iter().collect()).await));
        assert!(not_found(accounts.set_password(&nobody, Secret::new(WRONG)).await));
        assert!(not_found(accounts.sign_out_everywhere(&nobody).await.map(|_| ())));
    }
}

#[tokio::test]
async fn what_a_hosts_store_cannot_do_is_said_and_not_pretended() {
    let config = AuthConfig { allow_in_memory_stores: true, ..config() };
    let site = Site::with_ambient(config, |builder, ambient| builder.users(Users::new(ambient, false))).await;
    site.register_ann().await;
    let accounts = site.auth.accounts();
    let ann = accounts.find(ANN).await.unwrap();
    assert!(matches!(accounts.list(ListUsers::default()).await, Err(AccountError::ListUsersUnsupported)));
    let set = accounts.set_password(&ann.id, Secret::new(WRONG)).await;
    assert!(matches!(set, Err(AccountError::Unsupported(_))));
    assert!(matches!(accounts.create("bob@example.com", None, None).await, Err(AccountError::Unsupported(_))));
    // Sessions end all the same.
    let session = site.login_ann().await;
    assert_eq!(accounts.sign_out_everywhere(&ann.id).await.unwrap(), 1);
    site.me(&session).await.expect(401);
}
