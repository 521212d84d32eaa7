//! Invitations: who gets in with one, and what an invitation does not give.

mod attacks;
mod journeys;
mod moved;
mod outside;

use std::sync::Arc;
use std::time::Duration;

use gatewright_auth::plugins::invitations::{InvitationsPlugin, NewInvitation};
use gatewright_auth::plugins::magic_link::MagicLinkPlugin;
use gatewright_auth::plugins::tenants::{SqlMemberships, TenantsPlugin};
use gatewright_auth::{AuthBuilder, AuthConfig, MailKind, Registration};
use gatewright_base::{Ambient, TenantId};
use gatewright_db::testing::TestDb;
use gatewright_db::{Db, Row, params};
use gatewright_tenancy::{COMPONENT, STEPS};
use serde_json::json;

use crate::mailed::Post;
use crate::support::{Answer, Call, PASSWORD, Site, config, invitation};

pub(super) const ACCEPT: &str = "/auth/invitations/accept";

/// An invitation with a role everywhere.
fn editor(email: &str) -> NewInvitation {
    invitation(email).roles(Some(["editor"].into_iter().collect()))
}

/// The same invitation, to a tenant as well, with these roles there.
fn into_acme(invitation: NewInvitation, roles: &[&str]) -> NewInvitation {
    invitation.tenant(TenantId::parse("acme").unwrap(), roles.iter().copied().map(str::to_owned).collect())
}

pub(super) struct Place {
    pub(super) site: Site,
    pub(super) post: Arc<Post>,
    db: Db,
}

impl Place {
    pub(super) async fn on(db: &TestDb, registration: Registration) -> Self {
        Self::with(db, registration, |builder, _| builder).await
    }

    /// A place whose builder is completed by the test.
    pub(super) async fn with(
        db: &TestDb,
        registration: Registration,
        complete: impl FnOnce(AuthBuilder, &Ambient) -> AuthBuilder,
    ) -> Self {
        gatewright_db::migrate(&db.db, COMPONENT, STEPS).await.unwrap();
        let post = Arc::new(Post::default());
        let public_url = Some("https://app.example.com".parse().unwrap());
        let config = AuthConfig { public_url, registration, ..config() };
        let site = Site::with_ambient(config, |builder, ambient| {
            let tenants = TenantsPlugin::new(Arc::new(SqlMemberships::new(db.db.clone(), ambient.clone())));
            let builder = builder.database(db.db.clone()).mailer(post.clone()).plugin(tenants);
            complete(builder.plugin(MagicLinkPlugin::new()).plugin(InvitationsPlugin::new()), ambient)
        });
        Self { site: site.await.and_screens(), post, db: db.db.clone() }
    }

    /// Who belongs to which tenant, with which roles there.
    pub(super) async fn joined(&self) -> Vec<(String, String, String)> {
        let sql = "SELECT member_id, tenant_id, roles FROM tenant_members ORDER BY created_at";
        let rows = self.db.query(sql, params![]).await.unwrap();
        let text = |row: &Row, name: &str| row.get::<String>(name).unwrap();
        rows.iter().map(|row| (text(row, "member_id"), text(row, "tenant_id"), text(row, "roles"))).collect()
    }

    /// How many invitations there are, whether somebody is accepting them or not.
    pub(super) async fn open(&self) -> usize {
        self.db.query("SELECT id FROM account_invitations", params![]).await.unwrap().len()
    }

    /// Waits until nobody accepts an invitation, and says whether one is there.
    pub(super) async fn is_open_once_nobody_accepts(&self) -> bool {
        let claimed = "SELECT id FROM account_invitations WHERE claimed_until IS NOT NULL";
        let unclaimed = async {
            while !self.db.query(claimed, params![]).await.unwrap().is_empty() {
                tokio::task::yield_now().await;
            }
        };
        tokio::time::timeout(Duration::from_mins(2), unclaimed).await.expect("nobody accepts it any more");
        self.open().await > 0
    }

    /// Takes the table of members away, or puts it back.
    pub(super) async fn hides_members(&self, hidden: bool) {
        let (from, to) =
            if hidden { ("tenant_members", "hidden_members") } else { ("hidden_members", "tenant_members") };
        self.db.execute(format!("ALTER TABLE {from} RENAME TO {to}"), params![]).await.unwrap();
    }

    /// Invites an address, and gives the token of the mail.
    pub(super) async fn invite(&self, email: &str) -> String {
        self.invite_to(invitation(email)).await
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
