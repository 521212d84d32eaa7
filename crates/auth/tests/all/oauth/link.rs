use gatewright_auth::audit::AuditKind;

use super::{NOT_HERE, Place, identity, session};
use crate::support::{ANN, Call, PASSWORD, databases, query};

#[tokio::test]
async fn a_password_account_links_a_provider_and_signs_in_with_it() {
    for database in databases().await {
        let place = Place::on(&database.db).await;
        let ann = place.ann().await;
        let google = identity("1", Some(ANN), true);
        let linked = place.link(&ann, &google).await.expect(303);
        assert_eq!((linked.location(), session(&linked)), (Some("/account"), None));
        assert!(place.site.audited().contains(&AuditKind::OAuthLinked));
        // A repetition changes nothing.
        place.link(&ann, &google).await.expect(303);
        let accounts = place.accounts(&ann).await;
        assert_eq!(accounts.len(), 1);
        assert_eq!(accounts[0]["provider"], "alpha");
        assert_eq!(accounts[0]["providerId"], "1");
        assert_eq!(accounts[0]["email"], ANN);
        assert_eq!(accounts[0]["name"], "Ann Example");
        assert_eq!(accounts[0]["avatarUrl"], "https://img.example/ann.png");
        assert!(accounts[0]["linkedAt"].as_str().unwrap().ends_with('Z'));
        let by_provider = session(&place.sign_in(&google).await.expect(303)).unwrap();
        assert_eq!(place.user(&by_provider).await, place.user(&ann).await);
        // Another person's address, or none, does not prevent the link: the identity was proven, not the address.
        place.link(&ann, &identity("2", Some("bob@example.com"), true)).await.expect(303);
        place.link(&ann, &identity("3", None, false)).await.expect(303);
        assert_eq!(place.accounts(&ann).await.len(), 3);
    }
}

#[tokio::test]
async fn a_link_redirects_to_next() {
    for database in databases().await {
        let place = Place::on(&database.db).await;
        let ann = place.ann().await;
        let begun = place.begin("/auth/oauth/alpha/link?next=/settings", &ann).await;
        let code = place.alpha.code(&identity("1", Some(ANN), true));
        assert_eq!(place.back("alpha", &begun, &code, &ann).await.expect(303).location(), Some("/settings"));
    }
}

#[tokio::test]
async fn a_link_needs_a_session() {
    for database in databases().await {
        let place = Place::on(&database.db).await;
        place.site.register_ann().await;
        let login = place.site.login(ANN, PASSWORD).await.expect(200);
        Call::get("/auth/oauth/alpha/link").send(&place.site).await.expect(401);
        let jwt = login.token();
        Call::get("/auth/oauth/alpha/link").bearer(&jwt).send(&place.site).await.expect(401);
        Call::get("/auth/accounts").bearer(&jwt).send(&place.site).await.expect(401);
        Call::new(http::Method::DELETE, "/auth/unlink/alpha").bearer(&jwt).send(&place.site).await.expect(401);
    }
}

#[tokio::test]
async fn a_stolen_session_links_no_provider() {
    for database in databases().await {
        let place = Place::on(&database.db).await;
        let ann = place.ann().await;
        place.begin("/auth/oauth/alpha/link", &ann).await;
        place.site.advance(5 * 60);
        let old = Call::get("/auth/oauth/alpha/link").cookie(&ann).send(&place.site).await.expect(403);
        assert_eq!(old.json()["code"], "session_too_old");
        let fresh = place.site.login(ANN, PASSWORD).await.cookie().unwrap();
        place.link(&fresh, &identity("1", Some(ANN), true)).await.expect(303);
    }
}

