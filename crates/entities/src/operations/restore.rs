use gatewright_db::Value;
use gatewright_events::EventKind;

use super::rules::{self, Subject};
use super::transaction::{Transaction, within};
use super::write::{self, Write};
use super::{get, narrow};
use crate::access::{Action, Reach};
use crate::call::Call;
use crate::context::admission::{Admission, admit, standing};
use crate::context::gate;
use crate::context::table::Table;
use crate::encode::Record;
use crate::error::Error;

impl Table<'_> {
    /// Restores a record from the trash, on entities with soft delete. A record that is not in the trash stays
    /// unchanged. Permissions, the returned fields and errors are those of [`update`](Self::update), and an event is
    /// emitted.
    pub async fn restore(self, call: &Call, id: &str) -> Result<Record, Error> {
        let restored = restore(self, call, id).await;
        let record = self.reveal_if_readable(call, id, restored).await?;
        if self.plan.row_rules.iter().next().is_some() {
            return Ok(record);
        }
        let standing = standing(self, call).await?;
        Ok(narrow::narrowed(self, call, &standing, record, std::iter::empty()))
    }
}

async fn restore(table: Table<'_>, call: &Call, id: &str) -> Result<Record, Error> {
    let admission = admit(table, call, Action::Update).await?;
    let reach = admission.reach.clone();
    if table.plan.row_rules.iter().next().is_some() {
        return ruled(table, call, id, admission).await;
    }
    if !table.plan.soft_delete {
        return get::fetch(table, call, &reach, id).await;
    }
    match write::run(table.entities, write(table, call, id, &reach)?).await? {
        Some(record) => Ok(record),
        None => get::fetch(table, call, &reach, id).await,
    }
}

/// The same under access rules: the update rule must hold too, and the caller sees what they may read.
async fn ruled(table: Table<'_>, call: &Call, id: &str, admission: Admission) -> Result<Record, Error> {
    let share = gate::share(call);
    let (plan, call, key) = (table.plan.clone(), call.clone(), get::key(id, &admission.reach)?);
    let restored = within(table.entities, share, async move |transaction: &Transaction<'_>| {
        let table = Table { entities: transaction.entities, plan: &plan };
        let (tx, reach, rule) = (transaction.tx, &admission.reach, admission.rule.as_ref());
        let found = tx.query_opt(plan.sql.trashed_or_live(reach), key.clone()).await?;
        found.ok_or(Error::NotFound)?;
        let Value::Text(id) = &key[0] else { return Err(Error::NotFound) };
        rules::check(tx, &plan, &call.identity, Action::Update, rule, Subject::Stored(id)).await?;
        let restored = if plan.soft_delete {
            let write = write(table, &call, id, reach)?;
            write::perform(transaction, &write).await?
        } else {
            None
        };
        let record = match restored {
            Some(record) => {
                rules::check(tx, &plan, &call.identity, Action::Update, rule, Subject::Stored(id)).await?;
                record
            }
            None => write::one(tx, &plan, &plan.sql.get.within(reach), key.clone()).await?.ok_or(Error::NotFound)?,
        };
        narrow::written(transaction, table, &call, &admission.standing, record, std::iter::empty()).await
    });
    restored.await
}

fn write(table: Table<'_>, call: &Call, id: &str, reach: &Reach) -> Result<Write, Error> {
    let mut params = vec![Value::Time(table.entities.ambient().now())];
    params.extend(get::key(id, reach)?);
    Ok(Write {
        kind: EventKind::Updated,
        plan: table.plan.clone(),
        // No caller could read it in the trash.
        id: None,
        sql: table.plan.sql.restore(reach),
        params,
        call: call.clone(),
        fields: Vec::new(),
        links: Vec::new(),
        precondition: None,
    })
}
