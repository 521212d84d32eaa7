//! The records that a caller reaches, independent of SQL. It limits statements.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use gatewright_base::TenantId;
use gatewright_db::Engine;

use super::resolve::Resolved;
use super::{Catalog, Viewer};
use crate::tenancy::Membership;

/// The records that an allowed caller reaches: all, or those of one owner, of one tenant, or for which access rules
/// hold.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Reach {
    owner: Option<Arc<str>>,
    tenant: Option<Membership>,
    /// Access rules that must hold for a record.
    conditions: Vec<Bound>,
}

impl Reach {
    /// Every record.
    pub const ALL: Self = Self { owner: None, tenant: None, conditions: Vec::new() };

    /// The records that this account owns.
    pub fn of_owner(owner: impl Into<Arc<str>>) -> Self {
        Self { owner: Some(owner.into()), ..Self::ALL }
    }

    /// The same, only records that this account owns.
    pub(crate) fn owned_by(self, owner: &str) -> Self {
        Self { owner: Some(owner.into()), ..self }
    }

    /// The same, only within this tenant.
    pub fn within(self, tenant: impl Into<Membership>) -> Self {
        Self { tenant: Some(tenant.into()), ..self }
    }

    /// The owner that records must have, if one is required.
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

    /// Whether the reach includes a record of `owner` and `tenant`. Always false with access rules, which only the
    /// database can evaluate.
    pub fn covers(&self, owner: Option<&str>, tenant: Option<&str>) -> bool {
        self.conditions.is_empty() && self.bounds(owner, tenant)
    }

    /// The same apart from access rules.
    pub(crate) fn bounds(&self, owner: Option<&str>, tenant: Option<&str>) -> bool {
        self.owner().is_none_or(|mine| owner == Some(mine))
            && self.tenant().is_none_or(|mine| tenant == Some(mine.as_str()))
    }

    /// The same, limited further by a rule.
    pub(crate) fn under(mut self, rule: Option<Bound>) -> Self {
        self.conditions.extend(rule);
        self
    }

    /// The access rules.
    pub(crate) fn conditions(&self) -> &[Bound] {
        &self.conditions
    }
}

/// An access rule of an entity.
#[derive(Debug, PartialEq)]
pub(crate) struct Rule {
    /// As it was declared.
    pub(crate) text: String,
    pub(crate) resolved: Resolved,
}

/// A condition, with the caller that its `@` words refer to.
#[derive(Clone)]
pub(crate) struct Bound {
    pub(crate) catalog: Arc<Catalog>,
    pub(crate) engine: Engine,
    pub(crate) rule: Arc<Rule>,
    pub(crate) viewer: Arc<Viewer>,
    /// How far the caller reaches in each entity on the way, where the condition is read under the caller's own rights.
    pub(crate) guards: Arc<BTreeMap<usize, Reach>>,
}

impl PartialEq for Bound {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.rule, &other.rule) && self.viewer == other.viewer && self.guards == other.guards
    }
}

impl fmt::Debug for Bound {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Bound").field(&self.rule.text).finish()
    }
}
