//! The statements of a list of whose records it is known where they are.
//!
//! A rule over relations decides record by record. A list under it is read in one of two ways, neither of which grows with the
//! table. Where what leads to the caller's records is little, the first records of each value are taken from the index of its
//! column, in the order of the list, and [merged](Statements::merged). Where it is much, records that the caller may see lie
//! close together, so that the list looks at each of a [window](Statements::window) of records in its order.

use gatewright_db::{Engine, Sql, Value, dialect};

use super::{Scope, Statements, Step};
use crate::condition::Bound;
use crate::condition::leads::Lead;
use crate::fragment::quoted;

/// A lead, and what it starts from in this request.
#[derive(Debug)]
pub(crate) struct Branch<'a> {
    pub(crate) lead: Lead<'a>,
    /// The values of the lead's column; `None` where they are more than were asked for.
    pub(crate) values: Option<Vec<String>>,
}

/// A part of a list: a range of its order, how many rows of it are wanted, and how many are passed over first.
pub(crate) struct Part<'a> {
    /// The range, its parameters numbered from a number.
    pub(crate) range: &'a (dyn Fn(usize) -> Step + Send + Sync),
    pub(crate) wanted: i64,
    pub(crate) offset: i64,
}

impl Part<'_> {
    /// How many rows of the range are read.
    pub(crate) fn most(&self) -> i64 {
        self.wanted + self.offset
    }
}

impl Statements {
    /// The first rows of `scope`, to which these branches of `rule` lead.
    ///
    /// Of the values of a column, as many can have a part in the answer as it has rows: those whose own first rows come first.
    pub(crate) fn merged(
        &self,
        select: &str,
        scope: &Scope,
        (rule, branches): (&Bound, &[Branch<'_>]),
        part: &Part<'_>,
        engine: Engine,
    ) -> (Sql, Vec<Value>) {
        let table = &self.table;
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
            let mut condition = format!("{table}.{} = \"_k\".\"_v\"", quoted(column));
            for also in [scope.bare(), &rest, &step.condition].into_iter().filter(|also| !also.is_empty()) {
                condition.push_str(" AND ");
                condition.push_str(also);
            }
            let first =
                |count: &str| format!("SELECT \"id\" FROM {table} WHERE {condition} ORDER BY {order} LIMIT {count}");
            let heads = dialect::for_each(engine, &texts, &first("1"));
            let values = format!(
                "(SELECT \"_h\".\"_v\" FROM ({heads}) AS \"_h\" JOIN {table} ON {table}.\"id\" = \"_h\".\"_id\" \
                 ORDER BY {order} LIMIT ?{most})"
            );
            let found = dialect::for_each(engine, &values, &first(&format!("?{most}")));
            selects.push(format!("SELECT \"_id\" FROM ({found}) AS \"_c\""));
        }
        let among = dialect::is_selected(engine, "\"id\"", &selects.join(" UNION ALL "));
        params.extend([Value::Int(part.wanted), Value::Int(part.offset)]);
        let (limit, offset) = (params.len() - 1, params.len());
        let sql =
            format!("SELECT {select} FROM {table} WHERE {among} ORDER BY {order} LIMIT ?{limit} OFFSET ?{offset}");
        (sql.into(), params)
    }

    /// Those of the first `most` rows of `bounds` that are in a scope, which `judge` makes of the parameters before it.
    pub(crate) fn window(
        &self,
        select: &str,
        bounds: Scope,
        most: i64,
        part: &Part<'_>,
        judge: impl FnOnce(&mut Scope),
    ) -> (Sql, Vec<Value>) {
        let table = &self.table;
        let mut bounds = bounds;
        let step = (part.range)(bounds.next());
        let order = step.order;
        if step.condition.is_empty() {
            bounds.params.extend(step.params);
        } else {
            bounds.and(&step.condition, step.params);
        }
        let window = format!("SELECT * FROM {table}{} ORDER BY {order} LIMIT {most}", bounds.condition());
        let mut scope = Scope { condition: String::new(), ..bounds };
        judge(&mut scope);
        let condition = scope.condition();
        let (limit, offset) = (scope.next(), scope.next() + 1);
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