#[tokio::test]
async fn only_the_requesting_session_gets_the_link() {
    for database in databases().await {
        let place = Place::on(&database.db).await;
        let ann = place.ann().await;
        place.site.register("eve@example.com").await;
        let eve = place.site.login("eve@example.com", PASSWORD).await.cookie().unwrap();
        let code = || place.alpha.code(&identity("1", Some(ANN), true));
        let begun = place.begin("/auth/oauth/alpha/link", &eve).await;
        place.back("alpha", &begun, &code(), &ann).await.expect(403);
        place.back("alpha", &begun, &code(), "").await.expect(401);
        // With her own cookie in another's browser, the flow is not one of that browser at all.
        let theirs = place.begin("/auth/oauth/alpha/link", &ann).await;
        let path = format!("/auth/oauth/alpha/callback?code={}&state={}", code(), begun.state);
        let cookies = format!("{}; {ann}", theirs.cookie);
        let answer = Call::get(&path).cookie(&cookies).send(&place.site).await.expect(400);
        assert_eq!(answer.detail(), NOT_HERE);
        assert!(place.accounts(&ann).await.is_empty() && place.accounts(&eve).await.is_empty());
    }
}

#[tokio::test]
async fn an_identity_of_another_account_is_not_taken_over() {
    for database in databases().await {
        let place = Place::on(&database.db).await;
        let bob = place.sign_in(&identity("1", Some("bob@example.com"), true)).await.expect(303);
        let ann = place.ann().await;
        let answer = place.link(&ann, &identity("1", Some(ANN), true)).await.expect(409);
        assert!(answer.detail().contains("linked to another account"));
        assert!(place.accounts(&ann).await.is_empty());
        assert_eq!(place.accounts(&session(&bob).unwrap()).await.len(), 1);
    }
}

#[tokio::test]
async fn a_session_that_ended_during_the_flow_links_nothing() {
    for database in databases().await {
        let place = Place::on(&database.db).await;
        let ann = place.ann().await;
        let begun = place.begin("/auth/oauth/alpha/link", &ann).await;
        let user = place.site.auth.accounts().find(ANN).await.unwrap();
        place.site.auth.accounts().sign_out_everywhere(&user.id).await.unwrap();
        let code = place.alpha.code(&identity("1", Some(ANN), true));
        place.back("alpha", &begun, &code, &ann).await.expect(401);
        place.sign_in(&identity("1", Some(ANN), true)).await.expect(409);
    }
}

/// A page anywhere may send a browser, which it has signed in at the provider as somebody else, to a form of this site.
/// For the browser, a request after the form's answer comes from this site.
#[tokio::test]
async fn a_form_redirect_cannot_start_a_link() {
    for database in databases().await {
        let mut place = Place::on(&database.db).await;
        place.site = place.site.and_screens();
        place.site.register_ann().await;
        for (next, location) in [
            ("/auth/oauth/alpha/link", "/"),
            ("/auth/oauth/alpha/link?next=/x", "/"),
            ("/auth/%6fauth/alpha/link", "/"),
            ("/x/../auth//oauth/alpha", "/"),
            ("/auth/2fa/backup-codes", "/"),
            ("/auth/me", "/auth/me"),
        ] {
            let form = Call::post("/auth/login").form(&[("email", ANN), ("password", PASSWORD), ("next", next)]);
            let answer = form.send(&place.site).await.expect(303);
            assert_eq!(answer.location(), Some(location), "{next}");
            // Nor does the page for a user who is signed in already.
            let query = query("next", next);
            let page = Call::get(&format!("/login?{query}")).cookie(&answer.cookie().unwrap()).send(&place.site).await;
            assert_eq!(page.expect(303).location(), Some(location), "{next}");
        }
    }
}

#[tokio::test]
async fn a_page_of_another_or_a_sibling_site_cannot_start_a_link() {
    for database in databases().await {
        let place = Place::on(&database.db).await;
        let ann = place.ann().await;
        let start =
            |site: &'static str| Call::get("/auth/oauth/alpha/link").cookie(&ann).header("sec-fetch-site", site);
        for other in ["cross-site", "same-site"] {
            let refused = start(other).send(&place.site).await.expect(403);
            assert_eq!(refused.detail(), "cross-site request refused", "{other}");
        }
        for own in ["same-origin", "none"] {
            start(own).send(&place.site).await.expect(303);
        }
    }
}
