//! One page of an entity's records.
//!
//! [`parameters`] parses the query, the same for REST and tools. A page is found by its number, which counts all
//! records that the caller reaches, or by a [`cursor`](crate::context::cursor), whose cost is the same for every page.
//! [`rows`] reads the records directly from the driver, [`include`] adds related records, and the result is the
//! answer's bytes.
//!
//! The size of an answer is [limited](crate::Surface::most_bytes). A page that would be larger ends early and has a
//! cursor to continue, also for a page by number.

mod clock;
mod export;
mod found;
mod groups;
mod hooked;
pub(super) mod include;
pub(super) mod parameters;
mod related;
mod rows;
mod searched;
mod slice;
mod source;
mod sums;

use std::sync::Arc;

use gatewright_base::JsonCase;
use gatewright_db::{Error as DatabaseError, Share, Tx, Value};
use gatewright_events::EventLog;
use serde::de::DeserializeOwned;

use crate::access::Action;
use crate::call::Call;
use crate::condition::reach::Reach;
use crate::context::admission::{admit, field_rights};
use crate::context::entities::Entities;
use crate::context::gate;
use crate::context::table::Table;
use crate::encode::Projection;
use crate::error::Error;
use crate::filter::Predicate;
use crate::plan::{Direction, Keyset, Part, Place, Plan, Scope, Trashed};
use crate::query::{Count, ListQuery};
use crate::search::Sought;
pub use export::{Export, ExportFormat};
use found::RecordLocation;
use groups::Grouping;
use include::{Found, Included};
use parameters::{Paging, Query};
use rows::Rows;
pub(super) use source::within;
use source::{Source, list};

/// One page of a list.
#[derive(Debug, Clone)]
pub struct List {
    /// The records as a JSON array.
    pub json: Vec<u8>,
    /// The position of the page.
    pub place: PagePlace,
    /// Whether there is a next page, in the direction of reading.
    pub has_more: bool,
    /// How many records were read, if the page ended because of the [limit](ListQuery::looking_at).
    pub searched: Option<u32>,
    /// How many records of the page, or groups, hold a value that cannot be read. They are left out and logged; the page counts
    /// them.
    pub unreadable: u32,
}

/// The position of a page in a list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PagePlace {
    /// The page has a number.
    Number {
        /// How many records the caller reaches, on all pages.
        total: Total,
        /// Which page, counted from 1.
        page: u32,
        /// How many records a page holds at most.
        limit: u32,
        /// With which to continue, where the page ended early because it would have been too large.
        cursor: Option<String>,
    },
    /// There are no pages: the entries are groups of records.
    Groups,
    /// The page was found by a cursor. Contains the cursor of the next page in the same direction, if there is one.
    Cursor(Option<String>),
}

/// The number of records on all pages of a list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Total {
    /// The exact number.
    Exact(i64),
    /// At least this number: the count ended there.
    AtLeast(i64),
    /// Not requested.
    Unknown,
}

impl List {
    /// The records, or groups of them, as the program's own type.
    pub fn records<T: DeserializeOwned>(&self) -> Result<Vec<T>, serde_json::Error> {
        serde_json::from_slice(&self.json)
    }

