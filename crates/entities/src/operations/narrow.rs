//! The part of a record that its writer gets back.
//!
//! The permission to write records does not include reading them: a token may have only `posts:write`. If such a
//! caller got the whole record back, an empty change would be a way to read it. They get its id, its times and the
//! fields that they sent.

use std::sync::Arc;

use super::rules;
use super::transaction::Transaction;
use crate::access::{Action, Reach, Standing, decide};
use crate::call::Call;
use crate::condition::Viewer;
use crate::context::admission::{Admission, bound, standing};
use crate::context::entities::Entities;
use crate::context::table::Table;
use crate::encode::{Record, Stored, only};
use crate::error::Error;

/// The part of the record that the caller may see after creating or changing it by sending fields with these keys.
pub(super) fn narrowed<'a>(
    table: Table<'_>,
    call: &Call,
    admission: &Admission,
    record: Stored,
    sent: impl Iterator<Item = &'a str>,
) -> Record {
    let seen = may_read(table, call, &admission.standing, &record);
    let record = record.seen_by(admission.rights.of(table.plan.index));
    if seen { record } else { part(table.entities, record, sent) }
}

/// The id, the times and the fields that were sent, of what the caller may read.
fn part<'a>(entities: &Entities, record: Record, sent: impl Iterator<Item = &'a str>) -> Record {
    let case = entities.json_case();
    let mut shown = ["id", "created_at", "updated_at"].map(|name| case.spell(name)).to_vec();
    shown.extend(sent.map(str::to_owned));
    let json = only(record.json(), |key| shown.iter().any(|shown| *shown == *key));
    record.in_part(json)
}

/// [`narrowed`] for a record that this transaction has written, access rules included.
pub(super) async fn written<'a>(
    transaction: &Transaction<'_>,
    table: Table<'_>,
    call: &Call,
    admission: &Admission,
    record: Stored,
    sent: impl Iterator<Item = &'a str>,
) -> Result<Record, Error> {
    let seen = may_read(table, call, &admission.standing, &record) && passes(transaction, table, call, &record).await?;
    let record = record.seen_by(admission.rights.of(table.plan.index));
    Ok(if seen { record } else { part(transaction.entities, record, sent) })
}

/// Whether the read rule holds for the record as it is now.
async fn passes(transaction: &Transaction<'_>, table: Table<'_>, call: &Call, record: &Stored) -> Result<bool, Error> {
    let Table { entities, plan } = table;
    let Some(rule) = plan.row_rules.get(Action::Read).filter(|_| !call.is_operators()) else { return Ok(true) };
    let standing = standing(table, call).await?;
    let viewer = Arc::new(Viewer::new(&call.identity, &standing, entities.ambient().now()));
    rules::is_readable(transaction.tx, plan, &bound(plan, rule, &viewer), record).await
}

fn may_read(table: Table<'_>, call: &Call, standing: &Standing, record: &Stored) -> bool {
    readable(table, call, standing).is_some_and(|reach| is_within(&reach, record))
}

/// How far the caller may read, without the read rule. `None`: no record.
pub(super) fn readable(table: Table<'_>, call: &Call, standing: &Standing) -> Option<Reach> {
    if call.is_operators() {
        return Some(Reach::ALL);
    }
    decide(table.entities.policy(), &table.plan.rules, &call.identity, standing, Action::Read).ok()
}

/// Whether the reach, without its rules, includes the record.
pub(super) fn is_within(reach: &Reach, record: &Stored) -> bool {
    let record = record.whole();
    let (owner, tenant) = (record.owner().map(|owner| &**owner), record.tenant().map(|tenant| &**tenant));
    reach.covers(owner, tenant)
}
