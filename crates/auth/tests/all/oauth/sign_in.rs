use gatewright_auth::AuthConfig;
use gatewright_auth::audit::AuditKind;
use serde_json::json;

use super::{Place, identity, session, with_public_url};
use crate::support::{ANN, Call, Factor, FakeFactor, PASSWORD, databases};

#[tokio::test]
async fn an_identity_creates_an_account_and_finds_it_again() {
    for database in databases().await {
        let place = Place::on(&database.db).await;
        let first = place.sign_in(&identity("1", Some("Ann@Example.com"), true)).await.expect(303);
        assert_eq!(first.location(), Some("/"));
        let me = place.me(&session(&first).unwrap()).await.expect(200).json();
        assert_eq!(
            (&me["user"]["email"], &me["user"]["roles"], &me["emailVerified"]),
            (&json!(ANN), &json!(["user"]), &json!(true))
        );
        let names: Vec<_> = place.site.audited().iter().map(|kind| kind.name()).collect();
        assert_eq!(names, ["register.succeeded", "oauth.linked", "login.succeeded", "oauth.login"]);
        // There is no password, and the address may change at the provider.
        place.site.login(ANN, PASSWORD).await.expect(401);
        let again = place.sign_in(&identity("1", Some("ann@new.example"), false)).await.expect(303);
        assert_eq!(place.user(&session(&again).unwrap()).await, me["user"]["id"].as_str().unwrap());
        assert_eq!(place.accounts(&session(&again).unwrap()).await[0]["email"], "ann@new.example");
        let nameless = place.sign_in(&identity("1", None, false)).await.expect(303);
        assert_eq!(place.user(&session(&nameless).unwrap()).await, me["user"]["id"].as_str().unwrap());
    }
}

#[tokio::test]
async fn the_browser_is_redirected_only_to_an_allowed_next() {
    for database in databases().await {
        let place = Place::on(&database.db).await;
        for (next, location) in [
            ("/deep/page?x=1", "/deep/page?x=1"),
            ("//evil.example", "/"),
            ("https://evil.example/", "/"),
            ("/%5cevil.example", "/"),
            ("", "/"),
            // A link is begun by a page of this site alone, and the way from here would look like one.
            ("/auth/oauth/beta/link", "/"),
            ("/auth/oauthx", "/auth/oauthx"),
        ] {
            let answer = place.sign_in_to(next, &identity("1", Some(ANN), true)).await.expect(303);
            assert_eq!(answer.location(), Some(location), "{next}");
        }
    }
}

#[tokio::test]
async fn the_browser_returns_to_a_front_end_on_an_allowed_origin() {
    for database in databases().await {
        let redirect_urls = vec!["https://spa.example.net/callback".parse().unwrap()];
        let config = AuthConfig { redirect_urls, ..with_public_url() };
        let place = Place::with(config, |builder| builder.database(database.db.clone())).await;
        for (next, location) in [
            ("https://spa.example.net/callback?x=1", "https://spa.example.net/callback?x=1"),
            ("https://spa.example.net/", "/"),
            ("https://spa.example.net@evil.example/callback", "/"),
            ("https://spa.example.net.evil.example/callback", "/"),
            ("https://spa.example.net\\@evil.example/callback", "/"),
            ("https://spa.example.net/callback%2f..%2f..", "/"),
        ] {
            let answer = place.sign_in_to(next, &identity("1", Some(ANN), true)).await.expect(303);
            assert_eq!(answer.location(), Some(location), "{next}");
            assert!(session(&answer).is_some());
        }
    }
}

#[tokio::test]
async fn a_matching_address_does_not_link_a_password_account() {
    for database in databases().await {
        let place = Place::on(&database.db).await;
        let ann = place.ann().await;
        let refused = place.sign_in(&identity("1", Some("ANN@example.com"), true)).await.expect(409);
        assert!(refused.detail().contains("sign in to it") && refused.detail().contains("magic link"));
        assert_eq!((refused.json()["code"].as_str(), session(&refused)), (Some("account_exists"), None));
        assert!(place.accounts(&ann).await.is_empty());
        // Nor does an unverified address change the answer.
        let refused = place.sign_in(&identity("1", Some(ANN), false)).await.expect(409);
        assert_eq!(refused.json()["code"], "email_unverified");
        assert!(place.accounts(&ann).await.is_empty());
    }
}

#[tokio::test]
async fn a_verified_address_links_a_passwordless_account() {
    for database in databases().await {
        let place = Place::on(&database.db).await;
        let first = place.sign_in(&identity("1", Some(ANN), true)).await.expect(303);
        let user = place.user(&session(&first).unwrap()).await;
        let other = place.flow(&place.beta, "/auth/oauth/beta", "", &identity("99", Some(ANN), true)).await.expect(303);
        let other = session(&other).unwrap();
        assert_eq!(place.user(&other).await, user);
        assert_eq!(place.accounts(&other).await.len(), 2);
        assert_eq!(place.user(&session(&first).unwrap()).await, user, "a proven account loses nothing");
    }
}

