use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::sync::Arc;

use gatewright_db::Value;
use sha2::{Digest, Sha256};

use super::{DefaultWord, Kind, Language, OnDelete, Query};
use crate::access::Rules;
use crate::files::FileRules;
use crate::value::Type;

/// An entity that passed every check: nothing in it is wrong, and nothing that uses it checks again.
#[expect(clippy::struct_excessive_bools, reason = "one for each attribute that a declaration may set")]
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
    pub(crate) description: Option<String>,
    /// The position of the field that stands for a record where people read.
    pub(crate) label: Option<usize>,
    pub(crate) rules: Rules,
    pub(crate) crud: bool,
    pub(crate) mcp: bool,
    pub(crate) max_list_limit: u32,
    /// Whether deleted records are only marked as such.
    pub(crate) soft_delete: bool,
    /// Whether a create may bring its own id.
    pub(crate) client_ids: bool,
    /// The columns that `q=` searches.
    pub(crate) search_fields: Vec<String>,
    /// The index that `q=` searches instead.
    pub(crate) search: Option<ModelSearch>,
    /// The columns that order cursors, without the id that follows them.
    pub(crate) cursor_fields: Vec<String>,
    /// The declared fields in their order, and the owner's and the tenant's at the end where none declared them.
    pub(crate) fields: Vec<ModelField>,
    /// What no two records share: the unique fields in the order of their declaration, then the declared keys.
    pub(crate) keys: Vec<Key>,
    pub(crate) sequences: Vec<Sequence>,
    /// The declared indexes: columns, each with whether it is descending, without the id that follows them.
    pub(crate) indexes: Vec<Vec<(String, bool)>>,
    /// The columns by which lists under the rule for reading find their records.
    pub(crate) leading: BTreeSet<String>,
    /// What its records are selected by, if they are in no table of its own.
    pub(crate) query: Option<Arc<Query>>,
    /// Whether its records are the accounts.
    pub(crate) is_directory: bool,
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
        let keys = self.keys.iter().filter_map(|key| key.fields.first()).filter(|field| !field.folded);
        let keys = keys.map(|field| &*self.fields[field.index].name);
        let indexes = self.indexes.iter().filter_map(|columns| columns.first()).map(|(column, _)| column.as_str());
        let all = fields.chain(["id"]).chain(self.cursor_fields.first().map(String::as_str)).chain(keys).chain(indexes);
        // Nothing is known about the indexes behind a query.
        all.take(if self.is_read_only() { 0 } else { usize::MAX })
    }

    /// The positions of the fields whose folded text is stored too, each once and in order.
    pub(crate) fn folded(&self) -> impl Iterator<Item = usize> {
        let is_folded = |index: &usize| {
            let fields = self.keys.iter().flat_map(|key| &key.fields);
            fields.into_iter().any(|field| field.folded && field.index == *index)
        };
        (0..self.fields.len()).filter(is_folded)
    }

    /// Whether its records have files.
    pub(crate) fn has_files(&self) -> bool {
        self.fields.iter().any(|field| field.files.is_some())
    }

    /// The columns whose index has the records of a value in the order of lists.
    pub(crate) fn ordered(&self) -> impl Iterator<Item = &str> {
        let all = self.leading.iter().map(String::as_str).chain(["id"]).chain(self.owner_column());
        all.take(if self.is_read_only() { 0 } else { usize::MAX })
    }
}

/// An index of the words of an entity's texts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ModelSearch {
    pub(crate) language: Language,
    /// The positions of the fields, each with what its words count in a rank.
    pub(crate) fields: Vec<(usize, u32)>,
}

impl ModelSearch {
    /// The column that holds the words of `column`. No field has such a name.
    pub(crate) fn column(&self, column: &str) -> String {
        short(&format!("{column}.{}", self.language))
    }
}

/// Fields whose values together belong to one record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Key {
    /// Never empty.
    pub(crate) fields: Vec<KeyField>,
    /// Whether it is a key of the entity, and not the attribute of a field.
    pub(crate) declared: bool,
}

/// A field whose values the server numbers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Sequence {
    /// The position of the field.
    pub(crate) field: usize,
    /// The positions of the fields within whose values it counts, with that of the tenant.
    pub(crate) scope: Vec<usize>,
}

impl Sequence {
    /// The columns of the scope, each with whether it is a truth value.
    pub(crate) fn columns(&self, model: &Model) -> Vec<(String, bool)> {
        let fields = self.scope.iter().map(|index| &model.fields[*index]);
        fields.map(|field| (field.name.clone(), field.kind == Kind::Bool)).collect()
    }
}

/// A field of a [`Key`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct KeyField {
    /// The position of the field.
    pub(crate) index: usize,
    /// Whether its text is compared without case: by the column with its folded text.
    pub(crate) folded: bool,
}

/// The column that holds the folded text of `column`, in the form that Unicode gave it when it was written. No field has such
/// a name.
pub(crate) fn folded_column(column: &str) -> String {
    format!("{column}{FOLDED}")
}

/// The column whose text a column holds, folded or not.
pub(crate) fn unfolded(column: &str) -> &str {
    column.strip_suffix(FOLDED).unwrap_or(column)
}

/// The table with the links of a relation to many records: `record`, `value` (the id that it names) and `position`. No
/// entity has such a table.
pub(crate) fn links_table(table: &str, column: &str) -> String {
    short(&format!("{table}.{column}{LINKS}"))
}

/// The end of the name of a table of links.
const LINKS: &str = ".links";

/// The end of the name of a column with folded text.
const FOLDED: &str = ".folded";

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
    /// The default that depends on the request. Then there is no other.
    pub(crate) word: Option<DefaultWord>,
    /// What a relation to one record refers to.
    pub(crate) relation: Option<Relation>,
    /// What a relation to many records refers to. Its kind is that of a list.
    pub(crate) links: Option<Target>,
    /// What files it takes. The kind of a field with many files is that of a list.
    pub(crate) files: Option<Arc<FileRules>>,
    /// The column's former name.
    pub(crate) renamed_from: Option<String>,
    pub(crate) description: Option<String>,
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

/// Postgres cuts names at 63 bytes in silence, so that two long ones could become the same.
pub(crate) fn short(name: &str) -> String {
    if name.len() <= 63 {
        return name.to_owned();
    }
    let digest = Sha256::digest(name);
    let mut short = name[..46].to_owned();
    short.push('.');
    for byte in &digest[..8] {
        let _infallible = write!(short, "{byte:02x}");
    }
    short
}
