//! Issues invitations, for trusted server code such as a command line or an admin tool, and for members of tenants.

use std::time::Duration;

use gatewright_base::{InvitationId, Roles, Secret, TenantId, UserId};
use gatewright_db::Share;
use jiff::Timestamp;

use crate::audit::{AuditEvent, AuditKind};
use crate::config::Registration;
use crate::invitations::{Invitation, Invitations, KeepError, LIFETIME};
use crate::mail::{Invited, MembersChange, Notice, Requested};
use crate::open_session::{OpenSession, is_open};
use crate::session::{Client, Session};
use crate::single_use::{MailBudget, SingleUseToken};
use crate::users::UserStoreError;
use crate::{AccountError, Accounts, Core, EmailAddress};

/// An invitation to be issued.
#[derive(Debug, Clone)]
pub struct NewInvitation {
    /// The address. The invitation is valid only for it.
    pub email: EmailAddress,
    /// The roles of the account. `None`: the default roles, or its current ones.
    pub roles: Option<Roles>,
    /// The tenant whose member it becomes, and its roles there.
    pub tenant: Option<(TenantId, Vec<String>)>,
    /// The sender; `None` for an operator.
    pub invited_by: Option<UserId>,
    /// Where accepting it leads. A target that is not allowed counts as absent.
    pub next: Option<String>,
}

/// An issued invitation.
#[derive(Debug)]
#[non_exhaustive]
pub struct IssuedInvitation {
    /// Its identifier, for [`Accounts::withdraw_invitation`].
    pub id: InvitationId,
    /// The link that was mailed. A credential: not for logs.
    pub link: Secret,
    /// When it expires.
    pub expires_at: Timestamp,
    /// Whether a mail with it was passed to the mailer. Without a mailer nothing is sent.
    pub mailed: bool,
}

impl NewInvitation {
    /// An invitation to an account with the default roles.
    pub fn new(email: EmailAddress) -> Self {
        Self { email, roles: None, tenant: None, invited_by: None, next: None }
    }

    /// Sets the roles of the account. An existing account gets them when it accepts.
    pub fn roles(self, roles: Option<Roles>) -> Self {
        Self { roles, ..self }
    }

    /// A tenant, and roles there.
    pub fn tenant(self, tenant: TenantId, roles: Vec<String>) -> Self {
        Self { tenant: Some((tenant, roles)), ..self }
    }

    /// Where accepting it leads.
    pub fn next(self, next: Option<String>) -> Self {
        Self { next, ..self }
    }

    /// The sender.
    pub fn invited_by(self, user: UserId) -> Self {
        Self { invited_by: Some(user), ..self }
    }
}

/// The limits of a member's invitation.
pub(crate) struct ByMember<'a> {
    /// The most open invitations of the tenant.
    pub(crate) most: u32,
    pub(crate) session: &'a Session,
    pub(crate) client: &'a Client,
    /// The limit of mails to a mailbox, for all senders.
    pub(crate) mails: &'a MailBudget,
}

/// Stores an invitation and mails its link. Returns the link, and whether a mail is sent.
pub(crate) async fn issue(
    core: &Core,
    invitations: &Invitations,
    new: NewInvitation,
    by_member: Option<ByMember<'_>>,
) -> Result<(Invitation, Secret, bool), KeepError> {
    let (token, now) = (SingleUseToken::generate(&core.ambient), core.ambient.now());
    let (tenant, tenant_roles) = new.tenant.map_or((None, Vec::new()), |(tenant, roles)| (Some(tenant), roles));
    let admitted = match &by_member {
        Some(member) => member.mails.admits(&new.email, member.client.address()).await,
        None => true,
    };
    // The newest link in the mailbox works: without a new mail that is the one from before.
    let mut key = token.key();
    if !admitted {
        tracing::warn!(purpose = "invitation", "mail limit of this mailbox or its requester reached; mail not sent");
        let open = invitations.to(&new.email, now).await?;
        key = open.into_iter().find(|open| open.tenant == tenant).map_or(key, |open| open.key);
    }
    let invitation = Invitation {
        id: InvitationId::generate(&core.ambient),
        key,
        email: new.email,
        roles: new.roles,
        tenant,
        tenant_roles,
        invited_by: new.invited_by,
        by_member: by_member.is_some(),
        created_at: now,
        expires_at: now.saturating_add(LIFETIME).unwrap_or(Timestamp::MAX),
    };
    let event = core.audit.event(AuditKind::InvitationCreated).with("invitation", invitation.id.as_str());
    let event = event.with("email", invitation.email.as_str());
    let event = by_member.iter().fold(event, |event, member| event.remote(member.client.address()));
    let event = invitation.invited_by.iter().fold(event, AuditEvent::user);
    let event = invitation.tenant.iter().fold(event, |event, tenant| event.with("tenant_id", tenant.as_str()));
    let event = core.audit.begin(event).await?;
    let put = match &by_member {
        Some(member) => put_open(core, invitations, &invitation, member).await,
        None => invitations.put(&invitation, None, None).await,
    };
    if let Err(error) = put {
        event.withdraw().await;
        return Err(error);
    }
    event.done().await;
    // Before the invitation itself, which is the newest mail then.
    if let (Some(member), Some(tenant)) = (&by_member, &invitation.tenant) {
        let roles = invitation.tenant_roles.iter().map(String::as_str).collect();
        let change = MembersChange::Invited { name: invitation.email.to_string(), roles };
        notify_of_members(core, member.session, tenant, change).await;
    }
    let next = new.next.and_then(|next| core.redirects.next(&next));
    let link = invitations.link(&token, next.as_ref());
    let lifetime = Duration::try_from(LIFETIME).unwrap_or_default();
    let is_mailed = admitted && {
        let words = words_of(core, &invitation).await;
        core.post.send(Requested::invitation(invitation.email.clone(), link.clone(), lifetime, words))
    };
    Ok((invitation, link, is_mailed))
}