#[tokio::test]
async fn an_unverified_address_links_nothing_and_creates_an_unverified_account() {
    for database in databases().await {
        let place = Place::on(&database.db).await;
        let first = place.sign_in(&identity("1", Some(ANN), false)).await.expect(303);
        let me = place.me(&session(&first).unwrap()).await.json();
        assert_eq!(me["emailVerified"], false);
        place.flow(&place.beta, "/auth/oauth/beta", "", &identity("99", Some(ANN), false)).await.expect(409);
        assert_eq!(place.accounts(&session(&first).unwrap()).await.len(), 1);
    }
}

#[tokio::test]
async fn an_identity_without_an_address_creates_no_account() {
    for database in databases().await {
        let place = Place::on(&database.db).await;
        for email in [None, Some(""), Some("nonsense"), Some("mi\u{212a}e@example.com")] {
            let answer = place.sign_in(&identity("1", email, true)).await.expect(400);
            assert!(answer.detail().contains("no email address"), "{answer:?}");
        }
    }
}

#[tokio::test]
async fn the_same_identifier_at_another_provider_is_another_account() {
    for database in databases().await {
        let place = Place::on(&database.db).await;
        let ann = place.sign_in(&identity("1", Some(ANN), true)).await.expect(303);
        let bob = place
            .flow(&place.beta, "/auth/oauth/beta", "", &identity("1", Some("bob@example.com"), true))
            .await
            .expect(303);
        assert_ne!(place.user(&session(&ann).unwrap()).await, place.user(&session(&bob).unwrap()).await);
    }
}

#[tokio::test]
async fn a_provider_sign_in_does_not_replace_the_second_factor() {
    for database in databases().await {
        let factor = FakeFactor::default();
        let place = Place::with(with_public_url(), |builder| {
            builder.database(database.db.clone()).second_factor(std::sync::Arc::new(factor.clone()))
        });
        let place = place.await;
        let ann = identity("1", Some(ANN), true);
        place.sign_in(&ann).await.expect(303);
        factor.set(Factor::Enrolled);
        let pending = session(&place.sign_in(&ann).await.expect(303)).unwrap();
        place.me(&pending).await.expect(403);
        Call::get("/auth/oauth/alpha/link").cookie(&pending).send(&place.site).await.expect(403);
        Call::get("/auth/accounts").cookie(&pending).send(&place.site).await.expect(403);
        assert!(place.site.audited().contains(&AuditKind::LoginPendingTwoFactor));
        factor.set(Factor::Broken);
        assert!(session(&place.sign_in(&ann).await.expect(500)).is_none());
    }
}

#[tokio::test]
async fn a_sign_in_replaces_the_browsers_former_session() {
    for database in databases().await {
        let place = Place::on(&database.db).await;
        let before = place.ann().await;
        let bob = place
            .flow(&place.alpha, "/auth/oauth/alpha", &before, &identity("1", Some("bob@example.com"), true))
            .await
            .expect(303);
        place.me(&before).await.expect(401);
        assert_eq!(place.me(&session(&bob).unwrap()).await.json()["user"]["email"], "bob@example.com");
    }
}

#[tokio::test]
async fn the_sign_in_screen_offers_each_provider() {
    for database in databases().await {
        let mut place = Place::on(&database.db).await;
        place.site = place.site.and_screens();
        let page = Call::get("/login?next=/deep").send(&place.site).await.expect(200);
        for (href, label) in [("/auth/oauth/alpha", "alpha"), ("/auth/oauth/beta", "beta")] {
            assert!(page.body.contains(&format!("{href}?next=%2Fdeep")), "{}", page.body);
            assert!(page.body.contains(&format!("Continue with {label}")));
        }
    }
}

#[tokio::test]
async fn a_provider_sign_in_makes_a_browser_known_and_another_one_is_notified() {
    for database in databases().await {
        let place = Place::on(&database.db).await;
        let noticed = || place.site.audited().into_iter().filter(|kind| *kind == AuditKind::DeviceAdded).count();
        let ann = identity("1", Some(ANN), true);
        let first = place.sign_in(&ann).await.expect(303);
        let device = crate::devices::device_of(&first).unwrap();
        assert_eq!(noticed(), 0, "the first sign-in");
        let begun = place.begin("/auth/oauth/alpha", &device).await;
        place.back("alpha", &begun, &place.alpha.code(&ann), &device).await.expect(303);
        assert_eq!(noticed(), 0, "a known browser");
        place.sign_in(&ann).await.expect(303);
        assert_eq!(noticed(), 1, "{}", database.name);
    }
}
