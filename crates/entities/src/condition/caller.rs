//! Conditions on the caller alone, which need no database: rules for reading fields.

use super::{Condition, Operand, Order, Viewer};
use gatewright_db::Value;

/// Whether a rule over the caller alone holds. One that depends on a record does not.
pub(crate) fn is_true(condition: &Condition, viewer: &Viewer) -> bool {
    holds(condition, viewer) == Some(true)
}

/// Whether a condition holds for every record, or for none. `None` if it depends on the record.
pub(crate) fn holds(condition: &Condition, viewer: &Viewer) -> Option<bool> {
    match condition {
        Condition::Any(parts) => among(parts, viewer, true),
        Condition::All(parts) => among(parts, viewer, false),
        Condition::Not(inner) => holds(inner, viewer).map(|holds| !holds),
        Condition::Absent(operand) => text(operand, viewer).ok().map(|value| value.is_none()),
        Condition::Compare { left, order: Order::Equal, right, .. } => {
            let (left, right) = (text(left, viewer).ok()?, text(right, viewer).ok()?);
            Some(left.is_some() && left == right)
        }
        Condition::Has { array, element, .. } => {
            let roles = match array {
                Operand::Roles => &viewer.roles,
                Operand::TenantRoles => &viewer.tenant_roles,
                _ => return None,
            };
            let roles: Vec<String> = serde_json::from_str(roles).unwrap_or_default();
            let role = text(element, viewer).ok()?;
            Some(role.is_some_and(|role| roles.iter().any(|one| one == role)))
        }
        Condition::Compare { .. }
        | Condition::Exists(_)
        | Condition::In(..)
        | Condition::Contains(..)
        | Condition::Changed { .. } => None,
    }
}

/// Several conditions: one that is `decisive` decides about all of them.
fn among(parts: &[Condition], viewer: &Viewer, decisive: bool) -> Option<bool> {
    let mut all = Some(!decisive);
    for part in parts {
        match holds(part, viewer) {
            Some(holds) if holds == decisive => return Some(decisive),
            Some(_) => {}
            None => all = None,
        }
    }
    all
}

/// The value depends on the record.
struct OfRecord;

/// The text that an operand is for the caller, if it has one.
fn text<'a>(operand: &'a Operand, viewer: &'a Viewer) -> Result<Option<&'a str>, OfRecord> {
    match operand {
        Operand::Me => Ok(viewer.me.as_deref()),
        Operand::Tenant => Ok(viewer.tenant.as_deref()),
        Operand::Value(Value::Text(text)) => Ok(Some(text)),
        Operand::Value(_)
        | Operand::Column { .. }
        | Operand::Json { .. }
        | Operand::Length(_)
        | Operand::Roles
        | Operand::TenantRoles
        | Operand::Now => Err(OfRecord),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::condition::Catalog;
    use crate::condition::resolve::{Rights, read};
    use gatewright_base::JsonCase;

    fn viewer(me: Option<&str>) -> Viewer {
        Viewer {
            me: me.map(Into::into),
            roles: r#"["editor","a\"b"]"#.into(),
            tenant_roles: r#"["agent"]"#.into(),
            tenant: Some("acme".into()),
            now: jiff::Timestamp::UNIX_EPOCH,
        }
    }

    #[test]
    fn rules_over_the_caller_are_evaluated_without_a_database() {
        let catalog = Catalog::new(&[], JsonCase::Camel);
        for (rule, for_ann, for_nobody) in [
            ("true", true, true),
            ("false", false, false),
            ("@me = 'ann'", true, false),
            ("@me != 'ann'", false, true),
            ("@me = null", false, true),
            ("@me != null", true, false),
            ("@me in ['ann', 'bob']", true, false),
            ("@me in ['bob', null]", false, true),
            ("@roles has 'editor'", true, true),
            ("@roles has 'a\"b'", true, true),
            ("@roles has 'edit'", false, false),
            ("@tenant_roles has 'agent'", true, true),
            ("@roles has 'agent'", false, false),
            ("@tenant = 'acme' && @me = 'ann'", true, false),
            ("@tenant = 'other' || !(@me = 'ann')", false, true),
        ] {
            let resolved = read(rule, &catalog, 0, Rights::Caller).unwrap_or_else(|fault| panic!("{rule}: {fault}"));
            let found = [Some("ann"), None].map(|me| holds(&resolved.condition, &viewer(me)));
            assert_eq!(found, [Some(for_ann), Some(for_nobody)], "{rule}");
        }
    }
}
