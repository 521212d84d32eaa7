use std::collections::HashSet;

use gatewright_db::{Error, RowRef, Sql, Tx, Value, unless_unreadable};

use crate::encode::Projection;

/// The bytes of a record for which room is made beforehand, and the most that are.
const TYPICAL: usize = 320;
const RESERVED: usize = 64 * 1024;

/// The rows of a list: the JSON of the records one after the other, and the extra columns.
#[derive(Debug)]
pub(super) struct Rows {
    /// The most bytes of JSON.
    most: usize,
    json: Vec<u8>,
    /// Where each record ends. An unreadable one has no JSON.
    ends: Vec<usize>,
    /// Why records are unreadable, by their numbers.
    unreadable: Vec<(usize, Error)>,
    /// The extra columns of the records, one row after the other.
    beside: Vec<Value>,
    /// How much that is for each.
    width: usize,
    /// Whether rows were left out because the answer is full.
    pub(super) is_cut: bool,
    /// The ids of the rows, if two could have the same.
    ids: Option<HashSet<String>>,
}

impl Rows {
    /// Empty, with room for `most` bytes. About `expected` rows will be added.
    pub(super) fn new(most: usize, expected: usize) -> Self {
        let json = Vec::with_capacity(expected.saturating_mul(TYPICAL).min(most).min(RESERVED));
        let ends = Vec::with_capacity(expected);
        Self { most, json, ends, unreadable: Vec::new(), beside: Vec::new(), width: 0, is_cut: false, ids: None }
    }

    /// The same, for rows of which two could have the same id: then reading them fails.
    pub(super) fn of_view(self) -> Self {
        Self { ids: Some(HashSet::new()), ..self }
    }

    pub(super) fn len(&self) -> usize {
        self.ends.len()
    }

    /// Runs a statement and adds its rows until there is no more room. The first row always fits.
    pub(super) async fn read(
        mut self,
        tx: &Tx,
        sql: Sql,
        params: Vec<Value>,
        projection: &Projection<'_>,
    ) -> Result<Self, Error> {
        self.width = projection.width_beside();
        tx.fold(sql, params, self, |rows, row| rows.take(row, projection)).await
    }

    /// The same, with a count if that takes no extra time.
    pub(super) async fn read_and_count(
        mut self,
        tx: &Tx,
        (sql, params): (Sql, Vec<Value>),
        projection: &Projection<'_>,
        count: (Sql, Vec<Value>),
    ) -> Result<(Self, Option<i64>), Error> {
        self.width = projection.width_beside();
        tx.fold_and_count((sql, params), self, |rows, row| rows.take(row, projection), count).await
    }

    fn take(&mut self, row: &RowRef<'_>, projection: &Projection<'_>) -> Result<(), Error> {
        if self.is_cut {
            return Ok(());
        }
        if let Some(ids) = &mut self.ids {
            ids.insert(projection.unlike(row, ids)?);
        }
        let start = self.json.len();
        match projection.append(row, &mut self.json) {
            Ok(()) => {}
            Err(error @ Error::Unreadable { .. }) => {
                self.json.truncate(start);
                self.unreadable.push((self.ends.len(), error));
            }
            Err(error) => return Err(error),
        }
        if self.json.len() > self.most && !self.ends.is_empty() {
            self.json.truncate(start);
            self.is_cut = true;
            return Ok(());
        }
        projection.beside(row, &mut self.beside)?;
        self.ends.push(self.json.len());
        Ok(())
    }

    /// Keeps only the first `count` rows.
    pub(super) fn truncate(&mut self, count: usize) {
        if count < self.ends.len() {
            self.ends.truncate(count);
            self.unreadable.retain(|(index, _)| *index < count);
            self.beside.truncate(count * self.width);
            self.json.truncate(self.bytes());
        }
    }

    /// The bytes of all records.
    pub(super) fn bytes(&self) -> usize {
        self.ends.last().copied().unwrap_or(0)
    }

    /// Logs which of the first `shown` records are unreadable, and returns their number.
    pub(super) fn log_unreadable(&self, shown: usize) -> Result<u32, Error> {
        let mut count = 0;
        for (_, error) in self.unreadable.iter().take_while(|(index, _)| *index < shown) {
            unless_unreadable::<()>(Err(error.clone()))?;
            count += 1;
        }
        Ok(count)
    }

    /// The record of a row; empty if it is unreadable.
    pub(super) fn json(&self, index: usize) -> &[u8] {
        let start = if index == 0 { 0 } else { self.ends[index - 1] };
        &self.json[start..self.ends[index]]
    }

    /// The record's extra columns.
    pub(super) fn beside(&self, index: usize) -> &[Value] {
        &self.beside[index * self.width..(index + 1) * self.width]
    }
}
