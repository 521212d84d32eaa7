//! Warnings about rules: conditions that can never be true, and conditions without an index.

use super::row_rules::attribute;
use super::{DeclarationError, Declarations, Kind, Location, Model, names};
use crate::access::Action;
use crate::condition::{Condition, Operand, Order};

impl Declarations {
    /// Probable mistakes that are allowed, each with its place.
    pub fn warnings(&self) -> Vec<DeclarationError> {
        let mut warnings = Vec::new();
        for (index, (model, rules)) in self.models.iter().zip(&self.row_rules).enumerate() {
            for action in Action::ALL {
                let Some(rule) = rules.get(action) else { continue };
                let mut messages = Vec::new();
                if rule.resolved.condition == Condition::Any(Vec::new()) {
                    // `false`, which says so.
                } else if never(&rule.resolved.condition) {
                    messages.push("can never be true: nobody is allowed this".to_owned());
                } else {
                    dead_ends(&rule.resolved.condition, &mut messages);
                }
                if action == Action::Read {
                    unindexed(&self.models, &rule.resolved.condition, &mut vec![(0, index)], &mut messages);
                }
                messages.dedup();
                warnings.extend(messages.into_iter().map(|message| DeclarationError {
                    location: Location { entity: index, field: None, attribute: Some(attribute(action)) },
                    entity: model.name.to_string(),
                    field: None,
                    message,
                    place: None,
                }));
            }
        }
        warnings
    }
}

/// Alternatives that can never be true, next to others that can.
fn dead_ends(condition: &Condition, messages: &mut Vec<String>) {
    if let Condition::Any(parts) = condition {
        for (number, part) in (1..).zip(parts) {
            if never(part) {
                messages.push(format!("alternative {number} of {} can never be true", parts.len()));
            } else {
                dead_ends(part, messages);
            }
        }
    }
}

/// Whether the condition is false for every record and every caller, as far as this is visible without data.
fn never(condition: &Condition) -> bool {
    match condition {
        Condition::Any(parts) => parts.iter().all(never),
        Condition::All(parts) => {
            let mut all = Vec::new();
            for part in parts {
                flatten(part, &mut all);
            }
            all.iter().any(|part| never(part)) || contradict(&all)
        }
        Condition::Not(inner) => always(inner),
        Condition::Exists(related) => never(&related.inner),
        Condition::In(_, values) => values.is_empty(),
        _ => false,
    }
}

fn always(condition: &Condition) -> bool {
    match condition {
        Condition::Any(parts) => parts.iter().any(always),
        Condition::All(parts) => parts.iter().all(always),
        Condition::Not(inner) => never(inner),
        _ => false,
    }
}

fn flatten<'a>(condition: &'a Condition, all: &mut Vec<&'a Condition>) {
    match condition {
        Condition::All(parts) => parts.iter().for_each(|part| flatten(part, all)),
        condition => all.push(condition),
    }
}

/// Whether two of some conditions exclude each other.
fn contradict(all: &[&Condition]) -> bool {
    let mut pairs = all.iter().enumerate().flat_map(|(at, one)| all[at + 1..].iter().map(move |other| (*one, *other)));
    pairs.any(|(one, other)| excludes(one, other) || excludes(other, one))
}

fn excludes(one: &Condition, other: &Condition) -> bool {
    match (one, other) {
        (one, Condition::Not(inner)) if **inner == *one => true,
        (Condition::Absent(operand), Condition::Compare { left, right, .. }) => operand == left || operand == right,
        (Condition::Absent(operand), Condition::In(other, _) | Condition::Contains(other, _)) => operand == other,
        (
            Condition::Compare { left, order: Order::Equal, right: Operand::Value(value), .. },
            Condition::Compare { left: other, order: Order::Equal, right: Operand::Value(wanted), .. },
        ) => left == other && value != wanted,
        (
            Condition::Compare { left, order: Order::Equal, right: Operand::Value(value), .. },
            Condition::In(other, values),
        ) => left == other && !values.contains(value),
        (
            Condition::Compare { left, order: lower, right: Operand::Value(gatewright_db::Value::Int(low)), .. },
            Condition::Compare {
                left: other,
                order: upper,
                right: Operand::Value(gatewright_db::Value::Int(high)),
                ..
            },
        ) if left == other => match (lower, upper) {
            (Order::GreaterOrEqual | Order::Equal, Order::LessOrEqual) | (Order::GreaterOrEqual, Order::Equal) => {
                low > high
            }
            (Order::Greater | Order::GreaterOrEqual | Order::Equal, Order::Less)
            | (Order::Greater, Order::LessOrEqual | Order::Equal) => low >= high,
            _ => false,
        },
        _ => false,
    }
}

