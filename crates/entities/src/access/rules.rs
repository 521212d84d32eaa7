use std::sync::Arc;

use gatewright_base::Permission;

/// An operation on an entity's records.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Action {
    /// List, get, or follow the event stream.
    Read,
    /// Create a record.
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

/// The requirement of an action.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Demand {
    /// No requirement: every caller is allowed.
    Public,
    /// A signed-in caller.
    SignedIn,
    /// A caller whose roles include this permission.
    Permission(Permission),
}

impl Demand {
    /// The required permission.
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
    /// The resource name in scopes: the table, which is the first segment of the path.
    pub resource: Arc<str>,
    /// For [`Action::Read`].
    pub read: Demand,
    /// For [`Action::Create`].
    pub create: Demand,
    /// For [`Action::Update`].
    pub update: Demand,
    /// For [`Action::Delete`].
    pub delete: Demand,
    /// For exports, in addition to that for [`Action::Read`]. Absent: none.
    pub export: Option<Demand>,
    /// Whether records have owners. Only the owner sees and changes a record.
    pub owned: bool,
    /// A caller with this permission reads the records of every owner.
    pub cross_owner_read: Option<Permission>,
    /// A caller with this permission changes and deletes the records of every owner. It does not include reading them.
    pub cross_owner_write: Option<Permission>,
    /// Whether records belong to tenants. Only a tenant's members see and change its records.
    pub multi_tenant: bool,
}

impl Rules {
    /// The requirement of `action`.
    pub fn demand(&self, action: Action) -> &Demand {
        match action {
            Action::Read => &self.read,
            Action::Create => &self.create,
            Action::Update => &self.update,
            Action::Delete => &self.delete,
        }
    }
}
