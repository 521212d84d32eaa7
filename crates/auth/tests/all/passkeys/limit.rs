//! The limit of passkeys, against parallel requests.

use std::sync::Arc;

use futures_util::future::join_all;
use gatewright_auth::Label;
use gatewright_auth::plugins::passkeys::{Added, MemoryPasskeyStore, Passkey, PasskeyStore, SqlPasskeyStore};
use gatewright_base::UserId;
use jiff::Timestamp;

use super::authenticator::Authenticator;
use super::{Place, password};
use crate::support::{ANN, databases};

#[tokio::test(flavor = "multi_thread")]
async fn twenty_parallel_additions_do_not_exceed_the_limit_of_passkeys() {
    let databases = databases().await;
    let mut stores: Vec<(_, Arc<dyn PasskeyStore>)> = vec![("memory", Arc::new(MemoryPasskeyStore::new()))];
    for db in &databases {
        // Building makes the tables.
        Place::on(db).await;
        stores.push((db.name, Arc::new(SqlPasskeyStore::new(db.db.clone()))));
    }
    let user = UserId::parse("ann").unwrap();
    for (name, store) in stores {
        let add = async |number: u8| {
            let passkey = Passkey {
                id: format!("passkey-{number}"),
                user: user.clone(),
                name: Label::parse("Phone").unwrap(),
                credential_id: vec![number],
                public_key: Vec::new(),
                algorithm: -7,
                counter: 0,
                transports: "[]".to_owned(),
                backed_up: false,
                created_at: Timestamp::UNIX_EPOCH,
                last_used_at: None,
            };
            store.add(&passkey, 5).await.unwrap()
        };
        let added = join_all((0..20).map(add)).await;
        assert_eq!(added.iter().filter(|added| **added == Added::Done).count(), 5, "{name}");
        assert_eq!(added.iter().filter(|added| **added == Added::TooMany).count(), 15, "{name}");
        assert_eq!(store.list(&user).await.unwrap().len(), 5, "{name}");
    }
}

#[tokio::test]
async fn passkeys_that_are_right_do_not_count_for_their_address() {
    for db in databases().await {
        let place = Place::limited(&db, 3).await;
        let ann = place.site.signed_in(ANN).await;
        let mut phone = place.added(&ann, &password(), "phone").await;
        for _ in 0..5 {
            place.sign_in(&mut phone).await.expect(200);
        }
        // Failures count, and the successes among them free nothing.
        let mut stranger = Authenticator::new("stranger");
        for status in [401, 401, 401, 429] {
            place.sign_in(&mut stranger).await.expect(status);
            if status == 401 && stranger.counter < 3 {
                place.sign_in(&mut phone).await.expect(200);
            }
        }
    }
}
