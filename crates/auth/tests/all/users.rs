use std::sync::Arc;

use gatewright_auth::EmailAddress;
use gatewright_auth::password::{Digest, HashSetting, PasswordAlgorithm, PasswordHash};
use gatewright_auth::users::{
    ListUsers, MemoryUserStore, NewPasswordlessUser, NewUser, Sessions, SqlUserStore, User, UserStore, UserStoreError,
};
use gatewright_base::{Ambient, UserId};
use gatewright_db::testing::TestDb;
use jiff::{SignedDuration, Timestamp};

use crate::support::{Site, databases};

/// Every built-in store, with the databases that some of them lie in.
async fn stores() -> (Vec<(String, Arc<dyn UserStore>)>, Vec<TestDb>, Ambient) {
    let (ambient, _) = Ambient::manual("2026-01-02T03:04:05Z".parse().unwrap(), 3);
    let databases = databases().await;
    let mut stores: Vec<(String, Arc<dyn UserStore>)> =
        vec![("memory".into(), Arc::new(MemoryUserStore::new(ambient.clone())))];
    for db in &databases {
        // Building a site makes the tables.
        Site::on(db).await;
        stores.push((db.name.into(), Arc::new(SqlUserStore::new(db.db.clone(), ambient.clone()))));
    }
    (stores, databases, ambient)
}

fn email(text: &str) -> EmailAddress {
    EmailAddress::parse(text).unwrap()
}

fn new_user(address: &str) -> NewUser {
    NewUser {
        email: email(address),
        password_hash: PasswordHash::from_stored("$2b$04$a-hash"),
        roles: ["user", "käse \"quoted\""].into_iter().collect(),
        profile: None,
    }
}

async fn create(store: &Arc<dyn UserStore>, address: &str) -> User {
    store.create(new_user(address)).await.unwrap()
}

#[tokio::test]
async fn a_stored_user_is_read_back_unchanged() {
    let (stores, _databases, _) = stores().await;
    for (name, store) in stores {
        let created = create(&store, "ann@example.com").await;
        let found = store.find_by_email(&email("ANN@example.com")).await.unwrap();
        assert_eq!(found.user, created, "{name}");
        assert_eq!(found.password_hash.unwrap().expose(), "$2b$04$a-hash");
        assert_eq!(store.find_by_id(&created.id).await.unwrap(), created);
        assert!(created.password_set && !created.email_verified);
        let roles = ["admin"].into_iter().collect();
        store.update_roles(&created.id, &roles).await.unwrap();
        assert_eq!(store.find_by_id(&created.id).await.unwrap().roles, roles);
    }
}

#[tokio::test]
async fn errors_are_of_the_three_kinds() {
    let (stores, _databases, _) = stores().await;
    let unknown = UserId::parse("nobody").unwrap();
    for (name, store) in stores {
        create(&store, "ann@example.com").await;
        let taken = store.create(new_user("ann@example.com")).await;
        assert!(matches!(taken, Err(UserStoreError::EmailTaken)), "{name}");
        let missing = store.find_by_email(&email("bob@example.com")).await.map(|_| ());
        assert!(matches!(missing, Err(UserStoreError::NotFound)), "{name}");
        assert!(matches!(store.find_by_id(&unknown).await, Err(UserStoreError::NotFound)), "{name}");
        let update = store.update_roles(&unknown, &["x"].into_iter().collect()).await;
        assert!(matches!(update, Err(UserStoreError::NotFound)), "{name}");
        let injection = UserId::parse("'--;DROP/**/TABLE/**/users").unwrap();
        assert!(matches!(store.find_by_id(&injection).await, Err(UserStoreError::NotFound)), "{name}");
    }
}

#[tokio::test]
async fn a_failing_database_is_a_transport_failure_and_never_not_found() {
    for db in databases().await {
        // No tables.
        let store = SqlUserStore::new(db.db.clone(), Ambient::system());
        let found = store.find_by_email(&email("ann@example.com")).await.map(|_| ());
        assert!(matches!(found, Err(UserStoreError::Transport(_))));
        assert!(matches!(store.create(new_user("ann@example.com")).await, Err(UserStoreError::Transport(_))));
    }
}

#[tokio::test]
async fn a_profile_is_replaced_only_if_it_has_not_changed_since_it_was_read() {
    let (stores, _databases, _) = stores().await;
    for (name, store) in stores {
        let (ann, ben) = (create(&store, "ann@example.com").await, create(&store, "ben@example.com").await);
        let profiles = store.clone().user_profiles().unwrap();
        assert_eq!(profiles.profile(&ann.id).await.unwrap(), None, "{name}");
        assert!(!profiles.replace_profile(&ann.id, Some("{}"), "wrong").await.unwrap(), "{name}");
        assert!(profiles.replace_profile(&ann.id, None, "one").await.unwrap(), "{name}");
        assert!(!profiles.replace_profile(&ann.id, None, "late").await.unwrap(), "{name}");
        assert!(!profiles.replace_profile(&ann.id, Some("ONE"), "late").await.unwrap(), "{name}");
        assert!(profiles.replace_profile(&ann.id, Some("one"), "two").await.unwrap(), "{name}");
        assert_eq!(profiles.profile(&ann.id).await.unwrap().as_deref(), Some("two"), "{name}");
        assert_eq!(profiles.profile(&ben.id).await.unwrap(), None, "{name}");
        store.clone().user_deleter().unwrap().delete(&ann.id).await.unwrap();
        assert!(matches!(profiles.profile(&ann.id).await, Err(UserStoreError::NotFound)), "{name}");
        assert!(!profiles.replace_profile(&ann.id, Some("two"), "ghost").await.unwrap(), "{name}");
    }
}

