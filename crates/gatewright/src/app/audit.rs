use std::collections::HashMap;

use async_trait::async_trait;
use gatewright_base::{Ambient, Credential, Subject, UserId};
use gatewright_db::{Tx, params};
use gatewright_entities::hooks::{Change, ChangeHook};
use gatewright_entities::operations::Error;
use gatewright_events::EventKind;
use serde::{Serialize, Serializer};
use serde_json::value::RawValue;

/// Records every entity write in the table `audit_log`, in the write's own transaction: there is no write without its
/// record, and no record of a write that was rolled back.
///
/// The kind is the event's name. `meta` contains the entity, the record and the credential, and the fields that were
/// set, with their new values, if clients can see them. Hidden fields are left out by name and value, and of a deleted
/// record only its id is recorded.
pub(crate) struct EntityAudit {
    ambient: Ambient,
}

impl EntityAudit {
    pub(crate) fn new(ambient: Ambient) -> Self {
        Self { ambient }
    }
}

#[async_trait]
impl ChangeHook for EntityAudit {
    async fn written(&self, tx: &Tx, change: &Change) -> Result<(), Error> {
        let meta = serde_json::to_string(&Meta::of(change)?).map_err(Error::hook)?;
        let user = change.call.identity.principal().and_then(|principal| principal.user_id());
        let sql = "INSERT INTO audit_log (id, kind, user_id, remote, meta, created_at, subject)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)";
        let params = params![
            self.ambient.uuid().to_string(),
            change.kind.as_str(),
            user,
            change.call.address.map(|address| address.to_string()),
            meta,
            self.ambient.now(),
            format!("{}/{}", change.plan.table(), change.record.id())
        ];
        tx.execute(sql, params).await?;
        Ok(())
    }
}

/// The recorded data besides the columns. Values of the record are copied as text.
#[derive(Serialize)]
struct Meta<'a> {
    entity: &'a str,
    id: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    tenant_id: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    service_id: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    token_id: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    impersonated_by: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    fields: Option<Fields<'a>>,
}

/// Columns with their values, as one object.
struct Fields<'a>(Vec<(&'a str, &'a RawValue)>);

impl<'a> Meta<'a> {
    fn of(change: &'a Change) -> Result<Self, Error> {
        let principal = change.call.identity.principal();
        let service = principal.and_then(|principal| match &principal.subject {
            Subject::Service(id) => Some(id.as_str()),
            Subject::User(_) => None,
        });
        let token = principal.and_then(|principal| match &principal.credential {
            Credential::ApiToken { id, .. } => Some(id.as_str()),
            Credential::Session { .. } | Credential::Jwt { .. } | Credential::Grant(_) => None,
        });
        let fields = (change.kind != EventKind::Deleted).then(|| set_fields(change)).transpose()?;
        Ok(Self {
            entity: change.plan.name(),
            id: change.record.id(),
            tenant_id: change.record.tenant().map(|tenant| &**tenant),
            service_id: service,
            token_id: token,
            impersonated_by: principal.and_then(|principal| principal.impersonated_by()).map(UserId::as_str),
            fields,
        })
    }
}

/// The columns that were set and that clients can see, with their values.
fn set_fields(change: &Change) -> Result<Fields<'_>, Error> {
    // The keys are names of fields, in which nothing is escaped.
    let record: HashMap<&str, &RawValue> = serde_json::from_slice(change.record.json()).map_err(Error::hook)?;
    Ok(Fields(change.fields().filter_map(|field| Some((field.column(), *record.get(field.key())?))).collect()))
}

impl Serialize for Fields<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.0.iter().copied())
    }
}
