use std::collections::HashMap;

use gatewright_base::JsonCase;
use gatewright_db::Engine;

use crate::declare::model::links_table;
use crate::declare::{Model, Target, names};
use crate::filter::Columns;
use crate::fragment::quoted;

/// The entities, in the form that expressions use.
#[derive(Debug)]
pub(crate) struct Catalog {
    entities: Vec<Entry>,
    by_name: HashMap<String, usize>,
    /// The tables of links, after the entities, by their entity and column.
    links: HashMap<(usize, String), usize>,
    /// The entity to which relations to users lead.
    directory: Option<usize>,
}

/// One entity.
#[derive(Debug)]
pub(crate) struct Entry {
    pub(crate) name: String,
    /// Its rows, as FROM names them before an alias, on SQLite and on Postgres.
    rows: [String; 2],
    /// Whether they are those of a query.
    pub(crate) is_read_only: bool,
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
            rows: [model.rows(Engine::Sqlite), model.rows(Engine::Postgres)],
            is_read_only: model.is_read_only(),
            columns: Columns::with_hidden(model, case),
            visible: Columns::new(model, case),
            owner: model.owner_column().map(str::to_owned),
            tenant: model.tenant.map(|_| names::TENANT_COLUMN.to_owned()),
            soft_delete: model.soft_delete,
        };
        let by_name = models.iter().enumerate().map(|(index, model)| (model.name.to_string(), index)).collect();
        let mut entities: Vec<Entry> = models.iter().map(entry).collect();
        let mut links = HashMap::new();
        for (index, model) in models.iter().enumerate() {
            for field in model.fields.iter().filter(|field| field.links.is_some()) {
                links.insert((index, field.name.clone()), entities.len());
                entities.push(Entry::of_links(&links_table(&model.table, &field.name), case));
            }
        }
        let directory = models.iter().position(|model| model.is_directory);
        Self { entities, by_name, links, directory }
    }

    /// The table of links of a relation to many records.
    pub(crate) fn links(&self, entity: usize, column: &str) -> Option<usize> {
        self.links.get(&(entity, column.to_owned())).copied()
    }

    /// The entity that a relation leads to. `None`: accounts, of which only the id is known.
    pub(crate) fn entity(&self, to: Target) -> Option<usize> {
        match to {
            Target::Entity(index) => Some(index),
            Target::Users => self.directory,
        }
    }

    /// Whether it is a table of links, and no entity.
    pub(crate) fn is_of_links(&self, index: usize) -> bool {
        index >= self.by_name.len()
    }

    pub(crate) fn at(&self, index: usize) -> &Entry {
        &self.entities[index]
    }

    pub(crate) fn find(&self, name: &str) -> Option<usize> {
        self.by_name.get(name).copied()
    }

    pub(crate) fn names(&self) -> impl Iterator<Item = &str> {
        self.entities[..self.by_name.len()].iter().map(|entry| &*entry.name)
    }
}

impl Entry {
    /// Its rows, as FROM names them before an alias.
    pub(crate) fn rows(&self, engine: Engine) -> &str {
        match engine {
            Engine::Sqlite => &self.rows[0],
            Engine::Postgres => &self.rows[1],
        }
    }

    /// A table of links. Expressions cannot name its columns: paths lead through it.
    fn of_links(table: &str, case: JsonCase) -> Self {
        Self {
            name: String::new(),
            rows: [quoted(table), quoted(table)],
            is_read_only: false,
            columns: Columns::none(case),
            visible: Columns::none(case),
            owner: None,
            tenant: None,
            soft_delete: false,
        }
    }
}
