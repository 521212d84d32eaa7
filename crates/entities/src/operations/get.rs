use std::borrow::Cow;

use gatewright_base::canonical_id;

use crate::access::{Action, Reach};
use crate::call::Call;
use crate::context::admission::{field_rights, reach};
use crate::context::table::Table;
use crate::encode::{Record, Stored};
use crate::error::Error;
use crate::hooks::Object;
use crate::plan::Statement;
use crate::value::types::is_id;

impl Table<'_> {
    /// The record with that id.
    ///
    /// Fails with [`Error::Refused`] if the caller may not read the entity, and with [`Error::NotFound`] if the record
    /// does not exist or the caller does not reach it.
    pub async fn get(self, call: &Call, id: &str) -> Result<Record, Error> {
        let Some(hooks) = self.entities.read_hooks_of(self.plan) else { return get(self, call, id).await };
        reach(self, call, Action::Read).await?;
        hooks.before_get(call, &canonical_id(id)).await?;
        let record = get(self, call, id).await?;
        let mut object: Object = serde_json::from_slice(record.json()).map_err(Error::hook)?;
        hooks.after_get(call, &mut object).await?;
        Ok(record.showing(serde_json::to_vec(&object).map_err(Error::hook)?))
    }

    /// The result of a write to the record with that id. If the write does not reach the record, only a caller who may read
    /// it learns that it exists.
    pub(super) async fn reveal_if_readable<T>(
        self,
        call: &Call,
        id: &str,
        written: Result<T, Error>,
    ) -> Result<T, Error> {
        match written {
            Err(Error::NotFound) if Box::pin(self.get(call, id)).await.is_ok() => Err(Error::NotChangeable),
            written => written,
        }
    }
}

async fn get(table: Table<'_>, call: &Call, id: &str) -> Result<Record, Error> {
    let reach = reach(table, call, Action::Read).await?;
    let record = fetch(table, call, &reach, id).await?;
    Ok(record.seen_by(field_rights(table.entities, call).await?.of(table.plan.index)))
}

/// The record within `reach`.
pub(super) async fn fetch(table: Table<'_>, call: &Call, reach: &Reach, id: &str) -> Result<Stored, Error> {
    let Statement { sql, params } = table.plan.sql.get.within(&known(id)?, reach);
    let each = {
        let (plan, reached) = (table.plan.clone(), reach.clone());
        move |record: &mut Option<Stored>, row: &gatewright_db::RowRef<'_>| {
            // Only a view, by a mistake in its query, has two rows with an id. An operator reads those of all tenants.
            plan.refuse_second(record.as_ref().map(Stored::id), &reached)?;
            *record = Some(plan.shape.record(row)?);
            Ok(())
        }
    };
    let record = table.entities.db_for(call).fold(sql, params, None, each).await?;
    record.ok_or(Error::NotFound)
}

/// The id in its stored spelling. A text that cannot be one names no record.
pub(super) fn known(id: &str) -> Result<Cow<'_, str>, Error> {
    if is_id(id) { Ok(canonical_id(id)) } else { Err(Error::NotFound) }
}
