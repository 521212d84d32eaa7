//! All records of a list as a file: CSV, or JSON one record a line.
//!
//! One statement reads them, in one snapshot, and at the pace of the client. A record that cannot be read ends the export, so
//! that no file is taken for complete that is not.

mod csv;
mod format;

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use gatewright_db::RowRef;
use serde_json::Value as Json;

use super::parameters::Paging;
use super::{Reading, ready};
use crate::access::Action;
use crate::call::Call;
use crate::context::admission::{may_export, reach};
use crate::context::exports::Running;
use crate::context::table::Table;
use crate::error::Error;
use crate::hooks::{EntityHooks, Object};
use crate::plan::{HIGHLIGHT, Keyset, Part};
use crate::query::ListQuery;
use csv::{Column, Line};

/// How long an answer waits for the first bytes, so that a query that fails at once is answered with its status.
const FIRST: Duration = Duration::from_secs(2);

/// The format of an export.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ExportFormat {
    /// Lines of cells, the first with the keys.
    Csv {
        /// Whether texts that a spreadsheet would take for formulas stay as they are.
        is_raw: bool,
    },
    /// One JSON object a line.
    Ndjson,
}

/// An export in progress. Dropping it ends it.
pub struct Export {
    rows: gatewright_db::Export,
    first: Option<Vec<u8>>,
    hooks: Option<Hooked>,
    table: Arc<str>,
    _running: Running,
}

/// What changes the records before they are sent.
struct Hooked {
    hooks: Arc<dyn EntityHooks>,
    call: Call,
    format: ExportFormat,
    columns: Vec<Column>,
}

impl std::fmt::Debug for Export {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Export").field("table", &self.table).finish_non_exhaustive()
    }
}

impl Table<'_> {
    /// All records that match, in the list's order and under the caller's rights.
    ///
    /// Fails as [`list`](Self::list) does, with [`Error::Refused`] if the caller may read and not export, and with
    /// [`Error::TooManyExports`]. Pages, groups and related records are [`Error::Query`].
    pub async fn export(self, call: &Call, format: ExportFormat, query: &ListQuery) -> Result<Export, Error> {
        reach(self, call, Action::Read).await?;
        may_export(self, call).await?;
        let mut query = query.clone();
        if let Some(hooks) = self.entities.read_hooks_of(self.plan) {
            hooks.before_list(call, &mut query).await?;
        }
        let running = self.entities.exports().enter(call)?;
        refuse_pages(self, format, &query)?;
        let reach = reach(self, call, Action::Read).await?;
        let (reading, paging) = Box::pin(ready(self, call, &query, reach)).await?;
        let Paging::Page { sort, .. } = paging else { return Err(misplaced("group")) };
        let order = sort.unwrap_or_else(|| self.plan.listed.clone());
        let columns = csv::columns(&reading.projection(None));
        let hooks = self.entities.read_hooks_of(self.plan).cloned();
        let hooks = hooks.map(|hooks| Hooked { hooks, call: call.clone(), format, columns: columns.clone() });
        // Hooks get records.
        let written = if hooks.is_some() { ExportFormat::Ndjson } else { format };
        let (sql, params) = reading.all(&order);
        let db = self.entities.db().clone();
        let mut rows = db.export(sql, params, self.entities.exports().time(), reading.lines(written));
        let mut first = match format {
            ExportFormat::Csv { .. } => csv::header(&columns),
            ExportFormat::Ndjson => Vec::new(),
        };
        if let Ok(piece) = tokio::time::timeout(FIRST, rows.next()).await
            && let Some(piece) = piece?
        {
            first.extend(match &hooks {
                Some(hooks) => hooks.change(&piece).await?,
                None => piece,
            });
        }
        let first = Some(first).filter(|first| !first.is_empty());
        Ok(Export { rows, first, hooks, table: self.plan.table.clone(), _running: running })
    }
}

