//! What of a changed record its writer is shown.
//!
//! The right to change records is not the right to read them: a token may have `posts:write` alone. Were such a caller
//! answered with the whole record, a change of nothing would be a way to read it. They are shown its id, its times and
//! the fields that they sent, which they know.

use gatewright_base::TenantId;

use super::Call;
use crate::access::{Action, Standing, decide};
use crate::encode::Record;
use crate::entities::Entities;
use crate::plan::Plan;
use crate::value::json::Members;

/// The record as the caller, who has just changed it by sending fields of these keys, may see it.
pub(super) fn narrowed<'a>(
    entities: &Entities,
    plan: &'a Plan,
    call: &Call,
    record: Record,
    sent: impl Iterator<Item = &'a str>,
) -> Record {
    if may_read(entities, plan, call, &record) {
        return record;
    }
    let case = entities.json_case();
    let mut shown = ["id", "created_at", "updated_at"].map(|name| case.spell(name)).to_vec();
    shown.extend(sent.map(str::to_owned));
    let mut json = vec![b'{'];
    // A record is an object; were it none, nothing of it would be shown.
    let Members(members) = serde_json::from_slice(record.json()).unwrap_or(Members(Vec::new()));
    for (key, value) in members.iter().filter(|(key, _)| shown.iter().any(|shown| *shown == **key)) {
        let comma = if json.len() > 1 { "," } else { "" };
        json.extend_from_slice(format!("{comma}{}:{value}", serde_json::Value::from(&**key)).as_bytes());
    }
    json.push(b'}');
    record.in_part(json)
}

/// Whoever may change a record and read at all may read this one: nobody reads less far than they write.
fn may_read(entities: &Entities, plan: &Plan, call: &Call, record: &Record) -> bool {
    // Who has changed a tenant's record belongs to it.
    let tenant = record.tenant().and_then(|tenant| TenantId::parse(tenant).ok());
    let standing = tenant.map_or(Standing::Unnamed, Standing::Member);
    decide(entities.policy(), &plan.rules, &call.identity, &standing, Action::Read).is_ok()
}
