use std::sync::Arc;

use async_trait::async_trait;
use gatewright_auth::plugins::accounts::AccountsPlugin;
use gatewright_auth::plugins::oauth::OAuthPlugin;
use gatewright_auth::providers::tokens::MemoryOAuthTokenStore;
use gatewright_auth::session::MemorySessionStore;
use gatewright_auth::users::{
    AccountLister, AccountUnlinker, LastLink, Linked, LinkedAccount, MemoryUserStore, NewPasswordlessUser, NewUser,
    OAuthLinks, PasswordlessUsers, ProviderLink, Unlinked, User, UserStore, UserStoreError, UserWithHash,
};
use gatewright_auth::{Auth, AuthConfig, AuthInitError, EmailAddress};
use gatewright_base::{Ambient, Roles, Secret, UserId};

use super::{Begun, Fake, STATE_SECRET, cookies, identity, with_public_url};
use crate::support::{ANN, Call, Sessions, Site, Users};

fn oauth(secret: &str) -> OAuthPlugin {
    OAuthPlugin::new(Secret::new(secret)).provider(Arc::new(Fake::new("alpha")))
}

async fn build(config: AuthConfig, plugin: OAuthPlugin, able: bool) -> Result<Auth, AuthInitError> {
    let ambient = Ambient::manual(jiff::Timestamp::UNIX_EPOCH, 1).0;
    let builder = Auth::builder(config).sessions(Sessions::new(&ambient, true)).plugin(plugin);
    if able {
        let users = MemoryUserStore::new(ambient);
        return builder.users(Arc::new(users)).build().await;
    }
    builder.users(Users::new(&ambient, true)).build().await
}

#[tokio::test]
async fn a_store_without_links_refuses_the_start_outside_dev_mode() {
    let error = build(with_public_url(), oauth(STATE_SECRET), false).await.unwrap_err();
    assert!(matches!(error, AuthInitError::MissingCapability { plugin: "oauth", .. }), "{error}");
    let dev = AuthConfig { dev_mode: true, ..with_public_url() };
    assert!(build(dev, oauth(STATE_SECRET), false).await.is_ok());
    let allowed = AuthConfig { allow_in_memory_stores: true, ..with_public_url() };
    assert!(build(allowed, oauth(STATE_SECRET), false).await.is_ok());
}

#[tokio::test]
async fn a_flow_without_links_fails_at_its_start() {
    let config = AuthConfig { dev_mode: true, ..with_public_url() };
    let site = Site::with_ambient(config, |builder, ambient| {
        let sessions = MemorySessionStore::new(ambient.clone());
        builder.users(Users::new(ambient, true)).sessions(Arc::new(sessions)).plugin(oauth(STATE_SECRET))
    });
    Call::get("/auth/oauth/alpha").send(&site.await).await.expect(500);
}

#[tokio::test]
async fn accounts_need_a_store_that_lists_and_unlinks() {
    let ambient = Ambient::manual(jiff::Timestamp::UNIX_EPOCH, 1).0;
    let builder = Auth::builder(AuthConfig { dev_mode: true, ..with_public_url() });
    let builder = builder.users(Users::new(&ambient, true)).plugin(AccountsPlugin);
    let error = builder.build().await.unwrap_err();
    assert!(error.to_string().contains("account lister"), "{error}");
}

#[tokio::test]
async fn a_provider_outside_dev_mode_needs_a_good_state_secret() {
    for secret in ["", "short"] {
        assert!(build(with_public_url(), oauth(secret), true).await.is_err(), "{secret}");
        assert!(build(AuthConfig { dev_mode: true, ..with_public_url() }, oauth(secret), true).await.is_ok());
    }
    let no_providers = OAuthPlugin::new(Secret::new(""));
    assert!(build(with_public_url(), no_providers, true).await.is_ok());
}

#[tokio::test]
async fn provider_names_are_plain_and_unique() {
    for name in ["", "Alpha", "a/b", "a b", "link?", "..", "\u{e9}"] {
        let plugin = OAuthPlugin::new(Secret::new(STATE_SECRET)).provider(Arc::new(Fake::new(name)));
        assert!(build(with_public_url(), plugin, true).await.is_err(), "{name}");
    }
    let twice = oauth(STATE_SECRET).provider(Arc::new(Fake::new("alpha")));
    assert!(build(with_public_url(), twice, true).await.unwrap_err().to_string().contains("two providers"));
    let no_address = AuthConfig { public_url: None, ..with_public_url() };
    assert!(build(no_address, oauth(STATE_SECRET), true).await.unwrap_err().to_string().contains("public_url"));
}

#[tokio::test]
async fn a_token_store_without_a_key_refuses_the_start() {
    let with_store = |plugin: OAuthPlugin| plugin.token_store(Arc::new(MemoryOAuthTokenStore::new()));
    let config = || AuthConfig { dev_mode: true, ..with_public_url() };
    let key = |text: &str| oauth(STATE_SECRET).tokens(Secret::new(text), Vec::new());
    for plugin in [with_store(oauth(STATE_SECRET)), with_store(key("")), key("")] {
        let error = build(config(), plugin, true).await.unwrap_err();
        assert!(matches!(error, AuthInitError::MissingTokenEncryptionKey), "{error}");
    }
    assert!(build(config(), with_store(key("a key")), true).await.is_ok());
}

