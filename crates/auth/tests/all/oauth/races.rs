use std::collections::HashSet;
use std::sync::Arc;

use futures_util::future::join_all;

use super::{Place, identity, session};
use crate::support::{ANN, databases};

const PARALLEL: usize = 20;

#[tokio::test]
async fn twenty_parallel_callbacks_of_a_new_identity_create_one_user_and_one_link() {
    for database in databases().await {
        for verified in [true, false] {
            let email = format!("new-{verified}@example.com");
            let new = identity(&email, Some(&email), verified);
            let replicas = [Arc::new(Place::on(&database.db).await), Arc::new(Place::on(&database.db).await)];
            let tries = (0..PARALLEL).map(|index| {
                let (place, new) = (replicas[index % 2].clone(), new.clone());
                tokio::spawn(async move { place.sign_in(&new).await })
            });
            let mut users = HashSet::new();
            for answer in join_all(tries).await {
                let cookie = session(&answer.unwrap().expect(303)).unwrap();
                users.insert(replicas[0].user(&cookie).await);
                assert_eq!(replicas[0].accounts(&cookie).await.len(), 1);
            }
            assert_eq!(users.len(), 1, "{}", database.name);
            let created = replicas.iter().flat_map(|place| place.site.audit.events());
            let created = created.filter(|event| event.kind.name() == "register.succeeded").count();
            assert_eq!(created, 1, "{}", database.name);
        }
    }
}

#[tokio::test]
async fn one_of_twenty_identities_with_one_unverified_address_gets_an_account() {
    for database in databases().await {
        let place = Arc::new(Place::on(&database.db).await);
        let tries = (0..PARALLEL).map(|index| {
            let place = place.clone();
            tokio::spawn(async move { place.sign_in(&identity(&index.to_string(), Some(ANN), false)).await })
        });
        let answers = join_all(tries).await;
        let statuses: Vec<_> = answers.into_iter().map(|answer| answer.unwrap().status.as_u16()).collect();
        assert_eq!(statuses.iter().filter(|status| **status == 303).count(), 1, "{}: {statuses:?}", database.name);
        assert_eq!(statuses.iter().filter(|status| **status == 409).count(), PARALLEL - 1, "{statuses:?}");
    }
}

#[tokio::test]
async fn one_of_twenty_accounts_that_link_one_identity_gets_it() {
    for database in databases().await {
        let place = Arc::new(Place::on(&database.db).await);
        let mut sessions = Vec::new();
        for index in 0..PARALLEL {
            let own = identity(&format!("own-{index}"), Some(&format!("user-{index}@example.com")), true);
            sessions.push(session(&place.sign_in(&own).await.expect(303)).unwrap());
        }
        let tries = sessions.into_iter().map(|cookie| {
            let place = place.clone();
            tokio::spawn(async move { place.link(&cookie, &identity("shared", None, false)).await })
        });
        let answers = join_all(tries).await;
        let statuses: Vec<_> = answers.into_iter().map(|answer| answer.unwrap().status.as_u16()).collect();
        assert_eq!(statuses.iter().filter(|status| **status == 303).count(), 1, "{}: {statuses:?}", database.name);
        assert_eq!(statuses.iter().filter(|status| **status == 409).count(), PARALLEL - 1, "{statuses:?}");
    }
}
