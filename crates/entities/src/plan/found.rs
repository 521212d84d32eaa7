//! The statements of a list under a rule whose records are found by an index.
//!
//! A rule over relations is evaluated for each record. A list under it is read in one of two ways, and the cost of
//! neither grows with the table. If few values lead to the caller's records, the first records of each value are read
//! from the index of its column, in the order of the list, and [merged](Statements::merged). If many values do, a large
//! part of the records is visible, so the list evaluates the rule for a [window](Statements::window) of records in its
//! order.

use gatewright_db::{Engine, Sql, Value, dialect};

use super::{Scope, Statements, Step};
use crate::condition::Bound;
use crate::condition::leads::Lead;
use crate::fragment::quoted;

/// A lead, and its start values in this request.
#[derive(Debug)]
pub(crate) struct Branch<'a> {
    pub(crate) lead: Lead<'a>,
    /// The values of the lead's column; `None` if there are more than requested.
    pub(crate) values: Option<Vec<String>>,
}

/// A part of a list: a range of its order, how many rows of it are requested, and how many are skipped first.
pub(crate) struct Part<'a> {
    /// The range, its parameters numbered from a number.
    pub(crate) range: &'a (dyn Fn(usize) -> Step + Send + Sync),
    pub(crate) wanted: i64,
    pub(crate) offset: i64,
}

/// A statement that finds the ids of one value's rows.
pub(crate) struct OfValue {
    sql: Sql,
    /// All except the last one, which is the value.
    params: Vec<Value>,
}

impl OfValue {
    pub(crate) fn of(&self, value: &str) -> (Sql, Vec<Value>) {
        let mut params = self.params.clone();
        params.push(Value::from(value));
        (self.sql.clone(), params)
    }
}

impl Part<'_> {
    /// How many rows of the range are read.
    pub(crate) fn most(&self) -> i64 {
        self.wanted + self.offset
    }
}

impl Statements {
    /// The first rows of `scope` that these branches of `rule` lead to.
    ///
    /// If an answer has n rows, at most n values can contribute to it: those whose own first rows come first.
    pub(crate) fn merged(
        &self,
        select: &str,
        scope: &Scope,
        (rule, branches): (&Bound, &[Branch<'_>]),
        part: &Part<'_>,
        engine: Engine,
    ) -> (Sql, Vec<Value>) {
        let (table, from) = (&self.table, &self.from);
        let mut params = scope.params.clone();
        let step = (part.range)(params.len() + 1);
        params.extend(step.params);
        params.push(Value::Int(part.most()));
        let (order, most) = (step.order, params.len());
        let mut selects = Vec::new();
        for Branch { lead, values } in branches {
            let (Some(values), Some(column)) = (values, lead.source.column()) else { continue };
            params.push(Value::Text(serde_json::json!(values).to_string()));
            let texts = dialect::texts(engine, &format!("?{}", params.len()));
            let (rest, more) = rule.parts(&lead.rest, table, params.len() + 1);
            params.extend(more);
            let is_value = format!("{table}.{} = \"_k\".\"_v\"", quoted(column));
            let condition = all([&is_value, scope.bare(), &rest, &step.condition]);
            let first =
                |count: &str| format!("SELECT \"id\" FROM {from} WHERE {condition} ORDER BY {order} LIMIT {count}");
            let values = if i64::try_from(values.len()).is_ok_and(|values| values <= part.most()) {
                texts
            } else {
                let heads = dialect::for_each(engine, &texts, &first("1"));
                format!(
                    "(SELECT \"_h\".\"_v\" FROM ({heads}) AS \"_h\" JOIN {from} ON {table}.\"id\" = \"_h\".\"_id\" \
                     ORDER BY {order} LIMIT ?{most})"
                )
            };
            let found = dialect::for_each(engine, &values, &first(&format!("?{most}")));
            selects.push(format!("SELECT \"_id\" FROM ({found}) AS \"_c\""));
        }
        let among = dialect::is_selected(engine, "\"id\"", &selects.join(" UNION ALL "));
        params.extend([Value::Int(part.wanted), Value::Int(part.offset)]);
        let (limit, offset) = (params.len() - 1, params.len());
        // Bytes: rows are folded one by one until the answer is full.
        let sql = format!("SELECT {select} FROM {from} WHERE {among} ORDER BY {order} LIMIT ?{limit} OFFSET ?{offset}");
        (sql.into(), params)
    }

    /// Selects the ids of a value's first rows, for each branch, with the values that it runs for.
    pub(crate) fn of_each_value<'a>(
        &self,
        scope: &Scope,
        (rule, branches): (&Bound, &'a [Branch<'_>]),
        part: &Part<'_>,
    ) -> Vec<(OfValue, &'a [String])> {
        let (table, from) = (&self.table, &self.from);
        let mut statements = Vec::with_capacity(branches.len());
        for Branch { lead, values } in branches {
            let (Some(values), Some(column)) = (values, lead.source.column()) else { continue };
            let mut params = scope.params.clone();
            let step = (part.range)(params.len() + 1);
            params.extend(step.params);
            let (rest, more) = rule.parts(&lead.rest, table, params.len() + 1);
            params.extend(more);
            params.push(Value::Int(part.most()));
            let (most, value) = (params.len(), params.len() + 1);
            let is_value = format!("{table}.{} = ?{value}", quoted(column));
            let condition = all([&is_value, scope.bare(), &rest, &step.condition]);
            let sql = format!("SELECT \"id\" FROM {from} WHERE {condition} ORDER BY {} LIMIT ?{most}", step.order);
            statements.push((OfValue { sql: sql.into(), params }, values.as_slice()));
        }
        statements
    }

