use std::cmp::Ordering;
use std::fmt::{self, Write};
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use gatewright_db::Value;

use crate::condition::Bound;
use crate::condition::bound::for_callers;
use crate::filter::syntax::Expression;

/// The most relations that a stream's filter follows.
const MAX_RELATIONS: usize = 16;
/// The most values that one compares with.
const MAX_VALUES: usize = 100;

/// A stream's filter that the database evaluates: it follows relations, reads JSON or names the caller. Two filters are
/// equal if their expressions are equal and apply under the same kind of rights. The filter does not contain the caller:
/// the caller who evaluates it brings the rights.
#[derive(Clone)]
pub(crate) struct Wanted(Arc<Inner>);

struct Inner {
    key: String,
    bound: Bound,
}

/// A stream's filter would be one too many, for its caller or for the entity.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error(
    "streams of this entity have too many different filters that follow relations; close some, or filter by the record's own fields"
)]
pub(crate) struct TooManyFilters;

impl Wanted {
    /// Creates the filter from `expression`, resolved as `bound`. The error is a sentence for the caller.
    pub(crate) fn new(expression: &Expression, bound: Bound) -> Result<Self, String> {
        let condition = &bound.rule.resolved.condition;
        if condition.relations() > MAX_RELATIONS {
            return Err(format!("filter: a stream's filter follows at most {MAX_RELATIONS} relations"));
        }
        if condition.values() > MAX_VALUES {
            return Err(format!("filter: a stream's filter compares with at most {MAX_VALUES} values"));
        }
        // In these entities, only the caller's own records count.
        let owned: Vec<usize> =
            bound.guards.iter().filter(|(_, reach)| reach.owner().is_some()).map(|(index, _)| *index).collect();
        Ok(Self(Arc::new(Inner { key: format!("{owned:?} {expression}"), bound })))
    }

    /// The filter, bound to the caller who sent it.
    pub(crate) fn bound(&self) -> &Bound {
        &self.0.bound
    }
}

/// An SQL expression: 2 for the callers of `_c` whose filter matches the record with the id of the second parameter,
/// and 3 for the others.
pub(super) struct Case {
    pub(super) sql: String,
    pub(super) params: Vec<Value>,
}

impl Case {
    /// For these filters in their order, on the rows of `table`, the parameters numbered from `first`.
    pub(super) fn new(filters: &[&Wanted], table: &str, first: usize, now: jiff::Timestamp) -> Self {
        let (mut sql, mut params) = (String::new(), Vec::new());
        for (number, Wanted(wanted)) in filters.iter().enumerate() {
            let Bound { catalog, engine, rule, guards, .. } = &wanted.bound;
            let condition = &rule.resolved.condition;
            let (condition, more) =
                for_callers(condition, Some(guards), catalog, *engine, now, table, first + params.len());
            params.extend(more);
            let passes = format!("EXISTS (SELECT 1 FROM {table} WHERE \"id\" = ?2 AND {condition})");
            let _infallible = write!(sql, " WHEN {number} THEN CASE WHEN {passes} THEN 2 ELSE 3 END");
        }
        let sql = if filters.is_empty() { "2".to_owned() } else { format!("CASE \"_c\".\"wanted\"{sql} ELSE 2 END") };
        Self { sql, params }
    }
}

impl PartialEq for Wanted {
    fn eq(&self, other: &Self) -> bool {
        self.0.key == other.0.key
    }
}

impl Eq for Wanted {}

impl Hash for Wanted {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.0.key.hash(state);
    }
}

impl PartialOrd for Wanted {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Wanted {
    fn cmp(&self, other: &Self) -> Ordering {
        self.0.key.cmp(&other.0.key)
    }
}

impl fmt::Debug for Wanted {
    /// Without the key: it contains the caller's search terms.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Wanted(…)")
    }
}
