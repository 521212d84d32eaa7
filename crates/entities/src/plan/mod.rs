//! Each entity, compiled once: SQL text, the fields by their keys, and how a row becomes JSON.
//!
//! Operations work with a [`Plan`]. Everything that depends on the engine or on the JSON case is decided when it is
//! compiled, so that a request only binds values.

mod describe;
mod fields;
mod found;
mod keyset;
mod one;
mod order;
mod scope;
mod sql;
mod unique;

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::sync::Arc;

use gatewright_base::JsonCase;
use gatewright_db::{Engine, Error as DatabaseError, Sql, Value};

use crate::access::{Action, Reach, Rules};
use crate::condition::{Catalog, Rule};
use crate::declare::model::folded_column;
use crate::declare::written::WriteRules;
use crate::declare::{
    ByAction, Declarations, DefaultWord, Key as UniqueKey, Model, OnDelete, Relation, Sequence, Target,
};
use crate::encode::Shape;
use crate::filter::{Columns, Search};
use crate::fragment::{quoted, typed};
use crate::schema::{sequences, type_word};
use crate::search;
use crate::value::FieldError;

pub(crate) use describe::wire_value;
pub use describe::{Bound, Constraints, Includable, Items};
pub use fields::Field;
pub(crate) use fields::{Fields, INCLUDED, Key};
pub(crate) use found::{Branch, Part};
pub(crate) use keyset::{Direction, Keyset, Place, RANK, Step};
pub(crate) use one::Statement;
pub(crate) use order::Order;
pub(crate) use scope::Scope;
pub(crate) use sql::{Statements, Trashed};

/// The parameter with which the last word of a search is the beginning of words.
pub(crate) const PREFIX: &str = "prefix";
/// The parameter with which records of a search show what was found.
pub(crate) const HIGHLIGHT: &str = "highlight";

/// An entity, ready to serve.
#[expect(clippy::struct_excessive_bools, reason = "one for each attribute that a declaration may set")]
#[derive(Debug)]
pub struct Plan {
    pub(crate) index: usize,
    pub(crate) name: Arc<str>,
    pub(crate) table: Arc<str>,
    description: Option<String>,
    label: Option<usize>,
    pub(crate) rules: Rules,
    /// The access rules of records.
    pub(crate) row_rules: ByAction<Arc<Rule>>,
    /// The conditions on what is written, besides them.
    pub(crate) write_rules: WriteRules,
    /// Who may read fields, by their positions: rules over the caller.
    pub(crate) read_rules: Vec<(usize, Arc<Rule>)>,
    /// Who may read it at all: a rule over the caller.
    pub(crate) readers: Option<Arc<Rule>>,
    /// Whether its records are the rows of a query, which nobody writes.
    pub(crate) is_read_only: bool,
    /// Whether its records are the accounts.
    pub(crate) is_directory: bool,
    /// Whether its rules depend on the request's tenant.
    pub(crate) names_tenant: bool,
    /// The entities, in the form that expressions use.
    pub(crate) catalog: Arc<Catalog>,
    pub(crate) crud: bool,
    pub(crate) mcp: bool,
    pub(crate) max_list_limit: u32,
    pub(crate) fields: Fields,
    /// The position of the owner's field.
    pub(crate) owner: Option<usize>,
    /// The position of the tenant's field, on multi-tenant entities.
    pub(crate) tenant: Option<usize>,
    pub(crate) shape: Shape,
    pub(crate) sql: Statements,
    pub(crate) order: Order,
    /// What no two records share.
    pub(crate) unique: Vec<UniqueKey>,
    /// The fields that the server numbers.
    pub(crate) sequences: Vec<NumberedField>,
    /// The order that cursors page through.
    pub(crate) keyset: Keyset,
    /// The columns by which an index begins.
    indexed: BTreeSet<String>,
    /// Columns whose index has the records of a value in the order of lists.
    ordered: BTreeSet<String>,
    /// The columns that `q=` searches.
    pub(crate) search: Search,
    /// The index of words that `q=` searches instead.
    pub(crate) index_of_words: Option<Arc<search::Index>>,
    /// Whether deleted records are only marked as such.
    pub(crate) soft_delete: bool,
    /// Whether a create may bring its own id.
    pub(crate) client_ids: bool,
    /// The order of lists without `sort`.
    pub(crate) listed: Keyset,
    /// The names that a filter may use.
    pub(crate) columns: Columns,
    pub(crate) engine: Engine,
    /// How keys are spelled.
    pub(crate) case: JsonCase,
    /// The relations of all entities that point here.
    pub(crate) incoming: Vec<Incoming>,
}

