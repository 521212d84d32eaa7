use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use gatewright_base::{Roles, Secret, Subject, TenantId, UserId};
use gatewright_limits::{Denied, Limiter, Policy};
use gatewright_tenancy::{
    Accepted, Change, Changed, Invitation, Invited, MEMBER, NewInvitation, NewTenant, TenantMember, TenantOfUser,
    TenantStore, TenantStoreError, TokenHash, permits,
};
use jiff::{SignedDuration, Timestamp};
use sha2::{Digest, Sha256};
use url::Url;

use super::MOST_MEMBERS;
use crate::audit::AuditKind;
use crate::config::Limit;
use crate::mailbox::{self, Holder, Method, ProveError};
use crate::session::{Client, Session};
use crate::single_use::SingleUseToken;
use crate::step_up::{self, StepUpError};
use crate::users::UserStoreError;
use crate::{Core, EmailAddress, Label, Mail, MailKind};

/// The most tenants that an account belongs to when it makes another one.
const MOST_TENANTS: u32 = 100;
/// The most invitations of a tenant that are not accepted and not expired.
const MOST_INVITATIONS: u32 = 200;
/// The most roles of a member.
const MOST_ROLES: usize = 16;
/// How long an invitation can be accepted.
const INVITATION_TTL: SignedDuration = SignedDuration::from_hours(7 * 24);

/// Tenants as their members manage them.
pub(super) struct Flow {
    pub(super) core: Arc<Core>,
    store: Arc<dyn TenantStore>,
    roles: BTreeSet<String>,
    self_service: bool,
    /// Everything before the token.
    link: String,
    by_maker: Limiter,
    by_inviter: Limiter,
    by_mailbox: Limiter,
}

/// A member with what people know the account by.
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

