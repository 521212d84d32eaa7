//! The payloads of rows: their sizes first, then those that fit.

use std::collections::HashMap;
use std::sync::Arc;

use gatewright_base::{Budget, Fitting, Lease};
use gatewright_db::{Db, Error, RowRef, Sql, dialect, params};
use jiff::Timestamp;

use super::deliveries::json;

/// How often a payload is in memory while it is delivered: as read, and in the body that is sent.
const COPIES: usize = 2;
/// The approximate size of a row without its payload.
const BESIDE: usize = 512;

/// The statements.
pub(super) struct Payloads {
    budget: Budget,
    sizes: Sql,
    select: Sql,
}

/// A row with its payload, and the memory that it takes.
#[derive(Debug)]
pub(super) struct Staged {
    pub(super) id: String,
    pub(super) created_at: Timestamp,
    pub(super) payload: Arc<str>,
    pub(super) previous: Option<Arc<str>>,
    pub(super) chain: u8,
    pub(super) lease: Arc<Lease>,
}

/// The payload, the earlier values, and how many events led to the row.
type Contents = (Arc<str>, Option<Arc<str>>, u8);

/// What was read, in the order of the rows.
#[derive(Debug, Default)]
pub(super) struct Read {
    pub(super) rows: Vec<Staged>,
    /// The rows that do not fit. If nothing fits, there is no memory at the moment.
    pub(super) rest: Vec<String>,
}

impl Payloads {
    pub(super) fn new(db: &Db, budget: Budget) -> Self {
        let engine = db.engine();
        let among = dialect::is_among(engine, "id", "?1");
        let (length, previous) = (dialect::byte_length(engine, "payload"), dialect::byte_length(engine, "previous"));
        Self {
            budget,
            sizes: format!(
                "SELECT id, created_at, COALESCE({length}, 0) + COALESCE({previous}, 0) FROM event_outbox WHERE {among}
                 ORDER BY created_at, id"
            )
            .into(),
            // Bytes: of rows that fit.
            select: format!("SELECT id, payload, previous, COALESCE(chain, 0) FROM event_outbox WHERE {among}").into(),
        }
    }

    /// Reads the payloads of rows, as many as fit into `most` bytes and into the share of `holder`.
    pub(super) async fn read(&self, db: &Db, ids: &[&String], holder: &str, most: usize) -> Result<Read, Error> {
        if ids.is_empty() {
            return Ok(Read::default());
        }
        let each = |sized: &mut Vec<((String, Timestamp), usize)>, row: &RowRef<'_>| {
            let bytes = usize::try_from(row.get::<i64>(2)?).unwrap_or(0) + BESIDE;
            sized.push(((row.get(0)?, row.get(1)?), bytes));
            Ok(())
        };
        let sized = db.fold(&self.sizes, params![json(ids)], Vec::new(), each).await?;
        let lengths: HashMap<String, usize> = sized.iter().map(|((id, _), bytes)| (id.clone(), *bytes)).collect();
        let fitting = Fitting::of(sized, most);
        let mut rest = Vec::new();
        let mut leased = Vec::with_capacity(fitting.taken.len());
        for (id, created_at) in fitting.taken {
            let mut lease = self.budget.lease(Some(holder));
            let bytes = lengths.get(&id).copied().unwrap_or(0).saturating_mul(COPIES);
            if rest.is_empty() && lease.grow_undivided(bytes).is_ok() {
                leased.push((id, created_at, lease));
            } else {
                rest.push(id);
            }
        }
        rest.extend(fitting.rest.into_iter().map(|(id, _)| id));
        let ids: Vec<&String> = leased.iter().map(|(id, ..)| id).collect();
        let each = |payloads: &mut HashMap<String, Contents>, row: &RowRef<'_>| {
            let payload = row.get::<Option<String>>(1)?.map_or_else(|| Arc::from("{}"), Arc::from);
            let previous = row.get::<Option<String>>(2)?.map(Arc::from);
            let chain = u8::try_from(row.get::<i64>(3)?).unwrap_or(u8::MAX);
            payloads.insert(row.get(0)?, (payload, previous, chain));
            Ok(())
        };
        let mut payloads = db.fold(&self.select, params![json(&ids)], HashMap::new(), each).await?;
        let staged = |(id, created_at, lease): (String, Timestamp, Lease)| {
            let (payload, previous, chain) = payloads.remove(&id)?;
            Some(Staged { id, created_at, payload, previous, chain, lease: Arc::new(lease) })
        };
        Ok(Read { rows: leased.into_iter().filter_map(staged).collect(), rest })
    }
}
