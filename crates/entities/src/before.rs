//! The values that the read rule reads of a record itself, from before a write.
//!
//! They decide which callers get a delete event: those who could read the record before and no longer can. They are
//! read before the write, and only if the write can change the result of the rule or removes the record. The event log
//! stores them, so that streams that resume, and those of other servers, get the event too.

use std::collections::{BTreeSet, HashMap};
use std::fmt::Write as _;

use gatewright_db::{RowRef, Tx, Value, dialect};
use serde_json::Value as Json;
use serde_json::value::RawValue;

use crate::access::Action;
use crate::condition::Condition;
use crate::declare::Kind;
use crate::encode;
use crate::error::Error;
use crate::filter::columns::Column;
use crate::fragment::{quoted, typed};
use crate::plan::Plan;
use crate::schema::type_word;

/// The columns that the rule reads, and the id.
fn columns(plan: &Plan) -> Vec<&Column> {
    columns_of(plan, plan.row_rules.get(Action::Read).map(|rule| &rule.resolved.condition))
}

fn columns_of<'a>(plan: &'a Plan, condition: Option<&'a Condition>) -> Vec<&'a Column> {
    let mut names = BTreeSet::from(["id"]);
    if let Some(condition) = condition {
        condition.own_columns(&mut names);
    }
    let all = &plan.catalog.at(plan.index).columns;
    names.into_iter().filter_map(|name| Some(all.at(all.declared(name)?))).collect()
}

/// Whether the event log has every value of a record that the read rule reads: records on the wire lack hidden fields.
pub(crate) fn is_logged(plan: &Plan) -> bool {
    let hidden = |column: &Column| plan.fields.iter().any(|field| field.hidden && field.column == column.name);
    !columns(plan).into_iter().any(hidden)
}

/// Whether a write that sets the fields at these positions can change the rule's result for the record.
pub(crate) fn is_touched(plan: &Plan, fields: &[usize]) -> bool {
    let names: Vec<&str> = columns(plan).into_iter().map(|column| &*column.name).collect();
    names.contains(&"updated_at") || fields.iter().any(|index| names.contains(&&*plan.fields.at(*index).column))
}

/// Reads these values of the records with these ids, and returns them by id. Empty if the entity has no read rule.
/// `is_asked` is whether anything could ask for the values later.
pub(crate) async fn take(tx: &Tx, plan: &Plan, ids: &[&str], is_asked: bool) -> Result<HashMap<String, String>, Error> {
    if !is_asked || plan.row_rules.get(Action::Read).is_none() || ids.is_empty() {
        return Ok(HashMap::new());
    }
    let columns: Vec<(String, Kind)> =
        columns(plan).into_iter().map(|column| (column.name.clone(), column.kind)).collect();
    let select: Vec<String> = columns.iter().map(|(name, _)| quoted(name)).collect();
    let table = plan.table.clone();
    let among = dialect::is_among(plan.engine, "\"id\"", "?1");
    let sql = format!("SELECT {}, \"id\" AS _id FROM {} WHERE {among}", select.join(", "), quoted(&table));
    let params = vec![Value::Text(serde_json::Value::from(ids).to_string())];
    let each = move |taken: &mut HashMap<String, String>, row: &RowRef<'_>| {
        let mut json = Vec::new();
        for (at, (name, kind)) in columns.iter().enumerate() {
            json.push(if at == 0 { b'{' } else { b',' });
            json.extend_from_slice(format!("\"{name}\":").as_bytes());
            encode::value(&table, name, *kind, &row.value(at)?, &mut json)?;
        }
        json.push(b'}');
        if let Value::Text(id) = row.value(columns.len())?.to_value() {
            taken.insert(id, String::from_utf8_lossy(&json).into_owned());
        }
        Ok(())
    };
    Ok(tx.fold(sql, params, HashMap::new(), each).await?)
}

/// A SELECT that returns the stored values as a row. Its parameters are numbered from `first`. `None` if the values do
/// not fit the current declaration.
pub(crate) fn row(plan: &Plan, before: &str, first: usize) -> Option<(String, Vec<Value>)> {
    let taken: HashMap<String, &RawValue> = serde_json::from_str(before).ok()?;
    select(plan, columns(plan), first, |column| taken.get(&column.name).copied())
}

/// A SELECT that returns the values that `condition` reads of a record in wire form, as a row. Its parameters are numbered from
/// `first`. `None` if the record does not fit the current declaration.
pub(crate) fn logged_row(
    plan: &Plan,
    condition: &Condition,
    record: &str,
    first: usize,
) -> Option<(String, Vec<Value>)> {
    let record: HashMap<String, &RawValue> = serde_json::from_str(record).ok()?;
    // A field that was declared later is absent.
    select(plan, columns_of(plan, Some(condition)), first, |column| {
        Some(record.get(&column.key).copied().unwrap_or(RawValue::NULL))
    })
}

fn select<'a>(
    plan: &Plan,
    columns: Vec<&Column>,
    first: usize,
    found: impl Fn(&Column) -> Option<&'a RawValue>,
) -> Option<(String, Vec<Value>)> {
    let (mut sql, mut params) = ("SELECT ".to_owned(), Vec::new());
    for column in columns {
        params.push(value(column.kind, found(column)?)?);
        let comma = if params.len() == 1 { "" } else { ", " };
        let typed = typed(plan.engine, type_word(column.kind), first + params.len() - 1);
        let _infallible = write!(sql, "{comma}{typed} AS {}", quoted(&column.name));
    }
    Some((sql, params))
}

fn value(kind: Kind, json: &RawValue) -> Option<Value> {
    if matches!(kind, Kind::Json | Kind::List | Kind::File) && json.get() != "null" {
        // Numbers keep their text.
        return Some(Value::Text(json.get().to_owned()));
    }
    Some(match (kind, &serde_json::from_str::<Json>(json.get()).ok()?) {
        (_, Json::Null) => Value::Null,
        (Kind::Bool, Json::Bool(truth)) => Value::Bool(*truth),
        (Kind::Int, Json::Number(number)) => Value::Int(number.as_i64()?),
        (Kind::Float, Json::Number(number)) => Value::Float(number.as_f64()?),
        (Kind::Timestamp, Json::String(text)) => Value::Time(text.parse().ok()?),
        (_, Json::String(text)) => Value::Text(text.clone()),
        _ => return None,
    })
}