#[tokio::test]
async fn listing_is_ordered_by_address_and_counts_all() {
    let (stores, _databases, _) = stores().await;
    for (name, store) in stores {
        for index in [5, 1, 4, 2, 3, 0] {
            create(&store, &format!("user{index}@example.com")).await;
        }
        create(&store, "Alice@example.com").await;
        let lister = store.user_lister().unwrap();
        let emails = async |limit, offset| {
            let page = lister.list(ListUsers::new(limit, offset)).await.unwrap();
            assert_eq!(page.total, 7, "{name}");
            page.items.iter().map(|item| item.email.to_string()).collect::<Vec<_>>()
        };
        let all = emails(0, 0).await;
        assert_eq!(all[..2], ["alice@example.com", "user0@example.com"]);
        assert!(all.is_sorted() && all.len() == 7);
        assert_eq!(emails(2, 1).await, all[1..3]);
        assert_eq!(emails(-5, -5).await, all);
        assert_eq!(emails(10, 7).await, Vec::<String>::new());
        assert_eq!(emails(i64::MAX, i64::MAX).await, Vec::<String>::new());
    }
}

#[tokio::test]
async fn the_default_list_limit_is_fifty_and_the_maximum_five_hundred() {
    let (stores, _databases, _) = stores().await;
    for (name, store) in stores.into_iter().filter(|(name, _)| name != "postgres") {
        for index in 0..501 {
            create(&store, &format!("user{index:03}@example.com")).await;
        }
        let lister = store.user_lister().unwrap();
        for (limit, expected) in [(0, 50), (-1, 50), (500, 500), (1000, 500)] {
            let page = lister.list(ListUsers::new(limit, 0)).await.unwrap();
            assert_eq!((page.items.len(), page.total), (expected, 501), "{name} {limit}");
        }
    }
}

#[tokio::test]
async fn marks_move_only_forward() {
    let (stores, _databases, ambient) = stores().await;
    let micro = SignedDuration::from_micros(1);
    let later: Timestamp = ambient.now() + micro * 10;
    for (name, store) in stores {
        let ann = create(&store, "ann@example.com").await;
        let sign_out = store.clone().sign_out_everywhere().unwrap();
        let marks = async || {
            let user = store.find_by_id(&ann.id).await.unwrap();
            (user.tokens_valid_after, user.sessions_valid_after)
        };
        assert_eq!(marks().await, (None, None), "{name}");
        sign_out.refuse_until(&ann.id, later, Sessions::Keep).await.unwrap();
        assert_eq!(marks().await, (Some(later), None), "{name}");
        sign_out.refuse_until(&ann.id, later - micro, Sessions::End).await.unwrap();
        assert_eq!(marks().await, (Some(later), Some(later - micro)), "{name}");
        let setter = store.clone().password_setter().unwrap();
        let hash = PasswordHash::from_stored("$2b$04$another");
        setter.set_password(&ann.id, &hash, later + micro).await.unwrap();
        assert_eq!(marks().await, (Some(later + micro), Some(later + micro)), "{name}");
        let unknown = UserId::parse("nobody").unwrap();
        let missing = sign_out.refuse_until(&unknown, later, Sessions::End).await;
        assert!(matches!(missing, Err(UserStoreError::NotFound)));
    }
}

#[tokio::test]
async fn passwords_are_set_renewed_and_dropped() {
    let (stores, _databases, ambient) = stores().await;
    for (name, store) in stores {
        let ann = create(&store, "ann@example.com").await;
        let (setter, checker) = (store.clone().password_setter().unwrap(), store.clone().password_checker().unwrap());
        let kept = async || {
            let found = store.find_by_email(&ann.email).await.unwrap();
            (found.password_hash.map(|hash| hash.expose().to_owned()), found.user.password_set)
        };
        let [old, new, other] = ["$2b$04$a-hash", "$2b$05$new", "$2b$04$other"].map(PasswordHash::from_stored);
        setter.rehash(&ann.id, &other, &new).await.unwrap();
        assert_eq!(kept().await.0.as_deref(), Some("$2b$04$a-hash"), "{name}: not the hash that was compared");
        setter.rehash(&ann.id, &old, &new).await.unwrap();
        assert_eq!(kept().await, (Some("$2b$05$new".to_owned()), true), "{name}");
        assert!(store.find_by_id(&ann.id).await.unwrap().tokens_valid_after.is_none(), "renewing ends nothing");
        setter.drop_password(&ann.id, ambient.now()).await.unwrap();
        assert_eq!(kept().await, (None, false), "{name}");
        assert!(!checker.has_password(&ann.id).await.unwrap());
        setter.set_password(&ann.id, &new, ambient.now()).await.unwrap();
        assert!(checker.has_password(&ann.id).await.unwrap(), "{name}");
    }
}

