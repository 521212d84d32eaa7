use std::sync::Arc;

use gatewright_base::{Roles, Secret, Subject, TenantId, UserId};
use gatewright_tenancy::{Change, Joined, permits};

use super::{Invitation, Invitations};
use crate::audit::AuditKind;
use crate::mailbox::{self, Holder, Method, ProveError};
use crate::plugins::tenants::MOST_MEMBERS;
use crate::session::{Client, Session};
use crate::step_up::{self, StepUpError};
use crate::users::{BoxError, User, UserStoreError};
use crate::{Core, EmailAddress};

/// Looking at an invitation, and accepting it with an account that is there.
#[derive(Clone)]
pub(crate) struct Flow {
    pub(crate) core: Arc<Core>,
    invitations: Invitations,
}

/// Why an invitation was not accepted.
#[derive(Debug, thiserror::Error)]
pub(crate) enum AcceptError {
    /// No such invitation, or one that was accepted, withdrawn or has expired.
    #[error("the invitation is invalid or expired")]
    Unknown,
    /// Somebody is accepting it at this moment, or was when a server stopped.
    #[error("the invitation is being accepted; try again in a minute")]
    Claimed,
    /// It is for another address than that of the account.
    #[error("the invitation is for another address than that of this account")]
    OtherAddress,
    #[error(transparent)]
    StepUp(#[from] StepUpError),
    #[error(transparent)]
    Users(#[from] UserStoreError),
    #[error(transparent)]
    Prove(#[from] ProveError),
    #[error("the invitations cannot be read: {0}")]
    Store(#[from] gatewright_db::Error),
    #[error("the tenant has as many members as it may")]
    Full,
    #[error("the tenants cannot be used: {0}")]
    Tenant(#[source] BoxError),
}

impl Flow {
    /// `None` without the plugin.
    pub(crate) fn new(core: &Arc<Core>) -> Option<Self> {
        Some(Self { invitations: core.invitations.clone()?, core: core.clone() })
    }

    /// The invitation with this token. Nothing is taken.
    pub(crate) async fn find(&self, token: &Secret) -> Result<Option<Invitation>, AcceptError> {
        let Some(found) = self.invitations.find(token, self.core.ambient.now()).await? else { return Ok(None) };
        Ok(self.is_permitted(&found).await?.then_some(found))
    }

    /// Whether there is one for this address that counts.
    pub(crate) async fn is_invited(&self, email: &EmailAddress) -> Result<bool, AcceptError> {
        for invitation in self.invitations.to(email, self.core.ambient.now()).await? {
            if self.is_permitted(&invitation).await? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// What people call the tenant of an invitation.
    pub(crate) async fn tenant_name(&self, tenant: &TenantId) -> Result<String, AcceptError> {
        let name = match &self.core.tenants {
            Some(store) => store.name(tenant).await.map_err(|error| AcceptError::Tenant(error.into()))?,
            None => None,
        };
        Ok(name.unwrap_or_else(|| tenant.as_str().to_owned()))
    }

    /// Whether the invited address has an account. Told to whoever holds the token, and so the mailbox.
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
        self.claim(&invitation).await?;
        let granted = async {
            let proven = mailbox::prove(&self.core, user, at, Holder::MailboxAndSession, Method::Invitation).await?;
            proven.audit_effect(&self.core, client, Method::Invitation).await;
            if let Some(roles) = &invitation.roles {
                let all: Roles = proven.user.roles.iter().chain(roles.iter()).map(str::to_owned).collect();
                self.core.users.store.update_roles(&proven.user.id, &all).await?;
            }
            self.join(&proven.user.id, &invitation).await
        };
        if let Err(error) = granted.await {
            // What it gives is given whole, or the link works once more.
            self.release(&invitation).await;
            return Err(error);
        }
        self.audit(&session.user().id, &invitation, client).await;
        Ok(invitation)
    }

    /// Claims it, for an account that is about to be made. Of concurrent callers one gets it.
    pub(crate) async fn claim(&self, invitation: &Invitation) -> Result<(), AcceptError> {
        if !self.is_permitted(invitation).await? {
            return Err(AcceptError::Unknown);
        }
        let now = self.core.ambient.now();
        if self.invitations.claim(invitation, now).await? {
            return Ok(());
        }
        let is_open = self.invitations.is_open(invitation, now).await?;
        Err(if is_open { AcceptError::Claimed } else { AcceptError::Unknown })
    }

    /// Whether its sender is an account in good standing and, where a member of a tenant sent it, could send it now. Most that could not are gone; one that was being sent
    /// while its sender was removed or demoted is not, nor are those of an owner who is an admin by now.
    async fn is_permitted(&self, invitation: &Invitation) -> Result<bool, AcceptError> {
        if let Some(sender) = &invitation.invited_by {
            // What a disabled account has issued is good no longer.
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

    /// Makes it work once more, after what it was claimed for has failed.
    pub(crate) async fn release(&self, invitation: &Invitation) {
        if let Err(error) = self.invitations.release(invitation).await {
            tracing::error!(%error, invitation = %invitation.id, "invitation not released; it works again after its claim");
        }
    }

    /// What follows for an account that was just made with it: the mailbox is proven, the membership begins.
    pub(crate) async fn settle(
        &self,
        user: &User,
        invitation: &Invitation,
        client: &Client,
    ) -> Result<User, AcceptError> {
        let settled = async {
            if let Some(verifier) = &self.core.users.email_verifier {
                verifier.verify_email(&user.id, &user.email).await?;
            }
            let settled = self.core.users.store.find_by_id(&user.id).await?;
            self.join(&user.id, invitation).await?;
            Ok(settled)
        };
        match settled.await {
            Ok(user) => {
                self.audit(&user.id, invitation, client).await;
                Ok(user)
            }
            Err(error) => {
                // The account is there; it accepts once it has signed in.
                self.release(invitation).await;
                Err(error)
            }
        }
    }

    /// Begins the membership, if there is one, and spends the invitation. It comes last: until then a server that stops has
    /// spent nothing, and what came before may be done again.
    async fn join(&self, user: &UserId, invitation: &Invitation) -> Result<(), AcceptError> {
        let Some(tenant) = &invitation.tenant else {
            return if self.invitations.spend(invitation).await? { Ok(()) } else { Err(AcceptError::Unknown) };
        };
        let store = self.core.tenants.as_ref();
        let store = store.ok_or_else(|| AcceptError::Tenant("there are no tenants any more".into()))?;
        let roles: Roles = invitation.tenant_roles.iter().map(String::as_str).collect();
        match store.join(tenant, user, &roles, MOST_MEMBERS, &invitation.id).await {
            Ok(Joined::Member(_)) => {}
            Ok(Joined::Full) => return Err(AcceptError::Full),
            Ok(Joined::NoInvitation) => return Err(AcceptError::Unknown),
            Err(error) => return Err(AcceptError::Tenant(error.into())),
        }
        // A store of the host's own keeps no invitations.
        self.invitations.spend(invitation).await?;
        Ok(())
    }

    async fn audit(&self, user: &UserId, invitation: &Invitation, client: &Client) {
        let event = self.core.audit.event(AuditKind::InvitationAccepted).user(user).remote(client.address());
        let event = event.with("invitation", invitation.id.as_str());
        let event = invitation.tenant.iter().fold(event, |event, tenant| event.with("tenant_id", tenant.as_str()));
        self.core.audit.record(event).await;
    }
}
