//! Invitations: who gets in with one, and what nobody gets by one.

mod attacks;
mod journeys;

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use gatewright_auth::plugins::invitations::{InvitationsPlugin, NewInvitation, TenantJoiner};
use gatewright_auth::plugins::magic_link::MagicLinkPlugin;
use gatewright_auth::users::BoxError;
use gatewright_auth::{AuthConfig, EmailAddress, MailKind, Registration};
use gatewright_base::{TenantId, UserId};
use gatewright_db::testing::TestDb;
use parking_lot::Mutex;
use serde_json::json;

use crate::mailed::Post;
use crate::support::{Answer, Call, PASSWORD, Site, config};

pub(super) const ACCEPT: &str = "/auth/invitations/accept";

/// Who joined which tenant, with which roles there.
type Joined = (UserId, TenantId, Vec<String>);

/// Keeps who joined, or fails.
#[derive(Default)]
pub(super) struct Tenants {
    pub(super) joined: Mutex<Vec<Joined>>,
    pub(super) fails: std::sync::atomic::AtomicBool,
}

#[async_trait]
impl TenantJoiner for Tenants {
    async fn join(&self, user: &UserId, tenant: &TenantId, roles: &[String]) -> Result<(), BoxError> {
        if self.fails.load(std::sync::atomic::Ordering::SeqCst) {
            return Err("canary-tenant-table".into());
        }
        self.joined.lock().push((user.clone(), tenant.clone(), roles.to_vec()));
        Ok(())
    }
}

pub(super) struct Place {
    pub(super) site: Site,
    pub(super) post: Arc<Post>,
    pub(super) tenants: Arc<Tenants>,
}

impl Place {
    pub(super) async fn on(db: &TestDb, registration: Registration) -> Self {
        let (post, tenants) = (Arc::new(Post::default()), Arc::new(Tenants::default()));
        let public_url = Some("https://app.example.com".parse().unwrap());
        let config = AuthConfig { public_url, registration, ..config() };
        let site = Site::with(config, |builder| {
            let plugin = InvitationsPlugin::new().tenants(tenants.clone());
            let builder = builder.database(db.db.clone()).mailer(post.clone());
            builder.plugin(MagicLinkPlugin::new()).plugin(plugin)
        });
        Self { site: site.await.and_screens(), post, tenants }
    }

    /// Invites an address, and gives the token of the mail.
    pub(super) async fn invite(&self, email: &str) -> String {
        self.invite_to(NewInvitation::new(EmailAddress::parse(email).unwrap())).await
    }

    pub(super) async fn invite_to(&self, invitation: NewInvitation) -> String {
        let to = invitation.email.clone();
        self.site.auth.accounts().invite(invitation).await.unwrap();
        self.site.auth.settle(Duration::from_secs(10)).await;
        let mails = self.post.mails.lock();
        let mail = mails.last().expect("a mail was sent");
        assert_eq!((mail.kind, &mail.to), (MailKind::Invitation, &to));
        let link = mail.link.expose();
        let token = link.strip_prefix("https://app.example.com/register?invite=").expect("the link leads to the form");
        token.to_owned()
    }

    pub(super) async fn register(&self, email: &str, invite: Option<&str>) -> Answer {
        let mut body = json!({ "email": email, "password": PASSWORD });
        if let Some(invite) = invite {
            body["invite"] = invite.into();
        }
        Call::post("/auth/register").json(&body).send(&self.site).await
    }

    pub(super) async fn accept(&self, session: &Answer, invite: &str) -> Answer {
        Call::post(ACCEPT).json(&json!({ "invite": invite })).cookie_of(session).send(&self.site).await
    }
}
