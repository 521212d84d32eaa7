//! Users return only to a front end on an allowed origin.

use gatewright_auth::{AuthConfig, MailKind};
use gatewright_db::testing::engines;
use serde_json::json;

use super::{FORGOT, NEW_PASSWORD, Place, RESET, SEND, VERIFY, plugins, with_public_url};
use crate::support::{ANN, Call, PASSWORD};

const APP: &str = "https://spa.example.net/callback?x=1";
const FORM: &str = "https://spa.example.net";

fn with_app() -> AuthConfig {
    let redirect_urls = vec!["https://spa.example.net/callback".parse().unwrap()];
    AuthConfig { redirect_urls, ..with_public_url() }
}

async fn place(db: &gatewright_db::Db) -> Place {
    let mut place = Place::with(with_app(), |builder| plugins(builder).database(db.clone())).await;
    place.site = place.site.and_screens();
    place
}

#[tokio::test]
async fn a_sign_in_form_leads_back_to_the_front_end() {
    for db in engines().await {
        let place = place(&db.db).await;
        place.site.register_ann().await;
        let screen = Call::get(&format!("/login?next={}", urlencode(APP))).send(&place.site).await.expect(200);
        assert!(screen.body.contains(&format!("name=\"next\" value=\"{APP}\"")), "{}", screen.body);
        let policy = screen.headers["content-security-policy"].to_str().unwrap();
        assert!(policy.contains(&format!("form-action 'self' {FORM};")), "{policy}");
        let form = [("email", ANN), ("password", PASSWORD), ("next", APP)];
        let answer = Call::post("/auth/login").form(&form).send(&place.site).await.expect(303);
        assert_eq!(answer.location(), Some(APP));
        // A signed-in user is redirected at once.
        let screen = Call::get(&format!("/login?next={}", urlencode(APP))).cookie_of(&answer).send(&place.site).await;
        assert_eq!(screen.location(), Some(APP));
    }
}

#[tokio::test]
async fn a_magic_link_leads_back_to_the_front_end() {
    for db in engines().await {
        let place = place(&db.db).await;
        Call::post(SEND).json(&json!({ "email": ANN, "next": APP })).send(&place.site).await.expect(200);
        let token = place.token(MailKind::MagicLink, ANN).await;
        let page = Call::get(&format!("{VERIFY}?token={token}")).send(&place.site).await.expect(200);
        assert!(page.headers["content-security-policy"].to_str().unwrap().contains(FORM));
        let answer = Call::post(VERIFY).form(&[("token", &token)]).send(&place.site).await.expect(303);
        assert_eq!(answer.location(), Some(APP));
        place.site.me(&answer).await.expect(200);
    }
}

#[tokio::test]
async fn a_reset_leads_back_to_the_front_end_through_the_sign_in() {
    for db in engines().await {
        let place = place(&db.db).await;
        place.site.register_ann().await;
        Call::post(FORGOT).json(&json!({ "email": ANN, "next": APP })).send(&place.site).await.expect(200);
        let token = place.token(MailKind::PasswordReset, ANN).await;
        let form = [("token", &*token), ("password", NEW_PASSWORD)];
        let page = Call::post(RESET).form(&form).send(&place.site).await.expect(200);
        assert!(page.body.contains(&format!("href=\"/login?next={}\"", urlencode(APP))), "{}", page.body);
    }
}

#[tokio::test]
async fn a_verification_leads_back_to_the_front_end() {
    for db in engines().await {
        let place = place(&db.db).await;
        let session = place.site.signed_in_ann().await;
        let body = json!({ "next": APP });
        Call::post("/auth/send-verification").json(&body).cookie_of(&session).send(&place.site).await.expect(200);
        let token = place.token(MailKind::EmailVerification, ANN).await;
        let link = format!("/auth/verify-email?token={token}");
        let page = Call::get(&link).header("accept", "text/html").cookie_of(&session).send(&place.site).await;
        assert!(page.body.contains(&format!("href=\"{APP}\"")), "{}", page.body);
    }
}

#[tokio::test]
async fn a_next_that_is_not_allowed_leads_to_the_root() {
    for db in engines().await {
        let place = place(&db.db).await;
        place.site.register_ann().await;
        for bad in [
            "https://evil.example.net/callback",
            "https://spa.example.net@evil.com/callback",
            "https://spa.example.net.evil.com/callback",
            "https://spa.example.net\\@evil.com/callback",
            "https://spa.example.net/callback/..%2f..%2fadmin",
            "https://spa.example.net%2f@evil.com/callback",
            "/\\evil.com",
            "https://spa.example.net:8443/callback",
            "http://spa.example.net/callback",
            "//spa.example.net/callback",
            "javascript:alert(1)",
        ] {
            let form = [("email", ANN), ("password", PASSWORD), ("next", bad)];
            let answer = Call::post("/auth/login").form(&form).from("198.51.100.9").send(&place.site).await;
            // The account's own limit still applies; no answer may lead anywhere else.
            assert!(matches!(answer.location(), Some("/") | None), "{bad}: {answer:?}");
            Call::post(SEND).json(&json!({ "email": ANN, "next": bad })).send(&place.site).await;
            let token = place.token(MailKind::MagicLink, ANN).await;
            let answer = Call::post(VERIFY).form(&[("token", &token)]).send(&place.site).await.expect(303);
            assert_eq!(answer.location(), Some("/"), "{bad}");
            // A mailbox gets few mails in an hour.
            place.site.advance(3600);
        }
    }
}

#[tokio::test]
async fn without_redirect_urls_no_other_origin_is_redirected_to() {
    for db in engines().await {
        let place = Place::on(&db.db).await;
        place.site.register_ann().await;
        let form = [("email", ANN), ("password", PASSWORD), ("next", APP)];
        let answer = Call::post("/auth/login").form(&form).send(&place.site).await.expect(303);
        assert_eq!(answer.location(), Some("/"));
    }
}

fn urlencode(text: &str) -> String {
    url::form_urlencoded::byte_serialize(text.as_bytes()).collect()
}
