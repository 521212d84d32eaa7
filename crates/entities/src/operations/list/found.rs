//! Reading a list under a rule without reading the table.
//!
//! First the list queries the values that [lead](crate::condition::leads) to the caller's records, such as the projects
//! that they are a member of. Without any, the caller sees nothing; if the rule holds for every record, the plain list
//! is read. The records of few values are [merged](crate::plan::Statements::merged). For many values, and for rules
//! without such values, the list reads a [window](crate::plan::Statements::window) of its own order. Only if both find
//! too little are all records collected for which the rule holds.
//!
//! Few values are not merged if that would read more than it saves: if no index has the order of the list for those values,
//! or if an index finds the records of the filter.
//!
//! All statements of such a list use one snapshot of the database. Otherwise a user who is removed from a project at
//! the same time could see records that were added to it afterwards.

use std::borrow::Cow;

use gatewright_base::TenantId;
use gatewright_db::{Changes, Engine, Error as DatabaseError, RowRef, Sql, Tx, Value, ValueRef};

use super::rows::Rows;
use super::{Reading, Total};
use crate::condition::Bound;
use crate::condition::bound::Form;
use crate::condition::leads::Lead;
use crate::encode::Projection;
use crate::fragment::quoted;
use crate::plan::{Branch, Keyset, Part, Scope, Trashed};

/// The most values of a column that are merged before a window is tried.
const FEW: usize = 40;
/// The most values that are merged, and the most rows that a merge reads.
const MANY: usize = 20_000;
const MANY_ROWS: i64 = 128;
/// The most values that have one statement each.
const SINGLE: usize = 16;
/// How many rows of a list's order a window reads: at least, and for each requested row.
const WINDOW: i64 = 1_000;
const WINDOW_FOR_EACH: i64 = 20;
/// The most rows of a range that are read by these ways; a list that begins deeper collects its records.
const DEEPEST: i64 = 2_000;

/// How far an estimate counts.
const ESTIMATED_TO: i64 = 1_000;

/// Where the records of a list are.
#[derive(Debug)]
pub(super) enum RecordLocation<'a> {
    /// None: the caller sees no record.
    Nowhere,
    /// Anywhere: nothing is known, or nothing needs to be.
    Anywhere,
    /// The rule at a position in the reach leads to them by these branches.
    Led(usize, Vec<Branch<'a>>),
    /// All of the table: the rule at a position is true for every record.
    Everywhere(usize),
    /// The rule at a position has to be evaluated for each record.
    Judged(usize),
}