    /// The answer: `{"data":[…],"total":n,"page":p,"limit":l,"hasMore":b}`, with a `cursor` if the page ended early and
    /// `totalIsEstimate` if there are more than were counted, or `{"data":[…],"cursor":"…","hasMore":b}`, with
    /// `searched` if the limit of read records was reached; groups have only `hasMore`.
    pub fn to_json(&self, case: JsonCase) -> Vec<u8> {
        let mut body = Vec::with_capacity(self.json.len() + 160);
        body.extend_from_slice(b"{\"data\":");
        body.extend_from_slice(&self.json);
        let place = match &self.place {
            PagePlace::Number { total, page, limit, cursor } => {
                // A cursor is letters that JSON does not escape.
                let cursor = cursor.as_ref().map(|cursor| format!(",\"cursor\":\"{cursor}\"")).unwrap_or_default();
                let total = match total {
                    Total::Exact(total) => format!(",\"total\":{total}"),
                    Total::AtLeast(total) => format!(",\"total\":{total},\"{}\":true", case.spell("total_is_estimate")),
                    Total::Unknown => String::new(),
                };
                format!("{total},\"page\":{page},\"limit\":{limit}{cursor}")
            }
            PagePlace::Groups => String::new(),
            PagePlace::Cursor(Some(cursor)) => format!(",\"cursor\":\"{cursor}\""),
            PagePlace::Cursor(None) => ",\"cursor\":null".to_owned(),
        };
        let key = match case {
            JsonCase::Camel => "hasMore",
            JsonCase::Snake => "has_more",
        };
        let searched = self.searched.map(|searched| format!(",\"searched\":{searched}")).unwrap_or_default();
        body.extend_from_slice(format!("{place},\"{key}\":{}{searched}}}", self.has_more).as_bytes());
        body
    }
}

/// A list, ready to be read.
struct Reading {
    plan: Arc<Plan>,
    scope: Scope,
    /// The scope was built from this.
    reach: Reach,
    trashed: Trashed,
    filter: Predicate,
    limit: u32,
    /// The positions in the shape that the caller may read. `None`: all.
    readable: Option<Vec<usize>>,
    fields: Option<Vec<usize>>,
    tags: bool,
    /// The search whose words each record shows.
    highlighted: Option<Arc<Sought>>,
    included: Vec<Included>,
    /// The most bytes of JSON.
    most: usize,
    /// The most records that are read, if each has to be tested.
    looks_at: Option<u32>,
    share: Share,
    log: Option<EventLog>,
}

/// Makes a list ready to be read.
async fn ready(
    table: Table<'_>,
    call: &Call,
    asked: &ListQuery,
    mut reach_of: Reach,
) -> Result<(Box<Reading>, Paging), Error> {
    let plan = table.plan;
    let rights = field_rights(table.entities, call).await?;
    let query = Query::read(plan, asked, &rights).map_err(Error::Query)?;
    if query.trashed != Trashed::Without {
        // Only callers who could restore records see them, and only those that they could restore.
        let admission = Box::pin(admit(table, call, Action::Update)).await?;
        reach_of = admission.reach.under(admission.rule);
    }
    for expression in &query.related {
        reach_of = reach_of.under(Some(Box::pin(table.condition(call, expression)).await?));
    }
    let plan = plan.clone();
    let scope = plan.sql.scope(&reach_of, query.trashed, &query.filter, &plan.columns, plan.engine);
    let scope = related::sorted(table, call, &query, scope).await?;
    // Boxed, because several futures contain it.
    let mut reading = Box::new(Reading {
        scope,
        reach: reach_of,
        trashed: query.trashed,
        filter: query.filter,
        limit: query.limit,
        included: include::included(table, call, (&query.view.include, query.view.tags), &rights).await?,
        readable: plan.shape.readable(rights.of(plan.index)),
        fields: query.view.fields,
        tags: query.view.tags,
        highlighted: query.view.highlighted,
        most: call.surface.most_bytes(),
        looks_at: None,
        share: gate::share(call),
        // The rows of a query change without events.
        log: table.entities.log().cloned().filter(|_| !plan.is_read_only),
        plan,
    });
    // Conditions over relations are read differently.
    reading.looks_at = asked.looks_at.filter(|_| reading.reach.conditions().is_empty());
    Ok((reading, query.paging))
}

