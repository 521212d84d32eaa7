use std::sync::Arc;

use gatewright_auth::audit::AuditKind;
use serde_json::json;

use super::{Place, identity, session, with_public_url};
use crate::support::{ANN, Answer, Call, PASSWORD, databases};

async fn unlink(place: &Place, cookie: &str, provider: &str) -> Answer {
    let path = format!("/auth/unlink/{provider}");
    Call::new(http::Method::DELETE, &path).cookie(cookie).send(&place.site).await
}

async fn link_beta(place: &Place, cookie: &str) {
    place.flow(&place.beta, "/auth/oauth/beta/link", cookie, &identity("7", Some(ANN), true)).await.expect(303);
}

#[tokio::test]
async fn a_password_account_may_lose_its_last_link() {
    for database in databases().await {
        let place = Place::on(&database.db).await;
        let ann = place.ann().await;
        unlink(&place, &ann, "alpha").await.expect(404);
        place.link(&ann, &identity("1", Some(ANN), true)).await.expect(303);
        let answer = unlink(&place, &ann, "alpha").await.expect(200);
        assert_eq!(answer.json(), json!({ "unlinked": "alpha" }));
        assert!(place.accounts(&ann).await.is_empty());
        assert!(place.site.audited().contains(&AuditKind::OAuthUnlinked));
        unlink(&place, &ann, "alpha").await.expect(404);
        // It no longer signs in.
        place.sign_in(&identity("1", Some(ANN), true)).await.expect(409);
    }
}

#[tokio::test]
async fn a_stolen_session_unlinks_no_provider() {
    for database in databases().await {
        let place = Place::on(&database.db).await;
        let ann = place.ann().await;
        place.link(&ann, &identity("1", Some(ANN), true)).await.expect(303);
        place.site.advance(5 * 60);
        assert_eq!(unlink(&place, &ann, "alpha").await.expect(403).json()["code"], "session_too_old");
        assert_eq!(place.accounts(&ann).await.len(), 1);
        let fresh = place.site.login(ANN, PASSWORD).await.cookie().unwrap();
        unlink(&place, &fresh, "alpha").await.expect(200);
    }
}

#[tokio::test]
async fn a_passwordless_account_keeps_its_last_provider() {
    for database in databases().await {
        let place = Place::on(&database.db).await;
        let ann = session(&place.sign_in(&identity("1", Some(ANN), true)).await).unwrap();
        let refused = unlink(&place, &ann, "alpha").await.expect(409);
        assert_eq!(refused.json()["code"], "last_credential");
        // A second identity at the same provider is removed with the first, and does not count as another method.
        place.link(&ann, &identity("2", Some(ANN), true)).await.expect(303);
        unlink(&place, &ann, "alpha").await.expect(409);
        link_beta(&place, &ann).await;
        unlink(&place, &ann, "alpha").await.expect(200);
        unlink(&place, &ann, "beta").await.expect(409);
        assert_eq!(place.accounts(&ann).await.len(), 1);
    }
}

#[tokio::test]
async fn two_parallel_unlinks_leave_one_sign_in_method() {
    for database in databases().await {
        let place = Arc::new(Place::on(&database.db).await);
        let ann = session(&place.sign_in(&identity("1", Some(ANN), true)).await).unwrap();
        link_beta(&place, &ann).await;
        let tries = (0..20).map(|index| {
            let (place, ann) = (place.clone(), ann.clone());
            tokio::spawn(async move { unlink(&place, &ann, if index % 2 == 0 { "alpha" } else { "beta" }).await })
        });
        let answers = futures_util::future::join_all(tries).await;
        let unlinked = answers.into_iter().filter(|answer| answer.as_ref().unwrap().status == 200).count();
        assert_eq!((unlinked, place.accounts(&ann).await.len()), (1, 1), "{}", database.name);
    }
}

/// A provider that was removed from the configuration signs nobody in.
#[tokio::test]
async fn a_link_to_a_removed_provider_does_not_count_as_a_sign_in_method() {
    for database in databases().await {
        let place = Place::on(&database.db).await;
        let ann = session(&place.sign_in(&identity("1", Some(ANN), true)).await).unwrap();
        link_beta(&place, &ann).await;
        let taken_out = "UPDATE users_oauth_links SET provider = 'gamma' WHERE provider = 'beta'";
        database.db.execute(taken_out, Vec::new()).await.unwrap();
        unlink(&place, &ann, "alpha").await.expect(409);
        unlink(&place, &ann, "gamma").await.expect(200);
        assert_eq!(place.accounts(&ann).await.len(), 1);
    }
}

#[tokio::test]
async fn links_of_other_accounts_are_neither_shown_nor_removed() {
    for database in databases().await {
        let place = Place::on(&database.db).await;
        let bob = session(&place.sign_in(&identity("1", Some("bob@example.com"), true)).await).unwrap();
        link_beta(&place, &bob).await;
        let ann = place.ann().await;
        assert!(place.accounts(&ann).await.is_empty());
        unlink(&place, &ann, "alpha").await.expect(404);
        assert_eq!(place.accounts(&bob).await.len(), 2);
    }
}

#[tokio::test]
async fn without_a_session_no_links_are_shown() {
    for database in databases().await {
        let place = Place::on(&database.db).await;
        Call::get("/auth/accounts").send(&place.site).await.expect(401);
        unlink(&place, "a=b", "alpha").await.expect(401);
    }
}

#[tokio::test]
async fn a_deleted_account_leaves_no_provider_data() {
    for database in databases().await {
        let complete =
            |builder: gatewright_auth::AuthBuilder| builder.database(database.db.clone()).audit_to_database();
        let place = Place::with(with_public_url(), complete).await;
        let signed_in = place.sign_in(&identity("canary-4711", Some(ANN), true)).await.expect(303);
        place.me(&session(&signed_in).unwrap()).await.expect(200);
        let told = async || {
            let sql = "SELECT COUNT(*) AS n FROM audit_log WHERE CAST(meta AS TEXT) LIKE '%canary-4711%'";
            database.db.query_opt(sql, vec![]).await.unwrap().unwrap().get::<i64>("n").unwrap()
        };
        assert!(told().await > 0);
        let accounts = place.site.auth.accounts();
        accounts.delete(&accounts.find(ANN).await.unwrap().id).await.unwrap();
        assert_eq!(told().await, 0, "{}", database.name);
    }
}
