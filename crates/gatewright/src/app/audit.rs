use gatewright_base::{Ambient, Credential, Subject};
use gatewright_db::{Tx, params};
use gatewright_entities::operations::{Change, Error, HookFuture, WriteHook};
use gatewright_events::EventKind;
use serde_json::{Map, Value};

/// Records every entity write in the table `audit_log`, in the write's own transaction: there is no write without its
/// record, and no record of a write that was rolled back.
///
/// The kind is the event's name. `meta` names entity and record, says by which credential it was done, and holds the
/// fields that were set, with their new values: those that clients can see. Hidden ones are left out by name and value,
/// and of a deleted record nothing is kept but its id.
pub(crate) struct EntityAudit {
    ambient: Ambient,
}

impl EntityAudit {
    pub(crate) fn new(ambient: Ambient) -> Self {
        Self { ambient }
    }
}

impl WriteHook for EntityAudit {
    fn written<'a>(&'a self, tx: &'a Tx, change: &'a Change) -> HookFuture<'a> {
        Box::pin(async move {
            let meta = serde_json::to_string(&meta(change)?).map_err(Error::hook)?;
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
        })
    }
}

fn meta(change: &Change) -> Result<Map<String, Value>, Error> {
    let mut meta = Map::new();
    meta.insert("entity".to_owned(), change.plan.name().into());
    meta.insert("id".to_owned(), change.record.id().into());
    if let Some(tenant) = change.record.tenant() {
        meta.insert("tenant_id".to_owned(), (**tenant).into());
    }
    if let Some(principal) = change.call.identity.principal() {
        if let Subject::Service(id) = &principal.subject {
            meta.insert("service_id".to_owned(), id.as_str().into());
        }
        if let Credential::ApiToken { id, .. } = &principal.credential {
            meta.insert("token_id".to_owned(), id.as_str().into());
        }
    }
    if change.kind != EventKind::Deleted {
        let record: Map<String, Value> = serde_json::from_slice(change.record.json()).map_err(Error::hook)?;
        let fields = change.fields();
        let fields = fields.filter_map(|field| Some((field.column().to_owned(), record.get(field.key())?.clone())));
        meta.insert("fields".to_owned(), Value::Object(fields.collect()));
    }
    Ok(meta)
}