/// A field whose values the server numbers.
#[derive(Debug)]
pub(crate) struct NumberedField {
    /// The position of the field.
    pub(crate) field: usize,
    /// The positions of the fields within whose values it counts.
    pub(crate) scope: Vec<usize>,
    /// The scope of a record as SQL.
    pub(crate) sql: String,
    /// Gives the next number. Parameters: the values of the scope.
    pub(crate) next: Sql,
}

impl NumberedField {
    fn new(sequence: &Sequence, model: &Model, engine: Engine) -> Self {
        let (columns, name) = (sequence.columns(model), &model.fields[sequence.field].name);
        let parameter = |name: &str| {
            let place = columns.iter().position(|(column, _)| column == name).unwrap_or_default();
            typed(engine, type_word(model.fields[sequence.scope[place]].kind), place + 1)
        };
        let next =
            sequences::next(&sequences::name(&model.table, name), &sequences::scope(engine, &columns, parameter));
        let sql = sequences::scope(engine, &columns, quoted);
        Self { field: sequence.field, scope: sequence.scope.clone(), sql, next: next.into() }
    }
}

/// A relation that points at an entity.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Incoming {
    /// The position of the entity that has it.
    pub(crate) from: usize,
    /// The position of its field there.
    pub(crate) field: usize,
    /// Of a relation to many records, [`OnDelete::SetNull`] takes the id out of the list.
    pub(crate) on_delete: OnDelete,
}

impl Plan {
    /// Compiles all entities. `prefix`: the path under which their endpoints are.
    pub(crate) fn compile(declarations: &Declarations, engine: Engine, case: JsonCase, prefix: &str) -> Vec<Arc<Self>> {
        let models = &declarations.models;
        let catalog = Arc::new(Catalog::new(models, case));
        let plan = |index: usize| {
            let (model, rules) = (&models[index], &declarations.row_rules[index]);
            let write_rules = declarations.write_rules[index].clone();
            let readers = declarations.readers[index].clone();
            let shape = Shape::new(model, case, prefix);
            let columns = Columns::new(model, case);
            let sql = Statements::new(model, shape.select(), engine);
            Arc::new(Self {
                index,
                name: model.name.clone(),
                table: model.table.clone(),
                description: model.description.clone(),
                label: model.label,
                rules: model.rules.clone(),
                row_rules: rules.clone(),
                names_tenant: readers.as_ref().is_some_and(|rule| rule.resolved.names_tenant)
                    || names_tenant(model, rules, &write_rules, models),
                readers,
                is_read_only: model.is_read_only(),
                is_directory: model.is_directory,
                write_rules,
                read_rules: declarations.read_rules[index].clone(),
                catalog: catalog.clone(),
                crud: model.crud,
                mcp: model.mcp,
                max_list_limit: model.max_list_limit,
                fields: Fields::new(model, case),
                owner: model.owner,
                tenant: model.tenant,
                order: Order::new(model, engine, case, catalog.clone(), index),
                unique: model.keys.clone(),
                sequences: model.sequences.iter().map(|sequence| NumberedField::new(sequence, model, engine)).collect(),
                keyset: Keyset::new(model, engine),
                indexed: model.indexed().map(str::to_owned).collect(),
                ordered: model.ordered().map(str::to_owned).collect(),
                search: Search::new(model, &columns),
                index_of_words: search::Index::of(model, engine).map(Arc::new),
                soft_delete: model.soft_delete,
                client_ids: model.client_ids,
                listed: if model.client_ids { Keyset::by_creation(engine) } else { Keyset::by_id() },
                columns,
                engine,
                case,
                shape,
                sql,
                incoming: incoming(models, index),
            })
        };
        (0..models.len()).map(plan).collect()
    }