impl Reading {
    /// Where the records are.
    pub(super) async fn find(&self, tx: &Tx) -> Result<RecordLocation<'_>, DatabaseError> {
        let rules = self.reach.conditions();
        let indexed = |column: &str| self.plan.is_indexed(column);
        let leads = rules.iter().enumerate().find_map(|(at, rule)| {
            let leads = rule.rule.resolved.condition.leads(&indexed)?;
            Some((at, leads))
        });
        let Some((at, leads)) = leads else {
            let judged = rules.iter().position(|rule| rule.rule.resolved.condition.relations() > 0);
            return Ok(judged.map_or(RecordLocation::Anywhere, RecordLocation::Judged));
        };
        self.follow(tx, at, leads, FEW).await
    }

    /// The start values of leads, up to this many for each lead.
    async fn follow<'a>(
        &'a self,
        tx: &Tx,
        at: usize,
        leads: Vec<Lead<'a>>,
        most: usize,
    ) -> Result<RecordLocation<'a>, DatabaseError> {
        let rule = &self.reach.conditions()[at];
        let mut values: Vec<Vec<String>> =
            leads.iter().map(|lead| rule.known(lead).map(str::to_owned).into_iter().collect()).collect();
        let mut everywhere = false;
        if let Some((sql, params)) = rule.values_of(&leads, most + 1) {
            tx.one_snapshot();
            let asked = tx.fold(sql, params, Vec::new(), |asked: &mut Vec<(i64, Option<String>)>, row| {
                asked.push((row.get(0)?, row.get(1)?));
                Ok(())
            });
            for (lead, value) in asked.await? {
                match (value, usize::try_from(lead).ok().and_then(|lead| values.get_mut(lead))) {
                    (Some(value), Some(values)) => values.push(value),
                    _ => everywhere = true,
                }
            }
        }
        if everywhere {
            return Ok(RecordLocation::Everywhere(at));
        }
        let mut branches: Vec<Branch<'a>> = Vec::new();
        for (lead, values) in leads.into_iter().zip(values) {
            if values.is_empty() {
                continue;
            }
            let values = (values.len() <= most).then_some(values);
            // Values of one column are merged if nothing else is tested.
            let same = branches.iter_mut().find(|branch| {
                let alone = branch.lead.rest.is_empty() && lead.rest.is_empty();
                alone
                    && branch.lead.source.column() == lead.source.column()
                    && branch.values.is_some()
                    && values.is_some()
            });
            match same {
                Some(same) => same.values.get_or_insert_default().extend(values.into_iter().flatten()),
                None => branches.push(Branch { lead, values }),
            }
        }
        for values in branches.iter_mut().filter_map(|branch| branch.values.as_mut()) {
            values.sort_unstable();
            values.dedup();
        }
        Ok(if branches.is_empty() { RecordLocation::Nowhere } else { RecordLocation::Led(at, branches) })
    }

    /// Reads a part of the list in an order, behind the rows that are there.
    pub(super) async fn part(
        &self,
        tx: &Tx,
        rows: Rows,
        projection: &Projection<'_>,
        order: &Keyset,
        (found, part): (&RecordLocation<'_>, &Part<'_>),
    ) -> Result<Rows, DatabaseError> {
        let select = projection.select();
        let near = part.most() <= DEEPEST && !order.is_computed();
        let mut rows = rows;
        match found {
            RecordLocation::Nowhere => return Ok(rows),
            RecordLocation::Everywhere(at) if !order.is_computed() => {
                let (sql, params) = self.everywhere(&select, *at, part);
                return rows.read(tx, sql, params, projection).await;
            }
            RecordLocation::Led(at, branches) if near => {
                let is_served = self.is_merged_by_index(order, branches);
                if is_served && self.is_asked_singly(branches) {
                    return Box::pin(self.each_value(tx, rows, projection, order, (*at, branches, part))).await;
                }
                if is_served && all_known(branches) {
                    let (sql, params) = self.merged(&select, *at, branches, part);
                    return rows.read(tx, sql, params, projection).await;
                }
                let windowed = self.window(&select, order, *at, branches, part);
                let is_full;
                (rows, is_full) = attempt(tx, rows, windowed, projection, part).await?;
                if is_full {
                    return Ok(rows);
                }
                if is_served && part.most() <= MANY_ROWS {
                    let rule = &self.reach.conditions()[*at].rule.resolved.condition;
                    let leads = rule.leads(&|column| self.plan.is_indexed(column)).unwrap_or_default();
                    if let RecordLocation::Led(at, branches) = self.follow(tx, *at, leads, MANY).await?
                        && all_known(&branches)
                    {
                        let (sql, params) = self.merged(&select, at, &branches, part);
                        return rows.read(tx, sql, params, projection).await;
                    }
                }
            }
            RecordLocation::Judged(at) if near => {
                let windowed = self.window(&select, order, *at, &[], part);
                let is_full;
                (rows, is_full) = attempt(tx, rows, windowed, projection, part).await?;
                if is_full {
                    return Ok(rows);
                }
            }
            RecordLocation::Everywhere(_)
            | RecordLocation::Led(..)
            | RecordLocation::Judged(_)
            | RecordLocation::Anywhere => {}
        }
        let (sql, params) = self.collected(&select, &self.scope, part);
        rows.read(tx, sql, params, projection).await
    }

    /// Whether merging the branches reads little more than it returns.
    fn is_merged_by_index(&self, order: &Keyset, branches: &[Branch<'_>]) -> bool {
        let plan = &self.plan;
        let is_ordered =
            |branch: &Branch<'_>| branch.lead.source.column().is_some_and(|column| plan.is_ordered(column));
        (order == &plan.keyset || order == &Keyset::by_id())
            && branches.iter().all(is_ordered)
            && !self.filter.is_found(&|column| plan.is_indexed(&plan.columns.at(column).name))
    }

    /// The total.
    pub(super) async fn count(&self, tx: &Tx, found: &RecordLocation<'_>) -> Result<i64, DatabaseError> {
        let Some(scope) = self.counted(found) else { return Ok(0) };
        let (sql, params) = (self.plan.sql.count(&scope), scope.params.clone());
        match self.changes(&scope) {
            Some(changes) => tx.count_by(sql, params, &changes).await,
            None => self.number(tx, sql, params).await,
        }
    }

    /// A count. The rows of a query may depend on the time, so that theirs is never kept.
    async fn number(&self, tx: &Tx, sql: Sql, params: Vec<Value>) -> Result<i64, DatabaseError> {
        if !self.plan.is_read_only {
            return tx.count(sql, params).await;
        }
        let take = |number: &mut i64, row: &RowRef<'_>| row.get(0).map(|counted| *number = counted);
        tx.fold(sql, params, 0, take).await
    }

    /// How the number of rows in `scope` follows from the log, if it depends on this table alone.
    fn changes(&self, scope: &Scope) -> Option<Changes> {
        let (plan, reach, log) = (&self.plan, &self.reach, self.log.as_ref()?);
        // An account's records lose their owner without an event of that name, and the trash has events of its own.
        let is_owned = plan.owner.is_some() && reach.owner().is_some();
        if !is_owned && !plan.soft_delete && scope.is_like(&plan.sql.bounded(reach, self.trashed)) {
            let tenant = reach.tenant().filter(|_| plan.tenant.is_some());
            return log.changes_of(&plan.table, tenant.map(TenantId::as_str));
        }
        let is_alone = reach.conditions().is_empty() && self.trashed == Trashed::Without;
        is_alone.then(|| log.changes_within(&plan.table)).flatten()
    }

    /// Counts to [`ESTIMATED_TO`] at most. `least` records are known to be there.
    pub(super) async fn estimate(
        &self,
        tx: &Tx,
        found: &RecordLocation<'_>,
        least: i64,
    ) -> Result<Total, DatabaseError> {
        let Some(scope) = self.counted(found) else { return Ok(Total::Exact(0)) };
        let mut params = scope.params.clone();
        params.push(Value::Int(ESTIMATED_TO + 1));
        let counted = self.number(tx, self.plan.sql.count_some(&scope, self.plan.engine), params).await?;
        let is_all = counted <= ESTIMATED_TO;
        Ok(if is_all { Total::Exact(counted) } else { Total::AtLeast(least.max(ESTIMATED_TO)) })
    }

    /// The rows to count for a total, if there are any.
    fn counted(&self, found: &RecordLocation<'_>) -> Option<Cow<'_, Scope>> {
        match found {
            RecordLocation::Nowhere => None,
            RecordLocation::Everywhere(at) => Some(Cow::Owned(self.without(*at, Form::Many))),
            RecordLocation::Anywhere | RecordLocation::Led(..) | RecordLocation::Judged(_) => {
                Some(Cow::Borrowed(&self.scope))
            }
        }
    }

    /// All rows of `scope` in the range.
    pub(super) fn collected(&self, select: &str, scope: &Scope, part: &Part<'_>) -> (Sql, Vec<Value>) {
        let mut params = scope.row_params();
        let step = (part.range)(params.len() + 1);
        let sql = self.plan.sql.step(select, scope, &step);
        params.extend(step.params);
        params.extend([Value::Int(part.wanted), Value::Int(part.offset)]);
        (sql, params)
    }

    /// The rows without the rule at a position, which is true for all of them.
    fn everywhere(&self, select: &str, at: usize, part: &Part<'_>) -> (Sql, Vec<Value>) {
        self.collected(select, &self.without(at, Form::Many), part)
    }

    /// Whether each value has its own statement. On SQLite a statement costs no network round trip, so a few short ones are
    /// faster than one that joins them.
    fn is_asked_singly(&self, branches: &[Branch<'_>]) -> bool {
        let values: Option<usize> = branches.iter().map(|branch| branch.values.as_ref().map(Vec::len)).sum();
        self.plan.engine == Engine::Sqlite && values.is_some_and(|values| values <= SINGLE)
    }

    /// The rows of the branches, value by value.
    async fn each_value(
        &self,
        tx: &Tx,
        rows: Rows,
        projection: &Projection<'_>,
        order: &Keyset,
        (at, branches, part): (usize, &[Branch<'_>], &Part<'_>),
    ) -> Result<Rows, DatabaseError> {
        let (scope, rule) = (self.without(at, Form::Single), &self.reach.conditions()[at]);
        let mut ids: Vec<String> = Vec::new();
        for (statement, values) in self.plan.sql.of_each_value(&scope, (rule, branches), part) {
            for value in values {
                let (sql, params) = statement.of(value);
                ids = tx
                    .fold(sql, params, ids, |ids: &mut Vec<String>, row| {
                        if let ValueRef::Text(id) = row.value(0)? {
                            ids.push(id.into_owned());
                        }
                        Ok(())
                    })
                    .await?;
            }
        }
        if *order == Keyset::by_id() {
            ids.sort_unstable();
            ids.dedup();
            let most = usize::try_from(part.most()).unwrap_or(usize::MAX);
            let beyond = ids.len().saturating_sub(most);
            // The rows that come first in the part's direction.
            if (part.range)(1).order.ends_with(" DESC") {
                ids.drain(..beyond);
            } else {
                ids.truncate(most);
            }
        }
        let ids = serde_json::json!(ids).to_string();
        let (sql, params) = self.plan.sql.chosen(&projection.select(), ids, part, self.plan.engine);
        rows.read(tx, sql, params, projection).await
    }

    /// The rows of the branches.
    pub(super) fn merged(
        &self,
        select: &str,
        at: usize,
        branches: &[Branch<'_>],
        part: &Part<'_>,
    ) -> (Sql, Vec<Value>) {
        let led = (&self.reach.conditions()[at], branches);
        self.plan.sql.merged(select, &self.without(at, Form::Single), led, part, self.plan.engine)
    }

    /// The rows within a window of the order; `None` if no index has this order. Without branches, the rule itself is
    /// evaluated.
    pub(super) fn window(
        &self,
        select: &str,
        order: &Keyset,
        at: usize,
        branches: &[Branch<'_>],
        part: &Part<'_>,
    ) -> Option<(Sql, Vec<Value>)> {
        let led = (!branches.is_empty()).then_some((at, branches));
        self.is_walked(order).then(|| self.within(select, window_size(part.most()), led, part))
    }

    /// Whether an index has the order, so that its first rows are read without the others.
    pub(super) fn is_walked(&self, order: &Keyset) -> bool {
        !order.is_computed() && order.names().next().is_some_and(|first| self.plan.is_indexed(first))
    }

    /// The rows of the list among the first `most` rows of a range of the order. The rule at a position is evaluated by these
    /// branches.
    pub(super) fn within(
        &self,
        select: &str,
        most: i64,
        led: Option<(usize, &[Branch<'_>])>,
        part: &Part<'_>,
    ) -> (Sql, Vec<Value>) {
        let (plan, rules) = (&self.plan, self.reach.conditions());
        let table = quoted(&self.plan.table);
        let bounds = plan.sql.bounded(&self.reach, self.trashed);
        let judge = |scope: &mut Scope| {
            for (index, rule) in rules.iter().enumerate() {
                match led {
                    Some((at, branches)) if index == at => plan.sql.led(scope, (rule, branches), plan.engine),
                    _ => scope.judge(&table, std::slice::from_ref(rule), Form::Single),
                }
            }
            scope.filter(&self.filter, &plan.columns, plan.engine);
        };
        plan.sql.window(select, bounds, most, part, judge)
    }

    /// The list's rows without the rule at a position.
    pub(super) fn without(&self, at: usize, form: Form) -> Scope {
        let table = quoted(&self.plan.table);
        let mut scope = self.plan.sql.bounded(&self.reach, self.trashed);
        let others: Vec<Bound> = self
            .reach
            .conditions()
            .iter()
            .enumerate()
            .filter(|(index, _)| *index != at)
            .map(|(_, rule)| rule.clone())
            .collect();
        scope.judge(&table, &others, form);
        scope.filter(&self.filter, &self.plan.columns, self.plan.engine);
        scope
    }
}

/// How many rows of a list's order are read for this many rows of a list: one of a few sizes. The size is part of the
/// statement's text, and the engine caches a statement for each. As a parameter, Postgres would estimate it as a tenth of the
/// table, because it plans a cached statement for any value.
fn window_size(rows: i64) -> i64 {
    let mut size = WINDOW;
    while size < WINDOW_FOR_EACH * rows {
        size *= 2;
    }
    size
}

fn all_known(branches: &[Branch<'_>]) -> bool {
    branches.iter().all(|branch| branch.values.is_some())
}

/// Runs a statement that may find too few rows; then only the earlier rows are kept. Returns whether it found enough.
async fn attempt(
    tx: &Tx,
    rows: Rows,
    statement: Option<(Sql, Vec<Value>)>,
    projection: &Projection<'_>,
    part: &Part<'_>,
) -> Result<(Rows, bool), DatabaseError> {
    let Some((sql, params)) = statement else { return Ok((rows, false)) };
    let before = rows.len();
    let mut rows = rows.read(tx, sql, params, projection).await?;
    let wanted = usize::try_from(part.wanted).unwrap_or(usize::MAX);
    let is_full = rows.is_cut || rows.len() - before >= wanted;
    if !is_full {
        rows.truncate(before);
    }
    Ok((rows, is_full))
}

#[cfg(test)]
mod tests;
