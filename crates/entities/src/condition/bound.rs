use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use gatewright_db::{Engine, Value};

use super::resolve::Resolved;
use super::sql::{Caller, Writer};
use super::{Catalog, Condition, Hop, Operand, Viewer};
use crate::access::Reach;

pub(crate) use super::sql::Form;

/// An access rule of an entity.
#[derive(Debug, PartialEq)]
pub(crate) struct Rule {
    /// As it was declared.
    pub(crate) text: String,
    pub(crate) resolved: Resolved,
}

/// A condition with the caller that its words stand for.
#[derive(Clone)]
pub(crate) struct Bound {
    pub(crate) catalog: Arc<Catalog>,
    pub(crate) engine: Engine,
    pub(crate) rule: Arc<Rule>,
    pub(crate) viewer: Arc<Viewer>,
    /// How far the caller reaches in each entity on the way, where the condition is read under the caller's own rights.
    pub(crate) guards: Arc<BTreeMap<usize, Reach>>,
}

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

/// A condition on the row that SQL calls `root`, for each row of a table of callers called `_c`. Where it is read under their own
/// rights, `guards` says how far each of them reaches.
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

impl PartialEq for Bound {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.rule, &other.rule) && self.viewer == other.viewer && self.guards == other.guards
    }
}

impl fmt::Debug for Bound {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Bound").field(&self.rule.text).finish()
    }
}