    /// The entity's name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The table's name, which is also the path of the endpoints.
    pub fn table(&self) -> &str {
        &self.table
    }

    /// What its records are, as declared.
    pub fn description(&self) -> Option<&str> {
        self.description.as_deref()
    }

    /// The field that stands for a record where people read.
    pub fn label(&self) -> Option<&Field> {
        self.label.map(|index| self.fields.at(index))
    }

    /// Whether its records are only read: it has no writes, no events and no trash.
    pub fn is_read_only(&self) -> bool {
        self.is_read_only
    }

    /// Whether its records are the accounts, to which relations to users lead.
    pub fn is_directory(&self) -> bool {
        self.is_directory
    }

    /// The times that every record has besides its fields: of its creation and of its last change.
    pub fn times(&self) -> &'static [&'static str] {
        if self.is_read_only { &[] } else { &["created_at", "updated_at"] }
    }

    /// Whether two rows within a reach cannot have the same id. An operator who names no tenant reads the rows of all, in which ids of a
    /// view may repeat.
    pub(crate) fn has_unique_ids(&self, reach: &Reach) -> bool {
        !self.is_read_only || self.tenant.is_none() || reach.tenant().is_some()
    }

    /// Fails if a row comes after another with the same id.
    pub(crate) fn refuse_second(&self, first: Option<&str>, reach: &Reach) -> Result<(), DatabaseError> {
        match first {
            Some(id) if self.has_unique_ids(reach) => {
                Err(DatabaseError::IdRepeats { table: self.table.to_string(), id: id.to_owned() })
            }
            _ => Ok(()),
        }
    }

    /// Whether it has endpoints.
    pub fn crud(&self) -> bool {
        self.crud
    }

    /// Whether it has tools.
    pub fn mcp(&self) -> bool {
        self.mcp
    }

    /// The access rules.
    pub fn rules(&self) -> &Rules {
        &self.rules
    }

    /// The most records that one page of a list holds.
    pub fn max_list_limit(&self) -> u32 {
        self.max_list_limit
    }

    /// Whether deleted records are only marked as such, and can be restored.
    pub fn soft_delete(&self) -> bool {
        self.soft_delete
    }

    /// Whether a create may bring its own id.
    pub fn client_ids(&self) -> bool {
        self.client_ids
    }

    /// Whether an index begins with this column.
    pub fn is_indexed(&self, column: &str) -> bool {
        self.indexed.contains(column)
    }

    /// Whether an index has the records of each of this column's values in the order of lists.
    pub(crate) fn is_ordered(&self, column: &str) -> bool {
        self.ordered.contains(column)
    }

    /// Whether an access rule decides, record by record, about `action`.
    pub fn is_ruled(&self, action: Action) -> bool {
        self.row_rules.get(action).is_some()
    }

    /// Whether a rule or a check decides about single records, when they are read or written.
    pub(crate) fn has_rules(&self) -> bool {
        self.row_rules.iter().next().is_some() || !self.write_rules.is_empty()
    }

    /// Whether a write takes several statements: for rules, checks or numbers.
    pub(crate) fn takes_steps(&self) -> bool {
        self.has_rules() || !self.sequences.is_empty()
    }

    /// Whether records can be marked as written without what this server derives.
    pub(crate) fn is_marked(&self) -> bool {
        self.index_of_words.is_some()
            || !self.sequences.is_empty()
            || self.unique.iter().any(|key| key.fields.iter().any(|field| field.folded))
    }

    /// Whether a write needs to know whom `@` words refer to.
    pub(crate) fn needs_viewer(&self) -> bool {
        self.has_rules() || self.fields.iter().any(|field| field.word.is_some())
    }

    /// Whether `q=` searches anything.
    pub fn is_searchable(&self) -> bool {
        !self.search.is_empty() || self.index_of_words.is_some()
    }

    /// Whether an index of words serves `q=`, with a rank.
    pub fn has_index_of_words(&self) -> bool {
        self.index_of_words.is_some()
    }

    /// Whether its lists have the parameter `prefix` or `highlight`. Not if a field has this name.
    pub fn takes_with_search(&self, name: &str) -> bool {
        matches!(name, PREFIX | HIGHLIGHT) && self.has_index_of_words() && self.is_parameter(name)
    }

    /// Whether its lists have the parameter `total`, which selects how records are counted. Not if a field has this
    /// name.
    pub fn takes_total(&self) -> bool {
        self.is_parameter("total")
    }

    /// Whether a parameter of lists with this name is not a condition: no field has the name.
    pub(crate) fn is_parameter(&self, name: &str) -> bool {
        self.columns.declared(name).is_none()
    }

    /// Whether the parameter `format` selects the format of its lists.
    pub fn takes_format(&self) -> bool {
        self.is_parameter("format")
    }

    /// The fields that clients know, in the order of answers.
    pub fn fields(&self) -> impl Iterator<Item = &Field> {
        self.fields.iter().filter(|field| !field.hidden)
    }

    /// Whether only some callers may read the field.
    pub fn is_read_by_some(&self, field: &Field) -> bool {
        self.read_rules.iter().any(|(index, _)| std::ptr::eq(self.fields.at(*index), field))
    }

    /// Whether an index exists on this field, for lookups and sorting.
    pub fn has_index_on(&self, field: &Field) -> bool {
        self.is_indexed(&field.column)
    }

    /// The columns that the index of `key` compares, without that of the tenant.
    pub(crate) fn columns_of(&self, key: &UniqueKey) -> impl Iterator<Item = Cow<'_, str>> {
        key.fields.iter().map(|field| match &*self.fields.at(field.index).column {
            column if field.folded => folded_column(column).into(),
            column => column.into(),
        })
    }

    /// The errors of a key that another record has, without hidden fields. Those that a caller may not read are left out later.
    pub(crate) fn taken(&self, key: &UniqueKey) -> Vec<FieldError> {
        let fields = key.fields.iter().map(|field| self.fields.at(field.index)).filter(|field| !field.hidden);
        fields.map(|field| FieldError::taken(field.key.clone(), key.declared)).collect()
    }

    /// The position and value of every field that `values` sets.
    pub(crate) fn given<'a>(&'a self, values: &'a [Option<Value>]) -> impl Iterator<Item = (&'a Field, &'a Value)> {
        self.fields.iter().zip(values).filter_map(|(field, value)| Some((field, value.as_ref()?)))
    }
}

fn names_tenant(model: &Model, rules: &ByAction<Arc<Rule>>, written: &WriteRules, models: &[Model]) -> bool {
    if model.fields.iter().any(|field| field.word == Some(DefaultWord::Tenant)) {
        return true;
    }
    let checks = written.checks.iter().map(|check| &check.rule);
    let written = written.update_after.iter().chain(checks).chain(written.fields.iter().map(|(_, rule)| rule));
    rules.iter().chain(written).any(|rule| {
        rule.resolved.names_tenant || rule.resolved.entities.iter().any(|index| models[*index].tenant.is_some())
    })
}

fn incoming(models: &[Model], to: usize) -> Vec<Incoming> {
    let stored = models.iter().enumerate().filter(|(_, model)| !model.is_read_only());
    let all = stored.flat_map(|(from, model)| {
        model.fields.iter().enumerate().filter_map(move |(field, declared)| {
            let links = declared.links.map(|to| Relation { to, on_delete: OnDelete::SetNull });
            Some((from, field, declared.relation.or(links)?))
        })
    });
    let here = all.filter(|(_, _, relation)| relation.to == Target::Entity(to));
    here.map(|(from, field, relation)| Incoming { from, field, on_delete: relation.on_delete }).collect()
}
