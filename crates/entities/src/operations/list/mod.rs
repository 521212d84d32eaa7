//! One page of an entity's records.
//!
//! [`parameters`] reads what is asked for, the same from REST and from tools. A page is found by its number, which
//! counts all that the caller reaches, or by a [`cursor`], whose cost does not grow with its depth. [`rows`] takes the
//! records straight from the driver, [`include`] brings their related ones along, and what comes out is the answer's
//! bytes.
//!
//! An answer holds at most [so many bytes](super::Surface::most_bytes) of JSON. A page by cursor that has no more room ends early and says that there
//! is more; one by number cannot, since the next one begins where it should have ended, and is refused with advice.

pub(crate) mod cursor;
pub(super) mod include;
pub(super) mod parameters;
mod rows;

use std::sync::Arc;

use gatewright_base::JsonCase;
use gatewright_db::{Error as DatabaseError, Tx, Value};

use super::{Call, Error, reach};
use crate::access::Action;
use crate::encode::Projection;
use crate::entities::Entities;
use crate::plan::{Direction, Place, Plan, Scope, Sort, Trashed};
use include::Included;
use parameters::{Paging, Query};
use rows::Rows;

/// One page of a list.
#[derive(Debug, Clone)]
pub struct List {
    /// The records as a JSON array.
    pub json: Vec<u8>,
    /// Where the page is.
    pub place: PagePlace,
    /// Whether a page follows, or precedes it when it was read backward.
    pub has_more: bool,
}

/// Where a page of a list is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PagePlace {
    /// It was found by its number.
    Number {
        /// How many records the caller reaches, on all pages.
        total: i64,
        /// Which page, counted from 1.
        page: u32,
        /// How many records a page holds at most.
        limit: u32,
    },
    /// It was found by a cursor; the one with which to go on in the same direction, if there is more.
    Cursor(Option<String>),
}

impl List {
    /// The answer: `{"data":[…],"total":n,"page":p,"limit":l,"hasMore":b}`, or `{"data":[…],"cursor":"…","hasMore":b}`.
    pub fn to_json(&self, case: JsonCase) -> Vec<u8> {
        let mut body = Vec::with_capacity(self.json.len() + 160);
        body.extend_from_slice(b"{\"data\":");
        body.extend_from_slice(&self.json);
        let place = match &self.place {
            PagePlace::Number { total, page, limit } => format!(",\"total\":{total},\"page\":{page},\"limit\":{limit}"),
            // A cursor is letters that JSON does not escape.
            PagePlace::Cursor(Some(cursor)) => format!(",\"cursor\":\"{cursor}\""),
            PagePlace::Cursor(None) => ",\"cursor\":null".to_owned(),
        };
        let key = match case {
            JsonCase::Camel => "hasMore",
            JsonCase::Snake => "has_more",
        };
        body.extend_from_slice(format!("{place},\"{key}\":{}}}", self.has_more).as_bytes());
        body
    }
}

/// A list, ready to be read.
struct Reading {
    plan: Arc<Plan>,
    scope: Scope,
    limit: u32,
    fields: Option<Vec<usize>>,
    included: Vec<Included>,
    /// The most bytes of JSON.
    most: usize,
}

pub(super) async fn list(
    entities: &Entities,
    plan: &Plan,
    call: &Call,
    pairs: &[(String, String)],
) -> Result<List, Error> {
    let mut reach_of = reach(entities, plan, call, Action::Read).await?;
    let query = Query::read(plan, pairs).map_err(Error::Query)?;
    if query.trashed != Trashed::Without {
        // Whoever could restore them, and those alone of which that is true.
        reach_of = reach(entities, plan, call, Action::Update).await?;
    }
    let plan = entities.at(plan.index).clone();
    let reading = Reading {
        scope: plan.sql.scope(&reach_of, query.trashed, &query.filter, &plan.columns, plan.engine),
        limit: query.limit,
        fields: query.view.fields,
        included: include::included(entities, &plan, call, &query.view.include).await?,
        most: call.surface.most_bytes(),
        plan,
    };
    match query.paging {
        Paging::Page { number, sort } => reading.page(entities, number, sort).await,
        Paging::Cursor { from, direction } => {
            let place = match from.as_str() {
                "" => None,
                text => Some(entities.cursors().open(&reading.plan, text).ok_or_else(|| {
                    Error::Query("the cursor is none of this list; start again with an empty one".to_owned())
                })?),
            };
            reading.cursor(entities, place, direction).await
        }
    }
}

