//! The memory of the records that a write reads: taken from the budget before they are read.
//!
//! A request of a few bytes may return, log and stage a large record. So the statement that reads or returns one follows
//! another that asks for its size.

use std::collections::HashSet;

use gatewright_base::{Lease, Subject};
use gatewright_db::{RowRef, Tx, Value};
use gatewright_http::{ClientAddr, Counted};
use parking_lot::Mutex;

use crate::call::Call;
use crate::context::entities::Entities;
use crate::context::gate;
use crate::error::Error;
use crate::plan::Plan;

/// How often a record is in memory during its write: as the answer, and as text for the log and for the outbox.
const COPIES: usize = 3;
/// The bytes of a record that is not counted. The limits of connections limit their sum.
const FREE: usize = 16 << 10;

/// What one transaction, or one statement, has taken.
#[derive(Default)]
pub(super) struct Memory(Mutex<Taken>);

#[derive(Default)]
struct Taken {
    leases: Vec<Lease>,
    /// The records, by the positions of their entities and their ids.
    records: HashSet<(usize, String)>,
}

impl Memory {
    /// Takes the memory of the record with this id.
    pub(super) async fn take(
        &self,
        entities: &Entities,
        tx: &Tx,
        (plan, id): (&Plan, &str),
        call: &Call,
    ) -> Result<(), Error> {
        if !plan.sql.may_be_large || !self.0.lock().records.insert((plan.index, id.to_owned())) {
            return Ok(());
        }
        let size = tx.fold(plan.sql.size.clone(), vec![Value::from(id)], 0, note).await?;
        self.take_bytes(entities, usize::try_from(size).unwrap_or(0), call)
    }

    /// The same outside of a transaction.
    pub(super) async fn take_alone(
        &self,
        entities: &Entities,
        (plan, id): (&Plan, &str),
        call: &Call,
    ) -> Result<(), Error> {
        if !plan.sql.may_be_large {
            return Ok(());
        }
        let size = entities.db_for(call).fold(plan.sql.size.clone(), vec![Value::from(id)], 0, note).await?;
        self.take_bytes(entities, usize::try_from(size).unwrap_or(0), call)
    }

    /// Takes the memory of a record with these values.
    pub(super) fn take_values(&self, entities: &Entities, values: &[Value], call: &Call) -> Result<(), Error> {
        let bytes = values.iter().map(|value| match value {
            Value::Text(text) => text.len(),
            _ => 0,
        });
        self.take_bytes(entities, bytes.sum(), call)
    }

    /// Takes the memory of records of this size.
    pub(super) fn take_bytes(&self, entities: &Entities, bytes: usize, call: &Call) -> Result<(), Error> {
        if bytes <= FREE {
            return Ok(());
        }
        let mut lease = entities.budget().lease(holder(call).as_deref());
        lease.grow_undivided(bytes.saturating_mul(COPIES)).map_err(Error::OverBudget)?;
        self.0.lock().leases.push(lease);
        Ok(())
    }

    /// Gives everything back: the transaction begins again.
    pub(super) fn clear(&self) {
        *self.0.lock() = Taken::default();
    }
}

fn note(size: &mut i64, row: &RowRef<'_>) -> Result<(), gatewright_db::Error> {
    *size = row.get(0)?;
    Ok(())
}

/// The holder of a caller's memory, the same as for their answers.
fn holder(call: &Call) -> Option<String> {
    let address = ClientAddr::new(call.address);
    match gate::subject(call) {
        _ if call.address.is_some() && !address.has_share() => None,
        Some(Subject::User(id)) => Some(format!("caller {}", id.as_str())),
        Some(Subject::Service(id)) => Some(format!("caller {}", id.as_str())),
        None => Counted::Bytes.share_key(address),
    }
}

impl std::fmt::Debug for Memory {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Memory").finish_non_exhaustive()
    }
}
