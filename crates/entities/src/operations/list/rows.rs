use gatewright_db::{Error, RowRef, Sql, Tx, Value};

use crate::encode::Projection;

/// Records on their way into a list: their JSON one after the other, and what was read beside it.
#[derive(Debug)]
pub(super) struct Rows {
    /// The most bytes of JSON.
    most: usize,
    json: Vec<u8>,
    read: Vec<Row>,
    /// Whether rows were left out because the answer is full.
    pub(super) is_cut: bool,
}

#[derive(Debug)]
struct Row {
    end: usize,
    beside: Vec<Value>,
}

impl Rows {
    /// None yet, and room for so many bytes.
    pub(super) fn new(most: usize) -> Self {
        Self { most, json: Vec::new(), read: Vec::new(), is_cut: false }
    }

    pub(super) fn len(&self) -> usize {
        self.read.len()
    }

    /// Runs a statement and takes its rows, as long as there is room. The first row always finds room.
    pub(super) async fn read(
        self,
        tx: &Tx,
        sql: Sql,
        params: Vec<Value>,
        projection: &Projection<'_>,
    ) -> Result<Self, Error> {
        tx.fold(sql, params, self, |rows, row| rows.take(row, projection)).await
    }

    fn take(&mut self, row: &RowRef<'_>, projection: &Projection<'_>) -> Result<(), Error> {
        if self.is_cut {
            return Ok(());
        }
        let start = self.json.len();
        projection.append(row, &mut self.json)?;
        if self.json.len() > self.most && !self.read.is_empty() {
            self.json.truncate(start);
            self.is_cut = true;
            return Ok(());
        }
        self.read.push(Row { end: self.json.len(), beside: projection.beside(row)? });
        Ok(())
    }

    /// Leaves the first `count` rows.
    pub(super) fn truncate(&mut self, count: usize) {
        if count < self.read.len() {
            self.read.truncate(count);
            self.json.truncate(self.read.last().map_or(0, |row| row.end));
        }
    }

    /// The record of a row.
    pub(super) fn json(&self, index: usize) -> &[u8] {
        let start = if index == 0 { 0 } else { self.read[index - 1].end };
        &self.json[start..self.read[index].end]
    }

    /// What was read beside the record.
    pub(super) fn beside(&self, index: usize) -> &[Value] {
        &self.read[index].beside
    }
}
