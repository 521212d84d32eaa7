//! Finds the column values that lead to the records for which a condition holds, so that a list need not read others.
//!
//! `project.members(project).account = @me || assignee = @me` holds for the records whose `project` is one of the ids
//! in related rows that name the caller, and for those whose `assignee` is the caller. Both are looked up by an index.

use gatewright_db::{Value, dialect};

use super::sql::{Caller, Form, Writer, leads, stands_alone};
use super::{Bound, Condition, Operand, Order, Related, Viewer};
use crate::declare::Kind;

/// The most alternatives that are looked up one by one.
const MOST: usize = 8;

/// A way to find records for which a condition holds.
#[derive(Debug)]
pub(crate) struct Lead<'a> {
    pub(crate) source: Source<'a>,
    /// What must hold in addition.
    pub(crate) rest: Vec<&'a Condition>,
}

/// The start of a lead.
#[derive(Debug)]
pub(crate) enum Source<'a> {
    /// The column's values are found in related rows.
    Related(&'a Related),
    /// The column has this value.
    Is(&'a str, &'a Operand),
    /// It leads to every record if this condition on the caller is true.
    Everywhere(&'a Condition),
}

impl Source<'_> {
    /// The record's column.
    pub(crate) fn column(&self) -> Option<&str> {
        match self {
            Source::Related(related) => Some(related.hop.lead()),
            Source::Is(column, _) => Some(column),
            Source::Everywhere(_) => None,
        }
    }
}

impl Condition {
    /// The leads to all records for which the condition holds. `None` if some can only be found by testing each record.
    /// `indexed` returns whether a column has an index.
    pub(crate) fn leads<'a>(&'a self, indexed: &dyn Fn(&str) -> bool) -> Option<Vec<Lead<'a>>> {
        let alone = |source| Some(vec![Lead { source, rest: Vec::new() }]);
        let found = match self {
            condition if stands_alone(condition, usize::MAX) => alone(Source::Everywhere(condition)),
            Self::Any(parts) => {
                let all: Option<Vec<_>> = parts.iter().map(|part| part.leads(indexed)).collect();
                all.map(|leads| leads.into_iter().flatten().collect())
            }
            Self::All(parts) => parts.iter().enumerate().find_map(|(at, part)| {
                let mut found = part.leads(indexed)?;
                if found.iter().any(|lead| matches!(lead.source, Source::Everywhere(_))) {
                    return None;
                }
                let others = || parts.iter().enumerate().filter(|(other, _)| *other != at).map(|(_, part)| part);
                for lead in &mut found {
                    lead.rest.extend(others());
                }
                Some(found)
            }),
            Self::Exists(related) if related.hop.from == 0 && leads(related) && indexed(related.hop.lead()) => {
                alone(Source::Related(related))
            }
            Self::Compare { left: Operand::Column { row: 0, name, kind }, order: Order::Equal, right, .. }
                if is_text(*kind) && is_text_value(right) && indexed(name) =>
            {
                alone(Source::Is(name, right))
            }
            _ => None,
        };
        found.filter(|leads| leads.len() <= MOST)
    }
}

fn is_text(kind: Kind) -> bool {
    matches!(kind, Kind::String | Kind::Text | Kind::Enum | Kind::Relation)
}

fn is_text_value(operand: &Operand) -> bool {
    matches!(operand, Operand::Me | Operand::Tenant | Operand::Value(Value::Text(_)))
}

/// The text of an operand that names no column.
fn text<'a>(operand: &'a Operand, viewer: &'a Viewer) -> Option<&'a str> {
    match operand {
        Operand::Me => viewer.me.as_deref(),
        Operand::Tenant => viewer.tenant.as_deref(),
        Operand::Value(Value::Text(text)) => Some(text),
        _ => None,
    }
}

