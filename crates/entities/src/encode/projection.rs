use std::collections::HashSet;

use gatewright_db::{Error, RowRef, Value};
use gatewright_http::entity_tag;

use super::{Cell, Shape};
use crate::fragment::quoted;

/// The columns of a shape that one answer shows, and additional columns that are read but not shown.
#[derive(Debug)]
pub(crate) struct Projection<'a> {
    shape: &'a Shape,
    /// Positions in the shape that the caller may read, ascending. `None`: all.
    readable: Option<&'a [usize]>,
    /// Those of them that are shown. `None`: all of them.
    chosen: Option<&'a [usize]>,
    beside: Vec<&'a str>,
    /// Whether each object carries the entity tag of its record, as far as the caller may read it.
    tags: bool,
}

impl<'a> Projection<'a> {
    pub(crate) fn new(
        shape: &'a Shape,
        readable: Option<&'a [usize]>,
        chosen: Option<&'a [usize]>,
        beside: Vec<&'a str>,
    ) -> Self {
        Self { shape, readable, chosen, beside, tags: false }
    }

    /// The same. If `tags` is set, each object contains the entity tag of its record, as far as the caller may read it.
    pub(crate) fn tagged(self, tags: bool) -> Self {
        Self { tags, ..self }
    }

    /// The columns that are shown, where it is not all of them.
    fn shown(&self) -> Option<&'a [usize]> {
        self.chosen.or(self.readable)
    }

    /// The columns that are selected, where it is not all of them. A record's tag takes all.
    fn selected(&self) -> Option<&'a [usize]> {
        self.shown().filter(|_| !self.tags)
    }

    /// The columns to select, in the order that [`append`](Self::append) and [`beside`](Self::beside) read them.
    pub(crate) fn select(&self) -> String {
        let shown = match self.selected() {
            None => self.shape.select().to_owned(),
            Some(chosen) => {
                chosen.iter().map(|index| quoted(&self.shape.columns[*index].name)).collect::<Vec<_>>().join(", ")
            }
        };
        let select = self.beside.iter().fold(shown, |select, name| format!("{select}, {}", quoted(name)));
        if self.id() < self.first_beside() { select } else { format!("{select}, \"id\"") }
    }

    /// Where a row has the record's id, which names it if it cannot be read: after all others, if it is not shown.
    fn id(&self) -> usize {
        match self.selected() {
            None => super::ID,
            Some(chosen) => {
                let shown = chosen.iter().position(|index| *index == super::ID);
                shown.unwrap_or(chosen.len() + self.beside.len())
            }
        }
    }

    /// The id in a row. Fails if it is one of the `earlier`.
    pub(crate) fn unlike(&self, row: &RowRef<'_>, earlier: &HashSet<String>) -> Result<String, Error> {
        let id: String = row.get(self.id())?;
        if earlier.contains(&id) {
            return Err(Error::IdRepeats { table: self.shape.table.clone(), id });
        }
        Ok(id)
    }

    /// Where the columns begin that are not shown.
    fn first_beside(&self) -> usize {
        self.selected().map_or(self.shape.width, <[usize]>::len)
    }

    /// Writes a row as one JSON object without line breaks.
    pub(crate) fn append(&self, row: &RowRef<'_>, out: &mut Vec<u8>) -> Result<(), Error> {
        if self.tags {
            return self.append_tagged(row, out);
        }
        let Some(shown) = self.shown() else { return self.shape.append(row, out) };
        self.shape.write(row, shown.iter().copied().enumerate(), self.id(), out)
    }

    fn append_tagged(&self, row: &RowRef<'_>, out: &mut Vec<u8>) -> Result<(), Error> {
        let start = out.len();
        self.write(row, self.readable, out)?;
        let tag = entity_tag::of(&out[start..]);
        if self.chosen.is_some() {
            out.truncate(start);
            self.write(row, self.chosen, out)?;
        }
        entity_tag::append(&tag, out);
        Ok(())
    }

    /// Writes some columns of a row of all columns. `None`: all.
    fn write(&self, row: &RowRef<'_>, columns: Option<&[usize]>, out: &mut Vec<u8>) -> Result<(), Error> {
        match columns {
            Some(columns) => self.shape.write(row, columns.iter().map(|index| (*index, *index)), super::ID, out),
            None => self.shape.append(row, out),
        }
    }

    /// The keys of what is shown, and what the values are in a file of cells.
    pub(crate) fn keys(&self) -> impl Iterator<Item = (String, Cell)> {
        let shown = self.places().into_iter().map(|(_, index)| &self.shape.columns[index]);
        shown.map(|column| (column.key(), column.cell()))
    }

    /// Passes each shown value of a row to `each`, as JSON, which is in `scratch` meanwhile.
    pub(crate) fn cells(
        &self,
        row: &RowRef<'_>,
        scratch: &mut Vec<u8>,
        mut each: impl FnMut(Cell, &[u8]),
    ) -> Result<(), Error> {
        let id = self.id();
        for (place, index) in self.places() {
            let column = &self.shape.columns[index];
            scratch.clear();
            self.shape.written(&column.name, (row, place), id, |value| column.value(value, scratch))?;
            each(column.cell(), scratch);
        }
        Ok(())
    }

    /// Where a row has the shown columns, and their positions in the shape.
    fn places(&self) -> Vec<(usize, usize)> {
        match (self.shown(), self.tags) {
            (Some(shown), false) => shown.iter().copied().enumerate().collect(),
            (Some(shown), true) => shown.iter().map(|index| (*index, *index)).collect(),
            (None, _) => (0..self.shape.columns.len()).map(|index| (index, index)).collect(),
        }
    }

    /// Appends the values of the columns that are not shown.
    pub(crate) fn beside(&self, row: &RowRef<'_>, out: &mut Vec<Value>) -> Result<(), Error> {
        let first = self.first_beside();
        for index in first..first + self.beside.len() {
            out.push(row.value(index)?.to_value());
        }
        Ok(())
    }

    /// How many columns are read but not shown.
    pub(crate) fn width_beside(&self) -> usize {
        self.beside.len()
    }
}
