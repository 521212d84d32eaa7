use std::borrow::Cow;
use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

use bytes::Bytes;
use gatewright_http::entity_tag;
use serde::de::DeserializeOwned;
use serde_json::value::RawValue;

use crate::readable::Readable;
use crate::value::json::Members;

/// One record as its caller sees it, with internal data for the service. Hooks get all of it. Cheap to clone.
#[derive(Clone)]
pub struct Record {
    json: Bytes,
    id: Arc<str>,
    owner: Option<Arc<str>>,
    tenant: Option<Arc<str>>,
    is_deleted: bool,
    is_part: bool,
}

impl Record {
    pub(crate) fn new(json: Vec<u8>, id: Arc<str>, owner: Option<Arc<str>>, tenant: Option<Arc<str>>) -> Self {
        Self { json: json.into(), id, owner, tenant, is_deleted: false, is_part: false }
    }

    pub(super) fn deleted(self, is_deleted: bool) -> Self {
        Self { is_deleted, ..self }
    }

    /// The same record, shown as this JSON object.
    pub(crate) fn showing(self, json: Vec<u8>) -> Self {
        Self { json: json.into(), ..self }
    }

    /// The same record, of which this JSON object shows a part.
    pub(crate) fn in_part(self, json: Vec<u8>) -> Self {
        Self { json: json.into(), is_part: true, ..self }
    }

    /// The record as one JSON object, without hidden fields.
    pub fn json(&self) -> &Bytes {
        &self.json
    }

    /// The record as the program's own type. Fails if the type needs a field that the record, or the part that its
    /// caller may see, lacks.
    pub fn read<T: DeserializeOwned>(&self) -> Result<T, serde_json::Error> {
        serde_json::from_slice(&self.json)
    }

    /// The id.
    pub fn id(&self) -> &str {
        &self.id
    }

    /// The account that owns it, on entities with owners. It is for the service's own decisions.
    pub fn owner(&self) -> Option<&Arc<str>> {
        self.owner.as_ref()
    }

    /// The tenant that it belongs to, on multi-tenant entities.
    pub fn tenant(&self) -> Option<&Arc<str>> {
        self.tenant.as_ref()
    }

    /// Whether it is in the trash, on entities with soft delete.
    pub fn is_deleted(&self) -> bool {
        self.is_deleted
    }

    /// Whether the JSON contains only a part of the record, for a caller who changed it but may not read it.
    pub fn is_part(&self) -> bool {
        self.is_part
    }

    /// The [entity tag](entity_tag::of), which changes with every byte that a client could see.
    pub fn etag(&self) -> String {
        entity_tag::of(&self.json)
    }
}

/// One record as it is stored, for the server itself. A caller gets [`Stored::seen_by`]. Cheap to clone.
#[derive(Debug, Clone)]
pub(crate) struct Stored(Record);

impl Stored {
    pub(super) fn new(record: Record) -> Self {
        Self(record)
    }

    /// The fields of it that a caller may read.
    pub(crate) fn seen_by(self, readable: &Readable) -> Record {
        if readable.is_all() {
            return self.0;
        }
        let json = only(self.0.json(), |key| readable.has_key(key));
        self.0.showing(json)
    }

    /// All of it, for hooks, events and the log.
    pub(crate) fn whole(&self) -> &Record {
        &self.0
    }

    /// The same.
    pub(crate) fn into_whole(self) -> Record {
        self.0
    }

    /// Its fields as JSON, by their keys on the wire. Hidden fields are not among them.
    pub(crate) fn fields(&self) -> serde_json::Result<HashMap<Cow<'_, str>, &RawValue>> {
        serde_json::from_slice(self.0.json())
    }

    pub(crate) fn id(&self) -> &str {
        self.0.id()
    }

    pub(crate) fn is_deleted(&self) -> bool {
        self.0.is_deleted()
    }
}

/// The members of a record's JSON whose keys are shown.
pub(crate) fn only(record: &[u8], is_shown: impl Fn(&str) -> bool) -> Vec<u8> {
    let mut json = vec![b'{'];
    // A record is always an object; if it were not, nothing of it would be shown.
    let Members(members) = serde_json::from_slice(record).unwrap_or(Members(Vec::new()));
    for (key, value) in members.iter().filter(|(key, _)| is_shown(key)) {
        let comma = if json.len() > 1 { "," } else { "" };
        json.extend_from_slice(format!("{comma}{}:{value}", serde_json::Value::from(&**key)).as_bytes());
    }
    json.push(b'}');
    json
}

impl fmt::Debug for Record {
    /// Without the JSON, because users' data must not be logged.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Record").field("id", &self.id).field("bytes", &self.json.len()).finish_non_exhaustive()
    }
}
