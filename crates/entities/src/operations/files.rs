//! The files that a write gives to a record: attached in the write's transaction, before anything judges the record.

use gatewright_db::Value;
use gatewright_db::json::Json;

use super::transaction::Transaction;
use crate::call::Call;
use crate::encode::Stored;
use crate::error::Error;
use crate::files::{Attaching, FileInfo, HeldFile, Unattachable};
use crate::plan::{Field, Plan};
use crate::readable::Readable;
use crate::value::body::MAX_ERRORS;
use crate::value::{Fault, FieldError, code};

/// Whether a write gives files to a record.
pub(super) fn are_given(plan: &Plan, values: &[Option<Value>]) -> bool {
    plan.given(values).any(|(field, value)| field.files.is_some() && !matches!(value, Value::Null))
}

/// A record that gets files.
pub(super) struct Receiver<'a> {
    pub(super) plan: &'a Plan,
    pub(super) call: &'a Call,
    /// The fields that the caller may read.
    pub(super) readable: &'a Readable,
    /// The id of the record.
    pub(super) record: &'a str,
    /// The record as it is stored, unless it is a new one. Files that it has already may stay.
    pub(super) held: Option<&'a Stored>,
}

impl Receiver<'_> {
    /// Puts what the record's columns hold into the place of the ids of files.
    pub(super) async fn attach(
        &self,
        transaction: &Transaction<'_>,
        values: &mut [Option<Value>],
    ) -> Result<(), Error> {
        let mut errors = Vec::new();
        for (field, value) in self.plan.fields.iter().zip(values) {
            let (Some(_), Some(Value::Json(files))) = (&field.files, &*value) else { continue };
            let is_many = files.as_str().starts_with('[');
            let ids = ids(files.as_str());
            if let Some(held) = self.held_by(transaction, field, &ids, is_many, &mut errors).await? {
                let files = if is_many { serde_json::to_string(&held) } else { serde_json::to_string(&held.first()) };
                let files = files.ok().and_then(|files| Json::read(&files).ok());
                *value = Some(files.map(Value::Json).ok_or(Error::NotFound)?);
            }
        }
        errors.truncate(MAX_ERRORS);
        if errors.is_empty() { Ok(()) } else { Err(Error::Files(errors)) }
    }

    /// The files that a field will have. `None` after errors.
    async fn held_by(
        &self,
        transaction: &Transaction<'_>,
        field: &Field,
        ids: &[String],
        is_many: bool,
        errors: &mut Vec<FieldError>,
    ) -> Result<Option<Vec<HeldFile>>, Error> {
        let kept = self.kept(field);
        let new: Vec<String> = ids.iter().filter(|id| !kept.iter().any(|kept| kept.id == **id)).cloned().collect();
        let (entities, rules) = (transaction.entities, field.files.as_deref());
        let (uploaders, store) = (self.call.uploaders(), entities.files());
        let mut attached = match (store, rules) {
            (Some(store), Some(rules)) if !new.is_empty() && !uploaders.is_empty() => {
                let to = Attaching {
                    table: &self.plan.table,
                    field: &field.column,
                    record: self.record,
                    uploaders: &uploaders,
                    rules,
                    now: entities.ambient().now(),
                };
                store.attach(transaction.tx, to, &new).await?
            }
            _ => new.iter().map(|_| Err(Unattachable::NotFound)).collect(),
        }
        .into_iter();
        let before = errors.len();
        let mut held = Vec::with_capacity(ids.len());
        for (index, id) in ids.iter().enumerate() {
            let file = match kept.iter().find(|kept| kept.id == *id) {
                Some(kept) => Ok(kept.clone()),
                None => attached.next().unwrap_or(Err(Unattachable::NotFound)),
            };
            match file {
                Ok(info) => held.push(HeldFile { info, record: self.record.to_owned() }),
                Err(why) => {
                    let fault = fault(why, field);
                    let fault = if is_many { fault.inside(format!("[{index}]")) } else { fault };
                    errors.push(fault.at(&field.key));
                }
            }
        }
        Ok((errors.len() == before).then_some(held))
    }

    /// The files that the field has already. Whoever may not read the field does not learn what is in it.
    fn kept(&self, field: &Field) -> Vec<FileInfo> {
        let Some(held) = self.held.filter(|_| self.readable.has_column(&field.column)) else { return Vec::new() };
        let fields = held.fields().unwrap_or_default();
        let Some(json) = fields.get(&*field.key).map(|json| json.get()) else { return Vec::new() };
        serde_json::from_str(json).or_else(|_| serde_json::from_str(json).map(|one| vec![one])).unwrap_or_default()
    }
}

fn fault(why: Unattachable, field: &Field) -> Fault {
    let rules = field.files.as_deref();
    match why {
        Unattachable::NotFound => {
            Fault::new(code::FILE_NOT_FOUND, "names no file that this caller uploaded and that is free")
        }
        Unattachable::TooLarge => {
            let most = rules.map_or(0, |rules| rules.max_bytes);
            Fault::new(code::FILE_TOO_LARGE, format!("must have at most {most} bytes"))
        }
        Unattachable::Type => {
            let accept = rules.map(|rules| rules.accept.join(", ")).unwrap_or_default();
            Fault::new(code::FILE_TYPE, format!("must have content of {accept}"))
        }
        Unattachable::Metadata => Fault::new(code::FILE_TYPE, "must be of a format from which metadata can be removed"),
    }
}

/// The ids in a value of a field with files.
fn ids(json: &str) -> Vec<String> {
    #[derive(serde::Deserialize)]
    struct Sent {
        id: String,
    }
    let many = serde_json::from_str::<Vec<Sent>>(json);
    let files = many.or_else(|_| serde_json::from_str(json).map(|one| vec![one])).unwrap_or_default();
    files.into_iter().map(|Sent { id }| id).collect()
}