impl Reading {
    async fn run(self: Box<Self>, entities: &Entities, source: &Source<'_>, paging: Paging) -> Result<List, Error> {
        match paging {
            Paging::Page { number, sort, count } => {
                let order = sort.unwrap_or_else(|| self.plan.listed.clone());
                if let Some(most) = self.looks_at
                    && !Box::pin(self.is_small(entities, &order, true, most)).await?
                {
                    return Err(slice::refused(&order, true, most));
                }
                self.page(entities, source, (number, order), count).await
            }
            Paging::Groups(grouping) => {
                if let Some(most) = self.looks_at
                    && !Box::pin(self.is_left_few(entities, most)).await?
                {
                    return Err(slice::refused_groups(most));
                }
                Box::pin(self.grouped(source, grouping)).await
            }
            Paging::Cursor { from, direction, sort } => {
                let (order, place) = self.place(entities, &from, sort)?;
                if let Some(most) = self.looks_at
                    && !Box::pin(self.is_small(entities, &order, false, most)).await?
                {
                    if !self.is_walked(&order) {
                        return Err(slice::refused(&order, false, most));
                    }
                    return Box::pin(self.sliced(entities, order, place, direction, most)).await;
                }
                self.cursor(entities, source, (order, place), direction).await
            }
        }
    }

    /// The order that a cursor pages through, and where it is. Without `sort` that is the entity's own order, or that of
    /// ids, by which pages have their numbers.
    fn place(&self, entities: &Entities, from: &str, sort: Option<Keyset>) -> Result<(Keyset, Option<Place>), Error> {
        let orders = match sort {
            Some(sort) => vec![sort],
            None => vec![self.plan.keyset.clone(), self.plan.listed.clone()],
        };
        let mut opened = orders.into_iter().map(|order| {
            let place = entities.cursors().open(&self.plan, &order, from);
            (order, place)
        });
        let found = if from.is_empty() { opened.next() } else { opened.find(|(_, place)| place.is_some()) };
        found.ok_or_else(|| {
            let advice = "keep the sort that it was made with, or start again with an empty cursor";
            Error::Query(format!("invalid cursor for this list; {advice}"))
        })
    }

    async fn grouped(self: Box<Self>, source: &Source<'_>, grouping: Grouping) -> Result<List, Error> {
        let read = async move |tx: &Tx| Ok(groups::read(tx, &self.plan, &self.scope, self.most, &grouping).await?);
        let (json, has_more, unreadable) = source.read(read).await?;
        Ok(List { json, place: PagePlace::Groups, has_more, searched: None, unreadable })
    }

    async fn page(
        self: Box<Self>,
        entities: &Entities,
        source: &Source<'_>,
        (page, order): (u32, Keyset),
        count: Count,
    ) -> Result<List, Error> {
        let (limit, offset) = (self.limit, i64::from(page - 1) * i64::from(self.limit));
        let (plan, cursors, order_of) = (self.plan.clone(), entities.cursors().clone(), order.clone());
        let read = source.read(async move |tx: &Tx| -> Result<_, Error> {
            let wanted = usize::try_from(limit).unwrap_or(usize::MAX);
            // Only a page that ends early needs the keys of its records, for the cursor: it is read again, with them.
            let mut is_keyed = false;
            let found = self.find(tx).await?;
            let mut counted = None;
            let (rows, is_followed, json, shown, is_early) = loop {
                let is_counted = !is_keyed && count == Count::Exact && self.is_plain(&found, &order);
                let mut rows = if is_counted {
                    let rows;
                    (rows, counted) = self.counted_page(tx, (&order, offset)).await?;
                    rows
                } else {
                    self.numbered(tx, &found, (&order, offset), is_keyed).await?
                };
                let is_followed = rows.len() + usize::from(rows.is_cut) > wanted;
                rows.truncate(wanted);
                let (json, shown) = self.write(tx, &rows, Direction::Forward).await?;
                let is_early = (rows.is_cut && !is_followed) || shown < rows.len();
                if !is_early || is_keyed {
                    break (rows, is_followed, json, shown, is_early);
                }
                is_keyed = true;
            };
            let shown_to = offset + i64::try_from(shown).unwrap_or(i64::MAX);
            let is_last = !is_early && !is_followed;
            let total = match count {
                Count::None => Total::Unknown,
                // The last page already determines the total, if it is not beyond the end.
                Count::Exact | Count::Estimate if is_last && (shown > 0 || offset == 0) => Total::Exact(shown_to),
                Count::Exact => Total::Exact(match counted {
                    Some(counted) => counted,
                    None => self.count(tx, &found).await?,
                }),
                // A page beyond the end shows nothing, so it gives no lower bound.
                Count::Estimate if shown == 0 => self.estimate(tx, &found, 0).await?,
                Count::Estimate => self.estimate(tx, &found, shown_to + i64::from(!is_last)).await?,
            };
            let unreadable = rows.log_unreadable(shown)?;
            Ok((json, total, !is_last && shown > 0, is_early.then(|| self.key(&rows, shown)), unreadable))
        });
        let (json, total, has_more, early, unreadable) = read.await?;
        let seal = |values| cursors.seal(&plan, &order_of, &Place { after: true, values }).ok_or(Error::TooLarge);
        let cursor = early.map(seal).transpose()?;
        let place = PagePlace::Number { total, page, limit, cursor };
        Ok(List { json, place, has_more, searched: None, unreadable })
    }

