//! The mails that warn an owner of changes of the second factor.

use std::sync::Arc;
use std::time::Duration;

use gatewright_auth::plugins::two_factor::TwoFactorPlugin;
use gatewright_auth::{AuthConfig, MailKind};

use super::{enroll_ann, send};
use crate::mailed::Post;
use crate::support::{ANN, Call, Site, config, databases, set_proven};

#[tokio::test]
async fn a_proven_address_gets_a_notice_of_each_change_of_the_second_factor() {
    for db in databases().await {
        let post = Arc::new(Post::default());
        let public_url = Some("https://app.example.com/base/".parse().unwrap());
        let site = Site::with(AuthConfig { public_url, ..config() }, |builder| {
            builder.database(db.db.clone()).mailer(post.clone()).plugin(TwoFactorPlugin::new("Blog"))
        });
        let site = site.await;
        site.register_ann().await;
        for proven in [false, true] {
            set_proven(&db.db, ANN, proven).await;
            let ann = enroll_ann(&site).await;
            Call::get("/auth/2fa/backup-codes").cookie_of(&ann.session).send(&site).await.expect(200);
            send(&site, "disable", &ann.session, "000-000").await.expect(401);
            send(&site, "disable", &ann.session, &ann.app.code(&site)).await.expect(200);
            site.auth.settle(Duration::from_mins(1)).await;
            let mails = post.mails.lock().clone();
            let kinds: Vec<_> = mails.iter().map(|mail| mail.kind).collect();
            let all = [MailKind::TwoFactorEnabled, MailKind::BackupCodesReplaced, MailKind::TwoFactorDisabled];
            assert_eq!(kinds, if proven { &all[..] } else { &[] }, "{}", db.name);
            for mail in mails {
                let (to, link) = (mail.to.as_str().to_owned(), mail.link.expose().to_owned());
                assert_eq!((to.as_str(), link.as_str()), (ANN, "https://app.example.com/base/account#two-factor"));
            }
            site.advance(60);
        }
    }
}
