use gatewright_auth::audit::AuditKind;
use serde_json::json;

use super::Place;
use crate::support::{ANN, Answer, Call, Factor, PASSWORD, databases, set_proven};

const SEND: &str = "/auth/send-verification";
const BROWSER: &str = "text/html,application/xhtml+xml;q=0.9,*/*;q=0.8";

fn count(place: &Place, kind: AuditKind) -> usize {
    place.site.audited().into_iter().filter(|other| *other == kind).count()
}

#[tokio::test]
async fn a_link_verifies_in_the_accounts_own_session_and_may_be_opened_again() {
    for database in databases().await {
        let place = Place::on(&database.db).await;
        let session = place.site.signed_in_ann().await;
        assert_eq!(place.site.me(&session).await.json()["emailVerified"], false);
        let token = place.verification_token(&session, ANN).await;
        let tries = (0..20).map(|_| place.verify_email(&session, &token));
        for answer in futures_util::future::join_all(tries).await {
            assert_eq!(answer.expect(200).json(), json!({ "verified": true }), "{}", database.name);
        }
        assert_eq!(place.site.me(&session).await.json()["emailVerified"], true);
        assert_eq!(count(&place, AuditKind::EmailVerified), 1);
        // Its time is not over: anybody may open it again, and nothing happens.
        assert_eq!(place.scan(&token).await.expect(200).json(), json!({ "verified": true }));
        place.site.login_ann().await.expect(200);
        place.site.advance(24 * 3600);
        assert_eq!(place.scan(&token).await.expect(401).detail(), "invalid or expired token");
    }
}

/// Eve registers Ann's address and asks for verification. The scanner of Ann's mail server opens every link.
#[tokio::test]
async fn a_mail_scanner_proves_nothing_and_the_next_proof_claims_the_account() {
    for database in databases().await {
        let place = Place::with_tokens(&database.db).await;
        let jwt = place.site.register_ann().await.token();
        let eve = place.site.login_ann().await;
        let api_token = place.issue(&eve).await;
        let token = place.verification_token(&eve, ANN).await;
        let path = format!("/auth/verify-email?token={token}");
        Call::get(&path).send(&place.site).await.expect(200);
        Call::new(http::Method::HEAD, &path).send(&place.site).await.expect(405);
        let scanned = place.scan(&token).await.expect(200);
        assert_eq!(scanned.json(), json!({ "verified": false, "confirm": "POST" }));
        assert_eq!(place.site.me(&eve).await.json()["emailVerified"], false);
        assert_eq!(count(&place, AuditKind::EmailVerified), 0);

        place.site.advance(1);
        let link = place.magic_token(ANN).await;
        let ann = place.redeem(&link).await.expect(200);
        place.site.me(&ann).await.expect(200);
        place.site.me(&eve).await.expect(401);
        place.site.login(ANN, PASSWORD).await.expect(401);
        assert!(!place.is_good(&jwt).await && !place.is_good(&api_token).await);
    }
}

#[tokio::test]
async fn a_head_request_verifies_nothing_even_with_the_accounts_session() {
    for database in databases().await {
        let place = Place::on(&database.db).await;
        let session = place.site.signed_in_ann().await;
        let token = place.verification_token(&session, ANN).await;
        let head = Call::new(http::Method::HEAD, &format!("/auth/verify-email?token={token}")).cookie_of(&session);
        assert_eq!(head.send(&place.site).await.expect(405).headers["allow"], "GET, POST");
        assert_eq!(place.site.me(&session).await.json()["emailVerified"], false);
        place.verify_email(&session, &token).await.expect(200);
        assert_eq!(place.site.me(&session).await.json()["emailVerified"], true);
    }
}

