//! Rules evaluated on data in memory.

use serde_json::{Value, json};

use super::{Data, MANY, Path, Row, Rule, Step};

/// The data and one caller.
pub(super) struct World2<'a> {
    pub(super) data: &'a Data,
    pub(super) me: Option<&'a str>,
    pub(super) roles: &'a [&'a str],
}

impl World2<'_> {
    pub(super) fn live(&self, table: &str) -> impl Iterator<Item = &Row> {
        self.data[table].iter().filter(|row| row.get("deletedAt").is_none_or(Value::is_null))
    }

    /// The rows that the steps lead to: none if a value is absent, any number behind a back relation.
    fn rows<'b>(&'b self, start: &'b Row, steps: &[Step]) -> Vec<Option<&'b Row>> {
        let mut rows = vec![Some(start)];
        for step in steps {
            rows = match step {
                Step::Forward(field) if MANY.contains(field) => {
                    let targets = rows.into_iter().flatten().flat_map(|row| row[*field].as_array().unwrap());
                    targets.map(|id| self.live("projects").find(|to| to["id"] == *id)).collect()
                }
                Step::Forward(field) => {
                    let target = |row: &'b Row| self.live("projects").find(|to| to["id"] == row[*field]);
                    rows.into_iter().map(|row| row.and_then(target)).collect()
                }
                Step::Back(entity, field) => rows
                    .into_iter()
                    .flatten()
                    .flat_map(|row| self.live(entity).filter(move |from| names(&from[*field], &row["id"])))
                    .map(Some)
                    .collect(),
            };
        }
        rows
    }

    fn values(&self, row: &Row, path: &Path) -> Vec<Option<Value>> {
        let value = |row: &Row| {
            let mut value = row[path.field].clone();
            for key in &path.keys {
                value = value.get(key).cloned().unwrap_or(Value::Null);
            }
            (!value.is_null()).then_some(value)
        };
        let rows = self.rows(row, &path.steps).into_iter();
        if MANY.contains(&path.field) {
            return rows.flatten().flat_map(|row| row[path.field].as_array().unwrap()).cloned().map(Some).collect();
        }
        rows.map(|row| row.and_then(value)).collect()
    }

    /// The numbers of ids or items at the end of a path.
    fn lengths<'b>(&'b self, row: &'b Row, path: &'b Path) -> impl Iterator<Item = usize> + 'b {
        self.rows(row, &path.steps).into_iter().flatten().map(|row| row[path.field].as_array().unwrap().len())
    }

    pub(super) fn holds(&self, row: &Row, rule: &Rule) -> bool {
        match rule {
            Rule::Any(parts) => parts.iter().any(|part| self.holds(row, part)),
            Rule::All(parts) => parts.iter().all(|part| self.holds(row, part)),
            Rule::Not(inner) => !self.holds(row, inner),
            Rule::Compare(path, operator, Value::Null) if MANY.contains(&path.field) => {
                self.lengths(row, path).any(|length| (length == 0) == (*operator == "="))
            }
            Rule::Length(path, operator, number) => {
                let number = json!(number);
                self.lengths(row, path).any(|length| compare(Some(&json!(length)), operator, Some(&number)))
            }
            Rule::Compare(path, operator, value) => {
                self.values(row, path).iter().any(|found| compare(found.as_ref(), operator, Some(value)))
            }
            Rule::Me(path, same) => {
                let me = self.me.map(Value::from);
                let operator = if *same { "=" } else { "!=" };
                self.values(row, path).iter().any(|found| beside(found.as_ref(), operator, me.as_ref()))
            }
            Rule::Paths(left, operator, right) => {
                let right = self.values(row, right);
                let left = self.values(row, left);
                left.iter().any(|left| right.iter().any(|right| beside(left.as_ref(), operator, right.as_ref())))
            }
            Rule::Has(path, value) => self
                .values(row, path)
                .iter()
                .any(|found| found.as_ref().and_then(Value::as_array).is_some_and(|list| list.contains(value))),
            Rule::Role(name) => self.roles.contains(name),
            Rule::Each(true, steps, inner) => {
                self.rows(row, steps).into_iter().flatten().any(|row| self.holds(row, inner))
            }
            Rule::Each(false, steps, inner) => {
                self.rows(row, steps).into_iter().flatten().all(|row| self.holds(row, inner))
            }
        }
    }
}

/// Whether a relation names a record, alone or among others.
fn names(relation: &Value, id: &Value) -> bool {
    relation == id || relation.as_array().is_some_and(|ids| ids.contains(id))
}

/// Two values, either of which may be absent: they are equal only if both are present.
fn beside(left: Option<&Value>, operator: &str, right: Option<&Value>) -> bool {
    let equal = left.is_some() && left == right;
    equal == (operator == "=")
}

fn compare(found: Option<&Value>, operator: &str, wanted: Option<&Value>) -> bool {
    let wanted = wanted.unwrap();
    if wanted.is_null() {
        return found.is_none() == (operator == "=");
    }
    let order = match (found, wanted) {
        (Some(Value::Number(found)), Value::Number(wanted)) => found.as_f64().partial_cmp(&wanted.as_f64()),
        (Some(Value::String(found)), Value::String(wanted)) => Some(found.cmp(wanted)),
        (Some(Value::Bool(found)), Value::Bool(wanted)) => Some(found.cmp(wanted)),
        _ => None,
    };
    match operator {
        "=" => order.is_some_and(std::cmp::Ordering::is_eq),
        "!=" => !order.is_some_and(std::cmp::Ordering::is_eq),
        ">" => order.is_some_and(std::cmp::Ordering::is_gt),
        ">=" => order.is_some_and(std::cmp::Ordering::is_ge),
        "<" => order.is_some_and(std::cmp::Ordering::is_lt),
        "<=" => order.is_some_and(std::cmp::Ordering::is_le),
        "~" => {
            let lower = |value: &Value| value.as_str().unwrap_or_default().to_lowercase();
            found.is_some_and(|found| found.is_string() && lower(found).contains(&lower(wanted)))
        }
        other => panic!("{other}"),
    }
}
