use std::collections::HashMap;
use std::sync::Arc;

use gatewright_base::{JsonCase, to_snake};
use gatewright_db::Value;
use gatewright_http::entity_tag;

use crate::declare::{DefaultWord, Kind, Model, ModelField, Relation, Target, names};
use crate::files::FileRules;
use crate::readable::{Readable, Writes};
use crate::value::Type;
use crate::value::operator::Operator;

/// The key of a record's related records. No field can be called so.
pub(crate) const INCLUDED: &str = "_included";

/// A field as clients see it.
#[expect(clippy::struct_excessive_bools, reason = "one for each attribute that a declaration may set")]
#[derive(Debug)]
pub struct Field {
    pub(crate) column: String,
    /// The key on the wire.
    pub(crate) key: String,
    pub(crate) kind: Kind,
    pub(crate) rule: Type,
    pub(crate) required: bool,
    pub(crate) unique: bool,
    pub(crate) hidden: bool,
    pub(crate) read_only: bool,
    /// The value comes from the caller's identity or the request's tenant, never from the body.
    pub(crate) stamped: bool,
    pub(crate) default: Option<Value>,
    /// The default that depends on the request. Then there is no other.
    pub(crate) word: Option<DefaultWord>,
    pub(crate) relation: Option<Relation>,
    /// What a relation to many records refers to.
    pub(crate) links: Option<Target>,
    /// What files it takes.
    pub(crate) files: Option<Arc<FileRules>>,
    description: Option<String>,
}

impl Field {
    fn new(field: &ModelField, stamped: bool, case: JsonCase) -> Self {
        Self {
            column: field.name.clone(),
            key: case.spell(&field.name),
            kind: field.kind,
            rule: field.rule.clone(),
            required: field.required,
            unique: field.unique,
            hidden: field.hidden,
            read_only: field.read_only,
            stamped,
            default: field.default.clone(),
            word: field.word,
            relation: field.relation,
            links: field.links,
            files: field.files.clone(),
            description: field.description.clone(),
        }
    }

    /// The column's name.
    pub fn column(&self) -> &str {
        &self.column
    }

    /// The key on the wire.
    pub fn key(&self) -> &str {
        &self.key
    }

    /// Whether its integers may lie outside of the numbers that a 64-bit float holds exactly.
    pub fn is_wide(&self) -> bool {
        self.rule.is_wide()
    }

    /// The type.
    pub fn kind(&self) -> Kind {
        self.kind
    }

    /// What it means, as declared.
    pub fn description(&self) -> Option<&str> {
        self.description.as_deref()
    }

    /// What files it takes; `None` for a field of another type. One with many files is a [`Kind::List`].
    pub fn files(&self) -> Option<&FileRules> {
        self.files.as_deref()
    }

    /// Whether it is required.
    pub fn is_required(&self) -> bool {
        self.required
    }

    /// Whether a record that is created without it gets another value than null.
    pub fn has_default(&self) -> bool {
        self.default.is_some() || self.word.is_some()
    }

    /// Whether its values are unique.
    pub fn is_unique(&self) -> bool {
        self.unique
    }

    /// The operators that a change may have in the place of a value, such as `$add`.
    pub fn operators(&self) -> &'static [&'static str] {
        Operator::of(&self.rule)
    }

    /// Whether clients can set it.
    pub fn is_writable(&self) -> bool {
        !(self.hidden || self.read_only || self.stamped)
    }
}

/// The fields of an entity, found by the keys that a body may use.
#[derive(Debug)]
pub(crate) struct Fields {
    list: Vec<Field>,
    keys: HashMap<String, Key>,
    /// Whether a change may say how to change a value.
    operators: bool,
}

/// The meaning of a key in a body.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Key {
    /// The field at this position.
    Field(usize),
    /// The record's id, which a create may bring.
    Id,
    /// Something that clients may send back and that changes nothing.
    Ignored,
}

impl Fields {
    /// The same for an entity. Its answers can be sent back.
    pub(crate) fn new(model: &Model, case: JsonCase) -> Self {
        let mut fields = Self { operators: true, ..Self::declared(model, case) };
        // An answer with related records, or with its entity tag, can be sent back too.
        let own = model.own_columns().iter().copied().chain(model.soft_delete.then_some(names::DELETED_COLUMN));
        if model.client_ids {
            fields.keys.insert("id".to_owned(), Key::Id);
        }
        for name in own.chain([INCLUDED, entity_tag::KEY]) {
            for case in [JsonCase::Camel, JsonCase::Snake] {
                fields.keys.entry(case.spell(name)).or_insert(Key::Ignored);
            }
        }
        fields
    }

    /// Only the declared ones.
    pub(crate) fn declared(model: &Model, case: JsonCase) -> Self {
        let field = |(index, field)| Field::new(field, model.owner == Some(index) || model.tenant == Some(index), case);
        let list: Vec<Field> = model.fields.iter().enumerate().map(field).collect();
        let mut keys = HashMap::new();
        for (index, field) in list.iter().enumerate().filter(|(_, field)| !field.hidden) {
            let key = if field.is_writable() { Key::Field(index) } else { Key::Ignored };
            keys.insert(JsonCase::Camel.spell(&field.column), key);
            keys.insert(JsonCase::Snake.spell(&field.column), key);
        }
        Self { list, keys, operators: false }
    }

    /// The meaning of `key`, in either case; `None` if the caller knows no such field, and may not write it either.
    pub(crate) fn key(&self, key: &str, readable: &Readable) -> Option<Key> {
        let known = self.keys.get(key).copied()?;
        match known {
            _ if readable.is_all() => Some(known),
            Key::Field(index) => (readable.writes(index) != Some(Writes::Never)).then_some(known),
            Key::Ignored if !readable.has_column(&to_snake(key)) => None,
            Key::Id | Key::Ignored => Some(known),
        }
    }

    /// Whether operators may stand in the place of values.
    pub(crate) fn take_operators(&self) -> bool {
        self.operators
    }

    pub(crate) fn len(&self) -> usize {
        self.list.len()
    }

    pub(crate) fn at(&self, index: usize) -> &Field {
        &self.list[index]
    }

    pub(crate) fn iter(&self) -> std::slice::Iter<'_, Field> {
        self.list.iter()
    }

    /// The columns that clients may write, for suggestions.
    pub(crate) fn writable_names(&self, readable: &Readable) -> impl Iterator<Item = &str> {
        let readable = readable.clone();
        let known = self.list.iter().filter(move |field| field.is_writable() && readable.has_column(&field.column));
        known.map(|field| &*field.column)
    }

    /// The wire's key for a column.
    pub(crate) fn wire_key(&self, column: &str) -> Option<&str> {
        self.list.iter().find(|field| field.column == column).map(|field| &*field.key)
    }
}