/// Eve registers Ann's address and asks for verification. Ann presses the button in her own browser.
#[tokio::test]
async fn a_confirmation_without_the_accounts_session_claims_it() {
    for database in databases().await {
        let place = Place::with_tokens(&database.db).await;
        let jwt = place.site.register_ann().await.token();
        let eve = place.site.login_ann().await;
        let api_token = place.issue(&eve).await;
        let token = place.verification_token(&eve, ANN).await;
        place.site.advance(1);
        let tries = (0..20).map(|_| place.confirm(&token));
        for answer in futures_util::future::join_all(tries).await {
            assert_eq!(answer.expect(200).json(), json!({ "verified": true }), "{}", database.name);
        }
        place.site.advance(1);
        place.site.me(&eve).await.expect(401);
        place.site.login(ANN, PASSWORD).await.expect(401);
        assert!(!place.is_good(&jwt).await && !place.is_good(&api_token).await);
        let events = place.site.audit.events();
        let verified = events.iter().filter(|event| event.kind == AuditKind::EmailVerified);
        let dropped: Vec<_> = verified.filter_map(|event| event.meta.get("dropped")?.as_array()).flatten().collect();
        for kind in ["password", "sessions", "api_tokens"] {
            assert!(dropped.contains(&&json!(kind)), "{}: {dropped:?}", database.name);
        }
        assert_eq!(place.scan(&token).await.expect(200).json(), json!({ "verified": true }));
        // The mailbox is proven now: the same link, posted once more, drops nothing.
        let link = place.magic_token(ANN).await;
        let ann = place.redeem(&link).await.expect(200);
        place.confirm(&token).await.expect(200);
        place.site.me(&ann).await.expect(200);
    }
}

#[tokio::test]
async fn a_pending_session_or_that_of_another_account_is_not_the_accounts_own() {
    for database in databases().await {
        let (place, factor) = Place::with_factor(&database.db).await;
        let jwt = place.site.register_ann().await.token();
        place.site.register("bob@example.com").await;
        let (ann, bob) = (place.site.login_ann().await, place.site.login("bob@example.com", PASSWORD).await);
        let token = place.verification_token(&ann, ANN).await;
        factor.set(Factor::Enrolled);
        let pending = place.site.login_ann().await;
        let unconfirmed = json!({ "verified": false, "confirm": "POST" });
        for session in [&bob, &pending] {
            assert_eq!(place.verify_email(session, &token).await.expect(200).json(), unconfirmed);
        }
        let by_jwt = Call::get(&format!("/auth/verify-email?token={token}")).bearer(&jwt).send(&place.site).await;
        assert_eq!(by_jwt.expect(200).json(), unconfirmed);
        let post = Call::post("/auth/verify-email").json(&json!({ "token": token })).cookie_of(&pending);
        post.send(&place.site).await.expect(200);
        place.site.login(ANN, PASSWORD).await.expect(401);
    }
}

#[tokio::test]
async fn a_post_in_the_accounts_own_session_keeps_its_credentials() {
    for database in databases().await {
        let place = Place::on(&database.db).await;
        let session = place.site.signed_in_ann().await;
        let token = place.verification_token(&session, ANN).await;
        let post = Call::post("/auth/verify-email").json(&json!({ "token": token })).cookie_of(&session);
        assert_eq!(post.send(&place.site).await.expect(200).json(), json!({ "verified": true }));
        assert_eq!(place.site.me(&session).await.expect(200).json()["emailVerified"], true);
        place.site.login_ann().await.expect(200);
    }
}

#[tokio::test]
async fn a_token_of_another_purpose_or_a_former_address_verifies_nothing() {
    for database in databases().await {
        let place = Place::on(&database.db).await;
        let session = place.site.signed_in_ann().await;
        let verification = place.verification_token(&session, ANN).await;
        let (reset, magic) = (place.reset_token(ANN).await, place.magic_token(ANN).await);
        for token in ["", "x", &reset, &magic] {
            place.verify_email(&session, token).await.expect(401);
            place.scan(token).await.expect(401);
            place.confirm(token).await.expect(401);
        }
        Call::post("/auth/verify-email").json(&json!({})).send(&place.site).await.expect(401);
        let change = "UPDATE users SET email = ?1";
        database.db.execute(change, gatewright_db::params!["ann@elsewhere.example"]).await.unwrap();
        place.verify_email(&session, &verification).await.expect(401);
        place.scan(&verification).await.expect(401);
        place.confirm(&verification).await.expect(401);
        assert_eq!(place.site.me(&session).await.json()["emailVerified"], false);
        place.reset(&reset, super::NEW_PASSWORD).await.expect(401);
    }
}