impl Bound {
    /// The value that a lead has without asking the database, if there is one.
    pub(crate) fn known<'a>(&'a self, lead: &'a Lead<'_>) -> Option<&'a str> {
        match lead.source {
            Source::Is(_, operand) => text(operand, &self.viewer),
            Source::Related(_) | Source::Everywhere(_) => None,
        }
    }

    /// Selects the values of the other leads, each with the lead's position, and at most `most` of them. A lead to every
    /// record has a null value if its condition is true. `None` if all values are known.
    pub(crate) fn values_of(&self, leads: &[Lead<'_>], most: usize) -> Option<(String, Vec<Value>)> {
        let mut writer = Writer::new(&self.catalog, self.engine, Caller::Bound(&self.viewer), 1, Form::Many);
        writer.guards = Some(&self.guards);
        let mut selects = Vec::new();
        for (at, lead) in leads.iter().enumerate() {
            let select = match lead.source {
                Source::Is(..) => continue,
                Source::Related(related) => {
                    let values = dialect::first(self.engine, &writer.led(related), most);
                    format!("SELECT CAST({at} AS BIGINT) AS \"_l\", \"_v\" FROM {values} AS \"_k{at}\"")
                }
                Source::Everywhere(condition) => {
                    let holds = writer.of_caller(condition);
                    format!("SELECT CAST({at} AS BIGINT) AS \"_l\", CAST(NULL AS text) AS \"_v\" WHERE {holds}")
                }
            };
            selects.push(select);
        }
        let (_, params) = writer.finish();
        (!selects.is_empty()).then(|| (selects.join(" UNION ALL "), params))
    }

    /// Some parts of the condition, of the row that SQL calls `root`, their parameters numbered from `first`.
    pub(crate) fn parts(&self, parts: &[&Condition], root: &str, first: usize) -> (String, Vec<Value>) {
        let mut writer = Writer::new(&self.catalog, self.engine, Caller::Bound(&self.viewer), first, Form::Single);
        writer.guards = Some(&self.guards);
        let sql: Vec<String> = parts.iter().map(|part| writer.part(part, root)).collect();
        (sql.join(" AND "), writer.finish().1)
    }

    /// The condition on the column of a lead, and what must hold in addition.
    pub(crate) fn lead(&self, lead: &Lead<'_>, root: &str, first: usize) -> (String, Vec<Value>) {
        let head = match &lead.source {
            Source::Related(related) => Condition::Exists(Box::new((*related).clone())),
            Source::Is(column, operand) => Condition::Compare {
                left: Operand::Column { row: 0, name: (*column).to_owned(), kind: Kind::Text },
                order: Order::Equal,
                right: (*operand).clone(),
                as_type: super::Type::Own,
            },
            Source::Everywhere(condition) => (*condition).clone(),
        };
        let parts: Vec<&Condition> = std::iter::once(&head).chain(lead.rest.iter().copied()).collect();
        self.parts(&parts, root, first)
    }
}

#[cfg(test)]
mod tests {
    use crate::{Action, Declarations, Entity, Field};

    /// The columns that lead to all records of a rule, in its order.
    fn columns(rule: &str) -> Option<Vec<String>> {
        let tasks = Entity::new("tasks")
            .field(Field::relation("project", "projects"))
            .field(Field::string("assignee").index())
            .field(Field::string("state"))
            .rule(Action::Read, rule);
        let members = Entity::new("members")
            .field(Field::relation("project", "projects"))
            .field(Field::relation("task", "tasks"))
            .field(Field::string("account").index());
        let projects = Entity::new("projects").field(Field::string("name")).field(Field::boolean("open"));
        let rules = Declarations::check(&[projects, members, tasks]).unwrap().row_rules;
        let rule = rules[2].get(Action::Read).unwrap().clone();
        let leads = rule.resolved.condition.leads(&|column| column != "state")?;
        Some(leads.iter().map(|lead| lead.source.column().unwrap_or("*").to_owned()).collect())
    }

    #[test]
    fn only_conditions_on_the_caller_are_used_as_leads() {
        for (rule, expected) in [
            ("project.members(project).account = @me", Some(&["project"][..])),
            ("members(task).account = @me || assignee = @me", Some(&["id", "assignee"])),
            ("assignee = @me && state = 'open'", Some(&["assignee"])),
            (
                "state = 'open' && (assignee = @me || project.members(project).account = @me)",
                Some(&["assignee", "project"]),
            ),
            ("@roles has 'boss' || assignee = @me", Some(&["*", "assignee"])),
            ("@me != null && assignee = @me", Some(&["assignee"])),
            ("@me != null", Some(&["*"])),
            ("state = 'open'", None),
            ("state = @me || assignee = @me", None),
            ("assignee != @me", None),
            ("!(assignee = @me)", None),
            ("project.open = true", None),
            ("project.open = true || assignee = @me", None),
            ("@roles has 'boss' && state = 'open'", None),
        ] {
            let found = columns(rule);
            let found: Option<Vec<&str>> = found.as_ref().map(|columns| columns.iter().map(String::as_str).collect());
            assert_eq!(found.as_deref(), expected, "{rule}");
        }
    }
}
