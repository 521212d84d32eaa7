use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use gatewright_auth::audit::AuditKind;
use gatewright_auth::plugins::magic_link::MagicLinkPlugin;
use gatewright_auth::users::UserStore;
use gatewright_auth::{AuthConfig, EmailAddress, MailKind};
use gatewright_base::Ambient;
use gatewright_limits::Policy;
use serde_json::json;

use super::{Place, SEND, VERIFY, plugins, with_public_url};
use crate::support::{ANN, Call, Factor, PASSWORD, Users, databases};

#[tokio::test]
async fn a_link_creates_an_account_with_the_default_roles_and_signs_in() {
    for database in databases().await {
        let place = Place::on(&database.db).await;
        let token = place.magic_token(ANN).await;
        let answer = place.redeem(&token).await.expect(200);
        assert_eq!(answer.json()["user"]["roles"], json!(["user"]), "{}", database.name);
        let me = place.site.me(&answer).await.expect(200).json();
        assert_eq!((&me["user"]["email"], &me["emailVerified"]), (&json!(ANN), &json!(true)));
        Call::get("/whoami").bearer(&answer.token()).send(&place.site).await.expect(200);
        let kinds = place.site.audited();
        let names = kinds.iter().map(|kind| kind.name()).collect::<Vec<_>>();
        assert_eq!(names, ["magiclink.requested", "register.succeeded", "magiclink.consumed", "login.succeeded"]);
        // There is no password that could sign in, whatever it is.
        place.site.login(ANN, PASSWORD).await.expect(401);
    }
}

#[tokio::test]
async fn a_form_redirects_to_next() {
    for database in databases().await {
        let place = Place::on(&database.db).await;
        for (next, location) in [
            ("/deep/page?x=1", "/deep/page?x=1"),
            ("//evil.example", "/"),
            ("https://evil.example/", "/"),
            ("/\\evil.example", "/"),
            ("", "/"),
        ] {
            let form = [("email", ANN), ("next", next)];
            let asked = Call::post(SEND).form(&form).send(&place.site).await.expect(200);
            let token = place.token(MailKind::MagicLink, ANN).await;
            assert!(!token.contains("next"), "the link carries nothing but the token");
            // The browser that asked needs no code.
            let call = Call::post(VERIFY).form(&[("token", &token)]).cookie_of(&asked);
            let answer = call.send(&place.site).await.expect(303);
            assert_eq!(answer.location(), Some(location), "{next}");
            assert!(answer.cookie().is_some());
        }
    }
}

#[tokio::test]
async fn opening_the_link_never_redeems_it() {
    for database in databases().await {
        let place = Place::on(&database.db).await;
        let token = place.magic_token(ANN).await;
        for method in [http::Method::GET, http::Method::HEAD, http::Method::GET] {
            let path = format!("{VERIFY}?token={token}");
            let page = Call::new(method, &path).send(&place.site).await.expect(200);
            assert!(page.cookie().is_none());
            assert_eq!(page.headers["cache-control"], "no-store");
        }
        let page = Call::get(&format!("{VERIFY}?token={token}")).send(&place.site).await.expect(200);
        assert!(page.body.contains(ANN) && page.body.contains(&token) && page.body.contains("method=\"post\""));
        place.redeem(&token).await.expect(200);
        let page = Call::get(&format!("{VERIFY}?token={token}")).send(&place.site).await.expect(401);
        assert!(page.body.contains("This link was used already, or has expired.") && !page.body.contains(ANN));
    }
}

#[tokio::test]
async fn one_of_twenty_parallel_uses_of_a_link_on_two_replicas_signs_in() {
    for database in databases().await {
        let (one, two) = (Place::on(&database.db).await, Arc::new(Place::on(&database.db).await));
        let token = one.magic_token(ANN).await;
        let one = Arc::new(one);
        let tries = (0..20).map(|index| {
            let (place, token) = (if index % 2 == 0 { one.clone() } else { two.clone() }, token.clone());
            tokio::spawn(async move { place.redeem(&token).await })
        });
        let answers = futures_util::future::join_all(tries).await;
        let statuses: Vec<_> = answers.into_iter().map(|answer| answer.unwrap().status.as_u16()).collect();
        assert_eq!(statuses.iter().filter(|status| **status == 200).count(), 1, "{}: {statuses:?}", database.name);
        assert_eq!(statuses.iter().filter(|status| **status == 401).count(), 19, "{}: {statuses:?}", database.name);
    }
}

