//! The caller of an operation, their authority, and the interface they use.

use std::net::IpAddr;
use std::sync::Arc;

use gatewright_base::{Identity, Subject, TenantId, UserId};
use http::HeaderValue;

use crate::answers::Keeping;
use crate::plan::Plan;
use crate::tenancy::Named;

/// The caller of an operation. Every operation takes one: `Call::from(identity)` for a caller with their own
/// permissions.
///
/// ```
/// use gatewright_base::{Identity, TenantId};
/// use gatewright_entities::Call;
///
/// let anonymous = Call::from(Identity::Anonymous);
/// let within = anonymous.in_tenant(TenantId::parse("acme").expect("visible characters"));
/// # let _ = within;
/// ```
#[derive(Debug, Clone, Default)]
pub struct Call {
    /// The caller, as authentication identified them.
    pub identity: Identity,
    /// The tenant that the request named. It applies only to multi-tenant entities, and only for its members.
    pub tenant: Named,
    /// The client address, if it is known. It is only recorded.
    pub address: Option<IpAddr>,
    /// The interface of the request.
    pub surface: Surface,
    /// Whether a request makes the call, and not the program.
    pub(crate) is_requested: bool,
    /// The languages that the caller reads, as an `Accept-Language`.
    pub(crate) languages: Option<HeaderValue>,
    /// The rights under which the call is made.
    pub(crate) authority: Authority,
    /// The deleted account that the call releases records of.
    pub(crate) released: Option<UserId>,
    /// How the answer is kept, if its request has a key.
    pub(crate) keeping: Option<Keeping>,
    /// The hook of the program that makes the call, if one does.
    pub(crate) hook: Option<Arc<str>>,
    pub(crate) nesting: u8,
    /// How many events led to the call, each by a function that ran after the one before.
    pub(crate) chain: u8,
    /// Who uploaded the files of the request itself.
    pub(crate) uploads: Option<Arc<str>>,
}

/// The rights under which a call is made.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum Authority {
    /// The caller's own: roles, scopes, ownership, tenants and access rules decide.
    #[default]
    Caller,
    /// The operator's: every record, and on multi-tenant entities those of the named tenant or, without one, of all.
    Operator,
}

/// The interface of a request. If an entity is not served there (`crud`, `mcp`), its records are not included as
/// related records either.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Surface {
    /// None: the program itself calls, and reaches all entities.
    #[default]
    Program,
    /// The endpoints.
    Rest,
    /// The tools.
    Tools,
}

impl Call {
    /// The same call from an address.
    pub fn from_address(self, address: Option<IpAddr>) -> Self {
        Self { address, ..self }
    }

    /// The same call by a surface.
    pub fn through(self, surface: Surface) -> Self {
        Self { surface, ..self }
    }

    /// The same call with the languages that the caller reads, as `Accept-Language` (RFC 9110) writes them: for the messages of
    /// [checks](crate::RecordCheck).
    pub fn reading(self, languages: &str) -> Self {
        Self { languages: HeaderValue::from_str(languages).ok(), ..self }
    }

    /// The same call for a tenant.
    pub fn in_tenant(self, tenant: TenantId) -> Self {
        Self { tenant: tenant.into(), ..self }
    }

    /// A call that a hook with this name makes for the same caller, and for the same tenant.
    #[must_use]
    pub fn by_hook(&self, name: &Arc<str>) -> Self {
        let (hook, nesting) = (Some(name.clone()), self.nesting.saturating_add(1));
        Self { hook, nesting, keeping: None, released: None, surface: Surface::Program, ..self.clone() }
    }

    /// The same call, made after the last of this many events, each of which followed from the one before. The events of its writes
    /// follow from them.
    #[must_use]
    pub fn led_by(self, chain: u8) -> Self {
        Self { chain, ..self }
    }

    /// How many events led to the call.
    pub fn chain(&self) -> u8 {
        self.chain
    }

    /// The hook that makes the call, if one does.
    pub fn hook(&self) -> Option<&str> {
        self.hook.as_deref()
    }

    /// How many hooks are running around this call: 1 if a hook of a request's write makes it.
    pub fn nesting(&self) -> u8 {
        self.nesting
    }

    /// The same call without a tenant.
    pub fn in_no_tenant(self) -> Self {
        Self { tenant: Named::default(), ..self }
    }

    /// The same call, whose request brought files along: they were uploaded under this name, which
    /// nobody else knows.
    pub fn uploading(self, uploads: Option<Arc<str>>) -> Self {
        Self { uploads, ..self }
    }

    /// The names under which files may have been uploaded that the call attaches: that of the request itself, and that of the
    /// account. An anonymous caller has no account.
    pub fn uploaders(&self) -> Vec<String> {
        let account = self.identity.principal().map(|principal| match &principal.subject {
            Subject::User(user) => format!("user:{}", user.as_str()),
            Subject::Service(service) => format!("service:{}", service.as_str()),
        });
        self.uploads.as_deref().map(str::to_owned).into_iter().chain(account).collect()
    }

    /// The same call with the operator's authority: no role, scope, owner, membership or access rule limits it, and the
    /// identity is only recorded. The program must have checked that the caller may administer. Hidden fields stay
    /// hidden, and invalid values are refused.
    #[must_use]
    pub fn as_operator(self) -> Self {
        Self { authority: Authority::Operator, ..self }
    }

    /// The same call, for releasing the records of a deleted account. Deletions of records without another owner are published
    /// as deletions of the account's own records, so that the event log forgets their contents too.
    pub(crate) fn releasing(self, user: &UserId) -> Self {
        Self { released: Some(user.clone()), ..self }
    }

    pub(crate) fn is_operators(&self) -> bool {
        self.authority == Authority::Operator
    }
}

impl From<Identity> for Call {
    fn from(identity: Identity) -> Self {
        Self { identity, ..Self::default() }
    }
}

impl From<&Identity> for Call {
    fn from(identity: &Identity) -> Self {
        Self::from(identity.clone())
    }
}

impl Surface {
    /// The most bytes of JSON in one answer. A record may have a megabyte, and a page may have a thousand records. A tool's
    /// answer is built as values twice, which takes many times the memory of its text, and its reader needs far less.
    pub(crate) fn most_bytes(self) -> usize {
        match self {
            Self::Program | Self::Rest => 8 * 1024 * 1024,
            Self::Tools => 1024 * 1024,
        }
    }

    /// Whether the entity's records are read here.
    pub(crate) fn serves(self, plan: &Plan) -> bool {
        match self {
            Self::Program => true,
            Self::Rest => plan.crud,
            Self::Tools => plan.mcp,
        }
    }
}
