//! The fresh proof that forms of the account page ask for.

use gatewright_auth::AuthConfig;
use gatewright_auth::plugins::account_deletion::AccountDeletionPlugin;
use gatewright_auth::plugins::account_export::AccountExportPlugin;
use gatewright_auth::plugins::email_change::EmailChangePlugin;
use gatewright_auth::plugins::two_factor::TwoFactorPlugin;
use gatewright_db::testing::TestDb;

use crate::mailed::Post;
use crate::support::{ANN, Answer, Call, PASSWORD, Site, config, databases};
use crate::two_factor::enroll_ann;

async fn site(db: &TestDb) -> Site {
    let public_url = Some("https://app.example.com".parse().unwrap());
    let site = Site::with(AuthConfig { public_url, ..config() }, |builder| {
        let builder = builder.database(db.db.clone()).mailer(std::sync::Arc::new(Post::default()));
        let builder = builder.plugin(TwoFactorPlugin::new("Test")).plugin(EmailChangePlugin::new());
        builder.plugin(AccountExportPlugin).plugin(AccountDeletionPlugin)
    });
    let site = site.await.and_screens();
    site.register_ann().await;
    site
}

async fn page(site: &Site, session: &Answer) -> String {
    Call::get("/account").cookie_of(session).send(site).await.expect(200).body
}

/// Names and values of a form's fields.
type Fields = &'static [(&'static str, &'static str)];

/// Each form with the other fields that it needs.
const FORMS: [(&str, &str, Fields); 3] = [
    ("/account/email", "email", &[("email", "new@example.com")]),
    ("/account/export", "export", &[]),
    ("/account/delete", "delete", &[("confirm", ANN)]),
];

#[tokio::test]
async fn every_form_requires_the_same_proof_and_accepts_a_backup_code_once() {
    for db in databases().await {
        let site = site(&db).await;
        let session = site.login_ann().await.expect(200);
        let before = page(&site, &session).await;
        let ann = enroll_ann(&site).await;
        let shown = page(&site, &ann.session).await;
        for (_, form, _) in FORMS {
            let password = format!("<input id=\"{form}-password\" name=\"password\" type=\"password\"");
            let code = format!("<input id=\"{form}-code\" name=\"code\" type=\"text\"");
            assert!(before.contains(&password) && !before.contains(&code), "{form}: {before}");
            assert!(shown.contains(&password) && shown.contains(&code), "{form}: {shown}");
        }
        let label = "Code of your authenticator app, or a backup code";
        assert_eq!(shown.matches(label).count(), FORMS.len(), "{shown}");
        assert!(!shown.contains("inputmode=\"numeric\""), "a backup code has letters: {shown}");

        let post = async |path: &str, more: &[(&str, &str)], code: &str| {
            let form = [&[("password", PASSWORD), ("code", code)], more].concat();
            Call::post(path).form(&form).cookie_of(&ann.session).send(&site).await.status.as_u16()
        };
        for ((path, _, more), code) in FORMS.into_iter().zip(&ann.codes) {
            assert_eq!(post(path, more, "").await, 403, "{path} without a code");
            assert_eq!(post(path, more, "AAAAA-AAAAA").await, 401, "{path} with a wrong one");
            if path == "/account/delete" {
                assert_eq!(post(path, more, &ann.codes[0]).await, 401, "a spent code");
            }
            let done = post(path, more, code).await;
            assert!([200, 303].contains(&done), "{path} on {}: {done}", db.name);
        }
        site.login_ann().await.expect(401);
    }
}