impl Export {
    /// The next bytes; `None` after the last. A client must not take an export that fails for a complete one.
    pub async fn next(&mut self) -> Result<Option<Vec<u8>>, Error> {
        if let Some(first) = self.first.take() {
            return Ok(Some(first));
        }
        let next = async {
            let Some(piece) = self.rows.next().await? else { return Ok(None) };
            match &self.hooks {
                Some(hooks) => hooks.change(&piece).await.map(Some),
                None => Ok(Some(piece)),
            }
        };
        next.await.inspect_err(|error| tracing::error!(table = %self.table, %error, "an export failed"))
    }
}

impl Hooked {
    /// Lines of JSON after the hook, in the format.
    async fn change(&self, lines: &[u8]) -> Result<Vec<u8>, Error> {
        let records = serde_json::Deserializer::from_slice(lines).into_iter::<Object>();
        let mut records: Vec<Object> = records.collect::<Result<_, _>>().map_err(Error::hook)?;
        self.hooks.after_list(&self.call, &mut records).await?;
        let mut out = Vec::with_capacity(lines.len());
        for record in records {
            match self.format {
                ExportFormat::Ndjson => {
                    serde_json::to_writer(&mut out, &record).map_err(Error::hook)?;
                    out.push(b'\n');
                }
                ExportFormat::Csv { is_raw } => {
                    let mut line = Line::default();
                    for column in &self.columns {
                        let value = record.get(&column.key).unwrap_or(&Json::Null);
                        line.json(value.to_string().as_bytes(), column.cell, is_raw);
                    }
                    out.extend(line.end());
                }
            }
        }
        Ok(out)
    }
}

impl Reading {
    /// The statement of all rows in an order.
    fn all(&self, order: &Keyset) -> (gatewright_db::Sql, Vec<gatewright_db::Value>) {
        let part = Part { range: &|_| order.whole(), wanted: i64::MAX, offset: 0 };
        self.collected(&self.projection(None).select(), &self.scope, &part)
    }

    /// Writes rows in a format.
    fn lines(
        self: Box<Self>,
        format: ExportFormat,
    ) -> impl FnMut(&RowRef<'_>, &mut Vec<u8>) -> Result<(), gatewright_db::Error> + Send + 'static {
        let (mut scratch, mut last) = (Vec::new(), HashSet::new());
        move |row, out| {
            let projection = self.projection(None);
            if self.is_of_view() {
                // Of the rows of a whole view, each is compared with the one before it.
                last = HashSet::from([projection.unlike(row, &last)?]);
            }
            match format {
                ExportFormat::Ndjson => {
                    projection.append(row, out)?;
                    out.push(b'\n');
                }
                ExportFormat::Csv { is_raw } => {
                    let mut line = Line::default();
                    projection.cells(row, &mut scratch, |cell, json| line.json(json, cell, is_raw))?;
                    out.extend(line.end());
                }
            }
            Ok(())
        }
    }
}

/// Refuses parameters that go with pages.
fn refuse_pages(table: Table<'_>, format: ExportFormat, query: &ListQuery) -> Result<(), Error> {
    let total =
        query.count.is_some() || query.conditions.iter().any(|(name, _)| name == "total" && table.plan.takes_total());
    let given = [
        ("limit", query.limit.is_some()),
        ("page", query.page.is_some()),
        ("cursor", query.cursor.is_some()),
        ("include", query.view.include.is_some()),
        ("total", total),
        ("group", query.is_grouped()),
        (HIGHLIGHT, query.conditions.iter().any(|(name, _)| name == HIGHLIGHT && table.plan.takes_with_search(name))),
        ("etag", query.view.tags.is_some() && format != ExportFormat::Ndjson),
    ];
    given.into_iter().find(|(_, is_given)| *is_given).map_or(Ok(()), |(name, _)| Err(misplaced(name)))
}

fn misplaced(name: &str) -> Error {
    let what = if name == "etag" { "a CSV file" } else { "an export" };
    Error::Query(format!("{name} does not go with {what}"))
}
