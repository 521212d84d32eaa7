use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use std::time::Duration;

use gatewright_base::{InvitationId, Roles, Subject, TenantId, UserId};
use gatewright_db::Share;
use gatewright_limits::{Denied, Limiter, Policy};
use gatewright_tenancy::{
    Change, Changed, MEMBER, NewTenant, TenantMember, TenantOfUser, TenantStore, TenantStoreError, permits,
};

use crate::audit::{AuditEvent, AuditKind, PendingEvent};
use crate::config::Limit;
use crate::core::Core;
use crate::email::EmailAddress;
use crate::fresh::{Fresh, FreshError, Given};
use crate::invitations::{Invitation, Invitations, KeepError};
use crate::label::Label;
use crate::mail::MembersChange;
use crate::plugins::invitations::{ByMember, NewInvitation, issue, notify_of_members};
use crate::session::{Client, Session};
use crate::single_use::MailBudget;
use crate::step_up::{self, StepUpError};
use crate::users::UserStoreError;

/// The maximum number of an account's tenants when it creates another one.
const MAX_TENANTS: u32 = 100;
/// The most invitations of a tenant that are not accepted and not expired.
const MAX_INVITATIONS: u32 = 200;
/// The most roles of a member.
const MAX_ROLES: usize = 16;

/// Tenants as their members manage them.
pub(super) struct Flow {
    pub(super) core: Arc<Core>,
    fresh: Fresh,
    store: Arc<dyn TenantStore>,
    invitations: Invitations,
    roles: BTreeSet<String>,
    self_service: bool,
    by_maker: Limiter,
    by_inviter: Limiter,
    /// Invitations of one account to one mailbox.
    by_pair: Limiter,
    /// Mails to one mailbox, of all accounts.
    mails: MailBudget,
}

/// A member with the account's name.
pub(super) struct Listed {
    pub(super) member: TenantMember,
    pub(super) email: Option<EmailAddress>,
}

/// Members of a tenant, and the invitations that are out.
pub(super) struct Page {
    pub(super) members: Vec<Listed>,
    pub(super) has_more: bool,
    pub(super) invitations: Vec<Invitation>,
}

/// An invitation to a tenant, as it was requested.
pub(super) struct Invite {
    pub(super) email: EmailAddress,
    /// `member` if absent.
    pub(super) roles: Option<Vec<String>>,
    /// Where accepting it leads.
    pub(super) next: Option<String>,
}

