//! `include=`: related records, with one statement for each relation of the request, whatever the number of records.
//!
//! [`wanted`] reads the parameter. Each entity on the way is read with the permissions of its own list: a caller who may not
//! read it is refused, and others see the records that the list would show. An entity that the request's interface does not
//! serve is refused. A record that the caller does not reach is null, like one that does not exist, and left out of many. For
//! a user, signed-in callers see the id and the public fields of the profile; on multi-tenant entities only for members of the
//! request's tenant. Other callers see only the id, which the relation already contains.
//!
//! A record is included wherever it is named, so that a few records could make a large answer: what is built at each step is
//! counted, and a page has fewer records if it would be too large.

mod resolve;
mod users;
pub(in crate::operations) mod wanted;

use std::collections::HashMap;
use std::sync::Arc;

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use gatewright_db::{Error as DatabaseError, Tx, Value};

use crate::access::Reach;
use crate::encode::Projection;
use crate::filter::Predicate;
use crate::plan::{Direction, INCLUDED, Plan, Trashed};
pub(in crate::operations) use resolve::included;
use users::Known;

/// The most paths in one `include`.
const MAX_INCLUDED: usize = 8;

/// A relation whose records are included.
#[derive(Debug, Clone)]
pub(in crate::operations) struct Included {
    /// The column of the including record: with the other record's id, with those of many, or its own id.
    pub(in crate::operations) column: String,
    /// The key on the wire.
    key: String,
    via: Via,
    from: From,
}

/// How records lead to those that are included.
#[derive(Debug, Clone)]
enum Via {
    /// By the id of one.
    One,
    /// By a list of ids.
    Many,
    /// By their own id, which the others have.
    Back(Back),
}

/// The records whose relation names a record.
#[derive(Debug, Clone)]
struct Back {
    /// The condition of a row for the id `"_k"."_v"`.
    condition: String,
    /// How many are shown.
    most: u32,
}

#[derive(Debug, Clone)]
enum From {
    Users(Option<Box<Known>>),
    Entity(Box<Target>),
}

/// An entity whose records are included.
#[derive(Debug, Clone)]
struct Target {
    plan: Arc<Plan>,
    reach: Reach,
    /// The positions in the shape that the caller may read. `None`: all.
    readable: Option<Vec<usize>>,
    /// Whether its records carry their entity tags.
    tags: bool,
    children: Vec<Included>,
}

/// The related records of one relation as JSON: by their own ids, or the lists of a back relation by the ids of the records
/// that they name.
pub(in crate::operations) type Found = HashMap<String, Vec<u8>>;

/// A record that was read, and what its own relations need.
struct Read {
    json: Vec<u8>,
    beside: Vec<Value>,
}

impl Included {
    /// Whether one record may include any number of others.
    pub(in crate::operations) fn is_of_many(&self) -> bool {
        let is_deeper = match &self.from {
            From::Users(_) => false,
            From::Entity(target) => target.children.iter().any(Self::is_of_many),
        };
        !matches!(self.via, Via::One) || is_deeper
    }

    /// The records to which these values lead, as far as the caller reaches them, up to `most` bytes: `None` if they do not
    /// fit.
    pub(in crate::operations) fn load<'a>(
        &'a self,
        tx: &'a Tx,
        values: Vec<&'a Value>,
        most: usize,
    ) -> BoxFuture<'a, Result<Option<Found>, DatabaseError>> {
        async move {
            let mut ids: Vec<String> = match self.via {
                Via::One | Via::Back(_) => values.into_iter().filter_map(text).map(str::to_owned).collect(),
                Via::Many => values.into_iter().flat_map(links).collect(),
            };
            ids.sort_unstable();
            ids.dedup();
            let (target, back) = match (&self.from, &self.via) {
                (From::Users(known), _) => return users::load(known.as_deref(), tx, &ids, most).await,
                (From::Entity(target), Via::Back(back)) => (target, Some(back)),
                (From::Entity(target), Via::One | Via::Many) => (target, None),
            };
            if ids.is_empty() {
                return Ok(Some(Found::new()));
            }
            let Some(rows) = target.rows(tx, &ids, back, most).await? else { return Ok(None) };
            let Some(rows) = target.completed(tx, rows, most).await? else { return Ok(None) };
            Ok(Some(match back {
                None => rows.into_iter().map(|(id, _, json)| (id, json)).collect(),
                Some(back) => lists(rows, ids, back.most, target.has_more_key()),
            }))
        }
        .boxed()
    }
}

