//! Accepts invitations: gives an account the roles and the membership, and uses up the invitation, both or neither.
//!
//! If accounts and memberships are in the database of invitations, this is one transaction. If one of them is in a
//! program's own store, a claim holds the invitation while that store is called, and the rest is one transaction: in
//! this time no other caller can accept, replace or withdraw the invitation. If a server stops in between, the
//! invitation is not used up, and each step can be repeated. Only if a program's store takes longer than the claim may
//! it apply an invitation that another caller has accepted; the log then has an error.

use std::sync::Arc;

use gatewright_base::{Roles, UserId};
use gatewright_db::{Error, Tx};
use gatewright_tenancy::{Joined, TenantStore, TenantsWithin};

use super::error::AcceptError;
use super::flow::Flow;
use crate::invitations::{Claim, Invitation};
use crate::mailbox;
use crate::plugins::tenants::MAX_MEMBERS;
use crate::session::Client;
use crate::users::{NewUser, User, UserStoreError, UsersWithin};

/// The stores that take part in the transaction that spends an invitation.
struct Within {
    users: Option<Arc<dyn UsersWithin>>,
    tenants: Option<Arc<dyn TenantsWithin>>,
}

impl Flow {
    /// Creates the account of the invited address, whose mailbox is proven by the token.
    pub(crate) async fn register(
        &self,
        invitation: &Invitation,
        new: NewUser,
        client: &Client,
    ) -> Result<User, AcceptError> {
        self.check(invitation).await?;
        let event = self.begin(None, invitation, client).await?;
        let created = self.create(invitation, new).await;
        match &created {
            Ok(user) => event.done_with(|event| event.user(&user.id)).await,
            Err(_) => event.withdraw().await,
        }
        created
    }

    async fn create(&self, invitation: &Invitation, new: NewUser) -> Result<User, AcceptError> {
        let within = self.within();
        let is_inside = invitation.tenant.is_none() || within.tenants.is_some();
        Ok(match within.users.clone().filter(|_| is_inside) {
            Some(users) => {
                let (now, invited) = (self.core.ambient.now(), invitation.clone());
                let create = async move |tx: &Tx| -> Result<User, AcceptError> {
                    let user = match users.create_proven(tx, &new).await {
                        Err(Error::Unique { .. }) => return Err(UserStoreError::EmailTaken.into()),
                        created => created?,
                    };
                    within.join(tx, &user.id, &invited).await?;
                    Ok(user)
                };
                self.invitations.spend(invitation, None, now, create).await?
            }
            None => self.register_outside(invitation, new, within).await?,
        })
    }

    /// Creates the account before the invitation is spent. If a later step fails, the account exists, and its owner can
    /// sign in and accept.
    async fn register_outside(
        &self,
        invitation: &Invitation,
        new: NewUser,
        within: Within,
    ) -> Result<User, AcceptError> {
        let claim = self.claim(invitation).await?;
        let made = async {
            let user = self.core.users.store.create(new).await?;
            mailbox::record_of_new(&self.core, &user).await?;
            let user = self.core.users.store.find_by_id(&user.id).await?;
            self.finish(&user.id, invitation, &claim, Within { users: None, ..within }).await?;
            Ok(user)
        };
        let made = made.await;
        self.ended(invitation, &claim, &made).await;
        made
    }

    /// Gives an account that is there the roles and the membership.
    pub(super) async fn give(&self, user: &UserId, invitation: &Invitation) -> Result<(), AcceptError> {
        self.check(invitation).await?;
        let within = self.within();
        let roles_outside = within.users.is_none() && invitation.roles.as_ref().is_some_and(|roles| !roles.is_empty());
        if !roles_outside && (invitation.tenant.is_none() || within.tenants.is_some()) {
            return self.spend(user, invitation, None, within).await;
        }
        let claim = self.claim(invitation).await?;
        let given = async {
            if let (true, Some(roles)) = (roles_outside, &invitation.roles) {
                let held = self.core.users.store.find_by_id(user).await?.roles;
                let all: Roles = held.iter().chain(roles.iter()).map(str::to_owned).collect();
                self.core.users.store.update_roles(user, &all).await?;
            }
            self.finish(user, invitation, &claim, within).await
        };
        let given = given.await;
        self.ended(invitation, &claim, &given).await;
        given
    }