/// A custom user store: it links identities, and has no other capability.
struct Linking(MemoryUserStore);

#[async_trait]
impl UserStore for Linking {
    async fn find_by_email(&self, email: &EmailAddress) -> Result<UserWithHash, UserStoreError> {
        self.0.find_by_email(email).await
    }
    async fn find_by_id(&self, id: &UserId) -> Result<User, UserStoreError> {
        self.0.find_by_id(id).await
    }
    async fn create(&self, user: NewUser) -> Result<User, UserStoreError> {
        self.0.create(user).await
    }
    async fn update_roles(&self, id: &UserId, roles: &Roles) -> Result<(), UserStoreError> {
        self.0.update_roles(id, roles).await
    }
    fn oauth_links(self: Arc<Self>) -> Option<Arc<dyn OAuthLinks>> {
        Some(self)
    }
    fn account_lister(self: Arc<Self>) -> Option<Arc<dyn AccountLister>> {
        Some(self)
    }
    fn account_unlinker(self: Arc<Self>) -> Option<Arc<dyn AccountUnlinker>> {
        Some(self)
    }
}

#[async_trait]
impl OAuthLinks for Linking {
    async fn find_linked(&self, provider: &str, provider_id: &str) -> Result<Option<User>, UserStoreError> {
        self.0.find_linked(provider, provider_id).await
    }
    async fn link(&self, user: &User, link: &ProviderLink) -> Result<Linked, UserStoreError> {
        self.0.link(user, link).await
    }
    async fn drop_links(&self, user: &UserId) -> Result<u64, UserStoreError> {
        self.0.drop_links(user).await
    }
}

#[async_trait]
impl AccountLister for Linking {
    async fn linked_accounts(&self, user: &UserId) -> Result<Vec<LinkedAccount>, UserStoreError> {
        self.0.linked_accounts(user).await
    }
}

#[async_trait]
impl AccountUnlinker for Linking {
    async fn unlink(&self, user: &UserId, provider: &str, last: LastLink<'_>) -> Result<Unlinked, UserStoreError> {
        self.0.unlink(user, provider, last).await
    }
}

#[tokio::test]
async fn a_store_that_only_links_works_and_keeps_the_last_link() {
    let config = AuthConfig { dev_mode: true, ..with_public_url() };
    let alpha = Fake::new("alpha");
    let plugin = OAuthPlugin::new(Secret::new(STATE_SECRET)).provider(Arc::new(alpha.clone()));
    let site = Site::with_ambient(config, |builder, ambient| {
        let sessions = MemorySessionStore::new(ambient.clone());
        let users = Arc::new(Linking(MemoryUserStore::new(ambient.clone())));
        builder.users(users).sessions(Arc::new(sessions)).plugin(plugin).plugin(AccountsPlugin)
    })
    .await;
    let mut users = Vec::new();
    for _ in 0..2 {
        let begun = Begun::of(&Call::get("/auth/oauth/alpha").send(&site).await.expect(303));
        let code = alpha.code(&identity("1", Some(ANN), true));
        let path = format!("/auth/oauth/alpha/callback?code={code}&state={}", begun.state);
        let back = Call::get(&path).cookie(&begun.cookie).send(&site).await.expect(303);
        let session = cookies(&back).into_iter().find(|line| line.starts_with("session_id=")).unwrap();
        let session = session.split(';').next().unwrap().to_owned();
        let me = Call::get("/auth/me").cookie(&session).send(&site).await.expect(200).json();
        users.push(me["user"]["id"].clone());
        // Without a password checker, one link must remain.
        let unlink = Call::new(http::Method::DELETE, "/auth/unlink/alpha").cookie(&session);
        unlink.send(&site).await.expect(409);
    }
    assert_eq!(users[0], users[1]);
}

/// Such a store cannot record that a mailbox was proven; the person who proves it signs in nevertheless.
#[tokio::test]
async fn a_store_that_only_links_binds_an_account_without_a_password() {
    let config = AuthConfig { dev_mode: true, ..with_public_url() };
    let alpha = Fake::new("alpha");
    let plugin = OAuthPlugin::new(Secret::new(STATE_SECRET)).provider(Arc::new(alpha.clone()));
    let mut users = None;
    let site = Site::with_ambient(config, |builder, ambient| {
        let own = Arc::new(Linking(MemoryUserStore::new(ambient.clone())));
        users = Some(own.clone());
        builder.users(own).sessions(Arc::new(MemorySessionStore::new(ambient.clone()))).plugin(plugin)
    })
    .await;
    let users = users.unwrap();
    let email = EmailAddress::parse(ANN).unwrap();
    let ann = NewPasswordlessUser { email, roles: Roles::default(), email_verified: false };
    let ann = users.0.create_passwordless(ann).await.unwrap();
    let begun = Begun::of(&Call::get("/auth/oauth/alpha").send(&site).await.expect(303));
    let code = alpha.code(&identity("1", Some(ANN), true));
    let path = format!("/auth/oauth/alpha/callback?code={code}&state={}", begun.state);
    Call::get(&path).cookie(&begun.cookie).send(&site).await.expect(303);
    assert_eq!(users.0.find_linked("alpha", "1").await.unwrap().map(|user| user.id), Some(ann.id));
}
