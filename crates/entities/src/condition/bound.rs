//! Conditions and reaches as SQL.

use std::collections::BTreeMap;

use gatewright_db::{Engine, Value};

use super::reach::{Bound, Reach};
use super::sql::{Caller, Writer};
use super::{Catalog, Condition, Hop, Operand};

pub(crate) use super::sql::Form;

impl Bound {
    /// The condition on the row that SQL calls `root`, its parameters numbered from `first`.
    pub(crate) fn sql(&self, root: &str, first: usize, form: Form) -> (String, Vec<Value>) {
        let mut writer = Writer::new(&self.catalog, self.engine, Caller::Bound(&self.viewer), first, form);
        writer.guards = Some(&self.guards);
        writer.root(&self.rule.resolved.condition, root);
        writer.finish()
    }

    /// Selects at most `most` values at the end of a path, for the row of `table` whose id is the first parameter. A record of
    /// `checked` does not count in its own back relations.
    pub(crate) fn values(
        &self,
        table: &str,
        checked: Option<usize>,
        hops: &[Hop],
        operand: &Operand,
        most: usize,
    ) -> (String, Vec<Value>) {
        let mut writer = Writer::new(&self.catalog, self.engine, Caller::Bound(&self.viewer), 2, Form::Single);
        writer.checked = checked.map(|entity| (entity, table));
        writer.values(table, hops, operand, most);
        writer.finish()
    }

    /// The same for a record of `entity` that is being written: it does not count in its own back relations.
    pub(crate) fn check(&self, root: &str, entity: usize, first: usize) -> (String, Vec<Value>) {
        let mut writer = Writer::new(&self.catalog, self.engine, Caller::Bound(&self.viewer), first, Form::Single);
        writer.checked = Some((entity, root));
        writer.root(&self.rule.resolved.condition, root);
        writer.finish()
    }
}

/// A condition on the row that SQL calls `root`, for each row of a table of callers called `_c`. If it is evaluated under the
/// callers' own rights, `guards` limits what each of them reaches.
pub(crate) fn for_callers(
    condition: &Condition,
    guards: Option<&BTreeMap<usize, Reach>>,
    catalog: &Catalog,
    engine: Engine,
    now: jiff::Timestamp,
    root: &str,
    first: usize,
) -> (String, Vec<Value>) {
    let mut writer = Writer::new(catalog, engine, Caller::Rows(now), first, Form::Single);
    writer.guards = guards;
    writer.root(condition, root);
    writer.finish()
}