    /// The rows with these ids, a JSON array, in the order of the part.
    pub(crate) fn chosen(&self, select: &str, ids: String, part: &Part<'_>, engine: Engine) -> (Sql, Vec<Value>) {
        let among = dialect::is_among(engine, "\"id\"", "?1");
        // Bytes: rows are folded one by one until the answer is full.
        let sql = format!(
            "SELECT {select} FROM {} WHERE {among} ORDER BY {} LIMIT ?2 OFFSET ?3",
            self.from,
            (part.range)(1).order
        );
        (sql.into(), vec![Value::Text(ids), Value::Int(part.wanted), Value::Int(part.offset)])
    }

    /// The rows that belong to a scope among the first `most` rows of `bounds`. `judge` builds the scope, after the
    /// earlier parameters.
    pub(crate) fn window(
        &self,
        select: &str,
        bounds: Scope,
        most: i64,
        part: &Part<'_>,
        judge: impl FnOnce(&mut Scope),
    ) -> (Sql, Vec<Value>) {
        let (table, from) = (&self.table, &self.from);
        let mut bounds = bounds;
        let step = (part.range)(bounds.next());
        let order = step.order;
        if step.condition.is_empty() {
            bounds.params.extend(step.params);
        } else {
            bounds.and(&step.condition, step.params);
        }
        let window = format!("SELECT * FROM {from}{} ORDER BY {order} LIMIT {most}", bounds.condition());
        let mut scope = Scope { condition: String::new(), ..bounds };
        judge(&mut scope);
        let condition = scope.condition();
        let (limit, offset) = (scope.next(), scope.next() + 1);
        // Bytes: rows are folded one by one until the answer is full.
        let sql = format!(
            "SELECT {select} FROM ({window}) AS {table}{condition} ORDER BY {order} LIMIT ?{limit} OFFSET ?{offset}"
        );
        let mut params = scope.params;
        params.extend([Value::Int(part.wanted), Value::Int(part.offset)]);
        (sql.into(), params)
    }

    /// The condition that one of these branches leads to a row of `scope`.
    pub(crate) fn led(&self, scope: &mut Scope, (rule, branches): (&Bound, &[Branch<'_>]), engine: Engine) {
        let table = &self.table;
        let (mut params, mut tests) = (std::mem::take(&mut scope.params), Vec::new());
        for Branch { lead, values } in branches {
            let test = match (values, lead.source.column()) {
                (Some(values), Some(column)) => {
                    params.push(Value::Text(serde_json::json!(values).to_string()));
                    let column = format!("{table}.{}", quoted(column));
                    let among = dialect::is_among(engine, &column, &format!("?{}", params.len()));
                    let (rest, more) = rule.parts(&lead.rest, table, params.len() + 1);
                    params.extend(more);
                    if rest.is_empty() { among } else { format!("({among} AND {rest})") }
                }
                _ => {
                    let (test, more) = rule.lead(lead, table, params.len() + 1);
                    params.extend(more);
                    format!("({test})")
                }
            };
            tests.push(test);
        }
        scope.params = params;
        scope.and(&format!("({})", tests.join(" OR ")), Vec::new());
    }
}

/// All non-empty conditions, joined by AND.
fn all(conditions: [&str; 4]) -> String {
    conditions.into_iter().filter(|condition| !condition.is_empty()).collect::<Vec<_>>().join(" AND ")
}