    /// Begins the membership if it is in a host's own store, and spends the invitation with the rest.
    async fn finish(
        &self,
        user: &UserId,
        invitation: &Invitation,
        claim: &Claim,
        within: Within,
    ) -> Result<(), AcceptError> {
        if let (Some(tenant), Some(store), None) = (&invitation.tenant, &self.core.tenants, &within.tenants) {
            let joined = store.join(tenant, user, &tenant_roles(invitation), MAX_MEMBERS).await;
            has_joined(&joined.map_err(|error| AcceptError::Tenant(error.into()))?)?;
        }
        self.spend(user, invitation, Some(claim), within).await
    }

    async fn spend(
        &self,
        user: &UserId,
        invitation: &Invitation,
        claim: Option<&Claim>,
        within: Within,
    ) -> Result<(), AcceptError> {
        let (user, invited) = (user.clone(), invitation.clone());
        let give = async move |tx: &Tx| -> Result<(), AcceptError> {
            within.join(tx, &user, &invited).await?;
            within.add_roles(tx, &user, &invited).await
        };
        self.invitations.spend(invitation, claim, self.core.ambient.now(), give).await
    }

    /// Whether it may be accepted at this moment.
    async fn check(&self, invitation: &Invitation) -> Result<(), AcceptError> {
        if !self.is_permitted(invitation).await? {
            return Err(AcceptError::Unknown);
        }
        if invitation.tenant.is_some() && self.core.tenants.is_none() {
            return Err(AcceptError::Tenant("tenants are no longer enabled".into()));
        }
        Ok(())
    }

    fn within(&self) -> Within {
        let db = self.invitations.db();
        let users = self.core.users.within.clone().filter(|users| users.database().is(db));
        let tenants = self.core.tenants.clone().and_then(TenantStore::within);
        Within { users, tenants: tenants.filter(|tenants| tenants.database().is(db)) }
    }

    async fn claim(&self, invitation: &Invitation) -> Result<Claim, AcceptError> {
        let claim = Claim::generate(&self.core.ambient);
        self.invitations.claim(invitation, &claim, self.core.ambient.now()).await?;
        Ok(claim)
    }

    /// After a failure, the invitation works again.
    async fn ended<T>(&self, invitation: &Invitation, claim: &Claim, outcome: &Result<T, AcceptError>) {
        match outcome {
            Ok(_) => return,
            Err(AcceptError::Unknown | AcceptError::Claimed(_)) => {
                tracing::error!(invitation = %invitation.id, "the claim to an invitation expired while it was accepted");
            }
            Err(_) => {}
        }
        if let Err(error) = self.invitations.release(invitation, claim).await {
            tracing::error!(%error, invitation = %invitation.id, "invitation not released; it works again after its claim");
        }
    }
}

impl Within {
    async fn join(&self, tx: &Tx, user: &UserId, invitation: &Invitation) -> Result<(), AcceptError> {
        let (Some(tenants), Some(tenant)) = (&self.tenants, &invitation.tenant) else { return Ok(()) };
        has_joined(&tenants.join(tx, tenant, user, &tenant_roles(invitation), MAX_MEMBERS).await?)
    }

    async fn add_roles(&self, tx: &Tx, user: &UserId, invitation: &Invitation) -> Result<(), AcceptError> {
        let Some(users) = &self.users else { return Ok(()) };
        let roles = invitation.roles.clone().unwrap_or_default();
        let added = users.add_roles(tx, user, &invitation.email, &roles).await?;
        if added { Ok(()) } else { Err(AcceptError::OtherAddress) }
    }
}

fn tenant_roles(invitation: &Invitation) -> Roles {
    invitation.tenant_roles.iter().map(String::as_str).collect()
}

fn has_joined(joined: &Joined) -> Result<(), AcceptError> {
    match joined {
        Joined::Member(_) => Ok(()),
        Joined::Full => Err(AcceptError::Full),
    }
}
