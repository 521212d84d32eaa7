//! Addresses that cannot be read: each route answers as this service does, and never as the framework below it.

use std::sync::Arc;

use gatewright_auth::AuthConfig;
use gatewright_auth::plugins::accounts::AccountsPlugin;
use gatewright_auth::plugins::email_verification::EmailVerificationPlugin;
use gatewright_auth::plugins::magic_link::MagicLinkPlugin;
use gatewright_auth::plugins::password_reset::PasswordResetPlugin;
use gatewright_auth::plugins::tokens::TokensPlugin;
use gatewright_auth::plugins::two_factor::TwoFactorPlugin;
use gatewright_db::testing::TestDb;
use http::Method;

use crate::mailed::Post;
use crate::support::{Call, Site, config, databases};

const PROBLEM: &str = "application/problem+json";
const PAGE: &str = "text/html; charset=utf-8";

async fn site(db: &TestDb) -> Site {
    let settings = AuthConfig { public_url: Some("https://example.com".parse().unwrap()), ..config() };
    let site = Site::with(settings, |builder| {
        let builder = builder.database(db.db.clone()).mailer(Arc::new(Post::default()));
        let builder = builder.plugin(TwoFactorPlugin::new("Test"));
        let builder = builder.plugin(MagicLinkPlugin::new()).plugin(EmailVerificationPlugin::new());
        builder.plugin(PasswordResetPlugin::new()).plugin(TokensPlugin::new()).plugin(AccountsPlugin)
    });
    site.await.and_screens()
}

#[tokio::test]
async fn a_duplicate_query_parameter_is_reported_in_the_visitors_language() {
    for db in databases().await {
        let site = site(&db).await;
        let ann = site.signed_in_ann().await;
        for (path, name) in [
            ("/auth/verify-email?token=a&token=canary", "token"),
            ("/auth/magic-link/verify?token=a&token=canary", "token"),
            ("/reset-password?token=a&token=canary", "token"),
            ("/login?next=/a&next=/canary", "next"),
            ("/register?next=/a&next=/canary", "next"),
            ("/two-factor?next=/a&next=/canary", "next"),
            ("/account/devices?done=a&done=canary", "done"),
        ] {
            for (accept, kind) in [("*/*", PROBLEM), ("text/html,*/*;q=0.8", PAGE)] {
                let answer = Call::get(path).header("accept", accept).cookie_of(&ann).send(&site).await.expect(400);
                assert_eq!(answer.headers["content-type"], kind, "{path}");
                assert!(answer.body.contains(&format!("the query parameter {name} is given more than once")), "{path}");
                assert!(!answer.body.contains("canary"), "{path}");
            }
        }
        for path in ["/auth/verify-email?token=%ff", "/login?next=%ff"] {
            let answer = Call::get(path).send(&site).await.expect(400);
            assert_eq!(
                (answer.detail().as_str(), &answer.headers["content-type"]),
                ("the query is not valid UTF-8", &PROBLEM.parse().unwrap())
            );
        }
    }
}

#[tokio::test]
async fn a_name_that_is_not_text_is_not_found() {
    for db in databases().await {
        let site = site(&db).await;
        let ann = site.signed_in_ann().await;
        for path in ["/auth/sessions/", "/auth/tokens/", "/auth/unlink/"] {
            for name in ["%ff", "%00", "a%00b", "%20", "..%2f..", "x"] {
                let call = || Call::new(Method::DELETE, &format!("{path}{name}"));
                let answer = call().cookie_of(&ann).send(&site).await.expect(404);
                assert_eq!(answer.headers["content-type"], PROBLEM, "{path}{name}");
                call().send(&site).await.expect(401);
            }
        }
        for (path, page, notice) in [
            ("/account/sessions/%ff/end", "devices", "session-gone"),
            ("/account/tokens/%00/revoke", "tokens", "token-gone"),
            ("/account/providers/%ff/unlink", "sign-in", "not-linked"),
        ] {
            let answer = Call::post(path).form(&[]).cookie_of(&ann).send(&site).await.expect(303);
            assert!(answer.location().unwrap().starts_with(&format!("/account/{page}?done={notice}#")), "{answer:?}");
        }
    }
}
