//! Conditions and reaches as SQL.

use std::collections::BTreeMap;

use gatewright_base::TenantId;
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

impl Reach {
    /// The parameters of the conditions that limit a statement to this reach: the tenant, the owner, those of the
    /// rules.
    pub(crate) fn params(&self) -> Vec<Value> {
        let mut params = self.bounding();
        for bound in self.conditions() {
            params.extend(bound.sql("", 1, Form::Single).1);
        }
        params
    }

    /// Only those of the tenant and the owner.
    pub(crate) fn bounding(&self) -> Vec<Value> {
        let tenant = self.tenant().map(TenantId::as_str);
        tenant.into_iter().chain(self.owner()).map(Value::from).collect()
    }

    /// The rules as SQL, each after AND, their parameters numbered from `next`.
    pub(crate) fn rules_sql(&self, table: &str, mut next: usize, form: Form) -> String {
        let mut sql = String::new();
        for bound in self.conditions() {
            let (condition, params) = bound.sql(table, next, form);
            sql.push_str(" AND ");
            sql.push_str(&condition);
            next += params.len();
        }
        sql
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