impl Target {
    /// The rows, each with its id, for a back relation the id that it names, and its record. `None` if they do not fit.
    async fn rows(
        &self,
        tx: &Tx,
        ids: &[String],
        back: Option<&Back>,
        most: usize,
    ) -> Result<Option<Vec<(String, Option<String>, Read)>>, DatabaseError> {
        let plan = &self.plan;
        let everything = Predicate::All(Vec::new());
        let scope = plan.sql.scope(&self.reach, Trashed::Without, &everything, &plan.columns, plan.engine);
        let own = ["id"].into_iter().chain(back.map(|_| "_v"));
        let beside: Vec<&str> = self.children.iter().map(|child| &*child.column).chain(own).collect();
        let projection = Projection::new(&plan.shape, self.readable.as_deref(), None, beside).tagged(self.tags);
        let mut params = scope.params.clone();
        params.push(Value::Text(serde_json::Value::from(ids).to_string()));
        let sql = match back {
            None => plan.sql.among_selecting(&projection.select(), &scope, params.len(), plan.engine),
            Some(Back { condition, most }) => {
                // One more shows whether there are more.
                params.push(Value::Int(i64::from(*most) + 1));
                let order = plan.listed.steps(None, Direction::Backward, 1);
                let order = order.first().map(|step| step.order.clone()).unwrap_or_default();
                let select = projection.select();
                plan.sql.naming(&select, &scope, (condition, &order), params.len() - 1, plan.engine)
            }
        };
        let children = self.children.len();
        let (rows, bytes) = tx
            .fold(sql, params, (Vec::new(), 0_usize), |(rows, bytes), row| {
                if *bytes > most {
                    return Ok(());
                }
                let mut json = Vec::new();
                match projection.append(row, &mut json) {
                    Ok(()) => {}
                    Err(error @ DatabaseError::Unreadable { .. }) => {
                        return gatewright_db::unless_unreadable::<()>(Err(error)).map(drop);
                    }
                    Err(error) => return Err(error),
                }
                let mut beside = Vec::with_capacity(projection.width_beside());
                projection.beside(row, &mut beside)?;
                let mut own = beside.split_off(children).into_iter().map(into_text);
                let (id, of) = (own.next().flatten().unwrap_or_default(), own.next().flatten());
                *bytes += json.len();
                rows.push((id, of, Read { json, beside }));
                Ok(())
            })
            .await?;
        Ok((bytes <= most).then_some(rows))
    }

    /// The rows with their own related records. `None` if they do not fit.
    async fn completed(
        &self,
        tx: &Tx,
        rows: Vec<(String, Option<String>, Read)>,
        most: usize,
    ) -> Result<Option<Vec<(String, Option<String>, Vec<u8>)>>, DatabaseError> {
        let mut found: Vec<Found> = Vec::with_capacity(self.children.len());
        let mut room = most;
        for (index, child) in self.children.iter().enumerate() {
            let values = rows.iter().map(|(_, _, read)| &read.beside[index]).collect();
            let Some(records) = child.load(tx, values, room).await? else { return Ok(None) };
            room = room.saturating_sub(records.values().map(Vec::len).sum());
            found.push(records);
        }
        let (mut completed, mut bytes) = (Vec::with_capacity(rows.len()), 0);
        for (id, of, Read { mut json, beside }) in rows {
            append(&self.children, &found, &beside, &mut json);
            bytes += json.len();
            if bytes > most {
                return Ok(None);
            }
            completed.push((id, of, json));
        }
        Ok(Some(completed))
    }

    fn has_more_key(&self) -> &'static str {
        match self.plan.case {
            gatewright_base::JsonCase::Camel => "hasMore",
            gatewright_base::JsonCase::Snake => "has_more",
        }
    }
}

/// The lists of a back relation, for each id.
fn lists(rows: Vec<(String, Option<String>, Vec<u8>)>, ids: Vec<String>, most: u32, has_more: &str) -> Found {
    let most = usize::try_from(most).unwrap_or(usize::MAX);
    let mut lists: HashMap<String, Vec<Vec<u8>>> = ids.into_iter().map(|id| (id, Vec::new())).collect();
    for (_, of, json) in rows {
        if let Some(list) = of.and_then(|of| lists.get_mut(&of)) {
            list.push(json);
        }
    }
    let list = |(id, mut records): (String, Vec<Vec<u8>>)| {
        let is_more = records.len() > most;
        records.truncate(most);
        let data = records.join(&b',');
        (id, [b"{\"data\":[", &*data, format!("],\"{has_more}\":{is_more}}}").as_bytes()].concat())
    };
    lists.into_iter().map(list).collect()
}

/// Writes the related records into the object that `out` ends in.
pub(in crate::operations) fn append(included: &[Included], found: &[Found], values: &[Value], out: &mut Vec<u8>) {
    if included.is_empty() || out.pop() != Some(b'}') {
        return;
    }
    out.extend_from_slice(format!(",\"{INCLUDED}\":{{").as_bytes());
    for (index, ((included, found), value)) in included.iter().zip(found).zip(values).enumerate() {
        if index > 0 {
            out.push(b',');
        }
        out.extend_from_slice(quoted(&included.key).as_bytes());
        out.push(b':');
        match included.via {
            Via::One | Via::Back(_) => {
                let record = text(value).and_then(|id| found.get(id));
                out.extend_from_slice(record.map_or(b"null", Vec::as_slice));
            }
            Via::Many => {
                out.push(b'[');
                let records = links(value).filter_map(|id| found.get(&id));
                for (number, record) in records.enumerate() {
                    if number > 0 {
                        out.push(b',');
                    }
                    out.extend_from_slice(record);
                }
                out.push(b']');
            }
        }
    }
    out.extend_from_slice(b"}}");
}

fn text(value: &Value) -> Option<&str> {
    match value {
        Value::Text(text) => Some(text),
        _ => None,
    }
}

fn into_text(value: Value) -> Option<String> {
    match value {
        Value::Text(text) => Some(text),
        _ => None,
    }
}

/// The ids of a relation to many records, in their order.
fn links(value: &Value) -> impl Iterator<Item = String> + use<> {
    let ids = text(value).and_then(|ids| serde_json::from_str::<Vec<String>>(ids).ok());
    ids.unwrap_or_default().into_iter()
}

/// Text as JSON.
fn quoted(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}