#[tokio::test]
async fn a_spent_link_is_accepted_only_while_its_address_is_verified() {
    for database in databases().await {
        let place = Place::on(&database.db).await;
        let session = place.site.signed_in_ann().await;
        let token = place.verification_token(&session, ANN).await;
        place.verify_email(&session, &token).await.expect(200);
        set_proven(&database.db, ANN, false).await;
        place.verify_email(&session, &token).await.expect(401);
        place.confirm(&token).await.expect(401);
    }
}

#[tokio::test]
async fn only_a_session_with_its_second_factor_may_request_a_link() {
    for database in databases().await {
        let (place, factor) = Place::with_factor(&database.db).await;
        let jwt = place.site.register_ann().await.token();
        Call::post(SEND).json(&json!({})).send(&place.site).await.expect(401);
        Call::post(SEND).json(&json!({})).bearer(&jwt).send(&place.site).await.expect(401);
        let session = place.site.login_ann().await;
        factor.set(Factor::Enrolled);
        let old = Call::post(SEND).json(&json!({})).cookie_of(&session).send(&place.site).await.expect(403);
        assert_eq!(old.detail(), "two-factor verification required");
        let pending = place.site.login_ann().await;
        Call::post(SEND).json(&json!({})).cookie_of(&pending).send(&place.site).await.expect(403);
        assert!(place.mails().await.is_empty());
    }
}

async fn browse(place: &Place, path: &str, session: Option<&Answer>) -> Answer {
    let call = Call::get(path).header("accept", BROWSER);
    let call = session.map_or(Call::get(path).header("accept", BROWSER), |session| call.cookie_of(session));
    let page = call.send(&place.site).await;
    assert!(page.headers["content-type"].to_str().unwrap().starts_with("text/html"), "{page:?}");
    page
}

#[tokio::test]
async fn a_browser_gets_pages() {
    for database in databases().await {
        let mut place = Place::on(&database.db).await;
        place.site = place.site.and_screens();
        let session = place.site.signed_in_ann().await;
        let token = place.verification_token(&session, ANN).await;
        let path = format!("/auth/verify-email?token={token}");
        let asks = browse(&place, &path, None).await.expect(200).body;
        for part in [ANN, token.as_str(), "method=\"post\"", "action=\"/auth/verify-email\"", "removes everything"] {
            assert!(asks.contains(part), "{part}: {asks}");
        }
        // A person who wants to keep the account signs in first, and returns to the link.
        let back = "/login?next=%2Fauth%2Fverify-email%3Ftoken%3D";
        assert!(asks.contains(&format!("{back}{token}").replace('&', "&amp;")), "{asks}");
        let refused = browse(&place, "/auth/verify-email", None).await.expect(401).body;
        assert!(refused.contains("This link was used already, or has expired."));
        let verified = browse(&place, &path, Some(&session)).await.expect(200).body;
        assert!(verified.contains("is confirmed"), "{verified}");

        let bob = place.site.signed_in("bob@example.com").await;
        let token = place.verification_token(&bob, "bob@example.com").await;
        let form = Call::post("/auth/verify-email").form(&[("token", &token)]);
        let claimed = form.send(&place.site).await.expect(200).body;
        assert!(claimed.contains("Everything that was set up before was removed"), "{claimed}");
        assert!(claimed.contains("href=\"/forgot-password\""), "{claimed}");
    }
}

#[tokio::test]
async fn a_page_of_another_site_cannot_confirm() {
    for database in databases().await {
        let place = Place::on(&database.db).await;
        let session = place.site.signed_in_ann().await;
        let token = place.verification_token(&session, ANN).await;
        for (name, value) in
            [("origin", "https://evil.example"), ("sec-fetch-site", "cross-site"), ("sec-fetch-site", "same-site")]
        {
            let form = Call::post("/auth/verify-email").form(&[("token", &token)]).header(name, value);
            form.send(&place.site).await.expect(403);
        }
        assert_eq!(place.site.me(&session).await.json()["emailVerified"], false);
    }
}
