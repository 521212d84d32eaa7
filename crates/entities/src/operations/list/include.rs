//! `include=`: the records that a page's relations name, one query for each relation however many records there are.
//!
//! Each target is read as its own list would be: whoever may not read it is refused, and of the others everybody sees
//! what they would see there; an entity that the request's surface does not serve is read by nobody on it. A record that the caller does not reach looks like one that is not there: null. Of a user
//! nothing is shown but the id, which the relation holds already.

use std::collections::HashMap;
use std::sync::Arc;

use gatewright_db::{Error as DatabaseError, Tx, Value};

use super::parameters::View;
use crate::access::{Action, Reach};
use crate::declare::Target;
use crate::entities::Entities;
use crate::filter::Predicate;
use crate::operations::{Call, Error, reach};
use crate::plan::{INCLUDED, Plan, Trashed};

/// A relation whose records come along.
#[derive(Debug, Clone)]
pub(in crate::operations) struct Included {
    /// The column that holds the other record's id.
    pub(in crate::operations) column: String,
    /// The key on the wire.
    key: String,
    /// Whether its records carry their entity tags.
    tags: bool,
    from: From,
}

#[derive(Debug, Clone)]
enum From {
    Users,
    Entity(Arc<Plan>, Reach),
}

/// The related records of one relation by their ids, as JSON.
pub(in crate::operations) type Found = HashMap<String, Vec<u8>>;

/// Looks the relations up, and whether the caller may read where they lead.
pub(in crate::operations) async fn included(
    entities: &Entities,
    plan: &Plan,
    call: &Call,
    view: &View,
) -> Result<Vec<Included>, Error> {
    let mut included = Vec::with_capacity(view.include.len());
    for index in &view.include {
        let field = plan.fields.at(*index);
        let from = match field.relation.map(|relation| relation.to) {
            Some(Target::Entity(target)) => {
                let target = entities.at(target);
                if !call.surface.serves(target) {
                    return Err(Error::NotServed(field.key.clone()));
                }
                From::Entity(target.clone(), reach(entities, target, call, Action::Read).await?)
            }
            Some(Target::Users) | None => From::Users,
        };
        included.push(Included { column: field.column.clone(), key: field.key.clone(), tags: view.tags, from });
    }
    Ok(included)
}

impl Included {
    /// The records with these ids that the caller reaches, as long as there is room in `most` bytes: `None` when there is not.
    pub(in crate::operations) async fn load<'a>(
        &self,
        tx: &Tx,
        ids: impl Iterator<Item = &'a Value>,
        most: usize,
    ) -> Result<Option<Found>, DatabaseError> {
        let ids = ids.filter_map(|id| match id {
            Value::Text(id) => Some(id.as_str()),
            _ => None,
        });
        let (plan, reach) = match &self.from {
            From::Users => {
                return Ok(Some(ids.map(|id| (id.to_owned(), format!("{{\"id\":{}}}", quoted(id)).into())).collect()));
            }
            From::Entity(plan, reach) => (plan, reach),
        };
        let mut ids: Vec<&str> = ids.collect();
        ids.sort_unstable();
        ids.dedup();
        if ids.is_empty() {
            return Ok(Some(Found::new()));
        }
        let everything = Predicate::All(Vec::new());
        let scope = plan.sql.scope(reach, Trashed::Without, &everything, &plan.columns, plan.engine);
        let mut params = scope.params.clone();
        params.push(Value::Text(serde_json::Value::from(ids).to_string()));
        let sql = plan.sql.among(&scope, plan.engine);
        let start = (Found::new(), 0_usize);
        let (found, bytes) = tx
            .fold(sql, params, start, |(found, bytes), row| {
                if *bytes <= most {
                    let record = plan.shape.record(row)?;
                    let json = if self.tags { record.tagged() } else { record.json().to_vec() };
                    *bytes += json.len();
                    found.insert(record.id().to_owned(), json);
                }
                Ok(())
            })
            .await?;
        Ok((bytes <= most).then_some(found))
    }
}

/// Writes the related records into the object that `out` ends in.
pub(in crate::operations) fn append(included: &[Included], found: &[Found], ids: &[Value], out: &mut Vec<u8>) {
    if included.is_empty() || out.pop() != Some(b'}') {
        return;
    }
    out.extend_from_slice(format!(",\"{INCLUDED}\":{{").as_bytes());
    for (index, ((included, found), id)) in included.iter().zip(found).zip(ids).enumerate() {
        if index > 0 {
            out.push(b',');
        }
        out.extend_from_slice(quoted(&included.key).as_bytes());
        out.push(b':');
        let record = match id {
            Value::Text(id) => found.get(id),
            _ => None,
        };
        out.extend_from_slice(record.map_or(b"null", Vec::as_slice));
    }
    out.extend_from_slice(b"}}");
}

/// Text as JSON.
fn quoted(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}
