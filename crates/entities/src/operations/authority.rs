use http::HeaderName;

use super::{Call, Error};
use crate::access::{Action, Reach, Refusal};
use crate::plan::Plan;
use crate::tenancy::Named;

/// By what right a call is made.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum Authority {
    /// The caller's own: roles, scopes, ownership, tenants and access rules decide.
    #[default]
    Caller,
    /// The operator's: every record, and on multi-tenant entities those of the named tenant or, without one, of all.
    Operator,
}

impl Call {
    /// The same call by the operator's authority: no role, scope, owner, membership or access rule bounds it, and the
    /// identity is for the record alone. The program must have decided that the caller may administer. What is hidden
    /// stays hidden, and what is invalid stays refused.
    #[must_use]
    pub fn as_operator(self) -> Self {
        Self { authority: Authority::Operator, ..self }
    }

    pub(super) fn is_operators(&self) -> bool {
        self.authority == Authority::Operator
    }

    /// How far the operator reaches.
    pub(super) fn operator_reach(&self, plan: &Plan, action: Action, header: &HeaderName) -> Result<Reach, Error> {
        if plan.tenant.is_none() {
            return Ok(Reach::ALL);
        }
        match &self.tenant {
            Named::Tenant(tenant) => Ok(Reach::ALL.within(tenant.clone())),
            // A new record must belong to one of them.
            Named::Nothing if action == Action::Create => Err(Refusal::NoTenant(header.clone()).into()),
            Named::Nothing => Ok(Reach::ALL),
            Named::Unreadable => Err(Refusal::UnreadableTenant.into()),
        }
    }
}
