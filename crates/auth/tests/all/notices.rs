//! The mails that warn the owner of an account: who gets them, and how many.

use std::sync::Arc;
use std::time::Duration;

use gatewright_auth::plugins::email_change::EmailChangePlugin;
use gatewright_auth::plugins::passkeys::PasskeysPlugin;
use gatewright_auth::plugins::two_factor::TwoFactorPlugin;
use gatewright_auth::{AuthConfig, MailKind};
use gatewright_db::testing::TestDb;
use serde_json::{Value, json};

use crate::mailed::Post;
use crate::passkeys::Authenticator;
use crate::support::{ANN, Answer, Call, PASSWORD, Site, config, databases, set_proven};
use crate::two_factor::enroll;

/// Every kind of mail, and who gets it if it is a notice. A new kind does not compile until it is decided here.
fn recipient(kind: MailKind) -> Option<Recipient> {
    match kind {
        MailKind::PasskeyAdded
        | MailKind::TwoFactorEnabled
        | MailKind::TwoFactorDisabled
        | MailKind::BackupCodesReplaced
        | MailKind::NewDevice
        | MailKind::EmailChangeUndone
        | MailKind::TokenCreated
        | MailKind::ProgramConnected
        | MailKind::ProviderLinked
        | MailKind::MembersChanged => Some(Recipient::ProvenMailbox),
        MailKind::EmailChanged => Some(Recipient::FormerMailbox),
        MailKind::MagicLink
        | MailKind::EmailVerification
        | MailKind::PasswordReset
        | MailKind::EmailChange
        | MailKind::EmailCode
        | MailKind::Invitation => None,
    }
}

#[derive(Debug, PartialEq)]
enum Recipient {
    /// The account's mailbox, if it is proven.
    ProvenMailbox,
    /// The former mailbox of an account, proven or not, because the mail gets the account back.
    FormerMailbox,
}

struct Place {
    site: Site,
    post: Arc<Post>,
}

impl Place {
    async fn on(db: &TestDb) -> Self {
        let post = Arc::new(Post::default());
        let public_url = Some("https://app.example.com".parse().unwrap());
        let config = AuthConfig { public_url, new_device_notice: true, ..config() };
        let site = Site::with(config, |builder| {
            let builder = builder.database(db.db.clone()).mailer(post.clone()).plugin(TwoFactorPlugin::new("Test"));
            builder.plugin(PasskeysPlugin::new("Test")).plugin(EmailChangePlugin::new())
        });
        let place = Self { site: site.await, post };
        place.site.register_ann().await;
        place
    }

    /// The kinds of the mails so far, each of which goes to Ann.
    async fn kinds(&self) -> Vec<MailKind> {
        self.site.auth.settle(Duration::from_mins(1)).await;
        let mails = self.post.mails.lock();
        assert!(mails.iter().all(|mail| mail.to.as_str() == ANN));
        mails.iter().map(|mail| mail.kind).collect()
    }

    async fn add_passkey(&self, session: &Answer, name: &str) {
        let body = json!({ "password": PASSWORD });
        let options = Call::post("/auth/passkeys/register/options").cookie_of(session).json(&body).send(&self.site);
        let options = options.await.expect(200);
        let mut credential: Value = Authenticator::new(name).create(&options.json());
        credential["name"] = name.into();
        let cookies = format!("{}; {}", session.cookie().unwrap(), options.cookie().unwrap());
        let call = Call::post("/auth/passkeys/register").cookie(&cookies).json(&credential);
        call.send(&self.site).await.expect(201);
    }

    /// Each action that causes a notice to the account's mailbox, once.
    async fn act(&self) {
        // The second sign-in is from a new device.
        self.site.login_ann().await;
        self.site.advance(1);
        let session = self.site.login_ann().await;
        self.add_passkey(&session, "phone").await;
        let ann = enroll(&self.site, session).await;
        Call::get("/auth/2fa/backup-codes").cookie_of(&ann.session).send(&self.site).await.expect(200);
        self.site.advance(60);
        let body = json!({ "code": ann.app.code(&self.site) });
        Call::post("/auth/2fa/disable").json(&body).cookie_of(&ann.session).send(&self.site).await.expect(200);
    }
}

#[tokio::test]
async fn every_notice_goes_to_proven_mailboxes_only() {
    let table = [
        MailKind::NewDevice,
        MailKind::PasskeyAdded,
        MailKind::TwoFactorEnabled,
        MailKind::BackupCodesReplaced,
        MailKind::TwoFactorDisabled,
    ];
    assert!(table.iter().all(|kind| recipient(*kind) == Some(Recipient::ProvenMailbox) && kind.is_notice()));
    assert_eq!(recipient(MailKind::EmailChanged), Some(Recipient::FormerMailbox));
    for db in databases().await {
        for proven in [false, true] {
            let place = Place::on(&db).await;
            set_proven(&db.db, ANN, proven).await;
            place.act().await;
            assert_eq!(place.kinds().await, if proven { &table[..] } else { &[] }, "proven: {proven}, {}", db.name);
            let accounts = place.site.auth.accounts();
            accounts.delete(&accounts.find(ANN).await.unwrap().id).await.unwrap();
        }
    }
}

/// A thief adds passkeys without end. The owner gets ten mails in an hour, and those of another kind as before.
#[tokio::test]
async fn notices_are_within_a_limit_of_their_kind_and_mailbox() {
    for db in databases().await {
        let place = Place::on(&db).await;
        set_proven(&db.db, ANN, true).await;
        let session = place.site.login_ann().await;
        let passkeys = |kinds: Vec<MailKind>| kinds.iter().filter(|kind| **kind == MailKind::PasskeyAdded).count();
        for n in 0..15 {
            if n == 9 {
                // The limit of fresh proofs is another one.
                let accounts = place.site.auth.accounts();
                accounts.unlock(&accounts.find(ANN).await.unwrap().id).await.unwrap();
            }
            place.add_passkey(&session, &format!("key {n}")).await;
        }
        assert_eq!(passkeys(place.kinds().await), 10, "{}", db.name);
        place.site.advance(1);
        place.site.login_ann().await;
        assert_eq!(place.kinds().await.last(), Some(&MailKind::NewDevice), "{}", db.name);
        place.site.advance(3600);
        let session = place.site.login_ann().await;
        place.add_passkey(&session, "later").await;
        assert_eq!(passkeys(place.kinds().await), 11, "{}", db.name);
    }
}
