//! A page of a search that may find few records or none.
//!
//! A search tests each record, so one that finds little reads the whole table. A caller who limits how many records are
//! [read](crate::ListQuery::looking_at) gets the matches among those, their number, and a cursor for the next page. If
//! an index leaves at most so many records, they are read as usual. If more would have to be sorted, or counted for a
//! page by number, the list is refused.

use gatewright_db::{Error as DatabaseError, Lane, Tx, Value};

use super::rows::Rows;
use super::{List, PagePlace, Reading};
use crate::access::Reach;
use crate::context::entities::Entities;
use crate::error::Error;
use crate::filter::Predicate;
use crate::plan::{Direction, Keyset, Part, Place, Trashed};

/// The limit is used in parts, each a fraction of what is left. If many records match, the first part finds enough.
const FRACTIONS: [i64; 3] = [25, 5, 1];
/// How many parts of a filter are counted.
const NARROWINGS: usize = 4;

/// What was found in a part of a table.
struct Slice {
    json: Vec<u8>,
    /// The key of the record behind which the next page begins; empty at the end of the list.
    next: Vec<Value>,
    /// How many records were read, if the page ends because of this limit.
    searched: Option<u32>,
    /// How many records were left out, because they are unreadable.
    unreadable: u32,
}

impl Reading {
    /// Reads a page in an order that an index has, and looks at `most` records at most.
    pub(super) async fn sliced(
        self: Box<Self>,
        entities: &Entities,
        order: Keyset,
        from: Option<Place>,
        direction: Direction,
        most: u32,
    ) -> Result<List, Error> {
        let (plan, cursors, order_of) = (self.plan.clone(), entities.cursors().clone(), order.clone());
        let db = entities.db().clone().lane(Lane::Lists(self.share));
        let read = db.read(async move |tx: &Tx| self.slices(tx, &order, from.clone(), direction, most).await);
        let Slice { json, next, searched, unreadable } = read.await?;
        let has_more = !next.is_empty();
        let place = Place { after: direction == Direction::Forward, values: next };
        let cursor = has_more
            .then(|| cursors.seal(&plan, &order_of, &place).ok_or_else(super::parameters::too_long))
            .transpose()?;
        Ok(List { json, place: PagePlace::Cursor(cursor), has_more, searched, unreadable })
    }

    async fn slices(
        &self,
        tx: &Tx,
        order: &Keyset,
        mut from: Option<Place>,
        direction: Direction,
        most: u32,
    ) -> Result<Slice, Error> {
        tx.one_snapshot();
        let limit = usize::try_from(self.limit).unwrap_or(usize::MAX);
        let (mut rows, mut edge, mut left) = (self.room(), Vec::new(), i64::from(most));
        for fraction in FRACTIONS {
            let size = (left / fraction).max(1);
            left -= size;
            (rows, edge) = self.slice(tx, rows, (order, from.as_ref(), direction), size).await?;
            if rows.is_cut || rows.len() > limit || edge.is_empty() || left == 0 {
                break;
            }
            from = Some(Place { after: direction == Direction::Forward, values: edge.clone() });
        }
        let is_followed = rows.is_cut || rows.len() > limit;
        rows.truncate(limit);
        let (json, shown) = self.write(tx, &rows, direction).await?;
        let unreadable = rows.log_unreadable(shown)?;
        if is_followed || shown < rows.len() {
            return Ok(Slice { json, next: self.key(&rows, shown), searched: None, unreadable });
        }
        let searched = (!edge.is_empty()).then_some(most);
        Ok(Slice { json, next: edge, searched, unreadable })
    }

