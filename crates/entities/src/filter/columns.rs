use std::collections::HashMap;

use gatewright_base::{JsonCase, nearest, to_snake};

use crate::declare::{Kind, Model, ModelField, Target, names};
use crate::readable::Readable;
use crate::value::Type;

/// The columns that a filter may name.
#[derive(Debug)]
pub(crate) struct Columns {
    case: JsonCase,
    list: Vec<Column>,
    /// Positions in `list`, by either spelling.
    by_name: HashMap<String, usize>,
}

/// A column as filters meet it.
#[derive(Debug, Clone)]
pub(crate) struct Column {
    pub(crate) name: String,
    /// The key on the wire.
    pub(crate) key: String,
    pub(crate) kind: Kind,
    /// The type of a list's items.
    pub(crate) of: Option<Kind>,
    /// The words of an enum, or of a list's items.
    pub(crate) values: Vec<String>,
    /// What a relation refers to.
    pub(crate) to: Option<Target>,
    /// What a relation to many records refers to.
    pub(crate) links: Option<Target>,
}

impl Column {
    /// A list's items as a column.
    pub(crate) fn item(&self) -> Option<Self> {
        Some(Self { kind: self.of?, of: None, ..self.clone() })
    }
}

impl Columns {
    /// The columns that clients know.
    pub(crate) fn new(model: &Model, case: JsonCase) -> Self {
        Self::of(model, case, |field| !field.hidden)
    }

    /// All of them: declarations may name hidden fields too.
    pub(crate) fn with_hidden(model: &Model, case: JsonCase) -> Self {
        Self::of(model, case, |_| true)
    }

    /// None at all.
    pub(crate) fn none(case: JsonCase) -> Self {
        Self { case, list: Vec::new(), by_name: HashMap::new() }
    }

    fn of(model: &Model, case: JsonCase, includes: impl Fn(&ModelField) -> bool) -> Self {
        let column = |name: &str, kind, values: &[String], to| Column {
            name: name.to_owned(),
            key: case.spell(name),
            kind,
            of: None,
            values: values.to_vec(),
            to,
            links: None,
        };
        let mut list: Vec<Column> = model
            .own_columns()
            .iter()
            // An id is text without a fixed format; the other two are times.
            .map(|name| column(name, if *name == "id" { Kind::Relation } else { Kind::Timestamp }, &[], None))
            .collect();
        for field in model.fields.iter().filter(|field| includes(field)) {
            let (of, rule) = match &field.rule {
                Type::List(list) => (Some(list.kind), &*list.of),
                rule => (None, rule),
            };
            let values = match rule {
                Type::Enum(values) => values.as_slice(),
                _ => &[],
            };
            let to = field.relation.map(|relation| relation.to);
            list.push(Column { of, links: field.links, ..column(&field.name, field.kind, values, to) });
        }
        if model.soft_delete {
            list.push(column(names::DELETED_COLUMN, Kind::Timestamp, &[], None));
        }
        let mut by_name = HashMap::new();
        for (index, column) in list.iter().enumerate() {
            by_name.insert(JsonCase::Camel.spell(&column.name), index);
            by_name.insert(column.name.clone(), index);
        }
        Self { case, list, by_name }
    }

    /// The column called `name` in either spelling, for what the server does by itself.
    pub(crate) fn declared(&self, name: &str) -> Option<usize> {
        self.by_name.get(name).copied()
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Column> {
        self.list.iter()
    }

    pub(crate) fn at(&self, index: usize) -> &Column {
        &self.list[index]
    }

    /// The names that a caller may use who may read these fields.
    pub(crate) fn seen_by<'a>(&'a self, readable: &'a Readable) -> Names<'a> {
        Names { columns: self, readable }
    }
}

/// The names of columns that one caller may use.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Names<'a> {
    columns: &'a Columns,
    readable: &'a Readable,
}

impl<'a> Names<'a> {
    /// The column called `name` in either spelling.
    pub(crate) fn find(&self, name: &str) -> Option<usize> {
        self.columns.declared(name).filter(|index| self.has(*index))
    }

    /// Whether the caller may use the column at this position.
    pub(crate) fn has(&self, index: usize) -> bool {
        self.readable.has_column(&self.at(index).name)
    }

    pub(crate) fn at(&self, index: usize) -> &'a Column {
        self.columns.at(index)
    }

    /// Reports that there is no such field. The message is the same for undeclared fields, hidden ones, and those that the
    /// caller may not read.
    pub(crate) fn unknown(&self, name: &str) -> (String, Option<String>) {
        let shown: String = name.chars().take(64).collect();
        let known = self.columns.iter().map(|column| &*column.name).filter(|name| self.readable.has_column(name));
        let meant = nearest(&to_snake(&shown), known);
        let meant = meant.map(|meant| self.columns.case.spell(meant));
        (shown, meant)
    }
}
