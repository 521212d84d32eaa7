//! Who may do what: identity × entity × action → how far the caller reaches, or why not.
//!
//! One pure function, [`decide`], asked by every operation and by the event streams, so that REST, tools and streams
//! cannot differ. It looks in this order, and the first that refuses is the answer:
//!
//! 1. a caller who owes a second factor counts as anonymous where anybody may call, and is refused everywhere else;
//! 2. a token's scopes, where the scope guard stands: they bound what its owner could do, never widen it;
//! 3. the entity's own demand: nothing (`public`), somebody signed in, or a permission that the caller's roles bring;
//! 4. the tenant: a multi-tenant entity needs one, which the caller belongs to, and shows nothing of any other;
//! 5. ownership: an owned entity without somebody who could own is refused, and shows everybody their own records.

use std::sync::Arc;

use gatewright_base::{Identity, Permission, Principal, RolePermissions, TenantId};
use gatewright_db::Value;
use http::HeaderName;

use crate::TENANT_HEADER;
use crate::condition::Bound;
use crate::condition::bound::Form;
use crate::tenancy::Membership;

/// What a caller wants to do with an entity's records.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Action {
    /// List, get, or follow the event stream.
    Read,
    /// Make a record.
    Create,
    /// Change a record.
    Update,
    /// Delete a record.
    Delete,
}

impl Action {
    /// The four of them.
    pub const ALL: [Self; 4] = [Self::Read, Self::Create, Self::Update, Self::Delete];

    /// The word that a configuration uses.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Create => "create",
            Self::Update => "update",
            Self::Delete => "delete",
        }
    }

    /// The verb of the scope that a token needs.
    pub fn scope_verb(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Create | Self::Update | Self::Delete => "write",
        }
    }
}

/// What an action asks of its caller.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Demand {
    /// Nothing: anybody may.
    Public,
    /// Somebody signed in.
    SignedIn,
    /// Somebody whose roles bring this.
    Permission(Permission),
}

impl Demand {
    /// The permission that is asked for.
    pub fn permission(&self) -> Option<&Permission> {
        match self {
            Self::Permission(permission) => Some(permission),
            Self::Public | Self::SignedIn => None,
        }
    }
}

/// An entity's rules.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rules {
    /// What a scope must name: the table, which is the first segment of the path.
    pub resource: Arc<str>,
    /// For [`Action::Read`].
    pub read: Demand,
    /// For [`Action::Create`].
    pub create: Demand,
    /// For [`Action::Update`].
    pub update: Demand,
    /// For [`Action::Delete`].
    pub delete: Demand,
    /// Whether records have owners, who alone see and change them.
    pub owned: bool,
    /// Holders of this read the records of every owner.
    pub cross_owner_read: Option<Permission>,
    /// Holders of this change and delete the records of every owner. It gives no right to read them.
    pub cross_owner_write: Option<Permission>,
    /// Whether records belong to tenants, whose members alone see and change them.
    pub multi_tenant: bool,
}

impl Rules {
    /// What `action` asks of its caller.
    pub fn demand(&self, action: Action) -> &Demand {
        match action {
            Action::Read => &self.read,
            Action::Create => &self.create,
            Action::Update => &self.update,
            Action::Delete => &self.delete,
        }
    }
}

/// What holds for all entities of a program.
#[derive(Debug, Clone)]
pub struct Policy {
    /// Which permissions each role brings.
    pub roles: RolePermissions,
    /// Which permissions each role within a tenant brings there, beside those of the account's own roles.
    pub tenant_roles: RolePermissions,
    /// Whether tokens are held to their scopes.
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

/// What is known of a request's tenant: which it named, and whether the caller belongs to it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum Standing {
    /// The request named none.
    #[default]
    Unnamed,
    /// It named something that can be no tenant's identifier, or more than one.
    Unreadable,
    /// The caller does not belong to the one it named.
    Stranger,
    /// The caller belongs to this one.
    Member(Membership),
}

/// How far an allowed caller reaches: every record, or those of one owner, of one tenant, or those of which access rules
/// hold.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Reach {
    owner: Option<Arc<str>>,
    tenant: Option<Membership>,
    /// Access rules that must hold of a record.
    conditions: Vec<Bound>,
}

impl Reach {
    /// Every record.
    pub const ALL: Self = Self { owner: None, tenant: None, conditions: Vec::new() };

    /// The records that this account owns.
    pub fn of_owner(owner: impl Into<Arc<str>>) -> Self {
        Self { owner: Some(owner.into()), ..Self::ALL }
    }

    /// The same, within this tenant alone.
    pub fn within(self, tenant: impl Into<Membership>) -> Self {
        Self { tenant: Some(tenant.into()), ..self }
    }

    /// The owner that records must have, where there is one.
    pub fn owner(&self) -> Option<&str> {
        self.owner.as_deref()
    }

