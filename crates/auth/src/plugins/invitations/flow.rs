use std::sync::Arc;

use gatewright_base::{Roles, Secret, Subject, TenantId, UserId};
use gatewright_tenancy::{Change, permits};

use super::error::AcceptError;
use jiff::Timestamp;

use crate::audit::{AuditEvent, AuditKind, PendingEvent};
use crate::invitations::{Invitation, Invitations};
use crate::mailbox::{self, Holder, Method};
use crate::session::{Client, Session};
use crate::step_up;
use crate::users::{User, UserStoreError};
use crate::{Core, EmailAddress};

/// Looking at an invitation, and accepting it with an account that is there.
#[derive(Clone)]
pub(crate) struct Flow {
    pub(crate) core: Arc<Core>,
    pub(super) invitations: Invitations,
}

impl Flow {
    /// `None` without the plugin.
    pub(crate) fn new(core: &Arc<Core>) -> Option<Self> {
        Some(Self { invitations: core.invitations.clone()?, core: core.clone() })
    }

    /// The invitation with this token. It is not accepted.
    pub(crate) async fn find(&self, token: &Secret) -> Result<Option<Invitation>, AcceptError> {
        let Some(found) = self.invitations.find(token, self.core.ambient.now()).await? else { return Ok(None) };
        Ok(self.is_permitted(&found).await?.then_some(found))
    }

    /// Whether there is a valid one for this address.
    pub(crate) async fn is_invited(&self, email: &EmailAddress) -> Result<bool, AcceptError> {
        for invitation in self.invitations.to(email, self.core.ambient.now()).await? {
            if self.is_permitted(&invitation).await? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// The name of an invitation's tenant.
    pub(crate) async fn tenant_name(&self, tenant: &TenantId) -> Result<String, AcceptError> {
        let name = match &self.core.tenants {
            Some(store) => store.name(tenant).await.map_err(|error| AcceptError::Tenant(error.into()))?,
            None => None,
        };
        Ok(name.unwrap_or_else(|| tenant.as_str().to_owned()))
    }

    /// Whether the invited address has an account. Only the holder of the token, and so of the mailbox, gets this
    /// answer.
    pub(crate) async fn has_account(&self, email: &EmailAddress) -> Result<bool, AcceptError> {
        match self.core.users.store.find_by_email(email).await {
            Ok(_) => Ok(true),
            Err(UserStoreError::NotFound) => Ok(false),
            Err(error) => Err(error.into()),
        }
    }

    /// Accepts with the account of a session, which gains the roles and the membership.
    pub(crate) async fn accept(
        &self,
        token: &Secret,
        session: &Session,
        client: &Client,
    ) -> Result<Invitation, AcceptError> {
        let invitation = self.find(token).await?.ok_or(AcceptError::Unknown)?;
        if invitation.email != session.user().email {
            return Err(AcceptError::OtherAddress);
        }
        step_up::require(&self.core, session).await?;
        let at = self.core.ambient.now();
        let user = self.core.users.store.find_by_id(&session.user().id).await?;
        if user.email != invitation.email {
            return Err(AcceptError::OtherAddress);
        }
        let proven = mailbox::prove(&self.core, user, at, Holder::MailboxAndSession, Method::Invitation).await?;
        proven.audit_effect(&self.core, client, Method::Invitation).await;
        let event = self.begin(Some(&session.user().id), &invitation, client).await?;
        if let Err(error) = self.give(&proven.user.id, &invitation).await {
            event.withdraw().await;
            return Err(error);
        }
        event.done().await;
        Ok(invitation)
    }

    /// Accepts with an account that has just got the invited address, whose holder has the mailed token. Returns the account.
    pub(crate) async fn join(
        &self,
        user: User,
        at: Timestamp,
        invitation: &Invitation,
        client: &Client,
    ) -> Result<User, AcceptError> {
        let proven = mailbox::prove(&self.core, user, at, Holder::MailboxAndSession, Method::Invitation).await?;
        proven.audit_effect(&self.core, client, Method::Invitation).await;
        let event = self.begin(Some(&proven.user.id), invitation, client).await?;
        if let Err(error) = self.give(&proven.user.id, invitation).await {
            event.withdraw().await;
            return Err(error);
        }
        event.done().await;
        Ok(self.core.users.store.find_by_id(&proven.user.id).await?)
    }

    /// Whether its sender's account is still enabled and, for a member of a tenant, could send it now. Most invalid ones are
    /// already removed. The check is for those that were being sent while the sender was removed or demoted, and for those of
    /// an owner who has become an admin.
    pub(super) async fn is_permitted(&self, invitation: &Invitation) -> Result<bool, AcceptError> {
        if let Some(sender) = &invitation.invited_by {
            // Invitations of a disabled account are invalid.
            match self.core.users.store.find_by_id(sender).await {
                Ok(sender) if !sender.disabled => {}
                Ok(_) | Err(UserStoreError::NotFound) => return Ok(false),
                Err(error) => return Err(error.into()),
            }
        }
        let (true, Some(tenant)) = (invitation.by_member, &invitation.tenant) else { return Ok(true) };
        let (Some(store), Some(sender)) = (&self.core.tenants, &invitation.invited_by) else { return Ok(false) };
        let held = store.roles(tenant, &Subject::User(sender.clone())).await;
        let held = held.map_err(|error| AcceptError::Tenant(error.into()))?;
        let given: Roles = invitation.tenant_roles.iter().map(String::as_str).collect();
        Ok(held.is_some_and(|held| permits(&held, Change::Invite(&given))))
    }

    /// The event of an invitation that is about to be accepted, by this account if it exists.
    pub(super) async fn begin(
        &self,
        user: Option<&UserId>,
        invitation: &Invitation,
        client: &Client,
    ) -> Result<PendingEvent, UserStoreError> {
        let event = self.core.audit.event(AuditKind::InvitationAccepted).remote(client.address());
        let event = user.into_iter().fold(event, AuditEvent::user);
        let event = event.with("invitation", invitation.id.as_str());
        let event = invitation.tenant.iter().fold(event, |event, tenant| event.with("tenant_id", tenant.as_str()));
        Ok(self.core.audit.begin(event).await?)
    }
}
