//! The contract of every store of second factors, and where each may be used.

use std::sync::Arc;

use futures_util::future::join_all;
use gatewright_auth::plugins::two_factor::{
    Begun, CodeHash, MemoryTwoFactorStore, SqlTwoFactorStore, TotpSecret, TwoFactorPlugin, TwoFactorStore,
};
use gatewright_auth::users::MemoryUserStore;
use gatewright_auth::{Auth, AuthConfig};
use gatewright_base::{SessionId, UserId};
use gatewright_db::testing::TestDb;
use jiff::Timestamp;

use super::{system, with};
use crate::support::{config, databases};

/// The databases must outlive the stores over them.
async fn stores() -> (Vec<TestDb>, Vec<(&'static str, Arc<dyn TwoFactorStore>)>) {
    let databases = databases().await;
    let mut stores: Vec<(_, Arc<dyn TwoFactorStore>)> = vec![("memory", Arc::new(MemoryTwoFactorStore::new()))];
    for db in &databases {
        with(db, config()).await;
        stores.push((db.name, Arc::new(SqlTwoFactorStore::new(db.db.clone()))));
    }
    (databases, stores)
}

fn user(name: &str) -> UserId {
    UserId::parse(name).unwrap()
}

fn begun(session: &str) -> Begun {
    Begun { session: SessionId::parse(session).unwrap(), at: Timestamp::UNIX_EPOCH }
}

fn at() -> Timestamp {
    Timestamp::UNIX_EPOCH
}

fn secret(letter: &str) -> TotpSecret {
    TotpSecret::from_base32(letter.repeat(32))
}

fn hashes(from: u8) -> Vec<CodeHash> {
    (from..from + 3).map(|byte| CodeHash::from_bytes([byte; 32])).collect()
}

#[tokio::test]
async fn a_factor_is_begun_enabled_and_removed() {
    let (_databases, stores) = stores().await;
    for (name, store) in stores {
        let (ann, first, second) = (user("ann"), begun("one"), begun("two"));
        assert!(store.find(&ann).await.unwrap().is_none(), "{name}");
        assert!(!store.enable(&ann, &secret("A"), 7, &hashes(0)).await.unwrap());
        assert!(store.begin(&ann, &secret("A"), &first).await.unwrap());
        assert_eq!(store.find(&ann).await.unwrap().unwrap().begun.as_ref(), Some(&first), "{name}");
        assert!(store.begin(&ann, &secret("B"), &second).await.unwrap());
        let found = store.find(&ann).await.unwrap().unwrap();
        assert!(found.secret == secret("B") && !found.enabled && found.begun.as_ref() == Some(&second), "{name}");
        assert!(!store.enable(&ann, &secret("A"), 7, &hashes(0)).await.unwrap(), "{name}: a replaced secret");
        assert!(!store.spend_step(&ann, &secret("B"), 8).await.unwrap(), "{name}: not enabled");
        assert!(!store.replace_backup_codes(&ann, &hashes(0), at()).await.unwrap());
        assert!(store.enable(&ann, &secret("B"), 7, &hashes(0)).await.unwrap());
        assert!(!store.enable(&ann, &secret("B"), 7, &hashes(0)).await.unwrap(), "{name}: once");
        assert!(!store.begin(&ann, &secret("C"), &first).await.unwrap(), "{name}: enabled");
        assert!(store.find(&ann).await.unwrap().unwrap().enabled);
        assert!(store.find(&user("bob")).await.unwrap().is_none());
        assert!(store.remove(&ann).await.unwrap());
        assert!(!store.remove(&ann).await.unwrap());
        assert!(!store.spend_backup_code(&ann, &hashes(0)[0]).await.unwrap(), "{name}: gone with the factor");
    }
}

#[tokio::test]
async fn steps_are_spent_forwards_only_and_codes_once() {
    let (_databases, stores) = stores().await;
    for (name, store) in stores {
        let ann = user("ann");
        store.begin(&ann, &secret("A"), &begun("one")).await.unwrap();
        store.enable(&ann, &secret("A"), 7, &hashes(0)).await.unwrap();
        for (step, expected) in [(7, false), (6, false), (8, true), (8, false), (10, true), (9, false), (11, true)] {
            assert_eq!(store.spend_step(&ann, &secret("A"), step).await.unwrap(), expected, "{name} {step}");
        }
        assert!(!store.spend_step(&ann, &secret("B"), 12).await.unwrap(), "{name}: another secret");
        assert!(!store.spend_step(&user("bob"), &secret("A"), 12).await.unwrap());
        for (code, expected) in [(0, true), (0, false), (1, true), (9, false)] {
            let code = CodeHash::from_bytes([code; 32]);
            assert_eq!(store.spend_backup_code(&ann, &code).await.unwrap(), expected, "{name}");
        }
        assert!(!store.spend_backup_code(&user("bob"), &hashes(2)[0]).await.unwrap());
        assert_eq!(store.backup_codes_replaced_at(&ann).await.unwrap(), None, "{name}: those of the enrollment");
        assert!(store.replace_backup_codes(&ann, &hashes(10), at()).await.unwrap());
        assert_eq!(store.backup_codes_replaced_at(&ann).await.unwrap(), Some(at()), "{name}");
        assert!(!store.spend_backup_code(&ann, &hashes(2)[0]).await.unwrap(), "{name}: replaced");
        assert!(store.spend_backup_code(&ann, &hashes(10)[0]).await.unwrap());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn one_of_twenty_parallel_spends_succeeds() {
    let (_databases, stores) = stores().await;
    for (name, store) in stores {
        let ann = user("ann");
        store.begin(&ann, &secret("A"), &begun("one")).await.unwrap();
        store.enable(&ann, &secret("A"), 7, &hashes(0)).await.unwrap();
        let (secret, codes) = (secret("A"), hashes(0));
        let steps = join_all((0..20).map(|_| store.spend_step(&ann, &secret, 8))).await;
        let spent = join_all((0..20).map(|_| store.spend_backup_code(&ann, &codes[0]))).await;
        for won in [steps, spent] {
            assert_eq!(won.into_iter().filter(|won| *won.as_ref().unwrap()).count(), 1, "{name}");
        }
    }
}

#[tokio::test]
async fn factors_in_memory_need_dev_mode_or_permission() {
    for db in databases().await {
        let build = |config: AuthConfig| {
            let plugin = TwoFactorPlugin::new("Blog").store(Arc::new(MemoryTwoFactorStore::new()));
            Auth::builder(config).database(db.db.clone()).plugin(plugin).build()
        };
        let refused = build(config()).await.unwrap_err().to_string();
        assert!(refused.contains("2FA") && refused.contains("allow_in_memory_stores"), "{refused}");
        build(AuthConfig { dev_mode: true, ..config() }).await.unwrap();
        build(AuthConfig { allow_in_memory_stores: true, ..config() }).await.unwrap();
    }
    // Without a database they are in memory whether one says so or not.
    let users = Arc::new(MemoryUserStore::new(system()));
    let sessions = Arc::new(gatewright_auth::session::SqlSessionStore::new(databases().await[0].db.clone(), system()));
    let builder = Auth::builder(config()).users(users).sessions(sessions).plugin(TwoFactorPlugin::new("Blog"));
    assert!(builder.build().await.unwrap_err().to_string().contains("2FA"));
}

#[tokio::test]
async fn an_issuer_that_apps_would_misread_stops_the_start() {
    for db in databases().await {
        for issuer in ["", "a:b"] {
            let builder = Auth::builder(config()).database(db.db.clone()).plugin(TwoFactorPlugin::new(issuer));
            assert!(builder.build().await.unwrap_err().to_string().contains("two_factor.issuer"));
        }
    }
}