/// Why something about tenants was not done.
#[derive(Debug, thiserror::Error)]
pub(super) enum TenantError {
    /// Too many attempts.
    #[error(transparent)]
    Denied(#[from] Denied),
    #[error("creating tenants is off")]
    SelfServiceOff,
    /// The tenant does not exist, or the caller is not a member of it.
    #[error("no such tenant")]
    NoTenant,
    #[error("no such member")]
    NoMember,
    #[error("no such invitation")]
    NoInvitation,
    #[error("your roles in this tenant do not permit this")]
    Forbidden,
    #[error("a tenant keeps at least one owner: make another member an owner first")]
    LastOwner,
    #[error("the limit of tenants is reached")]
    TooManyTenants,
    #[error("the limit of pending invitations is reached: withdraw some, or wait until they are accepted")]
    TooManyInvitations,
    /// The unknown role; `None` if there are too many roles or none.
    #[error("{}", .0.as_ref().map_or_else(|| format!("a member has 1 to {MAX_ROLES} roles"), |role| format!("there is no tenant role \"{role}\"")))]
    Roles(Option<String>),
    #[error("email delivery not configured")]
    NoMailer,
    #[error(transparent)]
    StepUp(#[from] StepUpError),
    /// The session is too old, or the given proof is wrong.
    #[error(transparent)]
    Fresh(#[from] FreshError),
    /// The session has ended since the request began.
    #[error("the session has ended")]
    SessionEnded,
    #[error(transparent)]
    Store(#[from] TenantStoreError),
    #[error(transparent)]
    Users(#[from] UserStoreError),
    /// The invitation is being accepted, for this long at most.
    #[error("the invitation is being accepted; try again in a minute")]
    InvitationClaimed(Duration),
    #[error("the invitations cannot be used: {0}")]
    Invitations(#[from] gatewright_db::Error),
}

impl Flow {
    pub(super) fn new(
        core: Arc<Core>,
        store: Arc<dyn TenantStore>,
        invitations: Invitations,
        roles: BTreeSet<String>,
        self_service: bool,
    ) -> Self {
        let hourly = |scope, attempts| {
            let policy = Policy::new(attempts, Duration::from_hours(1), Duration::from_mins(30));
            core.limiter(scope, &Limit { policy, trust_forwarded_for: false })
        };
        Self {
            by_maker: hourly("tenant_maker", 30),
            by_inviter: hourly("tenant_inviter", 100),
            by_pair: hourly("tenant_mailbox", 10),
            mails: MailBudget::new(&core, "invitation"),
            fresh: Fresh::new(core.clone()),
            core,
            store,
            invitations,
            roles,
            self_service,
        }
    }

    /// The caller's tenants.
    pub(super) async fn list(&self, caller: &Session) -> Result<Vec<TenantOfUser>, TenantError> {
        Ok(self.store.tenants_of(&caller.user().id).await?)
    }

    /// Creates a tenant, whose owner is the caller.
    pub(super) async fn create(
        &self,
        caller: &Session,
        name: &Label,
        client: &Client,
    ) -> Result<TenantId, TenantError> {
        if !self.self_service {
            return Err(TenantError::SelfServiceOff);
        }
        step_up::require(&self.core, caller).await?;
        let owner = caller.user().id.clone();
        self.by_maker.attempt(owner.as_str()).await?;
        let tenant = NewTenant { id: TenantId::generate(&self.core.ambient), name: name.to_string(), owner };
        let event = self.begin(AuditKind::TenantCreated, caller, client, &tenant.id, None).await?;
        if !self.store.create(&tenant, MAX_TENANTS).await? {
            event.withdraw().await;
            return Err(TenantError::TooManyTenants);
        }
        event.done().await;
        Ok(tenant.id)
    }

    /// The users among the members after `after`, at most `limit`; with the first of them the invitations that are out.
    pub(super) async fn members(
        &self,
        caller: &Session,
        tenant: &TenantId,
        after: Option<&UserId>,
        limit: u32,
    ) -> Result<Page, TenantError> {
        self.require(caller, tenant, Change::List).await?;
        let share = Share::of_user(&caller.user().id);
        let mut found = self.store.users(tenant, after, limit.saturating_add(1), share).await?;
        let most = usize::try_from(limit).unwrap_or(usize::MAX);
        let has_more = found.len() > most;
        found.truncate(most);
        let users: Vec<_> = found.iter().filter_map(|member| user(&member.subject)).cloned().collect();
        let users = self.core.users.store.find_among(&users, share).await?;
        let mut emails: HashMap<_, _> = users.into_iter().map(|user| (user.id, user.email)).collect();
        let listed = |member: TenantMember| {
            let email = user(&member.subject).and_then(|id| emails.remove(id));
            Listed { member, email }
        };
        let members = found.into_iter().map(listed).collect();
        let mut invitations = match after {
            None => self.invitations.list(Some(tenant), self.core.ambient.now(), share).await?,
            Some(_) => Vec::new(),
        };
        invitations.sort_by(|one, other| one.email.as_str().cmp(other.email.as_str()));
        Ok(Page { members, has_more, invitations })
    }

    /// Invites an address by mail. Whether there is an account makes no difference. If others have used up the mailbox's
    /// limit of mails, the invitation is created without a mail, and the caller is not told.
    pub(super) async fn invite(
        &self,
        caller: &Session,
        tenant: &TenantId,
        Invite { email, roles, next }: Invite,
        given: &Given,
        client: &Client,
    ) -> Result<Invitation, TenantError> {
        if !self.core.post.is_configured() {
            return Err(TenantError::NoMailer);
        }
        let roles = self.known(roles.unwrap_or_else(|| vec![MEMBER.to_owned()]))?;
        step_up::require(&self.core, caller).await?;
        // Before anything is counted: a stranger uses up nothing of a mailbox.
        self.require(caller, tenant, Change::Invite(&roles)).await?;
        self.require_proof_for(&roles, caller, given, client).await?;
        let own = &caller.user().id;
        self.by_inviter.attempt(own.as_str()).await?;
        self.by_pair.attempt(&format!("{own} {email}")).await?;
        let given_roles = roles.iter().map(str::to_owned).collect();
        let new = NewInvitation::new(email).tenant(tenant.clone(), given_roles).invited_by(own.clone()).next(next);
        let bound = ByMember { most: MAX_INVITATIONS, session: caller, client, mails: &self.mails };
        let (invitation, ..) = issue(&self.core, &self.invitations, new, Some(bound)).await?;
        Ok(invitation)
    }

    /// Gives a member other roles.
    pub(super) async fn set_roles(
        &self,
        caller: &Session,
        tenant: &TenantId,
        member: &UserId,
        roles: Vec<String>,
        given: &Given,
        client: &Client,
    ) -> Result<Roles, TenantError> {
        let roles = self.known(roles)?;
        step_up::require(&self.core, caller).await?;
        // The store checks the permission again, in the transaction of the change.
        self.require(caller, tenant, Change::List).await?;
        self.require_proof_for(&roles, caller, given, client).await?;
        let event = self.begin(AuditKind::TenantRolesChanged, caller, client, tenant, Some(member)).await?;
        let changed = self.store.set_roles(tenant, member, &roles, &caller.user().id).await?;
        if let Err(refused) = done(changed, TenantError::NoMember) {
            event.withdraw().await;
            return Err(refused);
        }
        event.done().await;
        let change = MembersChange::Roles { name: self.name_of(member).await, roles: roles.clone() };
        notify_of_members(&self.core, caller, tenant, change).await;
        Ok(roles)
    }

    /// Removes a member, or lets the caller leave.
    pub(super) async fn remove(
        &self,
        caller: &Session,
        tenant: &TenantId,
        member: &UserId,
        client: &Client,
    ) -> Result<(), TenantError> {
        step_up::require(&self.core, caller).await?;
        done(self.store.remove(tenant, member, &caller.user().id).await?, TenantError::NoMember)?;
        let event = self.event(AuditKind::TenantMemberRemoved, caller, client, tenant, Some(member));
        self.core.audit.record(event).await;
        if *member != caller.user().id {
            notify_of_members(&self.core, caller, tenant, MembersChange::Removed { name: self.name_of(member).await })
                .await;
        }
        Ok(())
    }

    /// Withdraws an invitation of any sender.
    pub(super) async fn withdraw(&self, caller: &Session, tenant: &TenantId, id: &str) -> Result<(), TenantError> {
        step_up::require(&self.core, caller).await?;
        self.require(caller, tenant, Change::Withdraw).await?;
        let id = InvitationId::parse(id).map_err(|_| TenantError::NoInvitation)?;
        let removed = self.invitations.remove(&id, Some(tenant), self.core.ambient.now()).await?;
        if removed { Ok(()) } else { Err(TenantError::NoInvitation) }
    }

    async fn require(&self, caller: &Session, tenant: &TenantId, change: Change<'_>) -> Result<(), TenantError> {
        let caller = Subject::User(caller.user().id.clone());
        let roles = self.store.roles(tenant, &caller).await?.ok_or(TenantError::NoTenant)?;
        if permits(&roles, change) { Ok(()) } else { Err(TenantError::Forbidden) }
    }

    /// Whoever administers the tenant can bring in others, and does so after this session has ended. So a role that permits it is
    /// given by a young session, or with a proof.
    async fn require_proof_for(
        &self,
        roles: &Roles,
        caller: &Session,
        given: &Given,
        client: &Client,
    ) -> Result<(), TenantError> {
        if permits(roles, Change::List) {
            self.fresh.require_unless_young(caller, given, client, "a role that administers a tenant").await?;
        }
        Ok(())
    }

    /// The address of a member, or the id if it cannot be read.
    async fn name_of(&self, member: &UserId) -> String {
        match self.core.users.store.find_by_id(member).await {
            Ok(user) => user.email.to_string(),
            Err(_) => member.as_str().to_owned(),
        }
    }

    /// The roles, each of which exists.
    fn known(&self, roles: Vec<String>) -> Result<Roles, TenantError> {
        if let Some(unknown) = roles.iter().find(|role| !self.roles.contains(*role)) {
            return Err(TenantError::Roles(Some(unknown.chars().filter(|c| !c.is_control()).take(50).collect())));
        }
        let roles = Roles::from(roles);
        if roles.is_empty() || roles.iter().len() > MAX_ROLES {
            return Err(TenantError::Roles(None));
        }
        Ok(roles)
    }

    /// The event of an act that is about to take effect.
    async fn begin(
        &self,
        kind: AuditKind,
        caller: &Session,
        client: &Client,
        tenant: &TenantId,
        member: Option<&UserId>,
    ) -> Result<PendingEvent, UserStoreError> {
        Ok(self.core.audit.begin(self.event(kind, caller, client, tenant, member)).await?)
    }

    fn event(
        &self,
        kind: AuditKind,
        caller: &Session,
        client: &Client,
        tenant: &TenantId,
        member: Option<&UserId>,
    ) -> AuditEvent {
        let event = self.core.audit.event(kind).user(&caller.user().id).remote(client.address());
        let event = event.with("tenant_id", tenant.as_str());
        member.into_iter().fold(event, |event, member| event.with("member_id", member.as_str()))
    }
}

impl From<KeepError> for TenantError {
    fn from(error: KeepError) -> Self {
        match error {
            KeepError::Claimed(left) => Self::InvitationClaimed(left),
            KeepError::Full => Self::TooManyInvitations,
            KeepError::Unstored(error) => Self::Users(error.into()),
            KeepError::SessionEnded => Self::SessionEnded,
            KeepError::Users(error) => Self::Users(error),
            KeepError::Store(error) => Self::Invitations(error),
        }
    }
}

fn user(subject: &Subject) -> Option<&UserId> {
    match subject {
        Subject::User(id) => Some(id),
        Subject::Service(_) => None,
    }
}

fn done(changed: Changed, missing: TenantError) -> Result<(), TenantError> {
    match changed {
        Changed::Done => Ok(()),
        Changed::Stranger => Err(TenantError::NoTenant),
        Changed::Forbidden => Err(TenantError::Forbidden),
        Changed::Missing => Err(missing),
        Changed::LastOwner => Err(TenantError::LastOwner),
    }
}