    /// The rows of a page by its number, and one more, which shows whether there is a next page; with the values of the
    /// order's columns if `is_keyed`.
    async fn numbered(
        &self,
        tx: &Tx,
        found: &RecordLocation<'_>,
        (order, offset): (&Keyset, i64),
        is_keyed: bool,
    ) -> Result<Rows, DatabaseError> {
        let projection = self.projection(Some(order).filter(|_| is_keyed));
        let part = Part { range: &|_| order.whole(), wanted: i64::from(self.limit) + 1, offset };
        self.part(tx, self.room(), &projection, order, (found, &part)).await
    }

    /// Whether the count of a last page costs as little as the page, so that both can be read together: neither reads
    /// more rows than the page and those before it.
    fn is_plain(&self, found: &RecordLocation<'_>, order: &Keyset) -> bool {
        matches!(found, RecordLocation::Anywhere)
            && !self.plan.is_read_only
            && self.trashed != Trashed::Only
            && self.reach.conditions().is_empty()
            && self.filter == Predicate::All(Vec::new())
            && !order.is_computed()
    }

    /// A plain page like [`numbered`](Self::numbered), with the total of all pages if that takes no extra time.
    async fn counted_page(
        &self,
        tx: &Tx,
        (order, offset): (&Keyset, i64),
    ) -> Result<(Rows, Option<i64>), DatabaseError> {
        let projection = self.projection(None);
        let part = Part { range: &|_| order.whole(), wanted: i64::from(self.limit) + 1, offset };
        let page = self.collected(&projection.select(), &self.scope, &part);
        let count = (self.plan.sql.count(&self.scope), self.scope.params.clone());
        self.room().read_and_count(tx, page, &projection, count).await
    }

    /// Room for the rows of a page.
    fn room(&self) -> Rows {
        let rows = Rows::new(self.most, usize::try_from(self.limit).map_or(0, |limit| limit + 1));
        if self.is_of_view() { rows.of_view() } else { rows }
    }

    /// Whether two of the rows have the same id only by a mistake in a query.
    fn is_of_view(&self) -> bool {
        self.plan.is_read_only && self.plan.has_unique_ids(&self.reach)
    }

    async fn cursor(
        self: Box<Self>,
        entities: &Entities,
        source: &Source<'_>,
        (order, from): (Keyset, Option<Place>),
        direction: Direction,
    ) -> Result<List, Error> {
        let (plan, cursors, order_of) = (self.plan.clone(), entities.cursors().clone(), order.clone());
        let read = source.read(async move |tx: &Tx| -> Result<_, Error> {
            let projection = self.projection(Some(&order));
            let limit = usize::try_from(self.limit).unwrap_or(usize::MAX);
            let found = self.find(tx).await?;
            let mut rows = self.room();
            let steps = |first| order.steps(from.as_ref(), direction, first);
            for index in 0..steps(1).len() {
                if rows.len() > limit || rows.is_cut {
                    break;
                }
                // One row more than is shown, to find out whether there is a next page.
                let wanted = i64::try_from(limit + 1 - rows.len()).unwrap_or(i64::MAX);
                let part = Part { range: &|first| steps(first).swap_remove(index), wanted, offset: 0 };
                rows = self.part(tx, rows, &projection, &order, (&found, &part)).await?;
            }
            let mut has_more = rows.is_cut || rows.len() > limit;
            rows.truncate(limit);
            let (json, shown) = self.write(tx, &rows, direction).await?;
            has_more |= shown < rows.len();
            Ok((json, has_more && shown > 0, self.key(&rows, shown), rows.log_unreadable(shown)?))
        });
        let (json, has_more, values, unreadable) = read.await?;
        let place = Place { after: direction == Direction::Forward, values };
        let cursor =
            has_more.then(|| cursors.seal(&plan, &order_of, &place).ok_or_else(parameters::too_long)).transpose()?;
        Ok(List { json, place: PagePlace::Cursor(cursor), has_more, searched: None, unreadable })
    }

