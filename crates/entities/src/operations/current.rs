use std::collections::{HashMap, HashSet};

use gatewright_db::{Error as DatabaseError, Lane, Row, Sql, Tx, Value, unless_unreadable};

use crate::access::Reach;
use crate::before;
use crate::call::Call;
use crate::condition::Bound;
use crate::condition::bound::Form;
use crate::context::gate;
use crate::context::table::Table;
use crate::error::Error;
use crate::filter::Predicate;
use crate::fragment::quoted;
use crate::plan::{Plan, Trashed};

/// The BLAKE3 hash of a record's JSON.
pub(crate) type Print = [u8; 32];

/// The print of a record, or of an event's.
pub(crate) fn print(json: &[u8]) -> Print {
    blake3::hash(json).into()
}

/// Records that one statement asks about.
const TOGETHER: usize = 32;

/// How often a filter that exceeds its time for a single record is tried. The lane may have been busy.
const TRIES: u32 = 3;

impl Table<'_> {
    /// Which of these ids name records that are out of `reach` now. Records in the trash are not included. This is one
    /// statement: with two, a record that is deleted between them would look as if it were out of reach.
    pub(crate) async fn out_of_reach(
        self,
        call: &Call,
        reach: &Reach,
        ids: &[Option<String>],
    ) -> Result<HashSet<String>, Error> {
        let (within, params) = among(self.plan, reach, ids);
        let plan = self.plan;
        let all =
            plan.sql.scope(&Reach::ALL, Trashed::Without, &Predicate::All(Vec::new()), &plan.columns, plan.engine);
        let there = plan.sql.among(&all, params.len(), plan.engine);
        let sql = format!("SELECT \"id\" FROM ({there}) AS there EXCEPT SELECT \"id\" FROM ({within}) AS reached");
        let rows = self.entities.db_for(call).query(sql, params).await?;
        Ok(rows.iter().map(|row| row.get("id")).collect::<Result<_, gatewright_db::Error>>()?)
    }

    /// The records within `reach` now that these ids name, by their prints.
    pub(crate) async fn prints(
        self,
        call: &Call,
        reach: &Reach,
        ids: &[Option<String>],
    ) -> Result<HashMap<String, Print>, Error> {
        let (sql, params) = among(self.plan, reach, ids);
        let each = {
            let plan = self.plan.clone();
            move |prints: &mut HashMap<String, Print>, row: &gatewright_db::RowRef<'_>| {
                let Some(record) = unless_unreadable(plan.shape.record(row))? else { return Ok(()) };
                prints.insert(record.id().to_owned(), print(record.whole().json()));
                Ok(())
            }
        };
        Ok(self.entities.db_for(call).fold(sql, params, HashMap::new(), each).await?)
    }

    /// Which of some records, as they were before a write, match the rules of `reach`. The numbers beside them belong to
    /// the calling function.
    pub(crate) async fn could_read(
        self,
        call: &Call,
        reach: &Reach,
        before: &[(usize, &str)],
    ) -> Result<Vec<bool>, Error> {
        let records: Vec<&str> = before.iter().map(|(_, record)| *record).collect();
        let mut could = Vec::with_capacity(records.len());
        for records in records.chunks(TOGETHER) {
            let question = holding(self.plan, reach, records, |record, first| before::row(self.plan, record, first));
            let rows = match question {
                Some((sql, params)) => self.entities.db_for(call).query(sql, params).await?,
                None => Vec::new(),
            };
            could.extend(numbered(&rows, records.len())?);
        }
        Ok(could)
    }

    /// Which of some records in wire form a filter matches, with related records as they are now. The caller chose the filter, so it
    /// runs in the lane of lists and counts against the caller's share. `None` if it takes too long for one of the records.
    pub(crate) async fn matching(
        self,
        call: &Call,
        filter: &Bound,
        records: &[&str],
    ) -> Result<Option<Vec<bool>>, Error> {
        let db = self.entities.db().clone().lane(Lane::Lists(gate::share(call)));
        let reach = Reach::ALL.under(Some(filter.clone()));
        let condition = &filter.rule.resolved.condition;
        let mut matches = Vec::with_capacity(records.len());
        let (mut together, mut tries) = (TOGETHER, 1);
        while let Some(some) = records.get(matches.len()..).and_then(|left| left.chunks(together).next()) {
            let question = holding(self.plan, &reach, some, |record, first| {
                before::logged_row(self.plan, condition, record, first)
            });
            let asked = match question {
                Some((sql, params)) => db.read(async move |tx: &Tx| tx.query(sql.clone(), params.clone()).await).await,
                None => Ok(Vec::new()),
            };
            match asked {
                Ok(rows) => {
                    matches.extend(numbered(&rows, some.len())?);
                    tries = 1;
                }
                Err(DatabaseError::Deadline | DatabaseError::SearchTooLarge) if together > 1 => together /= 2,
                Err(DatabaseError::Deadline | DatabaseError::SearchTooLarge) if tries < TRIES => tries += 1,
                Err(DatabaseError::Deadline | DatabaseError::SearchTooLarge) => return Ok(None),
                Err(error) => return Err(error.into()),
            }
        }
        Ok(Some(matches))
    }
}

/// Selects the numbers of those records for which the conditions of `reach` hold. `row` returns the SELECT of a record as a
/// row, with its parameters numbered from the second argument. `None` if `row` returns nothing for every record.
fn holding(
    plan: &Plan,
    reach: &Reach,
    records: &[&str],
    row: impl Fn(&str, usize) -> Option<(String, Vec<Value>)>,
) -> Option<(String, Vec<Value>)> {
    let table = quoted(&plan.table);
    let (mut parts, mut params) = (Vec::new(), Vec::new());
    for (at, record) in records.iter().enumerate() {
        let Some((row, values)) = row(record, params.len() + 1) else { continue };
        params.extend(values);
        let mut part = format!("SELECT {at} AS n FROM ({row}) AS {table} WHERE 1 = 1");
        for rule in reach.conditions() {
            let (condition, values) = rule.sql(&table, params.len() + 1, Form::Single);
            part.push_str(" AND ");
            part.push_str(&condition);
            params.extend(values);
        }
        parts.push(part);
    }
    (!parts.is_empty()).then(|| (parts.join(" UNION ALL "), params))
}

/// For each of `count` numbers, whether the rows contain it.
fn numbered(rows: &[Row], count: usize) -> Result<Vec<bool>, DatabaseError> {
    let mut found = vec![false; count];
    for row in rows {
        let number = usize::try_from(row.get::<i64>("n")?).ok();
        if let Some(found) = number.and_then(|number| found.get_mut(number)) {
            *found = true;
        }
    }
    Ok(found)
}

fn among(plan: &Plan, reach: &Reach, ids: &[Option<String>]) -> (Sql, Vec<Value>) {
    let all = Predicate::All(Vec::new());
    let mut scope = plan.sql.scope(reach, Trashed::Without, &all, &plan.columns, plan.engine);
    let sql = plan.sql.among(&scope, scope.params.len() + 1, plan.engine);
    let wanted: Vec<&String> = ids.iter().flatten().collect();
    scope.params.push(Value::Text(serde_json::json!(wanted).to_string()));
    (sql, scope.params)
}
