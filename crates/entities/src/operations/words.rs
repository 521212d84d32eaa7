//! The defaults that depend on the request: `@me`, `@now`, `@today`, `@uuid` and `@tenant`.

use gatewright_base::Subject;
use gatewright_db::Value;
use jiff::tz::TimeZone;

use crate::call::Call;
use crate::context::admission::Admission;
use crate::context::entities::Entities;
use crate::declare::DefaultWord;
use crate::plan::{Field, Plan};
use crate::tenancy::Named;

/// The values of the fields of `plan` that have such a default, by position.
pub(super) fn values(entities: &Entities, plan: &Plan, call: &Call, admission: &Admission) -> Vec<(usize, Value)> {
    let fields = plan.fields.iter().enumerate().filter(|(_, field)| !field.stamped);
    let value = |(index, field): (usize, &Field)| Some((index, value(entities, field, field.word?, call, admission)));
    fields.filter_map(value).collect()
}

fn value(entities: &Entities, field: &Field, word: DefaultWord, call: &Call, admission: &Admission) -> Value {
    match word {
        // A relation to users names no service account.
        DefaultWord::Me => match call.identity.principal().map(|principal| &principal.subject) {
            Some(Subject::Service(_)) if field.relation.is_some() => Value::Null,
            Some(subject) => Value::from(subject.as_str()),
            None => Value::Null,
        },
        DefaultWord::Now => Value::Time(entities.ambient().now()),
        DefaultWord::Today => Value::Text(entities.ambient().now().to_zoned(TimeZone::UTC).date().to_string()),
        DefaultWord::Uuid => Value::Text(entities.next_id()),
        DefaultWord::Tenant => {
            let of_member = admission.viewer.as_ref().and_then(|viewer| viewer.tenant.as_deref());
            match (&call.tenant, of_member) {
                (_, Some(tenant)) => Value::from(tenant),
                (Named::Tenant(tenant), None) if call.is_operators() => Value::from(tenant.as_str()),
                _ => Value::Null,
            }
        }
    }
}
