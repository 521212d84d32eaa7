//! One account that lists as much as it can, and the requests of another one at the same time.

use std::sync::Arc;

use super::{fill, site, token_of};
use crate::support::{Call, databases};

const LISTINGS: usize = 160;

#[tokio::test]
async fn listings_of_one_account_do_not_delay_the_requests_of_another() {
    for db in databases().await {
        let site = Arc::new(site(&db).await);
        let bob = site.signed_in("bob@example.com").await;
        let ann = site.login_ann().await;
        let (_, id) = token_of(&site, &ann).await;
        fill(&db, &id, 499).await;
        let listing = || {
            let (site, call) = (site.clone(), Call::get("/auth/tokens").cookie_of(&ann));
            tokio::spawn(async move { call.send(&site).await })
        };
        let listings: Vec<_> = (0..LISTINGS).map(|_| listing()).collect();
        let ended = || listings.iter().filter(|listing| listing.is_finished()).count();
        // Then the others are being read, or wait.
        while ended() == 0 {
            tokio::task::yield_now().await;
        }
        for _ in 0..3 {
            site.me(&bob).await.expect(200);
        }
        assert!(ended() < LISTINGS / 2, "{}: {} of {LISTINGS} went before", db.name, ended());
        for listing in listings {
            assert_eq!(listing.await.unwrap().expect(200).json()["tokens"].as_array().unwrap().len(), 500);
        }
    }
}