#[tokio::test]
async fn every_invalid_token_gets_the_same_answer() {
    for database in databases().await {
        let place = Place::on(&database.db).await;
        let caller = place.site.signed_in_ann().await;
        let reset = place.reset_token(ANN).await;
        let verification = place.verification_token(&caller, ANN).await;
        let late = place.magic_token(ANN).await;
        place.site.advance(15 * 60);
        let spent = place.magic_token(ANN).await;
        place.redeem(&spent).await.expect(200);
        let random = "A".repeat(43);
        for token in ["", "x", "' OR 1=1 --", &random, &reset, &verification, &late, &spent] {
            let answer = place.redeem(token).await.expect(401);
            assert_eq!(answer.detail(), "invalid or expired token", "{}: {token}", database.name);
            assert!(answer.cookie().is_none());
        }
        Call::post(VERIFY).json(&json!({})).send(&place.site).await.expect(401);
    }
}

#[tokio::test]
async fn a_page_of_another_or_a_sibling_site_cannot_sign_its_visitor_in() {
    for database in databases().await {
        let place = Place::on(&database.db).await;
        let token = place.magic_token("eve@example.com").await;
        for (name, value) in [
            ("origin", "https://evil.example"),
            ("sec-fetch-site", "cross-site"),
            ("sec-fetch-site", "same-site"),
            ("origin", "null"),
        ] {
            let form = Call::post(VERIFY).form(&[("token", &token)]).header(name, value);
            let answer = form.send(&place.site).await.expect(403);
            assert!(answer.body.contains("cross-site request refused") && answer.cookie().is_none());
        }
        let own = Call::post(VERIFY).form(&[("token", &token)]).header("origin", "https://app.example.com");
        own.send(&place.site).await.expect(303);
    }
}

#[tokio::test]
async fn links_are_built_from_the_public_url_and_never_from_the_request() {
    for database in databases().await {
        let place = Place::on(&database.db).await;
        let forged = Call::post(SEND).json(&json!({ "email": ANN }));
        let forged = forged.header("host", "evil.example").header("x-forwarded-host", "evil.example");
        forged.header("forwarded", "host=evil.example").send(&place.site).await.expect(200);
        let link = place.mails().await.remove(0).link;
        assert!(link.expose().starts_with("https://app.example.com/auth/magic-link/verify?token="));
    }
}

