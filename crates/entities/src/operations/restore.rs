use gatewright_base::canonical_id;
use gatewright_events::EventKind;

use super::judge::Judge;
use super::links::Relations;
use super::rules::{self, Subject};
use super::transaction::{Transaction, within};
use super::write::{self, Write};
use super::{get, narrow};
use crate::access::{Action, Reach};
use crate::answers::Written;
use crate::call::Call;
use crate::context::admission::{Admission, admit};
use crate::context::gate;
use crate::context::table::Table;
use crate::encode::Record;
use crate::error::Error;
use crate::plan::Statement;

impl Table<'_> {
    /// Restores a record from the trash, on entities with soft delete. A record that is not in the trash stays
    /// unchanged. Permissions, the returned fields and errors are those of [`update`](Self::update), and an event is
    /// emitted.
    pub async fn restore(self, call: &Call, id: &str) -> Result<Record, Error> {
        let restored = match restore(self, call, id).await {
            Err(Error::Taken(first)) => {
                let admission = admit(self, call, Action::Update).await?;
                let relations = Relations::outside(self, call, &admission);
                Err(Box::pin(relations.taken(None, Some(&canonical_id(id)), first)).await)
            }
            restored => restored,
        };
        self.reveal_if_readable(call, id, restored).await
    }
}

async fn restore(table: Table<'_>, call: &Call, id: &str) -> Result<Record, Error> {
    let admission = admit(table, call, Action::Update).await?;
    let reach = admission.reach.clone();
    if call.keeping.is_some() || table.plan.has_rules() {
        return whole(table, call, id, admission).await;
    }
    let restored =
        if table.plan.soft_delete { write::run(table.entities, write(table, call, id, &reach)?).await? } else { None };
    let record = match restored {
        Some(record) => record,
        None => get::fetch(table, call, &reach, id).await?,
    };
    Ok(narrow::narrowed(table, call, &admission, record, std::iter::empty()))
}

/// The same in a transaction, for access rules and answers that are kept: the update rule must hold too, and the caller sees
/// what they may read.
async fn whole(table: Table<'_>, call: &Call, id: &str, admission: Admission) -> Result<Record, Error> {
    let share = gate::share(call);
    let (plan, call, id) = (table.plan.clone(), call.clone(), get::known(id)?.into_owned());
    let restored = within(table.entities, share, async move |transaction: &Transaction<'_>| {
        let table = Table { entities: transaction.entities, plan: &plan };
        let (tx, reach, rule) = (transaction.tx, &admission.reach, admission.rule.as_ref());
        let found = plan.sql.trashed_or_live(&id, reach);
        tx.query_opt(found.sql, found.params).await?.ok_or(Error::NotFound)?;
        rules::check(tx, &plan, &call.identity, Action::Update, rule, Subject::Stored(&id)).await?;
        let restored = if plan.soft_delete {
            let write = write(table, &call, &id, reach)?;
            write::perform(transaction, &write).await?
        } else {
            None
        };
        let record = match restored {
            Some(record) => {
                let judge = Judge { tx, entities: table.entities, plan: &plan, call: &call, admission: &admission };
                judge.after_update(Subject::Stored(&id)).await?;
                record
            }
            None => {
                let Statement { sql, params } = plan.sql.get.within(&id, reach);
                write::one(tx, &plan, &sql, params).await?.ok_or(Error::NotFound)?
            }
        };
        let shown = narrow::written(transaction, table, &call, &admission, record, std::iter::empty()).await?;
        transaction.keep(call.keeping.as_ref(), &plan, &Written::Record(&shown, false)).await?;
        Ok(shown)
    });
    restored.await
}

fn write(table: Table<'_>, call: &Call, id: &str, reach: &Reach) -> Result<Write, Error> {
    let id = get::known(id)?;
    let Statement { sql, params } = table.plan.sql.restore(table.entities.ambient().now(), &id, reach);
    let returned = Some(id.into_owned());
    Ok(Write {
        kind: EventKind::Updated,
        plan: table.plan.clone(),
        // No caller could read it in the trash.
        id: None,
        returned,
        sql,
        params,
        call: call.clone(),
        fields: Vec::new(),
        links: Vec::new(),
        linked: Vec::new(),
        precondition: None,
    })
}
