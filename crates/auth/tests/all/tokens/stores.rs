use std::sync::Arc;

use futures_util::future::join_all;
use gatewright_auth::plugins::tokens::TokensPlugin;
use gatewright_auth::service_accounts::{
    MemoryServiceAccountStore, ServiceAccount, ServiceAccountStore, SqlServiceAccountStore,
};
use gatewright_auth::tokens::{Delegation, MemoryTokenStore, Plaintext, SqlTokenStore, StoredToken, TokenStore};
use gatewright_auth::users::MemoryUserStore;
use gatewright_auth::{Auth, AuthConfig};
use gatewright_base::{Ambient, Id, Scopes, ServiceId, Subject, TokenId, UserId};
use gatewright_db::testing::TestDb;
use jiff::{SignedDuration, Timestamp};

use crate::support::{config, databases};

type Stores = Vec<(&'static str, Arc<dyn TokenStore>, Arc<dyn ServiceAccountStore>)>;

/// Every built-in store, with the databases that some of them lie in.
async fn stores() -> (Vec<TestDb>, Stores) {
    let databases = databases().await;
    let mut stores: Stores =
        vec![("memory", Arc::new(MemoryTokenStore::new()), Arc::new(MemoryServiceAccountStore::new()))];
    for db in &databases {
        // Building makes the tables.
        super::site(db).await;
        let services = Arc::new(SqlServiceAccountStore::new(db.db.clone()));
        stores.push((db.name, Arc::new(SqlTokenStore::new(db.db.clone())), services));
    }
    (databases, stores)
}

fn user(id: &str) -> Subject {
    Subject::User(UserId::parse(id).unwrap())
}

fn at(seconds: i64) -> Timestamp {
    Timestamp::from_second(1_700_000_000 + seconds).unwrap()
}

fn token(ambient: &Ambient, owner: Subject, created: i64) -> (StoredToken, Plaintext) {
    let plaintext = Plaintext::generate(ambient);
    let token = StoredToken {
        id: TokenId::generate(ambient),
        name: "CI ☃".to_owned(),
        prefix: plaintext.prefix(),
        owner,
        scopes: ["posts:read", "*:*"].iter().map(|scope| scope.parse().unwrap()).collect::<Scopes>(),
        created_at: at(created),
        expires_at: Some(at(created + 60)),
        last_used_at: None,
        revoked_at: None,
        delegation: None,
    };
    (token, plaintext)
}

fn ambient() -> Ambient {
    Ambient::manual(at(0), 11).0
}

#[tokio::test]
async fn a_stored_token_is_read_back_unchanged() {
    let (_databases, stores) = stores().await;
    let ambient = ambient();
    for (name, store, _) in stores {
        let (mut kept, plaintext) = token(&ambient, user("ann"), 1);
        let (endless, other) = token(&ambient, Subject::Service(ServiceId::parse("ann").unwrap()), 2);
        let endless = StoredToken { expires_at: None, scopes: Scopes::default(), ..endless };
        assert!(store.create(&kept, &plaintext.hash(), None).await.unwrap());
        assert!(store.create(&endless, &other.hash(), None).await.unwrap());
        assert_eq!(store.find(&plaintext.hash()).await.unwrap().as_ref(), Some(&kept), "{name}");
        assert_eq!(store.find(&other.hash()).await.unwrap().as_ref(), Some(&endless), "{name}");
        assert_eq!(store.find(&Plaintext::generate(&ambient).hash()).await.unwrap(), None, "{name}");
        assert_eq!(store.list(None).await.unwrap(), [endless.clone(), kept.clone()], "{name}: the newest first");
        assert_eq!(store.list(Some(&user("ann"))).await.unwrap(), [kept.clone()], "{name}: by kind and id");

        store.touch(&[(kept.id.clone(), at(9)), (endless.id.clone(), at(3))]).await.unwrap();
        store.touch(&[(kept.id.clone(), at(8)), (Id::parse("gone").unwrap(), at(8))]).await.unwrap();
        kept.last_used_at = Some(at(9));
        assert_eq!(store.find(&plaintext.hash()).await.unwrap().as_ref(), Some(&kept), "{name}: the latest use stays");

        assert!(!store.revoke(Some(&user("bob")), &kept.id, at(10)).await.unwrap(), "{name}");
        assert!(store.revoke(Some(&user("ann")), &kept.id, at(10)).await.unwrap(), "{name}");
        assert!(!store.revoke(Some(&user("ann")), &kept.id, at(11)).await.unwrap(), "{name}");
        kept.revoked_at = Some(at(10));
        assert_eq!(store.find(&plaintext.hash()).await.unwrap().as_ref(), Some(&kept), "{name}: remembered");
        assert_eq!(store.list(None).await.unwrap().len(), 1, "{name}");
        assert!(store.revoke(None, &endless.id, at(12)).await.unwrap(), "{name}");
    }
}

#[tokio::test]
async fn all_tokens_of_one_owner_are_revoked_and_no_others() {
    let (_databases, stores) = stores().await;
    let ambient = ambient();
    for (name, store, _) in stores {
        for (owner, created) in [("ann", 1), ("ann", 2), ("bob", 3)] {
            let (kept, plaintext) = token(&ambient, user(owner), created);
            assert!(store.create(&kept, &plaintext.hash(), None).await.unwrap());
        }
        assert_eq!(store.revoke_all(&user("ann"), at(9)).await.unwrap(), 2, "{name}");
        assert_eq!(store.revoke_all(&user("ann"), at(9)).await.unwrap(), 0, "{name}");
        assert_eq!(store.list(None).await.unwrap().len(), 1, "{name}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn one_of_twenty_parallel_revocations_or_creations_succeeds() {
    let (_databases, stores) = stores().await;
    let ambient = ambient();
    for (name, store, services) in stores {
        let (kept, plaintext) = token(&ambient, user("ann"), 1);
        assert!(store.create(&kept, &plaintext.hash(), None).await.unwrap());
        let revoked = join_all((0..20).map(|_| store.revoke(None, &kept.id, at(2)))).await;
        assert_eq!(revoked.into_iter().filter(|won| *won.as_ref().unwrap()).count(), 1, "{name}");
        let accounts: Vec<_> = (0..20).map(|_| account(&ambient, "robot")).collect();
        let created = join_all(accounts.iter().map(|account| services.create(account))).await;
        assert_eq!(created.into_iter().filter(|won| *won.as_ref().unwrap()).count(), 1, "{name}");
        assert_eq!(services.list().await.unwrap().len(), 1, "{name}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn parallel_creations_never_exceed_the_limit_of_their_owner() {
    let (_databases, stores) = stores().await;
    let ambient = ambient();
    for (name, store, _) in stores {
        let create = async |created: i64| {
            let (kept, plaintext) = token(&ambient, user("ann"), created);
            store.create(&kept, &plaintext.hash(), Some(5)).await.unwrap()
        };
        let created = join_all((0..20).map(|_| create(1))).await;
        assert_eq!(created.iter().filter(|stored| **stored).count(), 5, "{name}");
        // Those of other owners and of programs do not count.
        let (other, plaintext) = token(&ambient, user("bob"), 1);
        assert!(store.create(&other, &plaintext.hash(), Some(1)).await.unwrap(), "{name}");
        let (mut delegated, plaintext) = token(&ambient, user("bob"), 1);
        let text = || "x".to_owned();
        delegated.delegation = Some(Delegation { client: text(), grant: text(), audience: text(), tenant: None });
        assert!(store.create(&delegated, &plaintext.hash(), None).await.unwrap(), "{name}");
        assert_eq!(store.list(None).await.unwrap().len(), 6, "{name}");
        // All of Ann's expire after a minute, and the first call revokes them.
        let created = join_all((0..20).map(|_| create(61))).await;
        assert_eq!(created.iter().filter(|stored| **stored).count(), 5, "{name}");
        assert_eq!(store.list(Some(&user("ann"))).await.unwrap().len(), 5, "{name}");
        assert_eq!(store.list(Some(&user("bob"))).await.unwrap(), [other], "{name}");
    }
}

#[tokio::test]
async fn revoked_tokens_are_removed_after_ninety_days() {
    for db in databases().await {
        super::site(&db).await;
        let (store, ambient) = (SqlTokenStore::new(db.db.clone()), ambient());
        let (old, plaintext) = token(&ambient, user("ann"), 1);
        let (kept, _) = token(&ambient, user("ann"), 1);
        for token in [&old, &kept] {
            assert!(store.create(token, &Plaintext::generate(&ambient).hash(), None).await.unwrap());
        }
        store.revoke(None, &old.id, at(2)).await.unwrap();
        let rows = async || db.db.query("SELECT id FROM api_tokens", vec![]).await.unwrap().len();
        let days = |days: i64| SignedDuration::from_hours(days * 24).as_secs();
        let (later, other) = token(&ambient, user("ann"), days(89));
        assert!(store.create(&later, &other.hash(), None).await.unwrap());
        assert_eq!(rows().await, 3, "still remembered");
        let (later, _) = token(&ambient, user("ann"), days(91));
        assert!(store.create(&later, &plaintext.hash(), None).await.unwrap());
        assert_eq!(rows().await, 3, "the revoked one is gone, those that are not revoked stay");
    }
}

fn account(ambient: &Ambient, name: &str) -> ServiceAccount {
    ServiceAccount {
        id: ServiceId::generate(ambient),
        name: name.to_owned(),
        roles: ["editor", "käse \"quoted\""].into_iter().collect(),
        disabled: false,
        created_at: at(0),
    }
}

#[tokio::test]
async fn a_stored_service_account_is_read_back_unchanged() {
    let (_databases, stores) = stores().await;
    let ambient = ambient();
    for (name, _, services) in stores {
        let mut robot = account(&ambient, "robot");
        assert!(services.create(&robot).await.unwrap(), "{name}");
        assert!(!services.create(&account(&ambient, "robot")).await.unwrap(), "{name}");
        assert_eq!(services.find(&robot.id).await.unwrap().as_ref(), Some(&robot), "{name}");
        assert_eq!(services.find_by_name("robot").await.unwrap().as_ref(), Some(&robot), "{name}");
        assert_eq!(services.find_by_name("Robot").await.unwrap(), None, "{name}");
        assert!(services.set_disabled(&robot.id, true, at(1)).await.unwrap(), "{name}");
        robot.disabled = true;
        assert_eq!(services.list().await.unwrap(), [robot], "{name}");
        let unknown = ServiceId::parse("nobody").unwrap();
        assert!(!services.set_disabled(&unknown, true, at(1)).await.unwrap(), "{name}");
        assert_eq!(services.find(&unknown).await.unwrap(), None, "{name}");
    }
}

#[tokio::test]
async fn tokens_in_memory_need_dev_mode_or_permission() {
    for db in databases().await {
        let plugins: [fn() -> TokensPlugin; 2] = [
            || TokensPlugin::new().store(Arc::new(MemoryTokenStore::new())),
            || TokensPlugin::new().service_accounts(Arc::new(MemoryServiceAccountStore::new())),
        ];
        for plugin in plugins {
            let build = |config: AuthConfig| Auth::builder(config).database(db.db.clone()).plugin(plugin()).build();
            let refused = build(config()).await.unwrap_err().to_string();
            assert!(refused.contains("API token") && refused.contains("allow_in_memory_stores"), "{refused}");
            build(AuthConfig { dev_mode: true, ..config() }).await.unwrap();
            build(AuthConfig { allow_in_memory_stores: true, ..config() }).await.unwrap();
        }
    }
    // Without a database they are in memory whether one says so or not.
    let db = databases().await.remove(0);
    let ambient = ambient();
    let sessions = gatewright_auth::session::SqlSessionStore::new(db.db.clone(), ambient.clone());
    let users = Arc::new(MemoryUserStore::new(ambient));
    let builder = Auth::builder(config()).users(users).sessions(Arc::new(sessions)).plugin(TokensPlugin::new());
    assert!(builder.build().await.unwrap_err().to_string().contains("API token"));
}

#[tokio::test]
async fn without_the_plugin_there_are_no_tokens() {
    for db in databases().await {
        let site = crate::support::Site::on(&db).await;
        assert!(site.auth.api_tokens().is_none() && site.auth.service_accounts().is_none());
        crate::support::Call::get("/auth/tokens").send(&site).await.expect(404);
    }
}
