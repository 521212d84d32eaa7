use std::collections::HashMap;

use gatewright_base::JsonCase;

use crate::declare::{Model, names};
use crate::filter::Columns;

/// The entities, in the form that expressions use.
#[derive(Debug)]
pub(crate) struct Catalog {
    entities: Vec<Entry>,
    by_name: HashMap<String, usize>,
}

/// One entity.
#[derive(Debug)]
pub(crate) struct Entry {
    pub(crate) name: String,
    pub(crate) table: String,
    /// The names that declarations may use.
    pub(crate) columns: Columns,
    /// The names that clients may use.
    pub(crate) visible: Columns,
    pub(crate) owner: Option<String>,
    pub(crate) tenant: Option<String>,
    pub(crate) soft_delete: bool,
}

impl Catalog {
    pub(crate) fn new(models: &[Model], case: JsonCase) -> Self {
        let entry = |model: &Model| Entry {
            name: model.name.to_string(),
            table: model.table.to_string(),
            columns: Columns::with_hidden(model, case),
            visible: Columns::new(model, case),
            owner: model.owner_column().map(str::to_owned),
            tenant: model.tenant.map(|_| names::TENANT_COLUMN.to_owned()),
            soft_delete: model.soft_delete,
        };
        let by_name = models.iter().enumerate().map(|(index, model)| (model.name.to_string(), index)).collect();
        Self { entities: models.iter().map(entry).collect(), by_name }
    }

    pub(crate) fn at(&self, index: usize) -> &Entry {
        &self.entities[index]
    }

    pub(crate) fn find(&self, name: &str) -> Option<usize> {
        self.by_name.get(name).copied()
    }

    pub(crate) fn names(&self) -> impl Iterator<Item = &str> {
        self.entities.iter().map(|entry| &*entry.name)
    }
}