#[tokio::test]
async fn neither_the_answer_nor_the_mail_reveals_whether_an_account_exists() {
    for database in databases().await {
        let place = Place::on(&database.db).await;
        place.site.register_ann().await;
        let known = Call::post(SEND).json(&json!({ "email": ANN })).send(&place.site).await.expect(200);
        let unknown = Call::post(SEND).json(&json!({ "email": "bob@example.com" })).send(&place.site).await.expect(200);
        assert_eq!((known.body.as_str(), unknown.body.as_str()), (r#"{"sent":true}"#, r#"{"sent":true}"#));
        let mails = place.mails().await;
        assert_eq!(mails.len(), 2);
        assert_eq!((mails[0].kind, mails[0].lifetime), (mails[1].kind, mails[1].lifetime));
    }
}

#[tokio::test]
async fn the_first_proof_of_a_mailbox_drops_all_earlier_credentials() {
    for database in databases().await {
        let (place, factor) = Place::with_factor(&database.db).await;
        // Eve registers Ann's address and waits.
        let jwt = place.site.register_ann().await.token();
        let session = place.site.login_ann().await.expect(200);
        let reset = place.reset_token(ANN).await;
        let verification = place.verification_token(&session, ANN).await;
        let other_link = place.magic_token(ANN).await;
        place.site.advance(1);
        factor.set(Factor::Enrolled);

        let link = place.magic_token(ANN).await;
        let ann = place.redeem(&link).await.expect(200);
        assert!(ann.json().get("two_factor_required").is_none(), "Eve's second factor is gone");
        place.site.me(&ann).await.expect(200);
        assert_eq!(
            Call::get("/whoami").bearer(&ann.token()).send(&place.site).await.json()["id"],
            ann.json()["user"]["id"]
        );
        place.site.advance(1);

        place.site.me(&session).await.expect(401);
        assert!(!place.is_good(&jwt).await);
        place.site.login(ANN, PASSWORD).await.expect(401);
        place.reset(&reset, "a password of Eve's").await.expect(401);
        place.redeem(&other_link).await.expect(401);
        place.confirm(&verification).await.expect(401);
        let events = place.site.audit.events();
        let verified = events.iter().find(|event| event.kind == AuditKind::EmailVerified).expect("it is audited");
        assert_eq!(
            verified.meta["dropped"],
            json!(["password", "sessions", "second_factor", "single_use_tokens"]),
            "{}",
            database.name
        );
    }
}

#[tokio::test]
async fn a_link_to_a_proven_mailbox_drops_nothing() {
    for database in databases().await {
        let place = Place::on(&database.db).await;
        let session = place.site.signed_in_ann().await;
        let verification = place.verification_token(&session, ANN).await;
        place.verify_email(&session, &verification).await.expect(200);
        let link = place.magic_token(ANN).await;
        place.redeem(&link).await.expect(200);
        place.site.me(&session).await.expect(200);
        place.site.login_ann().await.expect(200);
    }
}

#[tokio::test]
async fn a_link_does_not_replace_the_second_factor() {
    for database in databases().await {
        let (place, factor) = Place::with_factor(&database.db).await;
        let link = place.magic_token(ANN).await;
        place.redeem(&link).await.expect(200);
        factor.set(Factor::Enrolled);
        let link = place.magic_token(ANN).await;
        let answer = place.redeem(&link).await.expect(200);
        assert_eq!(answer.json()["two_factor_required"], true);
        assert!(answer.json().get("token").is_none());
        assert_eq!(place.site.me(&answer).await.expect(403).detail(), "two-factor verification required");
        factor.set(Factor::Broken);
        let link = place.magic_token(ANN).await;
        assert!(place.redeem(&link).await.expect(500).cookie().is_none());
    }
}

#[tokio::test]
async fn a_failing_store_creates_no_account_and_keeps_the_link_valid() {
    let config = AuthConfig { allow_in_memory_stores: true, ..with_public_url() };
    let (ambient, _) = Ambient::manual("2026-01-02T03:04:05Z".parse().unwrap(), 99);
    let users = Users::new(&ambient, true);
    let given = users.clone();
    let place = Place::with(config, |builder| builder.plugin(MagicLinkPlugin::new()).users(given)).await;
    let link = place.magic_token(ANN).await;
    users.down.store(true, Ordering::SeqCst);
    place.redeem(&link).await.expect(503);
    users.down.store(false, Ordering::SeqCst);
    let email = EmailAddress::parse(ANN).unwrap();
    assert!(users.inner.find_by_email(&email).await.is_err(), "nobody was created");
    place.redeem(&link).await.expect(200);
}

#[tokio::test]
async fn an_address_with_a_header_in_it_is_refused() {
    for database in databases().await {
        let place = Place::on(&database.db).await;
        for email in
            ["ann@example.com\r\nBcc: eve@example.com", "ann@example.com, eve@example.com", "<ann@example.com>"]
        {
            Call::post(SEND).json(&json!({ "email": email })).send(&place.site).await.expect(422);
        }
        assert!(place.mails().await.is_empty());
    }
}

#[tokio::test]
async fn mails_to_one_mailbox_are_limited() {
    for database in databases().await {
        let mut config = with_public_url();
        config.limits.magic_link.policy = Policy::new(1000, Duration::from_mins(15), Duration::from_mins(15));
        let place = Place::with(config, |builder| plugins(builder).database(database.db.clone())).await;
        for _ in 0..40 {
            Call::post(SEND).json(&json!({ "email": ANN })).send(&place.site).await.expect(200);
        }
        assert_eq!(place.mails().await.len(), 10);
    }
}
