//! Linked providers on `/account`.

use super::{Place, identity, session};
use crate::support::{ANN, Answer, Call, databases};

async fn page(place: &Place, cookie: &str) -> Answer {
    Call::get("/account").cookie(cookie).send(&place.site).await.expect(200)
}

/// Submits the form of the page.
async fn unlink(place: &Place, cookie: &str, provider: &str) -> Answer {
    let path = format!("/account/providers/{provider}/unlink");
    Call::post(&path).cookie(cookie).form(&[]).send(&place.site).await
}

#[tokio::test]
async fn people_see_link_and_unlink_their_providers() {
    for database in databases().await {
        let mut place = Place::on(&database.db).await;
        place.site = place.site.and_screens();
        let ann = place.ann().await;
        let body = page(&place, &ann).await.body;
        for provider in ["alpha", "beta"] {
            assert!(body.contains(&format!("href=\"/auth/oauth/{provider}/link\"")), "{body}");
        }
        let mut hostile = identity("1", Some(ANN), true);
        hostile.name = Some("<script>alert(1)</script>".into());
        place.link(&ann, &hostile).await.expect(303);
        let body = page(&place, &ann).await.body;
        assert!(body.contains("action=\"/account/providers/alpha/unlink\""), "{body}");
        assert!(!body.contains("/auth/oauth/alpha/link") && body.contains("/auth/oauth/beta/link"), "{body}");
        assert!(!body.contains("<script>") && body.contains("&lt;script&gt;"), "{body}");
        let done = unlink(&place, &ann, "alpha").await.expect(303);
        assert_eq!(done.location(), Some("/account?done=unlinked#providers"));
        assert!(place.accounts(&ann).await.is_empty());
        let again = unlink(&place, &ann, "alpha").await.expect(303);
        assert_eq!(again.location(), Some("/account?done=not-linked#providers"));
    }
}

#[tokio::test]
async fn the_last_sign_in_method_stays_and_the_page_explains_it() {
    for database in databases().await {
        let mut place = Place::on(&database.db).await;
        place.site = place.site.and_screens();
        let ann = session(&place.sign_in(&identity("1", Some(ANN), true)).await).unwrap();
        let refused = unlink(&place, &ann, "alpha").await.expect(409);
        assert!(refused.body.contains("the last way to sign in"), "{}", refused.body);
        assert_eq!(place.accounts(&ann).await.len(), 1);
    }
}

#[tokio::test]
async fn strangers_and_other_sites_unlink_nothing() {
    for database in databases().await {
        let mut place = Place::on(&database.db).await;
        place.site = place.site.and_screens();
        let ann = place.ann().await;
        place.link(&ann, &identity("1", Some(ANN), true)).await.expect(303);
        let anonymous = Call::post("/account/providers/alpha/unlink").form(&[]).send(&place.site).await.expect(303);
        assert_eq!(anonymous.location(), Some("/login?next=%2Faccount"));
        let forged = Call::post("/account/providers/alpha/unlink").cookie(&ann).form(&[]);
        forged.header("origin", "https://evil.example.com").send(&place.site).await.expect(403);
        assert_eq!(place.accounts(&ann).await.len(), 1);
    }
}