    /// The selected columns: the shown ones, the relations whose records are included, and the key of `order`.
    fn projection<'a>(&'a self, order: Option<&'a Keyset>) -> Projection<'a> {
        let relations = self.included.iter().map(|included| &*included.column);
        let beside = relations.chain(order.into_iter().flat_map(Keyset::names)).chain(self.highlighted()).collect();
        Projection::new(&self.plan.shape, self.readable.as_deref(), self.fields.as_deref(), beside).tagged(self.tags)
    }

    /// The columns whose words the records show.
    fn highlighted(&self) -> Vec<&str> {
        let shown = self.fields.as_deref().or(self.readable.as_deref());
        searched::columns(&self.plan, self.highlighted.as_deref(), shown)
    }

    /// The values of the order's columns in the last of `shown` rows.
    fn key(&self, rows: &Rows, shown: usize) -> Vec<Value> {
        let last = shown.checked_sub(1).map(|last| rows.beside(last));
        let end = |beside: &[Value]| beside.len() - self.highlighted().len();
        last.map_or_else(Vec::new, |beside| beside[self.included.len()..end(beside)].to_vec())
    }

    /// The records that the relations of the first rows name, and the number of rows that fit with them.
    async fn related(&self, tx: &Tx, rows: &Rows) -> Result<(Vec<Found>, usize), Error> {
        let mut count = rows.len();
        'fewer: loop {
            let mut found: Vec<Found> = Vec::with_capacity(self.included.len());
            // The first record is always shown, but it cannot bring any number of others.
            let is_bounded = count > 1 || self.included.iter().any(Included::is_of_many);
            let mut room = if is_bounded { self.most } else { usize::MAX };
            for (index, included) in self.included.iter().enumerate() {
                let values = (0..count).map(|row| &rows.beside(row)[index]).collect();
                let Some(records) = included.load(tx, values, room).await? else {
                    if count <= 1 {
                        return Err(Error::TooLarge);
                    }
                    count = count.div_ceil(2);
                    continue 'fewer;
                };
                room = room.saturating_sub(records.values().map(Vec::len).sum());
                found.push(records);
            }
            return Ok((found, count));
        }
    }

    /// The JSON array, in forward order, of as many of the first rows as fit; and their number. Unreadable records count.
    async fn write(&self, tx: &Tx, rows: &Rows, direction: Direction) -> Result<(Vec<u8>, usize), Error> {
        let (found, count) = self.related(tx, rows).await?;
        let mut records: Vec<Vec<u8>> = Vec::new();
        let highlighted = self.highlighted();
        let mut json = Vec::with_capacity(rows.bytes() + count + 2);
        json.push(b'[');
        let (mut bytes, mut looked_at) = (0, 0);
        let mut shown = 0;
        for row in 0..count {
            if rows.json(row).is_empty() {
                shown += 1;
                continue;
            }
            let start = json.len();
            if start > 1 {
                json.push(b',');
            }
            json.extend_from_slice(rows.json(row));
            if let Some(sought) = &self.highlighted {
                let texts = rows.beside(row).split_at(rows.beside(row).len() - highlighted.len()).1;
                looked_at += searched::length(texts);
                if looked_at > searched::LONGEST_PAGE && shown > 0 {
                    json.truncate(start);
                    break;
                }
                tokio::task::yield_now().await;
                searched::append(&self.plan, sought, (&highlighted, texts), &mut json);
            }
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
