//! The queries of views, tried without running them.

use gatewright_db::inspect::{self, Inspected, Refused};
use gatewright_db::{Db, Engine};

use super::table::Table;
use super::{SchemaError, Users};
use crate::Declarations;
use crate::declare::model::{ModelField, folded_column, links_table};
use crate::declare::{Model, Origin, Query, names};

/// The most bytes of a view's SELECT.
pub(crate) const MAX_QUERY: usize = 20_000;

/// What is wrong with a view, or worth a look.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ViewFinding {
    /// The position of the view among the entities.
    pub entity: usize,
    /// The view.
    pub view: String,
    /// The finding, without the name of the view.
    pub message: String,
    /// Whether the view cannot be served.
    pub is_error: bool,
}

impl Declarations {
    /// Whether any entity is a view.
    pub fn has_views(&self) -> bool {
        self.views().next().is_some()
    }

    /// Tries the views of a SQLite database against an empty one with the declared tables.
    pub fn try_views(&self) -> Vec<ViewFinding> {
        self.views().flat_map(|(entity, model, query)| self.tried(entity, model, query)).collect()
    }

    /// The views that are declared, each with its position.
    fn views(&self) -> impl Iterator<Item = (usize, &Model, &Query)> {
        let views =
            self.models.iter().enumerate().filter_map(|(index, model)| Some((index, model, &**model.query.as_ref()?)));
        views.filter(|(_, _, query)| query.origin == Origin::Declared)
    }

    /// The tables that a view may read.
    fn readable_tables(&self) -> Vec<String> {
        let models = self.models.iter().filter(|model| !model.is_read_only());
        let of = |model: &Model| {
            let links = model.fields.iter().filter(|field| field.links.is_some());
            let links = links.map(|field| links_table(&model.table, &field.name));
            std::iter::once(model.table.to_string()).chain(links).collect::<Vec<_>>()
        };
        models.flat_map(of).collect()
    }

    #[cfg(feature = "sqlite")]
    fn tried(&self, entity: usize, model: &Model, query: &Query) -> Vec<ViewFinding> {
        let Some(sql) = query.sql(Engine::Sqlite) else { return vec![missing(entity, model, "sqlite")] };
        let users = &Users::Elsewhere;
        let mut schema = Vec::new();
        for table in self.models.iter().filter(|model| !model.is_read_only()) {
            schema.push(Table::of(table, &self.models, users, Engine::Sqlite).create(&[]));
            for field in table.fields.iter().filter(|field| field.links.is_some()) {
                schema.push(Table::of_links(table, field, &self.models, users, Engine::Sqlite).create(&[]));
            }
        }
        let found = inspect::inspect_scratch(&schema, &self.readable_tables(), sql, &wrapped(model, Engine::Sqlite));
        self.judged(entity, model, query, found)
    }

    /// What was found, for one view.
    fn judged(
        &self,
        entity: usize,
        model: &Model,
        query: &Query,
        found: Result<Inspected, Refused>,
    ) -> Vec<ViewFinding> {
        let finding =
            |is_error: bool, message: String| ViewFinding { entity, view: model.name.to_string(), message, is_error };
        let Inspected { columns, reads, is_whole } = match found {
            Ok(inspected) => inspected,
            Err(Refused(reason)) => return vec![finding(true, reason)],
        };
        let mut findings = Vec::new();
        let fields = model.fields.iter().map(|field| &*field.name);
        for name in std::iter::once("id").chain(fields).filter(|name| !columns.iter().any(|column| column == name)) {
            findings.push(finding(true, format!("its SELECT returns no column \"{name}\"")));
        }
        for (index, table) in self.models.iter().enumerate().filter(|(_, model)| !model.is_read_only()) {
            let mut columns: Vec<&str> =
                reads.iter().filter(|(name, _)| **name == *table.table).map(|(_, column)| column.as_str()).collect();
            // A table of links has what a field of the records has.
            let linked = table.fields.iter().filter(|field| field.links.is_some());
            let linked = linked.filter(|field| {
                let links = links_table(&table.table, &field.name);
                reads.iter().any(|(name, _)| **name == *links)
            });
            columns.extend(linked.map(|field| &*field.name));
            if columns.is_empty() {
                continue;
            }
            let name = &table.name;
            if table.tenant.is_some() && model.tenant.is_none() && !query.all_tenants {
                let tenant = names::TENANT_COLUMN;
                let message = format!(
                    "it reads \"{name}\", whose records belong to tenants: select {tenant} by its name, or say all_tenants = true"
                );
                findings.push(finding(true, message));
            }
            if table.soft_delete && !columns.contains(&names::DELETED_COLUMN) {
                let message = format!("it reads the trash of \"{name}\" too; `deleted_at IS NULL` leaves it out");
                findings.push(finding(false, message));
            }
            let words = |name: &str| table.search.as_ref().map(|search| search.column(name));
            let is_read = |field: &ModelField| {
                // What is derived from a field says what it holds.
                let name = &*field.name;
                let derived = [Some(name.to_owned()), Some(folded_column(name)), words(name)];
                is_whole || derived.iter().flatten().any(|derived| columns.contains(&&**derived))
            };
            for (at, field) in table.fields.iter().enumerate().filter(|(_, field)| is_read(field)) {
                let is_bound = [table.owner, table.tenant].contains(&Some(at));
                if field.hidden && !is_bound {
                    let message = format!("it reads \"{}\" of \"{name}\", which is hidden there", field.name);
                    findings.push(finding(false, message));
                }
                if self.read_rules[index].iter().any(|(of, _)| *of == at) {
                    let message = format!(
                        "it reads \"{}\" of \"{name}\", whose rule for reading does not apply here",
                        field.name
                    );
                    findings.push(finding(false, message));
                }
            }
        }
        findings
    }
}

fn missing(entity: usize, model: &Model, engine: &str) -> ViewFinding {
    let message = format!("it has no SELECT for this database; add sql.{engine}");
    ViewFinding { entity, view: model.name.to_string(), message, is_error: true }
}

/// The statement in which a view runs, without conditions.
fn wrapped(model: &Model, engine: Engine) -> String {
    format!("SELECT * FROM {}", model.from(engine))
}

/// Tries the views of a database whose tables are up to date. On Postgres each SELECT is parsed by the server, in a transaction that
/// is rolled back. Returns remarks; fails with [`SchemaError::View`] if a view cannot be served.
pub async fn check_views(db: &Db, declarations: &Declarations) -> Result<Vec<String>, SchemaError> {
    let findings = match db.engine() {
        Engine::Sqlite => declarations.try_views(),
        Engine::Postgres => {
            let mut findings = Vec::new();
            for (entity, model, query) in declarations.views() {
                let Some(sql) = query.sql(Engine::Postgres) else {
                    findings.push(missing(entity, model, "postgres"));
                    continue;
                };
                let (tables, wrapped) = (declarations.readable_tables(), wrapped(model, Engine::Postgres));
                let found = inspect::inspect(db, &tables, sql, &wrapped).await?;
                findings.extend(declarations.judged(entity, model, query, found));
            }
            findings
        }
    };
    match findings.iter().find(|finding| finding.is_error) {
        Some(ViewFinding { view, message, .. }) => {
            Err(SchemaError::View { view: view.clone(), reason: message.clone() })
        }
        None => Ok(findings.iter().map(|finding| format!("view \"{}\": {}", finding.view, finding.message)).collect()),
    }
}
