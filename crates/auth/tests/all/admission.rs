//! A caller without the right is refused whatever the body contains: the right is checked before the body is read.

use std::sync::Arc;
use std::time::Duration;

use gatewright_auth::AuthConfig;
use gatewright_auth::plugins::email_verification::EmailVerificationPlugin;
use gatewright_auth::plugins::tokens::TokensPlugin;
use gatewright_auth::plugins::two_factor::TwoFactorPlugin;
use gatewright_limits::Policy;

use crate::mailed::Post;
use crate::support::{Call, Site, config, databases};
use crate::two_factor::enroll_ann;

const ROUTES: [&str; 7] = [
    "/auth/2fa/enroll",
    "/auth/2fa/verify",
    "/auth/2fa/disable",
    "/auth/2fa/backup-codes",
    "/auth/change-password",
    "/auth/send-verification",
    "/auth/tokens",
];

const JSON: &str = "application/json";
const FORM: &str = "application/x-www-form-urlencoded";

#[tokio::test]
async fn anonymous_and_pending_callers_are_refused_before_the_body_is_read() {
    for db in databases().await {
        let mut settings = AuthConfig { public_url: Some("https://example.com".parse().unwrap()), ..config() };
        // Limits are checked first; this test does not concern them.
        let loose = Policy::new(1000, Duration::from_mins(15), Duration::from_mins(30));
        (settings.limits.two_factor.policy, settings.limits.email_verification.policy) = (loose, loose);
        let site = Site::with(settings, |builder| {
            let builder = builder.database(db.db.clone()).mailer(Arc::new(Post::default()));
            let builder = builder.plugin(TwoFactorPlugin::new("Test"));
            builder.plugin(EmailVerificationPlugin::new()).plugin(TokensPlugin::new())
        });
        let site = site.await;
        let jwt = site.register_ann().await.token();
        enroll_ann(&site).await;
        let pending = site.login_ann().await.expect(200);
        for (content_type, body) in [(JSON, "{}"), (JSON, "{"), (JSON, "{\"code\":1}"), (FORM, ""), (FORM, "code=%ff")]
        {
            let call = |path: &str| Call::post(path).body(content_type, body);
            for path in ROUTES {
                let call = || call(path);
                let anonymous = call().send(&site).await.expect(401);
                call().bearer(&jwt).send(&site).await.expect(401);
                let refused_pending = call().cookie_of(&pending).send(&site).await.expect(403);
                assert!(
                    refused_pending.body.contains("two-factor verification required"),
                    "{path} {body}: {refused_pending:?}"
                );
                let page = content_type == FORM && path != "/auth/tokens";
                for answer in [anonymous, refused_pending] {
                    let kind = answer.headers["content-type"].to_str().unwrap();
                    assert_eq!(kind.starts_with("text/html"), page, "{path} {body}: {answer:?}");
                }
            }
            call("/auth/2fa/challenge").send(&site).await.expect(401);
        }
        site.me(&pending).await.expect(403);
    }
}
