use std::sync::Arc;

use gatewright_base::Identity;
use jiff::Timestamp;

use crate::tenancy::Standing;

/// The values of the words `@me`, `@roles`, `@tenant_roles`, `@tenant` and `@now` in one request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Viewer {
    /// The account's id; absent for anonymous callers.
    pub(crate) me: Option<Arc<str>>,
    /// A JSON array of the role names.
    pub(crate) roles: Arc<str>,
    /// A JSON array of the names of the roles in that tenant.
    pub(crate) tenant_roles: Arc<str>,
    /// The tenant that the request names and the caller belongs to.
    pub(crate) tenant: Option<Arc<str>>,
    pub(crate) now: Timestamp,
}

impl Viewer {
    pub(crate) fn new(identity: &Identity, standing: &Standing, now: Timestamp) -> Self {
        let principal = identity.principal();
        let roles: Vec<&str> = principal.map(|principal| principal.roles.iter().collect()).unwrap_or_default();
        let membership = match standing {
            Standing::Member(membership) => Some(membership),
            Standing::Unnamed | Standing::Unreadable | Standing::Stranger => None,
        };
        let tenant_roles: Vec<&str> =
            membership.map(|membership| membership.roles.iter().collect()).unwrap_or_default();
        Self {
            me: principal.map(|principal| principal.subject.as_str().into()),
            roles: serde_json::Value::from(roles).to_string().into(),
            tenant_roles: serde_json::Value::from(tenant_roles).to_string().into(),
            tenant: membership.map(|membership| membership.tenant.as_str().into()),
            now,
        }
    }
}
