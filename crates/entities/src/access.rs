//! Access control: from identity, entity and action to the records that the caller reaches, or the reason of a refusal.
//!
//! Every operation and the event streams call one pure function, [`decide`], so that REST, tools and streams cannot
//! differ. It checks in this order, and the first check that fails decides:
//!
//! 1. a caller whose second factor is pending counts as anonymous for public actions, and is refused otherwise;
//! 2. a token's scopes, if the scope guard is on: they restrict its owner's permissions and never extend them;
//! 3. the requirement of the entity: none (`public`), a signed-in caller, or a permission of the caller's roles;
//! 4. the tenant: a multi-tenant entity needs one to which the caller belongs, and shows only its records;
//! 5. ownership: an owned entity refuses callers who cannot own records, and shows each caller only their own.

mod rules;

use std::sync::Arc;

use gatewright_base::{Identity, Permission, Principal, RolePermissions};
use http::HeaderName;

pub use crate::condition::reach::Reach;
pub use crate::tenancy::Standing;
use crate::tenancy::TENANT_HEADER;
pub use rules::{Action, Demand, Rules};

/// The policy for all entities of a program.
#[derive(Debug, Clone)]
pub struct Policy {
    /// The permissions of each role.
    pub roles: RolePermissions,
    /// The permissions of each role within a tenant, in addition to those of the account's own roles.
    pub tenant_roles: RolePermissions,
    /// Whether scopes of tokens are checked.
    pub scope_guard: bool,
    /// The header by which a request names its tenant.
    pub tenant_header: HeaderName,
}

impl Default for Policy {
    fn default() -> Self {
        Self {
            roles: RolePermissions::default(),
            tenant_roles: RolePermissions::default(),
            scope_guard: false,
            tenant_header: TENANT_HEADER,
        }
    }
}

/// Why a caller is refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Refusal {
    /// The caller is anonymous.
    #[error("authentication is required")]
    Unauthenticated,
    /// The second factor is pending.
    #[error("two-factor verification required")]
    SecondFactor,
    /// The token lacks the scope.
    #[error("the token lacks the scope {resource}:{verb}")]
    OutOfScope {
        /// The table.
        resource: Arc<str>,
        /// `read` or `write`.
        verb: &'static str,
    },
    /// The caller's roles lack the permission.
    #[error("the permission {0} is required")]
    Forbidden(Permission),
    /// The entity's rule over the caller does not hold. Holds its name.
    #[error("this caller may not read {0}")]
    NotReader(Arc<str>),
    /// The entity is multi-tenant, and the request names no tenant. Holds the header that would name it.
    #[error("a tenant is required; send its id in the header {0}")]
    NoTenant(String),
    /// The request names an invalid tenant, or more than one.
    #[error("one tenant is required, named by 1 to 200 visible characters")]
    UnreadableTenant,
    /// The caller does not belong to the tenant that the request names.
    #[error("you are not a member of this tenant")]
    NotMember,
}

/// Decides.
pub fn decide(
    policy: &Policy,
    rules: &Rules,
    identity: &Identity,
    standing: &Standing,
    action: Action,
) -> Result<Reach, Refusal> {
    let (principal, unknown) = match identity {
        Identity::Pending(_) => (None, Refusal::SecondFactor),
        Identity::Anonymous => (None, Refusal::Unauthenticated),
        Identity::Known(principal) => (Some(&**principal), Refusal::Unauthenticated),
    };
    if let Some(principal) = principal {
        within_scopes(policy, rules, principal, action)?;
    }
    let signed_in = || principal.ok_or_else(|| unknown.clone());
    meets(policy, rules, signed_in(), standing, rules.demand(action))?;
    let reach = if rules.multi_tenant {
        // An anonymous caller belongs to no tenant.
        signed_in()?;
        match standing {
            Standing::Unnamed => return Err(Refusal::NoTenant(policy.tenant_header.to_string())),
            Standing::Unreadable => return Err(Refusal::UnreadableTenant),
            Standing::Stranger => return Err(Refusal::NotMember),
            Standing::Member(membership) => Reach::ALL.within(membership.clone()),
        }
    } else {
        Reach::ALL
    };
    if !rules.owned {
        return Ok(reach);
    }
    let principal = signed_in()?;
    let crossing = match action {
        Action::Read => &rules.cross_owner_read,
        Action::Update | Action::Delete => &rules.cross_owner_write,
        // A new record is the caller's own.
        Action::Create => &None,
    };
    match crossing {
        Some(permission) if permits(policy, rules, principal, standing, permission) => Ok(reach),
        _ => Ok(reach.owned_by(principal.subject.as_str())),
    }
}

/// Decides whether a caller who may read may export too. The scope has the verb `export`.
pub(crate) fn decide_export(
    policy: &Policy,
    rules: &Rules,
    identity: &Identity,
    standing: &Standing,
) -> Result<(), Refusal> {
    let Some(demand) = &rules.export else { return Ok(()) };
    let principal = identity.principal().map(|principal| &**principal);
    if let Some(principal) = principal {
        within_scope(policy, rules, principal, "export")?;
    }
    meets(policy, rules, principal.ok_or(Refusal::Unauthenticated), standing, demand)
}

/// Whether a caller, or the refusal of an anonymous one, meets a demand.
fn meets(
    policy: &Policy,
    rules: &Rules,
    signed_in: Result<&Principal, Refusal>,
    standing: &Standing,
    demand: &Demand,
) -> Result<(), Refusal> {
    let permission = match demand {
        Demand::Public => return Ok(()),
        Demand::SignedIn => return signed_in.map(drop),
        Demand::Permission(permission) => permission,
    };
    if permits(policy, rules, signed_in?, standing, permission) {
        return Ok(());
    }
    Err(match standing {
        // The caller might have the permission within a tenant.
        Standing::Unnamed if rules.multi_tenant && !policy.tenant_roles.is_empty() => {
            Refusal::NoTenant(policy.tenant_header.to_string())
        }
        Standing::Unreadable if rules.multi_tenant && !policy.tenant_roles.is_empty() => Refusal::UnreadableTenant,
        Standing::Unnamed | Standing::Unreadable | Standing::Stranger | Standing::Member(_) => {
            Refusal::Forbidden(permission.clone())
        }
    })
}

/// Whether a caller has a permission, also by a role within the tenant.
fn permits(
    policy: &Policy,
    rules: &Rules,
    principal: &Principal,
    standing: &Standing,
    permission: &Permission,
) -> bool {
    policy.roles.permit(&principal.roles, permission)
        || matches!(standing, Standing::Member(membership)
            if rules.multi_tenant && policy.tenant_roles.permit(&membership.roles, permission))
}

fn within_scopes(policy: &Policy, rules: &Rules, principal: &Principal, action: Action) -> Result<(), Refusal> {
    within_scope(policy, rules, principal, action.scope_verb())
}

fn within_scope(policy: &Policy, rules: &Rules, principal: &Principal, verb: &'static str) -> Result<(), Refusal> {
    if policy.scope_guard && !principal.in_scope(&rules.resource, verb) {
        return Err(Refusal::OutOfScope { resource: rules.resource.clone(), verb });
    }
    Ok(())
}

#[cfg(test)]
mod tests;
