//! Rows to JSON, straight from the driver.
//!
//! A [`Shape`] is created once per entity: the columns to select, and for each one its escaped key and how its value is
//! written. [`Shape::append`] then copies each value from the driver's buffer into the answer, without an intermediate
//! structure. A [`Record`] holds those bytes: they are the answer to the writer, the event on the bus and in every
//! stream.

mod column;
mod projection;
mod record;

use std::sync::Arc;

use gatewright_base::JsonCase;
use gatewright_db::{Error, RowRef, Value, ValueRef};

use crate::declare::{Kind, Model, names};
use crate::files::FileAddress;
use crate::fragment::quoted;
use crate::readable::Readable;
use column::{Codec, Column};

pub(crate) use column::Cell;
pub(crate) use projection::Projection;
pub use record::Record;
pub(crate) use record::{Stored, only};

/// How an entity's rows are selected and written.
#[derive(Debug)]
pub(crate) struct Shape {
    table: String,
    columns: Vec<Column>,
    /// The position of the owner's id in the row.
    owner: Option<usize>,
    /// The position of the tenant's name in the row.
    tenant: Option<usize>,
    /// The position of the time of deletion in the row, on entities with soft delete.
    deleted: Option<usize>,
    /// How many columns are selected.
    width: usize,
    select: String,
    /// The position of each column's value among those of an INSERT: id, every field, the two times.
    given: Vec<Option<usize>>,
}

impl Shape {
    pub(crate) fn new(model: &Model, case: JsonCase, prefix: &str) -> Self {
        let visible = model.fields.iter().filter(|field| !field.hidden);
        let mut columns = vec![Column::new("id", Codec::Id, case, true)];
        columns.extend(visible.map(|field| {
            let column = Column::new(&field.name, Codec::of(field.kind), case, false);
            let address = || FileAddress::new(prefix, &model.table, &field.name, case);
            column.with_files(field.files.is_some().then(address))
        }));
        let times = &model.own_columns()[1..];
        columns.extend(times.iter().map(|name| Column::new(name, Codec::Time, case, false)));
        if model.soft_delete {
            columns.push(Column::new(names::DELETED_COLUMN, Codec::Time, case, false));
        }
        let deleted = model.soft_delete.then(|| columns.len() - 1);
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
        let width = names.len();
        let given = names.iter().map(|name| match *name {
            "id" => Some(0),
            "created_at" => Some(model.fields.len() + 1),
            "updated_at" => Some(model.fields.len() + 2),
            name => model.fields.iter().position(|field| *field.name == *name).map(|place| place + 1),
        });
        let given = given.collect();
        let select = names.into_iter().map(quoted).collect::<Vec<_>>().join(", ");
        Self { table: model.table.to_string(), columns, owner, tenant, deleted, width, select, given }
    }

    /// The columns to select, in the order that [`append`](Self::append) reads them.
    pub(crate) fn select(&self) -> &str {
        &self.select
    }

    /// The position of the column called `name` among those that are shown.
    pub(crate) fn position(&self, name: &str) -> Option<usize> {
        self.columns.iter().position(|column| column.name == name)
    }

    /// The positions of the columns that a caller may read. `None`: all.
    pub(crate) fn readable(&self, readable: &Readable) -> Option<Vec<usize>> {
        let shown = || self.columns.iter().enumerate().filter(|(_, column)| readable.has_column(&column.name));
        (!readable.is_all()).then(|| shown().map(|(index, _)| index).collect())
    }

    /// Writes a row as one JSON object without line breaks. Fails with [`Error::Unreadable`] if a value of it cannot be sent.
    fn append(&self, row: &RowRef<'_>, out: &mut Vec<u8>) -> Result<(), Error> {
        for (index, column) in self.columns.iter().enumerate() {
            if column.copy(row, index, out) {
                continue;
            }
            self.member(column, (row, index), ID, out)?;
        }
        out.push(b'}');
        Ok(())
    }

    /// Writes some of the columns as one JSON object: for each, where the row has it, and its position here. `id` is where the
    /// row has the record's id.
    pub(crate) fn write(
        &self,
        row: &RowRef<'_>,
        columns: impl Iterator<Item = (usize, usize)>,
        id: usize,
        out: &mut Vec<u8>,
    ) -> Result<(), Error> {
        for (number, (place, index)) in columns.enumerate() {
            let start = out.len();
            self.member(&self.columns[index], (row, place), id, out)?;
            // The opening bytes of the object depend on the first column.
            out[start] = if number == 0 { b'{' } else { b',' };
        }
        out.push(b'}');
        Ok(())
    }