/// Fields that are compared with the caller or the tenant, so that lists look for records by them, and that have no index.
fn unindexed(models: &[Model], condition: &Condition, rows: &mut Vec<(usize, usize)>, messages: &mut Vec<String>) {
    match condition {
        Condition::Any(parts) | Condition::All(parts) => {
            for part in parts {
                unindexed(models, part, rows, messages);
            }
        }
        Condition::Exists(related) => {
            rows.push((related.hop.row, related.hop.entity));
            unindexed(models, &related.inner, rows, messages);
        }
        Condition::Compare { left, order: Order::Equal, right: Operand::Me | Operand::Tenant, .. } => {
            messages.extend(without_index(models, rows, left));
        }
        Condition::Has { array: array @ Operand::Json { .. }, element: Operand::Me | Operand::Tenant, .. } => {
            messages.extend(without_index(models, rows, array));
        }
        // A negated condition uses no index.
        _ => {}
    }
}

fn without_index(models: &[Model], rows: &[(usize, usize)], operand: &Operand) -> Option<String> {
    let (row, name, is_json) = match operand {
        Operand::Column { row, name, .. } => (row, name, false),
        Operand::Json { row, name, .. } => (row, name, true),
        _ => return None,
    };
    // A table of links, which is no entity, has all of its indexes.
    let model = models.get(rows.iter().find(|(number, _)| number == row)?.1)?;
    let field = model.fields.iter().find(|field| field.name == *name);
    let is_own = names::OWN_COLUMNS.contains(&&**name)
        || [model.owner_column(), model.tenant_column()].contains(&Some(name.as_str()));
    let has_index = is_own || field.is_some_and(|field| field.index || field.unique || field.kind == Kind::Relation);
    if has_index {
        return None;
    }
    let advice = if is_json {
        "values inside json have none; a relation in an entity of its own has one"
    } else {
        "give the field `index = true`"
    };
    Some(format!("\"{name}\" of \"{}\" has no index, and lists read every record; {advice}", model.name))
}

#[cfg(test)]
mod tests {
    use crate::{Action, Declarations, Entity, Field};

    fn warnings(rule: &str) -> Vec<String> {
        let projects = Entity::new("projects").field(Field::string("name")).field(Field::string("boss").index());
        let tasks = Entity::new("tasks")
            .field(Field::relation("project", "projects"))
            .field(Field::relation("assignee", "users"))
            .field(Field::string("owner"))
            .field(Field::string("state"))
            .field(Field::int("n"))
            .field(Field::json("readers"))
            .rule(Action::Read, rule);
        let declared = Declarations::check(&[projects, tasks]).unwrap();
        declared.warnings().into_iter().map(|warning| warning.to_string()).collect()
    }

    #[test]
    fn conditions_that_can_never_hold_are_reported() {
        for rule in [
            "state = 'a' && state = 'b'",
            "state = 'a' && (assignee = @me && state = 'b')",
            "state in []",
            "state = null && state = 'a'",
            "state = 'a' && !(state = 'a')",
            "state = 'a' && state in ['b', 'c']",
            "n > 5 && n < 5",
            "n >= 6 && n <= 5",
            "n = 3 && n > 3",
            "n = 3 && n = 4 || state = 'a' && state != 'a'",
            "any(project, name = 'a' && name = 'b')",
            "@me = null && @me = 'x'",
        ] {
            assert_eq!(warnings(rule), ["entity \"tasks\": can never be true: nobody is allowed this"], "{rule}");
        }
        assert_eq!(
            warnings("assignee = @me || n > 5 && n < 5"),
            ["entity \"tasks\": alternative 2 of 2 can never be true"]
        );
    }

    #[test]
    fn conditions_that_can_hold_are_not_reported() {
        for rule in [
            "state = 'a' || state = 'b'",
            "state = 'a' && state = 'a'",
            "state = 'a' && state in ['a', 'b']",
            "n >= 5 && n <= 5",
            "n > 4 && n < 6",
            "n = 3 && n >= 3",
            "state = null && n = 1",
            "project.name = 'a' && project.boss = 'b'",
        ] {
            assert_eq!(warnings(rule), Vec::<String>::new(), "{rule}");
        }
    }

    #[test]
    fn conditions_without_an_index_are_reported() {
        for (rule, field) in [
            ("owner = @me", Some("\"owner\" of \"tasks\"")),
            ("project.name = @me", Some("\"name\" of \"projects\"")),
            ("readers has @me", Some("\"readers\" of \"tasks\"")),
            ("project.boss = @me", None),
            ("assignee = @me", None),
            ("id = @me", None),
            ("owner != @me", None),
            ("state = 'open'", None),
        ] {
            let found = warnings(rule);
            assert_eq!(found.len(), usize::from(field.is_some()), "{rule}: {found:?}");
            assert!(found.iter().all(|warning| warning.contains(field.unwrap_or_default())), "{rule}: {found:?}");
        }
    }
}
