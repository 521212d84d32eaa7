use gatewright_db::{Engine, Value};

use crate::condition::Bound;
use crate::condition::bound::Form;
use crate::filter::{self, Columns, Predicate};

/// Which rows a list is about: a condition, and the values of its parameters.
#[derive(Debug, Clone)]
pub(crate) struct Scope {
    pub(super) condition: String,
    pub(crate) params: Vec<Value>,
    /// Columns that each row has in addition to those of the table, and the values of their parameters.
    pub(super) beside: Option<(String, Vec<Value>)>,
}

impl Scope {
    /// The same rows with more columns. Their parameters follow those of the condition.
    pub(crate) fn with(self, columns: String, params: Vec<Value>) -> Self {
        Self { beside: Some((columns, params)), ..self }
    }

    /// The parameters of the condition and of the additional columns.
    pub(crate) fn row_params(&self) -> Vec<Value> {
        self.params.iter().chain(self.beside.iter().flat_map(|(_, params)| params)).cloned().collect()
    }

    /// Whether the condition has the same text.
    pub(crate) fn is_like(&self, other: &Self) -> bool {
        self.condition == other.condition
    }

    /// The same without the rows for which a condition is false. Its parameters follow the existing ones.
    pub(crate) fn and(&mut self, condition: &str, params: Vec<Value>) {
        self.condition.push_str(if self.condition.is_empty() { " WHERE " } else { " AND " });
        self.condition.push_str(condition);
        self.params.extend(params);
    }

    /// The same under rules.
    pub(crate) fn judge(&mut self, table: &str, rules: &[Bound], form: Form) {
        for rule in rules {
            let (condition, params) = rule.sql(table, self.next(), form);
            self.and(&condition, params);
        }
    }

    /// The same, limited further by a filter.
    pub(crate) fn filter(&mut self, filter: &Predicate, columns: &Columns, engine: Engine) {
        if *filter != Predicate::All(Vec::new()) {
            let mut sql = String::new();
            filter::sql::write(filter, columns, engine, &mut sql, &mut self.params);
            self.and(&sql, Vec::new());
        }
    }

    /// The number of the next parameter.
    pub(crate) fn next(&self) -> usize {
        self.params.len() + 1
    }

    /// The condition with its WHERE; empty for all rows.
    pub(crate) fn condition(&self) -> &str {
        &self.condition
    }

    /// The condition without its WHERE.
    pub(super) fn bare(&self) -> &str {
        self.condition.strip_prefix(" WHERE ").unwrap_or_default()
    }
}