    fn member(
        &self,
        column: &Column,
        (row, place): (&RowRef<'_>, usize),
        id: usize,
        out: &mut Vec<u8>,
    ) -> Result<(), Error> {
        self.written(&column.name, (row, place), id, |value| column.append(value, out))
    }

    /// Passes a value of a row to `write`, which returns what value was expected if it cannot write this one.
    fn written(
        &self,
        name: &str,
        (row, place): (&RowRef<'_>, usize),
        id: usize,
        write: impl FnOnce(&ValueRef<'_>) -> Result<(), &'static str>,
    ) -> Result<(), Error> {
        let fault = match row.value(place) {
            Ok(value) => match write(&value) {
                Ok(()) => return Ok(()),
                Err(expected) => (found(&value), expected),
            },
            Err(Error::Corrupt { found, expected, .. }) => (found, expected),
            Err(error) => return Err(error),
        };
        Err(self.unreadable(row, id, name, fault))
    }

    /// A row as a record.
    pub(crate) fn record(&self, row: &RowRef<'_>) -> Result<Stored, Error> {
        let mut json = Vec::with_capacity(320);
        self.append(row, &mut json)?;
        let id = self.text(row, ID)?.ok_or_else(|| self.unreadable(row, ID, "id", ("null", "an id")))?;
        let beside = |place: Option<usize>| place.map_or(Ok(None), |place| self.text(row, place));
        let is_deleted = match self.deleted {
            Some(place) => row.value(place)? != ValueRef::Null,
            None => false,
        };
        let record = Record::new(json, id, beside(self.owner)?, beside(self.tenant)?);
        Ok(Stored::new(record.deleted(is_deleted)))
    }

    /// The record that an INSERT of these values creates, if the database stores the values unchanged.
    pub(crate) fn inserted(&self, values: &[Value]) -> Result<Stored, Error> {
        self.record(&RowRef::given(values, &self.given))
    }

    fn text(&self, row: &RowRef<'_>, index: usize) -> Result<Option<Arc<str>>, Error> {
        match row.value(index) {
            Ok(ValueRef::Text(text)) => Ok(Some(Arc::from(&*text))),
            Ok(ValueRef::Null) => Ok(None),
            Ok(other) => Err(self.unreadable(row, ID, "an id", (found(&other), "text"))),
            Err(Error::Corrupt { found, expected, .. }) => Err(self.unreadable(row, ID, "an id", (found, expected))),
            Err(error) => Err(error),
        }
    }

    fn unreadable(
        &self,
        row: &RowRef<'_>,
        id: usize,
        column: &str,
        (found, expected): (&'static str, &'static str),
    ) -> Error {
        let id = match row.value(id) {
            Ok(ValueRef::Text(id)) => id.into_owned(),
            _ => "(unreadable)".to_owned(),
        };
        Error::Unreadable { table: self.table.clone(), id, column: column.to_owned(), found, expected }
    }
}

/// Where a row of all columns has the record's id.
const ID: usize = 0;

/// The kind of a value, never the value itself.
fn found(value: &ValueRef<'_>) -> &'static str {
    match value {
        ValueRef::Null => "null",
        ValueRef::Bool(_) => "a boolean",
        ValueRef::Int(_) => "an integer",
        ValueRef::Float(_) => "a float",
        ValueRef::Text(_) => "text of another form",
        ValueRef::Bytes(_) => "bytes",
        ValueRef::Time(_) => "a time out of range",
        ValueRef::Date(_) => "a date out of range",
    }
}

/// Writes the value of a column of this kind, as records have it.
pub(crate) fn value(
    table: &str,
    column: &str,
    kind: Kind,
    value: &ValueRef<'_>,
    out: &mut Vec<u8>,
) -> Result<(), Error> {
    let corrupt = |expected| Error::Corrupt {
        statement: format!("SELECT {} FROM {}", quoted(column), quoted(table)),
        column: column.to_owned(),
        found: found(value),
        expected,
    };
    Codec::of(kind).append(value, out).map_err(corrupt)
}