#[tokio::test]
async fn a_user_without_a_password_is_recorded_as_such() {
    let (stores, _databases, _) = stores().await;
    for (name, store) in stores {
        let creator = store.clone().passwordless_users().unwrap();
        let new = || NewPasswordlessUser {
            email: email("link@example.com"),
            roles: ["user"].into_iter().collect(),
            email_verified: true,
        };
        let created = creator.create_passwordless(new()).await.unwrap();
        assert!(!created.password_set && created.email_verified, "{name}");
        let found = store.find_by_email(&created.email).await.unwrap();
        assert_eq!(found.user, created);
        assert!(found.password_hash.is_none());
        assert!(matches!(creator.create_passwordless(new()).await, Err(UserStoreError::EmailTaken)), "{name}");
    }
}

#[tokio::test]
async fn one_of_twenty_parallel_creations_succeeds() {
    let (stores, _databases, _) = stores().await;
    for (name, store) in stores {
        let all = (0..20).map(|_| store.create(new_user("ann@example.com")));
        let results = futures_util::future::join_all(all).await;
        assert_eq!(results.iter().filter(|result| result.is_ok()).count(), 1, "{name}");
        let taken = |result: &&Result<User, UserStoreError>| matches!(result, Err(UserStoreError::EmailTaken));
        assert_eq!(results.iter().filter(taken).count(), 19, "{name}");
    }
}

#[tokio::test]
async fn a_store_lists_each_hash_setting_once() {
    let elsewhere = "$argon2id$v=19$m=256,t=2,p=1$c29tZXNhbHQ$nf65EOgLrQMR/uIPnA4rEsF5h7TKyQwu9U1bMCHGi/4";
    let own = "$argon2id$v=19$m=19456,t=2,p=1$AQEBAQEBAQEBAQEBAQEBAQ$nf65EOgLrQMR/uIPnA4rEsF5h7TKyQwu9U1bMCHGi/4";
    let other_salt =
        "$argon2id$v=19$m=19456,t=2,p=1$AgICAgICAgICAgICAgICAg$nf65EOgLrQMR/uIPnA4rEsF5h7TKyQwu9U1bMCHGi/4";
    let (stores, _databases, _) = stores().await;
    for (name, store) in stores {
        let bcrypt = "$2b$04$E4O9WsMk99WeGbJdGKdvjeYc7BMXM.H328SwP0h81Bn6/twd.ymOG";
        let (of_php, django) = (bcrypt.replace("$2b$04$", "$2y$12$"), format!("bcrypt_sha256${bcrypt}"));
        let pbkdf2 = format!("pbkdf2_sha256$1000$salt${}=", "A".repeat(43));
        let weak = format!("$sha256$salt${}", "ab".repeat(32));
        let (damaged, cut) = ("$2b$04$two", "pbkdf2_sha256$1000$salt$");
        let hashes =
            [bcrypt, &django, damaged, &of_php, own, other_salt, elsewhere, "unreadable", "", &pbkdf2, cut, &weak];
        for (index, hash) in hashes.iter().enumerate() {
            let user = new_user(&format!("user{index}@example.com"));
            store.create(NewUser { password_hash: PasswordHash::from_stored(*hash), ..user }).await.unwrap();
        }
        let survey = store.clone().hash_settings().unwrap().hash_settings().await.unwrap();
        let argon2 =
            |memory_kib| HashSetting::from(PasswordAlgorithm::Argon2id { memory_kib, iterations: 2, parallelism: 1 });
        let bcrypt = |cost| HashSetting::from(PasswordAlgorithm::Bcrypt { cost });
        let settings: Vec<_> = survey.settings.into_iter().collect();
        let pbkdf2 = HashSetting::Pbkdf2 { digest: Digest::Sha256, rounds: 1000 };
        let expected = [bcrypt(4), bcrypt(12), argon2(256), argon2(19456), pbkdf2, HashSetting::Sha];
        assert_eq!(settings, expected, "{name}");
        // The two cut ones, and the two in no format.
        assert_eq!((survey.unknown.count, survey.unknown.first.len()), (4, 4), "{name}");
        assert_eq!(survey.weak.count, 1, "{name}");
        let listed = store.user_lister().unwrap().list(ListUsers::default()).await.unwrap();
        let unknown: Vec<_> =
            listed.items.iter().filter(|user| user.unknown_hash).map(|user| user.id.clone()).collect();
        assert_eq!(unknown.len(), 4, "{name}");
        assert!(unknown.iter().all(|id| survey.unknown.first.contains(id)), "{name}");
    }
}
