use bytes::Bytes;
use gatewright_base::canonical_id;
use gatewright_db::{Tx, Value};
use gatewright_http::entity_tag;

use super::get;
use super::list::include::{self, Found};
use super::list::parameters::View;
use crate::access::Action;
use crate::call::Call;
use crate::context::admission::{field_rights, reach};
use crate::context::table::Table;
use crate::encode::Record;
use crate::error::Error;
use crate::hooks::Object;
use crate::plan::Statement;
use crate::query::RecordQuery;

/// One record in an answer.
#[derive(Debug, Clone)]
pub struct Viewed {
    /// The requested fields, as one JSON object, and the related records under `_included`.
    pub json: Bytes,
    /// The record's entity tag, for conditional changes. `None` with related records, because the tag does not cover
    /// them.
    pub etag: Option<String>,
}

impl Table<'_> {
    /// The record with that id, as `query` specifies: with selected fields, with related records, or with its entity
    /// tag.
    ///
    /// Fails like [`get`](Self::get), and with [`Error::Query`] if the query is invalid for the entity.
    pub async fn view(self, call: &Call, id: &str, query: &RecordQuery) -> Result<Viewed, Error> {
        let Some(hooks) = self.entities.read_hooks_of(self.plan) else { return view(self, call, id, query).await };
        reach(self, call, Action::Read).await?;
        hooks.before_get(call, &canonical_id(id)).await?;
        let viewed = view(self, call, id, query).await?;
        let mut object: Object = serde_json::from_slice(&viewed.json).map_err(Error::hook)?;
        hooks.after_get(call, &mut object).await?;
        // The tag is the record's own: a conditional change compares it with what is stored.
        Ok(Viewed { json: serde_json::to_vec(&object).map_err(Error::hook)?.into(), ..viewed })
    }
}

async fn view(table: Table<'_>, call: &Call, id: &str, query: &RecordQuery) -> Result<Viewed, Error> {
    let reach = reach(table, call, Action::Read).await?;
    let rights = field_rights(table.entities, call).await?;
    let view = View::read(table.plan, query, &rights).map_err(Error::Query)?;
    let readable = rights.of(table.plan.index).clone();
    if view == View::default() {
        let record = get::fetch(table, call, &reach, id).await?.seen_by(&readable);
        return Ok(Viewed { etag: Some(record.etag()), json: record.json().clone() });
    }
    let included = include::included(table, call, (&view.include, view.tags), &rights).await?;
    let Statement { sql, params } = table.plan.sql.get.within(&get::known(id)?, &reach);
    let most = call.surface.most_bytes();
    let plan = table.plan.clone();
    let db = table.entities.db_for(call);
    let read = db.read(async move |tx: &Tx| -> Result<Option<Viewed>, Error> {
        let row = tx
            .fold(sql.clone(), params.clone(), None, |found: &mut Option<(Record, Vec<u8>, Vec<Value>)>, row| {
                plan.refuse_second(found.as_ref().map(|(record, ..)| record.id()), &reach)?;
                let record = plan.shape.record(row)?.seen_by(&readable);
                let mut json = Vec::new();
                match &view.fields {
                    Some(chosen) => plan.shape.write(row, chosen.iter().map(|index| (*index, *index)), 0, &mut json)?,
                    None => json.extend_from_slice(record.json()),
                }
                let places = included.iter().filter_map(|included| plan.shape.position(&included.column));
                let ids =
                    places.map(|place| row.value(place).map(|value| value.to_value())).collect::<Result<_, _>>()?;
                if view.tags {
                    entity_tag::append(&record.etag(), &mut json);
                }
                *found = Some((record, json, ids));
                Ok(())
            })
            .await?;
        let Some((record, mut json, ids)) = row else { return Ok(None) };
        let mut found: Vec<Found> = Vec::with_capacity(included.len());
        for (included, id) in included.iter().zip(&ids) {
            found.push(included.load(tx, vec![id], most).await?.ok_or(Error::TooLarge)?);
        }
        include::append(&included, &found, &ids, &mut json);
        Ok(Some(Viewed { etag: included.is_empty().then(|| record.etag()), json: json.into() }))
    });
    read.await?.ok_or(Error::NotFound)
}