impl Reading {
    async fn page(self, entities: &Entities, page: u32, sort: Sort) -> Result<List, Error> {
        let (limit, offset) = (self.limit, i64::from(page - 1) * i64::from(self.limit));
        let read = entities.db().read(async move |tx: &Tx| -> Result<_, Error> {
            let projection = self.projection(false);
            let mut params = self.scope.params.clone();
            params.extend([Value::from(limit), Value::Int(offset)]);
            let sql = self.plan.sql.list(&projection.select(), &sort, &self.scope);
            let rows = Rows::new(self.most).read(tx, sql, params, &projection).await?;
            if rows.is_cut {
                return Err(Error::TooLarge);
            }
            let count = i64::try_from(rows.len()).unwrap_or(i64::MAX);
            // A page that is not full is the last one and tells the total by itself, if it is not beyond the end.
            let total = if count < i64::from(limit) && (count > 0 || offset == 0) {
                offset + count
            } else {
                self.count(tx).await?
            };
            let (json, shown) = self.write(tx, &rows, Direction::Forward).await?;
            if shown < rows.len() {
                return Err(Error::TooLarge);
            }
            Ok((json, total, count))
        });
        let (json, total, count) = read.await?;
        let has_more = offset + count < total && count > 0;
        Ok(List { json, place: PagePlace::Number { total, page, limit }, has_more })
    }

    async fn cursor(self, entities: &Entities, from: Option<Place>, direction: Direction) -> Result<List, Error> {
        let (plan, cursors) = (self.plan.clone(), entities.cursors().clone());
        let read = entities.db().read(async move |tx: &Tx| -> Result<_, Error> {
            let projection = self.projection(true);
            let (limit, select) = (usize::try_from(self.limit).unwrap_or(usize::MAX), projection.select());
            let mut rows = Rows::new(self.most);
            for step in self.plan.keyset.steps(from.as_ref(), direction, self.scope.params.len() + 1) {
                if rows.len() > limit || rows.is_cut {
                    break;
                }
                let sql = self.plan.sql.step(&select, &self.scope, &step);
                let mut params = self.scope.params.clone();
                params.extend(step.params);
                // One more than is shown tells whether there is more.
                params.push(Value::Int(i64::try_from(limit + 1 - rows.len()).unwrap_or(i64::MAX)));
                rows = rows.read(tx, sql, params, &projection).await?;
            }
            let mut has_more = rows.is_cut || rows.len() > limit;
            rows.truncate(limit);
            let (json, shown) = self.write(tx, &rows, direction).await?;
            has_more |= shown < rows.len();
            let values = if shown > 0 { rows.beside(shown - 1)[self.included.len()..].to_vec() } else { Vec::new() };
            Ok((json, has_more && shown > 0, values))
        });
        let (json, has_more, values) = read.await?;
        let place = Place { after: direction == Direction::Forward, values };
        let cursor = has_more.then(|| cursors.seal(&plan, &place));
        Ok(List { json, place: PagePlace::Cursor(cursor), has_more })
    }

    /// What is selected: the shown columns, the relations whose records come along, and the cursor's key.
    fn projection(&self, by_cursor: bool) -> Projection<'_> {
        let relations = self.included.iter().map(|included| &*included.column);
        let key = self.plan.keyset.names().filter(|_| by_cursor);
        Projection::new(&self.plan.shape, self.fields.as_deref(), relations.chain(key).collect())
    }

    async fn count(&self, tx: &Tx) -> Result<i64, DatabaseError> {
        tx.fold(self.plan.sql.count(&self.scope), self.scope.params.clone(), 0, |total, row| {
            if let gatewright_db::ValueRef::Int(count) = row.value(0)? {
                *total = count;
            }
            Ok(())
        })
        .await
    }

    /// The JSON array, in forward order, of as many of the first rows as there is room for; and how many they are.
    async fn write(&self, tx: &Tx, rows: &Rows, direction: Direction) -> Result<(Vec<u8>, usize), Error> {
        let mut found = Vec::with_capacity(self.included.len());
        for (index, included) in self.included.iter().enumerate() {
            let ids = (0..rows.len()).map(|row| &rows.beside(row)[index]);
            found.push(included.load(tx, ids, self.most).await?.ok_or(Error::TooLarge)?);
        }
        let mut records: Vec<Vec<u8>> = Vec::new();
        let mut json = vec![b'['];
        let mut bytes = 0;
        let mut shown = 0;
        for row in 0..rows.len() {
            let start = json.len();
            if start > 1 {
                json.push(b',');
            }
            json.extend_from_slice(rows.json(row));
            include::append(&self.included, &found, rows.beside(row), &mut json);
            bytes += json.len() - start;
            if bytes > self.most && shown > 0 {
                json.truncate(start);
                break;
            }
            shown += 1;
            if direction == Direction::Backward {
                records.push(json.split_off(1));
            }
        }
        if direction == Direction::Backward {
            records.reverse();
            json.extend_from_slice(&records.join(&b','));
        }
        json.push(b']');
        Ok((json, shown))
    }
}