/// Why something about tenants was not done.
#[derive(Debug, thiserror::Error)]
pub(super) enum TenantError {
    /// Too many attempts.
    #[error(transparent)]
    Denied(#[from] Denied),
    #[error("creating tenants is off")]
    SelfServiceOff,
    /// There is none, or the caller is no member of it.
    #[error("no such tenant")]
    NoTenant,
    #[error("no such member")]
    NoMember,
    #[error("no such invitation")]
    NoInvitation,
    #[error("your roles in this tenant do not permit this")]
    Forbidden,
    #[error("a tenant keeps at least one owner: make somebody else an owner first")]
    LastOwner,
    #[error("the limit of tenants is reached")]
    TooManyTenants,
    #[error("the limit of pending invitations is reached: withdraw some, or wait until they are accepted")]
    TooManyInvitations,
    #[error("the tenant has as many members as it may")]
    Full,
    /// What no role of tenants is called, if there is one; else there are too many or none.
    #[error("{}", .0.as_ref().map_or_else(|| format!("a member has 1 to {MOST_ROLES} roles"), |role| format!("there is no tenant role \"{role}\"")))]
    Roles(Option<String>),
    #[error("invalid or expired token")]
    InvalidToken,
    #[error("this invitation is for another address")]
    OtherAddress,
    #[error("email delivery not configured")]
    NoMailer,
    #[error(transparent)]
    StepUp(#[from] StepUpError),
    #[error(transparent)]
    Store(#[from] TenantStoreError),
    #[error(transparent)]
    Users(#[from] UserStoreError),
    #[error(transparent)]
    Prove(#[from] ProveError),
}

impl Flow {
    pub(super) fn new(
        core: Arc<Core>,
        store: Arc<dyn TenantStore>,
        roles: BTreeSet<String>,
        self_service: bool,
        public_url: &Url,
    ) -> Self {
        let hourly = |scope, attempts| {
            let policy = Policy::new(attempts, Duration::from_hours(1), Duration::from_mins(30));
            core.limiter(scope, &Limit { policy, trust_forwarded_for: false })
        };
        let mut url = public_url.clone();
        url.set_query(None);
        url.set_fragment(None);
        let link = format!("{}{}/tenants/accept?token=", url.as_str().trim_end_matches('/'), core.config.base_path);
        Self {
            by_maker: hourly("tenant_maker", 30),
            by_inviter: hourly("tenant_inviter", 100),
            by_mailbox: hourly("tenant_mailbox", 10),
            core,
            store,
            roles,
            self_service,
            link,
        }
    }

    /// The caller's tenants.
    pub(super) async fn list(&self, caller: &Session) -> Result<Vec<TenantOfUser>, TenantError> {
        Ok(self.store.tenants_of(&caller.user().id).await?)
    }

    /// Makes a tenant, whose owner the caller is.
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
        if !self.store.create(&tenant, MOST_TENANTS).await? {
            return Err(TenantError::TooManyTenants);
        }
        self.audit(AuditKind::TenantCreated, caller, client, &tenant.id, None).await;
        Ok(tenant.id)
    }

    /// The members after `after`, at most `limit`; with the first of them the invitations that are out.
    pub(super) async fn members(
        &self,
        caller: &Session,
        tenant: &TenantId,
        after: Option<&Subject>,
        limit: u32,
    ) -> Result<Page, TenantError> {
        self.require(caller, tenant, Change::List).await?;
        let mut found = self.store.members(tenant, after, limit.saturating_add(1)).await?;
        let most = usize::try_from(limit).unwrap_or(usize::MAX);
        let has_more = found.len() > most;
        found.truncate(most);
        let mut members = Vec::with_capacity(found.len());
        for member in found {
            let email = match &member.subject {
                Subject::User(id) => self.email(id).await?,
                Subject::Service(_) => None,
            };
            members.push(Listed { member, email });
        }
        let invitations = match after {
            None => self.store.invitations(tenant, self.core.ambient.now()).await?,
            Some(_) => Vec::new(),
        };
        Ok(Page { members, has_more, invitations })
    }

    /// Invites somebody by mail. Whether there is an account makes no difference.
    pub(super) async fn invite(
        &self,
        caller: &Session,
        tenant: &TenantId,
        email: &EmailAddress,
        roles: Option<Vec<String>>,
        client: &Client,
    ) -> Result<Invitation, TenantError> {
        let mailer = self.core.mailer.clone().ok_or(TenantError::NoMailer)?;
        let roles = self.known(roles.unwrap_or_else(|| vec![MEMBER.to_owned()]))?;
        step_up::require(&self.core, caller).await?;
        // Before anything is counted: a stranger uses up nothing of a mailbox.
        self.require(caller, tenant, Change::Invite(&roles)).await?;
        self.by_inviter.attempt(caller.user().id.as_str()).await?;
        self.by_mailbox.attempt(&format!("{} {email}", caller.user().id)).await?;
        let (token, now) = (SingleUseToken::generate(&self.core.ambient), self.core.ambient.now());
        let invitation = NewInvitation {
            id: self.core.ambient.uuid().to_string(),
            tenant: tenant.clone(),
            email: email.to_string(),
            roles: roles.clone(),
            token: hashed(&token),
            by: caller.user().id.clone(),
            at: now,
            expires_at: now.checked_add(INVITATION_TTL).unwrap_or(Timestamp::MAX),
        };
        match self.store.invite(&invitation, MOST_INVITATIONS).await? {
            Invited::Done => {}
            Invited::Stranger => return Err(TenantError::NoTenant),
            Invited::Forbidden => return Err(TenantError::Forbidden),
            Invited::TooMany => return Err(TenantError::TooManyInvitations),
        }
        let link = Secret::new(format!("{}{}", self.link, token.to_text().expose()));
        let lifetime = INVITATION_TTL.unsigned_abs();
        let mail = Mail::new(MailKind::TenantInvitation, email.clone(), link, lifetime);
        self.core.background.run("a mail", async move {
            if let Err(error) = mailer.send(mail).await {
                tracing::error!(%error, "an invitation was not sent");
            }
        });
        self.audit(AuditKind::TenantInvited, caller, client, tenant, None).await;
        let NewInvitation { id, tenant, email, expires_at, .. } = invitation;
        Ok(Invitation { id, tenant_name: String::new(), tenant, email, roles, expires_at })
    }

    /// Gives a member other roles.
    pub(super) async fn set_roles(
        &self,
        caller: &Session,
        tenant: &TenantId,
        member: &UserId,
        roles: Vec<String>,
        client: &Client,
    ) -> Result<Roles, TenantError> {
        let roles = self.known(roles)?;
        step_up::require(&self.core, caller).await?;
        done(self.store.set_roles(tenant, member, &roles, &caller.user().id).await?, TenantError::NoMember)?;
        self.audit(AuditKind::TenantRolesChanged, caller, client, tenant, Some(member)).await;
        Ok(roles)
    }

    /// Removes a member, or has the caller leave.
    pub(super) async fn remove(
        &self,
        caller: &Session,
        tenant: &TenantId,
        member: &UserId,
        client: &Client,
    ) -> Result<(), TenantError> {
        step_up::require(&self.core, caller).await?;
        done(self.store.remove(tenant, member, &caller.user().id).await?, TenantError::NoMember)?;
        self.audit(AuditKind::TenantMemberRemoved, caller, client, tenant, Some(member)).await;
        Ok(())
    }

    /// Withdraws an invitation.
    pub(super) async fn withdraw(&self, caller: &Session, tenant: &TenantId, id: &str) -> Result<(), TenantError> {
        step_up::require(&self.core, caller).await?;
        done(self.store.withdraw(tenant, id, &caller.user().id).await?, TenantError::NoInvitation)
    }

    /// The invitation of a link, for its page. Nothing is spent.
    pub(super) async fn peek(&self, token: &Secret) -> Result<Invitation, TenantError> {
        let token = SingleUseToken::parse(token.expose()).ok_or(TenantError::InvalidToken)?;
        let found = self.store.invitation(&hashed(&token), self.core.ambient.now()).await?;
        found.ok_or(TenantError::InvalidToken)
    }

    /// Makes the caller, whose address was invited, a member. The token came by mail, so that it proves the mailbox too.
    pub(super) async fn accept(
        &self,
        caller: &Session,
        token: &Secret,
        client: &Client,
    ) -> Result<TenantOfUser, TenantError> {
        let now = self.core.ambient.now();
        let invitation = self.peek(token).await?;
        let key = hashed(&SingleUseToken::parse(token.expose()).ok_or(TenantError::InvalidToken)?);
        let user = self.core.users.store.find_by_id(&caller.user().id).await?;
        if user.email.as_str() != invitation.email {
            return Err(TenantError::OtherAddress);
        }
        step_up::require(&self.core, caller).await?;
        let (id, method) = (user.id.clone(), Method::EmailVerification);
        match self.store.accept(&key, &id, now, MOST_MEMBERS).await? {
            Accepted::Member { tenant, roles } => {
                let proven = mailbox::prove(&self.core, user, now, Holder::MailboxAndSession, method).await?;
                proven.audit_effect(&self.core, client, method).await;
                self.audit(AuditKind::TenantJoined, caller, client, &tenant, None).await;
                Ok(TenantOfUser { id: tenant, name: invitation.tenant_name, roles })
            }
            Accepted::Gone => Err(TenantError::InvalidToken),
            Accepted::Full => Err(TenantError::Full),
        }
    }

    async fn require(&self, caller: &Session, tenant: &TenantId, change: Change<'_>) -> Result<(), TenantError> {
        let caller = Subject::User(caller.user().id.clone());
        let roles = self.store.roles(tenant, &caller).await?.ok_or(TenantError::NoTenant)?;
        if permits(&roles, change) { Ok(()) } else { Err(TenantError::Forbidden) }
    }

    /// The roles, each of which exists.
    fn known(&self, roles: Vec<String>) -> Result<Roles, TenantError> {
        if let Some(unknown) = roles.iter().find(|role| !self.roles.contains(*role)) {
            return Err(TenantError::Roles(Some(unknown.chars().filter(|c| !c.is_control()).take(50).collect())));
        }
        let roles = Roles::from(roles);
        if roles.is_empty() || roles.iter().len() > MOST_ROLES {
            return Err(TenantError::Roles(None));
        }
        Ok(roles)
    }

    async fn email(&self, id: &UserId) -> Result<Option<EmailAddress>, TenantError> {
        match self.core.users.store.find_by_id(id).await {
            Ok(user) => Ok(Some(user.email)),
            Err(UserStoreError::NotFound) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    async fn audit(
        &self,
        kind: AuditKind,
        caller: &Session,
        client: &Client,
        tenant: &TenantId,
        member: Option<&UserId>,
    ) {
        let event = self.core.audit.event(kind).user(&caller.user().id).remote(client.address());
        let event = event.with("tenant_id", tenant.as_str());
        let event = member.into_iter().fold(event, |event, member| event.with("member_id", member.as_str()));
        self.core.audit.record(event).await;
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

/// Bound to its purpose, so that no other token passes for it.
fn hashed(token: &SingleUseToken) -> TokenHash {
    TokenHash(Sha256::new().chain_update("tenant invitation").chain_update(token.key().as_bytes()).finalize().into())
}
