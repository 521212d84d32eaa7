//! Who may register, and who must prove a mailbox first.

use std::sync::Arc;
use std::time::Duration;

use gatewright_auth::plugins::email_verification::EmailVerificationPlugin;
use gatewright_auth::plugins::invitations::InvitationsPlugin;
use gatewright_auth::plugins::magic_link::MagicLinkPlugin;
use gatewright_auth::{AuthBuilder, AuthConfig, AuthInitError, MailKind, Registration};
use gatewright_db::testing::TestDb;
use http::header::SET_COOKIE;
use serde_json::json;

use crate::mailed::Post;
use crate::support::{ANN, Answer, Call, PASSWORD, Site, WRONG, config, databases, invitation};

async fn site(db: &TestDb, config: AuthConfig) -> (Site, Arc<Post>) {
    let post = Arc::new(Post::default());
    let public_url = Some("https://app.example.com".parse().unwrap());
    let config = AuthConfig { public_url, ..config };
    let site = Site::with(config, |builder| plugins(builder).database(db.db.clone()).mailer(post.clone()));
    (site.await.and_screens(), post)
}

fn plugins(builder: AuthBuilder) -> AuthBuilder {
    let builder = builder.plugin(MagicLinkPlugin::new()).plugin(EmailVerificationPlugin::new());
    builder.plugin(InvitationsPlugin::new())
}

async fn token(site: &Site, post: &Post, kind: MailKind) -> String {
    site.auth.settle(Duration::from_secs(10)).await;
    let mails = post.mails.lock();
    let mail = mails.last().expect("a mail was sent");
    assert_eq!(mail.kind, kind);
    mail.link.expose().rsplit_once('=').unwrap().1.to_owned()
}

/// The cookie by which a browser is known in which the password was given.
fn note(answer: &Answer) -> String {
    let mut lines = answer.headers.get_all(SET_COOKIE).iter().map(|line| line.to_str().unwrap());
    let line = lines.find(|line| line.starts_with("__Host-svc_registered=")).expect("a note was set");
    line.split(';').next().unwrap().to_owned()
}

#[tokio::test]
async fn without_an_invitation_no_sign_up_method_creates_an_account() {
    for db in databases().await {
        for registration in [Registration::Invite, Registration::Closed] {
            let (site, post) = site(&db, AuthConfig { registration, ..config() }).await;
            let body = json!({ "email": ANN, "password": PASSWORD });
            let refused = Call::post("/auth/register").json(&body).send(&site).await.expect(403);
            assert_eq!(refused.json()["code"], "registration_closed");
            // Sending reveals nothing; redeeming does.
            Call::post("/auth/magic-link/send").json(&json!({ "email": ANN })).send(&site).await.expect(200);
            let magic = json!({ "token": token(&site, &post, MailKind::MagicLink).await });
            let refused = Call::post("/auth/magic-link/verify").json(&magic).send(&site).await.expect(403);
            assert_eq!((refused.json()["code"].as_str(), refused.set_cookie()), (Some("registration_closed"), None));
            assert!(site.auth.accounts().find(ANN).await.is_err());
            // The screens show the next step.
            let page = Call::get("/register").send(&site).await.expect(403);
            assert!(page.body.contains("href=\"/login\""), "{}", page.body);
            let page = Call::get("/login").send(&site).await.expect(200);
            assert!(!page.body.contains("/register"), "{}", page.body);
            // Existing accounts sign in by link.
            site.auth.accounts().create("bob@example.com", None, None).await.unwrap();
            let bob = json!({ "email": "bob@example.com" });
            Call::post("/auth/magic-link/send").json(&bob).send(&site).await.expect(200);
            let magic = json!({ "token": token(&site, &post, MailKind::MagicLink).await });
            Call::post("/auth/magic-link/verify").json(&magic).send(&site).await.expect(200);
            let bob = site.auth.accounts().find("bob@example.com").await.unwrap();
            site.auth.accounts().delete(&bob.id).await.unwrap();
        }
    }
}

