use std::collections::BTreeSet;
use std::sync::Arc;

use gatewright_db::Value;

use super::{Kind, OnDelete};
use crate::access::Rules;
use crate::value::Type;

/// An entity that passed every check: nothing in it is wrong, and nothing that uses it checks again.
#[derive(Debug, Clone)]
pub(crate) struct Model {
    pub(crate) name: Arc<str>,
    pub(crate) table: Arc<str>,
    /// The table's former name.
    pub(crate) renamed_from: Option<String>,
    /// The position of the owner's field.
    pub(crate) owner: Option<usize>,
    /// The position of the tenant's field, on multi-tenant entities.
    pub(crate) tenant: Option<usize>,
    pub(crate) rules: Rules,
    pub(crate) crud: bool,
    pub(crate) mcp: bool,
    pub(crate) max_list_limit: u32,
    /// Whether deleted records are only marked as such.
    pub(crate) soft_delete: bool,
    /// The columns that `q=` searches.
    pub(crate) search_fields: Vec<String>,
    /// The columns that order cursors, without the id that follows them.
    pub(crate) cursor_fields: Vec<String>,
    /// The declared fields in their order, and the owner's and the tenant's at the end where none declared them.
    pub(crate) fields: Vec<ModelField>,
    /// The columns by which lists under the rule for reading find their records.
    pub(crate) leading: BTreeSet<String>,
}

impl Model {
    /// The columns that an index begins with, not counting that of the tenant.
    pub(crate) fn indexed(&self) -> impl Iterator<Item = &str> {
        let has_index = |(at, field): (usize, &ModelField)| {
            let bounds = [self.owner, self.tenant].contains(&Some(at));
            bounds || field.index || field.unique || field.relation.is_some()
        };
        let fields = self.fields.iter().enumerate().filter(move |(at, field)| has_index((*at, field)));
        let fields = fields.map(|(_, field)| &*field.name);
        fields.chain(["id"]).chain(self.cursor_fields.first().map(String::as_str))
    }

    /// The columns whose index has the records of a value in the order of lists.
    pub(crate) fn ordered(&self) -> impl Iterator<Item = &str> {
        self.leading.iter().map(String::as_str).chain(["id"]).chain(self.owner_column())
    }
}

/// A field that passed every check.
#[expect(clippy::struct_excessive_bools, reason = "one for each attribute that a declaration may set")]
#[derive(Debug, Clone)]
pub(crate) struct ModelField {
    pub(crate) name: String,
    pub(crate) kind: Kind,
    pub(crate) rule: Type,
    pub(crate) required: bool,
    pub(crate) unique: bool,
    pub(crate) index: bool,
    pub(crate) hidden: bool,
    pub(crate) read_only: bool,
    pub(crate) default: Option<Value>,
    pub(crate) relation: Option<Relation>,
    /// The column's former name.
    pub(crate) renamed_from: Option<String>,
}

/// What a relation refers to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Relation {
    pub(crate) to: Target,
    pub(crate) on_delete: OnDelete,
}

/// The other end of a relation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Target {
    /// A user. Only the id is known here.
    Users,
    /// The entity at this position.
    Entity(usize),
}
