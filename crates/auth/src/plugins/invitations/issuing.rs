//! Issues invitations, for trusted server code such as a command line or an admin tool, and for members of tenants.

use std::time::Duration;

use gatewright_base::{InvitationId, Roles, Secret, TenantId, UserId};
use gatewright_db::Share;
use jiff::Timestamp;

use crate::audit::{AuditEvent, AuditKind};
use crate::config::Registration;
use crate::invitations::{Invitation, Invitations, KeepError, LIFETIME};
use crate::session::Client;
use crate::single_use::{MailBudget, SingleUseToken};
use crate::users::UserStoreError;
use crate::{AccountError, Accounts, Core, EmailAddress, Mail, MailKind};

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
        Self { email, roles: None, tenant: None, invited_by: None }
    }

    /// Sets the roles of the account. An existing account gets them when it accepts.
    pub fn roles(self, roles: Option<Roles>) -> Self {
        Self { roles, ..self }
    }

    /// A tenant, and roles there.
    pub fn tenant(self, tenant: TenantId, roles: Vec<String>) -> Self {
        Self { tenant: Some((tenant, roles)), ..self }
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
    invitations.put(&invitation, by_member.as_ref().map(|bound| bound.most)).await?;
    let event = core.audit.event(AuditKind::InvitationCreated).with("invitation", invitation.id.as_str());
    let event = event.with("email", invitation.email.as_str());
    let event = by_member.iter().fold(event, |event, member| event.remote(member.client.address()));
    let event = invitation.invited_by.iter().fold(event, AuditEvent::user);
    let event = invitation.tenant.iter().fold(event, |event, tenant| event.with("tenant_id", tenant.as_str()));
    core.audit.record(event).await;
    let link = invitations.link(&token);
    let mail = || {
        let lifetime = Duration::try_from(LIFETIME).unwrap_or_default();
        Mail::new(MailKind::Invitation, invitation.email.clone(), link.clone(), lifetime)
    };
    let is_mailed = admitted && core.mail(mail());
    Ok((invitation, link, is_mailed))
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
            KeepError::Full | KeepError::Store(_) => Self::Invitations(error.into()),
        }
    }
}