/// Stores an invitation of a session that may still act.
async fn put_open(
    core: &Core,
    invitations: &Invitations,
    invitation: &Invitation,
    member: &ByMember<'_>,
) -> Result<(), KeepError> {
    let open = OpenSession::of(core, member.session, invitations.db());
    let is_shared = open.is_shared();
    invitations.put(invitation, Some(member.most), Some(open)).await?;
    // Accounts in a store of the program's own share no transaction: what a concurrent end of the session has not seen is
    // withdrawn again.
    if !is_shared && !is_open(core, member.session).await? {
        invitations.remove(&invitation.id, None, core.ambient.now()).await?;
        return Err(KeepError::SessionEnded);
    }
    Ok(())
}

/// Mails the owner of a session what it has changed in a tenant.
pub(crate) async fn notify_of_members(core: &Core, session: &Session, tenant: &TenantId, change: MembersChange) {
    let name = name_of(core, tenant).await;
    // Another member may have chosen it.
    let tenant = name.filter(|name| reads_as_a_name(name)).unwrap_or_else(|| tenant.as_str().to_owned());
    core.notify(session.user(), Notice::Members { tenant, change }).await;
}

/// The name of a tenant, for a mail. A mail without it is better than none.
async fn name_of(core: &Core, tenant: &TenantId) -> Option<String> {
    core.tenants.as_ref()?.name(tenant).await.unwrap_or_else(|error| {
        tracing::warn!(%error, "cannot read the name of a tenant for a mail");
        None
    })
}

/// Who invites to what, in words. A mail without them is better than none.
pub(super) async fn words_of(core: &Core, invitation: &Invitation) -> Invited {
    let tenant = match &invitation.tenant {
        Some(tenant) => name_of(core, tenant).await,
        None => None,
    };
    let inviter = match &invitation.invited_by {
        Some(sender) => core.users.store.find_by_id(sender).await.ok().map(|sender| sender.email.to_string()),
        None => None,
    };
    Invited { tenant: tenant.filter(|name| reads_as_a_name(name)), inviter }
}

/// Users choose the names of tenants, and a mail to a stranger must not carry a message of theirs: a name that is long, or
/// that a mail program could show as a link, is left out.
fn reads_as_a_name(name: &str) -> bool {
    let mut before_space = name.chars().zip(name.chars().skip(1));
    name.chars().count() <= 60
        && !name.contains(['/', ':', '@'])
        && !before_space.any(|(letter, next)| letter == '.' && !next.is_whitespace())
}

impl Accounts {
    /// Invites an address: stores the invitation and mails its link. It replaces an earlier one for the same address
    /// and tenant. If the address has an account, the account gets the roles and the membership when its owner has
    /// signed in and accepted. If registration is closed, the address must have an account. Fails with
    /// [`AccountError::InvitationClaimed`] while the earlier invitation is being accepted.
    pub async fn invite(&self, new: NewInvitation) -> Result<IssuedInvitation, AccountError> {
        let core = self.core();
        let invitations = core.invitations.as_ref().ok_or(AccountError::Unsupported("invitations"))?;
        if new.tenant.is_some() && core.tenants.is_none() {
            return Err(AccountError::Unsupported("invitations to tenants"));
        }
        if core.config.registration == Registration::Closed {
            match core.users.store.find_by_email(&new.email).await {
                Ok(_) => {}
                Err(UserStoreError::NotFound) => return Err(AccountError::RegistrationClosed),
                Err(error) => return Err(error.into()),
            }
        }
        let (invitation, link, mailed) = issue(core, invitations, new, None).await?;
        Ok(IssuedInvitation { id: invitation.id, link, expires_at: invitation.expires_at, mailed })
    }

    /// The open invitations, the newest first: those to `tenant` or, without one, all. At most 500.
    pub async fn invitations(&self, tenant: Option<&TenantId>) -> Result<Vec<Invitation>, AccountError> {
        let core = self.core();
        let invitations = core.invitations.as_ref().ok_or(AccountError::Unsupported("invitations"))?;
        invitations
            .list(tenant, core.ambient.now(), Share::default())
            .await
            .map_err(|error| KeepError::Store(error).into())
    }

    /// Withdraws an open invitation; `false` if there is none or, with a tenant, it is not to that tenant. Fails with
    /// [`AccountError::InvitationClaimed`] while it is being accepted.
    pub async fn withdraw_invitation(
        &self,
        id: &InvitationId,
        tenant: Option<&TenantId>,
    ) -> Result<bool, AccountError> {
        let core = self.core();
        let invitations = core.invitations.as_ref().ok_or(AccountError::Unsupported("invitations"))?;
        Ok(invitations.remove(id, tenant, core.ambient.now()).await?)
    }
}

impl From<KeepError> for AccountError {
    fn from(error: KeepError) -> Self {
        match error {
            KeepError::Claimed(left) => Self::InvitationClaimed(left),
            KeepError::Unstored(error) => Self::Users(error.into()),
            KeepError::Users(error) => Self::Users(error),
            KeepError::Full | KeepError::SessionEnded | KeepError::Store(_) => Self::Invitations(error.into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mail_names_no_tenant_whose_name_is_a_message() {
        for name in ["Acme", "Acme Inc.", "St. Mary's, Leeds", "Müller & Söhne", "é", &"a".repeat(60)] {
            assert!(reads_as_a_name(name), "{name}");
        }
        for name in
            ["evil.example", "Click https://evil.example", "a@b", "Acme: call 555", "a/b", "x.y z", &"a".repeat(61)]
        {
            assert!(!reads_as_a_name(name), "{name}");
        }
    }
}
