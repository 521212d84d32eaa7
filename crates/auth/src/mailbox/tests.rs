use std::sync::Arc;

use gatewright_base::Ambient;
use gatewright_db::migrate;
use gatewright_db::testing::engines;

use super::*;
use crate::password::PasswordHash;
use crate::users::{MIGRATIONS, MemoryUserStore, NewUser, SqlUserStore, UserStore};

const FORMER: Holder = Holder::FormerMailbox { since: Timestamp::UNIX_EPOCH };

#[test]
fn a_proof_claims_the_account_unless_the_mailbox_is_proven_or_a_session_exists() {
    let table = [
        (false, Holder::Mailbox, Effect::Claim),
        (false, Holder::MailboxAndSession, Effect::Record),
        (true, Holder::Mailbox, Effect::Nothing),
        (true, Holder::MailboxAndSession, Effect::Nothing),
        (true, FORMER, Effect::Recover(Timestamp::UNIX_EPOCH)),
        (false, FORMER, Effect::Recover(Timestamp::UNIX_EPOCH)),
    ];
    for (proven, holder, expected) in table {
        assert_eq!(effect(proven, holder), expected, "proven {proven}, {holder:?}");
    }
}

/// The stores, and the names for messages. The databases must outlive them.
macro_rules! for_each_store {
    ($store:ident, $name:ident, $work:block) => {{
        let ambient = Ambient::system();
        let memory: Arc<dyn UserStore> = Arc::new(MemoryUserStore::new(ambient.clone()));
        let mut stores = vec![("memory", memory)];
        let databases = engines().await;
        for db in &databases {
            migrate(&db.db, "users", MIGRATIONS).await.unwrap();
            stores.push((db.name, Arc::new(SqlUserStore::new(db.db.clone(), ambient.clone()))));
        }
        for ($name, $store) in stores $work
    }};
}

fn email(text: &str) -> EmailAddress {
    EmailAddress::parse(text).unwrap()
}

async fn created(store: &Arc<dyn UserStore>, address: &str) -> User {
    let password_hash = PasswordHash::from_stored("unusable");
    let new = NewUser { email: email(address), password_hash, roles: gatewright_base::Roles::default(), profile: None };
    store.create(new).await.unwrap()
}

fn proof(user: &User, address: &str) -> MailboxProof {
    MailboxProof { user: user.id.clone(), email: email(address) }
}

#[tokio::test]
async fn a_mailbox_is_verified_only_while_it_belongs_to_the_account() {
    for_each_store!(store, name, {
        let ann = created(&store, "ann@example.com").await;
        let verifier = store.clone().email_verifier().unwrap();
        let other = verifier.verify_email(&proof(&ann, "old@example.com")).await;
        assert!(matches!(other, Err(UserStoreError::NotFound)), "{name}");
        assert!(!store.find_by_id(&ann.id).await.unwrap().email_verified);
        for _ in 0..2 {
            verifier.verify_email(&proof(&ann, "ann@example.com")).await.unwrap();
        }
        assert!(store.find_by_id(&ann.id).await.unwrap().email_verified, "{name}");
    });
}

#[tokio::test]
async fn a_changed_address_is_verified_and_a_restored_one_is_not() {
    for_each_store!(store, name, {
        let ann = created(&store, "ann@example.com").await;
        let emails = store.clone().email_changer().unwrap();
        let (old, new) = (email("ann@example.com"), email("new@example.com"));
        emails.change_email(&old, &proof(&ann, "new@example.com")).await.unwrap();
        assert!(store.find_by_email(&new).await.unwrap().user.email_verified, "{name}");
        let again = emails.change_email(&old, &proof(&ann, "new@example.com")).await;
        assert!(matches!(again, Err(UserStoreError::NotFound)), "{name}");
        // Another account has taken the address.
        let squatter = created(&store, "ann@example.com").await;
        let wrong = emails.restore_email(&ann.id, Some(&old), &old).await;
        assert!(matches!(wrong, Err(UserStoreError::NotFound)), "{name}");
        assert_eq!(emails.restore_email(&ann.id, Some(&new), &old).await.unwrap().as_ref(), Some(&squatter.id));
        let restored = store.find_by_email(&old).await.unwrap().user;
        assert!(restored.id == ann.id && !restored.email_verified, "{name}");
        assert!(!store.find_by_id(&squatter.id).await.unwrap().email_verified, "{name}");
        // A proven account keeps the address.
        emails.restore_email(&ann.id, None, &new).await.unwrap();
        let owner = created(&store, "ann@example.com").await;
        let verifier = store.clone().email_verifier().unwrap();
        verifier.verify_email(&proof(&owner, "ann@example.com")).await.unwrap();
        let refused = emails.restore_email(&ann.id, None, &old).await;
        assert!(matches!(refused, Err(UserStoreError::EmailTaken)), "{name}");
    });
}