#[tokio::test]
async fn an_invited_address_may_sign_up_by_magic_link() {
    for db in databases().await {
        let (site, post) = site(&db, AuthConfig { registration: Registration::Invite, ..config() }).await;
        site.auth.accounts().invite(invitation(ANN)).await.unwrap();
        Call::post("/auth/magic-link/send").json(&json!({ "email": ANN })).send(&site).await.expect(200);
        let magic = json!({ "token": token(&site, &post, MailKind::MagicLink).await });
        Call::post("/auth/magic-link/verify").json(&magic).send(&site).await.expect(200);
    }
}

fn demanding() -> AuthConfig {
    AuthConfig { require_verified_email: true, ..config() }
}

#[tokio::test]
async fn an_unverified_account_signs_in_once_its_link_was_opened() {
    for db in databases().await {
        let (site, post) = site(&db, demanding()).await;
        let registered = site.register_ann().await;
        assert_eq!(registered.json()["emailVerificationRequired"], true);
        assert!(registered.json().get("token").is_none());
        let link = token(&site, &post, MailKind::EmailVerification).await;
        let refused = site.login_ann().await.expect(403);
        assert_eq!(
            (refused.json()["code"].as_str(), refused.cookie().is_some_and(|pair| pair.contains("session"))),
            (Some("email_unverified"), false)
        );
        assert_eq!(site.login(ANN, WRONG).await.expect(401).json()["code"], "invalid_credentials");
        site.auth.settle(Duration::from_secs(10)).await;
        assert_eq!(post.mails.lock().len(), 2, "a refused sign-in mails another link");
        // The browser that registered keeps its password.
        let open = Call::get(&format!("/auth/verify-email?token={link}")).cookie(&note(&registered));
        assert_eq!(open.send(&site).await.expect(200).json()["verified"], true);
        site.login_ann().await.expect(200);
    }
}

/// A stranger who registered another person's address loses the account once the owner opens the link.
#[tokio::test]
async fn a_link_opened_in_another_browser_claims_the_account() {
    for db in databases().await {
        let (site, post) = site(&db, demanding()).await;
        let stranger = site.register_ann().await;
        let link = token(&site, &post, MailKind::EmailVerification).await;
        // A note of another account does not count.
        let bob = site.register("bob@example.com").await;
        let verify = || Call::post("/auth/verify-email").json(&json!({ "token": link }));
        verify().cookie(&note(&bob)).send(&site).await.expect(200);
        site.login_ann().await.expect(401);
        assert!(!site.auth.accounts().find(ANN).await.unwrap().password_set);
        // The stranger's note is no longer valid.
        verify().cookie(&note(&stranger)).send(&site).await.expect(200);
        assert!(!site.auth.accounts().find(ANN).await.unwrap().password_set, "{}", db.name);
    }
}

#[tokio::test]
async fn a_forged_or_old_note_is_ignored() {
    for db in databases().await {
        let (site, post) = site(&db, demanding()).await;
        let registered = site.register_ann().await;
        let link = token(&site, &post, MailKind::EmailVerification).await;
        let good = note(&registered);
        let open = async |note: &str| {
            Call::get(&format!("/auth/verify-email?token={link}")).cookie(note).send(&site).await.json()
        };
        let (name, value) = good.split_once('=').unwrap();
        let (until, tag) = value.split_once('.').unwrap();
        let later = until.parse::<i64>().unwrap() + 1;
        for bad in
            [format!("{name}="), format!("{name}=."), format!("{name}={later}.{tag}"), format!("{name}={until}.AAAA")]
        {
            assert_eq!(open(&bad).await["verified"], false, "{bad}");
        }
        assert_eq!(open(&good).await["verified"], true);
    }
}

#[tokio::test]
async fn a_policy_without_its_plugin_stops_the_start() {
    for db in databases().await {
        let public_url: Option<url::Url> = Some("https://app.example.com".parse().unwrap());
        for (config, word) in [
            (AuthConfig { registration: Registration::Invite, ..config() }, "registration"),
            (demanding(), "require_verified_email"),
        ] {
            let config = AuthConfig { public_url: public_url.clone(), ..config };
            let builder = gatewright_auth::Auth::builder(config).database(db.db.clone());
            let error = builder.plugin(gatewright_auth::plugins::password::PasswordPlugin).build().await.unwrap_err();
            assert!(matches!(error, AuthInitError::Setting { setting, .. } if setting == word), "{error}");
        }
    }
}
