//! Rows to JSON, straight from the driver.
//!
//! A [`Shape`] is made once per entity: the columns to select, and for each one its escaped key and how its value is
//! written. [`Shape::append`] then copies each value from the driver's buffer into the answer; nothing is built in
//! between. A [`Record`] keeps those bytes: they answer the writer, ride the bus and go into every stream.

mod column;
mod record;

use gatewright_base::JsonCase;
use gatewright_db::{Error, RowRef, ValueRef};

use crate::declare::Model;
use crate::plan::quoted;
use column::{Codec, Column};

pub use record::Record;

/// How an entity's rows are selected and written.
#[derive(Debug)]
pub(crate) struct Shape {
    table: String,
    columns: Vec<Column>,
    /// Where the owner's id stands in the row.
    owner: Option<usize>,
    /// Where the tenant's name stands in the row.
    tenant: Option<usize>,
    select: String,
}

impl Shape {
    pub(crate) fn new(model: &Model, case: JsonCase) -> Self {
        let visible = model.fields.iter().filter(|field| !field.hidden);
        let mut columns = vec![Column::new("id", Codec::Text, case, true)];
        columns.extend(visible.map(|field| Column::new(&field.name, Codec::of(field.kind), case, false)));
        columns.extend(["created_at", "updated_at"].map(|name| Column::new(name, Codec::Time, case, false)));
        let mut names: Vec<&str> = columns.iter().map(|column| &*column.name).collect();
        let mut place = |column| {
            let place = names.iter().position(|name| *name == column);
            place.unwrap_or_else(|| {
                names.push(column);
                names.len() - 1
            })
        };
        let owner = model.owner_column().map(&mut place);
        let tenant = model.tenant_column().map(&mut place);
        let select = names.into_iter().map(quoted).collect::<Vec<_>>().join(", ");
        Self { table: model.table.to_string(), columns, owner, tenant, select }
    }

    /// The columns to select, in the order that [`append`](Self::append) reads them.
    pub(crate) fn select(&self) -> &str {
        &self.select
    }

    /// Writes a row as one JSON object without line breaks.
    pub(crate) fn append(&self, row: &RowRef<'_>, out: &mut Vec<u8>) -> Result<(), Error> {
        for (index, column) in self.columns.iter().enumerate() {
            let value = row.value(index)?;
            column.append(&value, out).map_err(|expected| self.corrupt(&column.name, &value, expected))?;
        }
        out.push(b'}');
        Ok(())
    }

    /// A row as a record.
    pub(crate) fn record(&self, row: &RowRef<'_>) -> Result<Record, Error> {
        let mut json = Vec::with_capacity(320);
        self.append(row, &mut json)?;
        let id = self.text(row, 0)?.ok_or_else(|| self.corrupt("id", &ValueRef::Null, "text"))?;
        let beside = |place: Option<usize>| place.map_or(Ok(None), |place| self.text(row, place));
        Ok(Record::new(json, id, beside(self.owner)?, beside(self.tenant)?))
    }

    fn text(&self, row: &RowRef<'_>, index: usize) -> Result<Option<String>, Error> {
        match row.value(index)? {
            ValueRef::Text(text) => Ok(Some(text.into_owned())),
            ValueRef::Null => Ok(None),
            other => Err(self.corrupt("an id", &other, "text")),
        }
    }

    fn corrupt(&self, column: &str, found: &ValueRef<'_>, expected: &'static str) -> Error {
        let found = match found {
            ValueRef::Null => "null",
            ValueRef::Bool(_) => "a boolean",
            ValueRef::Int(_) => "an integer",
            ValueRef::Float(_) => "a float",
            ValueRef::Text(_) => "text of another form",
            ValueRef::Bytes(_) => "bytes",
            ValueRef::Time(_) | ValueRef::Date(_) => "a time",
        };
        let statement = format!("SELECT {} FROM {}", self.select, self.table);
        Error::Corrupt { statement, column: column.to_owned(), found, expected }
    }
}
