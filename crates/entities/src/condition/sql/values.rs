//! The values at the end of a path, for explanations of a condition and for sorted lists.

use std::fmt::Write;

use super::super::follow::Followed;
use super::super::{Hop, HopDirection, Operand};
use super::{Rows, Writer};
use crate::fragment::quoted;
use gatewright_db::{Engine, dialect};

impl Writer<'_> {
    /// Selects at most `most` values of `operand` at the end of `hops`, for the row of `table` whose id is the first parameter.
    pub(in crate::condition) fn values(&mut self, table: &str, hops: &[Hop], operand: &Operand, most: usize) {
        let (mut from, rows) = self.joined(table, hops);
        from.insert(0, table.to_owned());
        let from = from.join(", ");
        let value = match operand {
            Operand::Json { .. } => self.json_value(operand, &rows),
            operand => self.operand(operand, &rows),
        };
        let conditions = std::mem::take(&mut self.sql);
        self.sql =
            format!("SELECT {value} AS v FROM {from} WHERE {table}.\"id\" = ?1{conditions} ORDER BY 1 LIMIT {most}");
    }

    /// Selects each path as a column with its own name: a subquery on the rows of `table` with one value or none.
    pub(in crate::condition) fn columns<'p>(
        &mut self,
        table: &str,
        paths: impl Iterator<Item = (&'p str, &'p Followed)>,
    ) {
        let mut columns = Vec::new();
        for (name, path) in paths {
            let (from, rows) = self.joined(table, &path.hops);
            let value = self.operand(&path.operand, &rows);
            let conditions = std::mem::take(&mut self.sql);
            let from = from.join(", ");
            columns.push(format!("(SELECT {value} FROM {from} WHERE 1 = 1{conditions} LIMIT 1) AS {}", quoted(name)));
        }
        self.sql = columns.join(", ");
    }

    /// The tables that hops lead to from the rows of `table`, and the rows' aliases. The conditions are written, each after AND.
    fn joined(&mut self, table: &str, hops: &[Hop]) -> (Vec<String>, Rows) {
        let (mut from, mut rows) = (Vec::new(), Rows::from([(0, table.to_owned())]));
        for hop in hops {
            self.aliases += 1;
            let alias = quoted(&format!("_r{}", self.aliases));
            let start = format!("{}.{}", rows[&hop.from], quoted(&hop.from_column));
            if hop.direction == HopDirection::Links {
                from.push(dialect::elements(self.engine, &start, &alias));
            } else {
                from.push(format!("{} AS {alias}", self.catalog.at(hop.entity).rows(self.engine)));
                let _infallible = write!(self.sql, " AND {alias}.{} = {start}", quoted(&hop.column));
            }
            self.scope(hop.entity, &alias);
            self.without_itself(hop, &alias);
            rows.insert(hop.row, alias);
        }
        (from, rows)
    }

    /// A record that is being checked does not count in its own back relations.
    pub(super) fn without_itself(&mut self, hop: &Hop, alias: &str) {
        if let Some((entity, root)) = self.checked
            && entity == hop.entity
            && hop.direction == HopDirection::Back
        {
            let _infallible = write!(self.sql, " AND {alias}.\"id\" <> {root}.\"id\"");
        }
    }

    /// The value as the text of JSON.
    fn json_value(&mut self, operand: &Operand, rows: &Rows) -> String {
        let (column, path) = self.json(operand, rows);
        match self.engine {
            Engine::Sqlite => format!("({column} -> {path})"),
            Engine::Postgres => format!("CAST({column} #> {path} AS text)"),
        }
    }
}