    /// Reads the next `size` records and adds those of the list to `rows`, up to one more than the page holds. Returns the key
    /// of the last record that was read; empty if there are no more, or if the page is full.
    async fn slice(
        &self,
        tx: &Tx,
        mut rows: Rows,
        (order, from, direction): (&Keyset, Option<&Place>, Direction),
        size: i64,
    ) -> Result<(Rows, Vec<Value>), DatabaseError> {
        let projection = self.projection(Some(order));
        let (select, bounds) = (projection.select(), self.plan.sql.bounded(&self.reach, self.trashed));
        let wanted = usize::try_from(self.limit).map_or(usize::MAX, |limit| limit + 1);
        let mut left = size;
        for index in 0..order.steps(from, direction, 1).len() {
            let range = |first| order.steps(from, direction, first).swap_remove(index);
            let missing = i64::try_from(wanted - rows.len()).unwrap_or(i64::MAX);
            let (sql, params) = self.within(&select, left, None, &Part { range: &range, wanted: missing, offset: 0 });
            rows = rows.read(tx, sql, params, &projection).await?;
            if rows.is_cut || rows.len() >= wanted {
                break;
            }
            let (sql, params) = self.collected(&select, &bounds, &Part { range: &range, wanted: 1, offset: left - 1 });
            let last = Rows::new(self.most, 1).read(tx, sql, params, &projection).await?;
            if last.len() > 0 {
                return Ok((rows, self.key(&last, 1)));
            }
            let (sql, params) = self.plan.sql.count_range(&bounds, range(bounds.next()), left, self.plan.engine);
            left = (left - tx.count(sql, params).await?).max(1);
        }
        Ok((rows, Vec::new()))
    }

    /// Whether a page that reads at most `most` records can be read like any other: an index leads to its records, or leaves
    /// no more than that to read.
    pub(super) async fn is_small(
        &self,
        entities: &Entities,
        order: &Keyset,
        is_by_number: bool,
        most: u32,
    ) -> Result<bool, Error> {
        let plan = &self.plan;
        let name = |column| &*plan.columns.at(column).name;
        if self.filter == Predicate::All(Vec::new()) && self.is_walked(order) {
            return Ok(true);
        }
        let is_own_order = order.parts().eq(plan.keyset.parts());
        if !is_by_number && is_own_order && self.filter.as_equal().is_some_and(|column| plan.is_ordered(name(column))) {
            return Ok(true);
        }
        self.is_left_few(entities, most).await
    }

    /// Whether the table, or an index for a part of the filter, has at most `most` records, including the trash.
    pub(super) async fn is_left_few(&self, entities: &Entities, most: u32) -> Result<bool, Error> {
        let (plan, sql) = (&self.plan, &self.plan.sql);
        let name = |column| &*plan.columns.at(column).name;
        let narrowings = self.filter.narrowings(&|column| plan.is_indexed(name(column)));
        let parts = narrowings.into_iter().take(NARROWINGS).map(Some).chain([None]);
        let counts: Vec<_> = parts
            .map(|part| {
                let mut scope = sql.bounded(&Reach::ALL, Trashed::With);
                if let Some(part) = part {
                    scope.filter(&part, &plan.columns, plan.engine);
                }
                let count = sql.count_some(&scope, plan.engine);
                let mut params = scope.params;
                params.push(Value::Int(i64::from(most) + 1));
                (count, params)
            })
            .collect();
        let db = entities.db().clone().lane(Lane::Lists(self.share));
        let is_small = async move |tx: &Tx| -> Result<bool, DatabaseError> {
            for (count, params) in &counts {
                if tx.count(count.clone(), params.clone()).await? <= i64::from(most) {
                    return Ok(true);
                }
            }
            Ok(false)
        };
        Ok(db.read(is_small).await?)
    }
}

/// Groups of more records than the bound.
pub(super) fn refused_groups(most: u32) -> Error {
    Error::Query(format!("more than {most} records would have to be grouped; filter by an indexed field"))
}

/// The error for a list that cannot be read within the limit.
pub(super) fn refused(order: &Keyset, is_by_number: bool, most: u32) -> Error {
    let first = order.names().next().unwrap_or("id");
    Error::Query(if is_by_number {
        format!("more than {most} records would have to be counted; ask for pages by cursor=")
    } else {
        format!(
            "no index on \"{first}\", and more than {most} records would have to be sorted; sort by an indexed field, or filter by one"
        )
    })
}