    /// The tenant that records must belong to, on multi-tenant entities.
    pub fn tenant(&self) -> Option<&TenantId> {
        self.tenant.as_ref().map(|membership| &membership.tenant)
    }

    /// The caller's membership in that tenant.
    pub(crate) fn membership(&self) -> Option<&Membership> {
        self.tenant.as_ref()
    }

    /// Whether a record of `owner` and `tenant` lies within. With access rules none does: the database decides those.
    pub fn covers(&self, owner: Option<&str>, tenant: Option<&str>) -> bool {
        self.conditions.is_empty() && self.bounds(owner, tenant)
    }

    /// The same apart from access rules.
    pub(crate) fn bounds(&self, owner: Option<&str>, tenant: Option<&str>) -> bool {
        self.owner().is_none_or(|mine| owner == Some(mine))
            && self.tenant().is_none_or(|mine| tenant == Some(mine.as_str()))
    }

    /// The same, as far as a rule holds too.
    pub(crate) fn under(mut self, rule: Option<Bound>) -> Self {
        self.conditions.extend(rule);
        self
    }

    /// The access rules.
    pub(crate) fn conditions(&self) -> &[Bound] {
        &self.conditions
    }

    /// The parameters of the conditions that bound a statement to this: the tenant, the owner, those of the rules.
    pub(crate) fn params(&self) -> Vec<Value> {
        let tenant = self.tenant().map(TenantId::as_str);
        let mut params: Vec<Value> = tenant.into_iter().chain(self.owner()).map(Value::from).collect();
        for bound in &self.conditions {
            params.extend(bound.sql("", 1, Form::Single).1);
        }
        params
    }

    /// The rules as SQL, each after AND, their parameters numbered from `next`.
    pub(crate) fn rules_sql(&self, table: &str, mut next: usize, form: Form) -> String {
        let mut sql = String::new();
        for bound in &self.conditions {
            let (condition, params) = bound.sql(table, next, form);
            sql.push_str(" AND ");
            sql.push_str(&condition);
            next += params.len();
        }
        sql
    }
}

/// Why a caller is refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Refusal {
    /// Nobody that we know: 401.
    #[error("authentication is required")]
    Unauthenticated,
    /// A second factor is owed: 403.
    #[error("two-factor verification required")]
    SecondFactor,
    /// The token has not the scope: 403.
    #[error("the token lacks the scope {resource}:{verb}")]
    OutOfScope {
        /// The table.
        resource: Arc<str>,
        /// `read` or `write`.
        verb: &'static str,
    },
    /// The roles do not bring the permission: 403.
    #[error("the permission {0} is required")]
    Forbidden(Permission),
    /// The entity is multi-tenant, and the request names no tenant: 400.
    #[error("a tenant is required; send its id in the header {0}")]
    NoTenant(HeaderName),
    /// What the request names can be no tenant, or is more than one: 400.
    #[error("one tenant is required, named by 1 to 200 visible characters")]
    UnreadableTenant,
    /// The caller does not belong to the tenant that the request names: 403.
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
    let permits = |principal: &Principal, permission: &Permission| {
        policy.roles.permit(&principal.roles, permission)
            || matches!(standing, Standing::Member(membership)
                if rules.multi_tenant && policy.tenant_roles.permit(&membership.roles, permission))
    };
    match rules.demand(action) {
        Demand::Public => {}
        Demand::SignedIn => drop(signed_in()?),
        Demand::Permission(permission) => {
            if !permits(signed_in()?, permission) {
                return Err(match standing {
                    // Within a tenant the caller might hold it.
                    Standing::Unnamed if rules.multi_tenant && !policy.tenant_roles.is_empty() => {
                        Refusal::NoTenant(policy.tenant_header.clone())
                    }
                    Standing::Unnamed | Standing::Unreadable | Standing::Stranger | Standing::Member(_) => {
                        Refusal::Forbidden(permission.clone())
                    }
                });
            }
        }
    }
    let reach = if rules.multi_tenant {
        // Nobody belongs to a tenant who is nobody.
        signed_in()?;
        match standing {
            Standing::Unnamed => return Err(Refusal::NoTenant(policy.tenant_header.clone())),
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
        Some(permission) if permits(principal, permission) => Ok(reach),
        _ => Ok(Reach { owner: Some(principal.subject.as_str().into()), ..reach }),
    }
}

fn within_scopes(policy: &Policy, rules: &Rules, principal: &Principal, action: Action) -> Result<(), Refusal> {
    let verb = action.scope_verb();
    if policy.scope_guard && !principal.in_scope(&rules.resource, verb) {
        return Err(Refusal::OutOfScope { resource: rules.resource.clone(), verb });
    }
    Ok(())
}

#[cfg(test)]
mod tests;
