use std::sync::Arc;

use jiff::Timestamp;

use crate::{Roles, Scopes, ServiceId, SessionId, TenantId, TokenId, UserId};

/// The caller of a request. Authentication determines it once per request; all other code only reads it.
#[derive(Debug, Clone, Default)]
pub enum Identity {
    /// A caller without credentials.
    #[default]
    Anonymous,
    /// A caller whose password was correct and whose second factor is still pending. They count as anonymous for public
    /// operations. Otherwise only the second-factor challenge and logout are allowed; everything else answers 403.
    Pending(UserId),
    /// An authenticated caller.
    Known(Arc<Principal>),
}

/// An authenticated caller: the account, its roles and the credential.
#[derive(Debug, Clone)]
pub struct Principal {
    /// A user or a service account.
    pub subject: Subject,
    /// The user's address. Service accounts have none.
    pub email: Option<Arc<str>>,
    /// The current roles, not those from when the credential was created.
    pub roles: Roles,
    /// The credential of the request.
    pub credential: Credential,
}

/// The two kinds of account.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Subject {
    /// A person.
    User(UserId),
    /// A program that authenticates only by API token.
    Service(ServiceId),
}

impl Subject {
    /// The identifier as text, as in an owner column.
    pub fn as_str(&self) -> &str {
        match self {
            Self::User(id) => id.as_str(),
            Self::Service(id) => id.as_str(),
        }
    }
}

/// How a caller authenticated.
#[derive(Debug, Clone)]
pub enum Credential {
    /// A session cookie. Unscoped, and the only interactive kind.
    Session {
        /// The session's public identifier.
        id: SessionId,
        /// Whether a second factor was proven in this session.
        two_factor_verified: bool,
        /// The operator who acts as the user in this session, if it is not the user's own.
        impersonated_by: Option<UserId>,
    },
    /// A JSON web token. Unscoped.
    Jwt {
        /// When it ends.
        expires_at: Timestamp,
    },
    /// An API token (`svc_…`), limited to its scopes.
    ApiToken {
        /// Which one.
        id: TokenId,
        /// Its permissions under a scope guard.
        scopes: Scopes,
        /// When it ends, if it does.
        expires_at: Option<Timestamp>,
        /// The tenants in which it may be used.
        tenants: TenantLimit,
    },
    /// A user's authority, delegated by the host to one embedded surface.
    Grant(Grant),
}

/// The tenants in which a credential may be used. This is only a restriction: its owner must be a member as well.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum TenantLimit {
    /// In each tenant of its owner. A request names the tenant.
    #[default]
    Unlimited,
    /// In this tenant, which a request need not name.
    Only(TenantId),
    /// No tenant.
    Nowhere,
}

/// The limits of an embedded surface's delegated authority.
#[derive(Debug, Clone)]
pub struct Grant {
    /// The surface's name, chosen by the host.
    pub surface: Arc<str>,
    /// The only web origin it may be used from.
    pub origin: Arc<str>,
    /// Its permissions.
    pub scopes: Scopes,
    /// When it ends.
    pub expires_at: Timestamp,
}

impl Credential {
    /// The scopes that bound this credential; `None` for those that are unscoped.
    pub fn scopes(&self) -> Option<&Scopes> {
        match self {
            Self::Session { .. } | Self::Jwt { .. } => None,
            Self::ApiToken { scopes, .. } => Some(scopes),
            Self::Grant(grant) => Some(&grant.scopes),
        }
    }

    /// The tenants in which this credential may be used.
    pub fn tenants(&self) -> &TenantLimit {
        match self {
            Self::Session { .. } | Self::Jwt { .. } | Self::Grant(_) => &TenantLimit::Unlimited,
            Self::ApiToken { tenants, .. } => tenants,
        }
    }
}

impl Principal {
    /// Whether this caller passes a scope guard for `resource:verb`. Sessions and JWTs are unscoped and pass.
    pub fn in_scope(&self, resource: &str, verb: &str) -> bool {
        self.credential.scopes().is_none_or(|scopes| scopes.cover(resource, verb))
    }

    /// The operator who acts as this user in a session for that, if one does.
    pub fn impersonated_by(&self) -> Option<&UserId> {
        match &self.credential {
            Credential::Session { impersonated_by, .. } => impersonated_by.as_ref(),
            Credential::Jwt { .. } | Credential::ApiToken { .. } | Credential::Grant(_) => None,
        }
    }

    /// The user's id, if this is a user.
    pub fn user_id(&self) -> Option<&UserId> {
        match &self.subject {
            Subject::User(id) => Some(id),
            Subject::Service(_) => None,
        }
    }
}

impl Identity {
    /// The principal, if there is one. `Pending` has none: it must not act as its user.
    pub fn principal(&self) -> Option<&Arc<Principal>> {
        match self {
            Self::Known(principal) => Some(principal),
            Self::Anonymous | Self::Pending(_) => None,
        }
    }
}
