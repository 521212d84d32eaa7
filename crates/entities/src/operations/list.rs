use std::fmt::Display;

use gatewright_base::nearest;
use gatewright_db::{Error as DatabaseError, Tx, Value};

use super::{Call, Error, reach};
use crate::access::Action;
use crate::entities::Entities;
use crate::filter::{self, Columns, Predicate};
use crate::plan::{Plan, Scope, Sort};

/// The most conditions on one list, the whole of `filter` counting as one.
const MOST_TESTS: usize = 32;
/// How many records a page holds where the caller does not say.
const DEFAULT_LIMIT: u32 = 25;

/// One page of a list.
#[derive(Debug, Clone)]
pub struct List {
    /// The records as a JSON array.
    pub json: Vec<u8>,
    /// How many records the caller reaches, on all pages.
    pub total: i64,
    /// Which page, counted from 1.
    pub page: u32,
    /// How many records a page holds at most.
    pub limit: u32,
    /// Whether a page follows.
    pub has_more: bool,
}

/// The parameters of a list, read.
struct Page {
    number: u32,
    limit: u32,
    sort: Sort,
    filter: Predicate,
}

pub(super) async fn list(
    entities: &Entities,
    plan: &Plan,
    call: &Call,
    query: &[(String, String)],
) -> Result<List, Error> {
    let reach = reach(entities, plan, call, Action::Read).await?;
    let Page { number: page, limit, sort, filter } = Page::read(plan, query).map_err(Error::Query)?;
    let offset = i64::from(page - 1) * i64::from(limit);
    let plan = entities.at(plan.index).clone();
    let read = entities.db().read(async move |tx: &Tx| -> Result<_, DatabaseError> {
        let scope = plan.sql.scope(&reach, &filter, &plan.columns, plan.engine);
        let rows = rows(tx, &plan, &scope, &sort, limit, offset).await?;
        // A page that is not full is the last one and tells the total by itself, if it is not beyond the end.
        let total = if rows.count < i64::from(limit) && (rows.count > 0 || offset == 0) {
            offset + rows.count
        } else {
            count(tx, &plan, &scope).await?
        };
        Ok((rows, total))
    });
    let (Rows { mut json, count }, total) = read.await?;
    json.push(b']');
    Ok(List { json, total, page, limit, has_more: offset + count < total && count > 0 })
}

#[derive(Clone)]
struct Rows {
    json: Vec<u8>,
    count: i64,
}

async fn rows(
    tx: &Tx,
    plan: &Plan,
    scope: &Scope,
    sort: &Sort,
    limit: u32,
    offset: i64,
) -> Result<Rows, DatabaseError> {
    let mut params = scope.params.clone();
    params.extend([Value::from(limit), Value::Int(offset)]);
    let start = Rows { json: vec![b'['], count: 0 };
    tx.fold(plan.sql.list(sort, scope), params, start, |rows, row| {
        if rows.count > 0 {
            rows.json.push(b',');
        }
        rows.count += 1;
        plan.shape.append(row, &mut rows.json)
    })
    .await
}

async fn count(tx: &Tx, plan: &Plan, scope: &Scope) -> Result<i64, DatabaseError> {
    tx.fold(plan.sql.count(scope), scope.params.clone(), 0, |total, row| {
        if let gatewright_db::ValueRef::Int(count) = row.value(0)? {
            *total = count;
        }
        Ok(())
    })
    .await
}

impl Page {
    /// Reads the parameters. The error is a sentence for the caller.
    fn read(plan: &Plan, query: &[(String, String)]) -> Result<Self, String> {
        const KNOWN: [&str; 4] = ["page", "limit", "sort", "filter"];
        let limit = DEFAULT_LIMIT.min(plan.max_list_limit);
        let mut tests = Vec::new();
        let mut read = Self { number: 1, limit, sort: Sort::by_id(), filter: Predicate::All(Vec::new()) };
        for (index, (name, value)) in query.iter().enumerate() {
            if query[..index].iter().any(|(before, _)| before == name) {
                return Err(format!("the parameter \"{}\" is given more than once", shown(name)));
            }
            match name.as_str() {
                "page" => read.number = number(name, value, u32::MAX)?,
                "limit" => read.limit = number(name, value, plan.max_list_limit)?,
                "sort" => read.sort = plan.order.parse(value)?,
                "filter" => tests.push(filter::typed::read(value, &plan.columns)?),
                other => match filter::suffix::read(other, value, &plan.columns) {
                    Some(test) => tests.push(test?),
                    None => return Err(unknown(other, KNOWN, &plan.columns)),
                },
            }
            if tests.len() > MOST_TESTS {
                return Err(format!("a list takes at most {MOST_TESTS} conditions"));
            }
        }
        read.filter = Predicate::All(tests);
        Ok(read)
    }
}

/// Says that a parameter is neither known nor a field's name, and what may have been meant.
fn unknown<const N: usize>(name: &str, known: [&str; N], columns: &Columns) -> String {
    let (name, field) = columns.unknown(name);
    let meant = nearest(&name, known).map(str::to_owned).or(field);
    let hint = meant.map(|meant| format!("; did you mean \"{meant}\"?"));
    format!("there is no parameter \"{name}\"{}", hint.unwrap_or_default())
}

/// A whole number from 1, cut to `most`.
fn number(name: &str, value: &str, most: u32) -> Result<u32, String> {
    let digits = !value.is_empty() && value.bytes().all(|b| b.is_ascii_digit());
    // Digits that no u64 holds are a large number all the same.
    let number = if digits { value.parse().unwrap_or(u64::MAX) } else { 0 };
    match u32::try_from(number.min(u64::from(most))) {
        Ok(number) if number > 0 => Ok(number),
        _ => Err(format!("{name} is a whole number from 1")),
    }
}

fn shown(name: impl Display) -> String {
    name.to_string().chars().take(64).collect()
}
