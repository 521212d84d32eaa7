use std::sync::Arc;

use gatewright_base::Permission;

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
