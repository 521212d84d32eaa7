//! Statements about one record, within what their caller reaches.
//!
//! Conditions and their parameters come from one place, [`Bounds::of`]: an operator's reach may have no tenant, so a text
//! that was written for every caller would have a placeholder without a value.

use std::fmt::Write;

use gatewright_base::TenantId;
use gatewright_db::{Sql, Value};

use crate::access::Reach;
use crate::condition::bound::Form;
use crate::declare::Model;
use crate::fragment::quoted;

/// A statement with the values of its parameters.
#[derive(Debug, Clone)]
pub(crate) struct Statement {
    pub(crate) sql: Sql,
    pub(crate) params: Vec<Value>,
}

/// The columns by which a reach limits the records of an entity.
#[derive(Debug)]
pub(super) struct Bounds {
    table: String,
    tenant: String,
    owner: String,
}

impl Bounds {
    pub(super) fn new(model: &Model) -> Self {
        // A reach that requires what the entity's records do not have reaches none of them: `NULL = ?1` is never true.
        let column = |name: Option<&str>| name.map_or_else(|| "NULL".to_owned(), quoted);
        Self { table: quoted(&model.table), tenant: column(model.tenant_column()), owner: column(model.owner_column()) }
    }

    /// The columns that `reach` limits, each with its value.
    pub(super) fn of<'a>(&'a self, reach: &'a Reach) -> impl Iterator<Item = (&'a str, Value)> {
        let tenant = reach.tenant().map(|tenant| (&*self.tenant, Value::from(TenantId::as_str(tenant))));
        let owner = reach.owner().map(|owner| (&*self.owner, Value::from(owner)));
        tenant.into_iter().chain(owner)
    }

    /// Adds the conditions of `reach`, each after AND.
    pub(super) fn limit(&self, statement: &mut Text, reach: &Reach) {
        for (column, value) in self.of(reach) {
            statement.and(column, value);
        }
        statement.rules(&self.table, reach);
    }
}

/// A statement while it is written.
#[derive(Debug)]
pub(super) struct Text {
    pub(super) sql: String,
    params: Vec<Value>,
}

impl Text {
    pub(super) fn new(sql: impl Into<String>) -> Self {
        Self { sql: sql.into(), params: Vec::new() }
    }

    /// Writes text.
    pub(super) fn push(&mut self, sql: &str) -> &mut Self {
        self.sql.push_str(sql);
        self
    }

    /// Writes the placeholder of a value.
    pub(super) fn bind(&mut self, value: Value) -> &mut Self {
        self.params.push(value);
        let _infallible = write!(self.sql, "?{}", self.params.len());
        self
    }

    /// Writes what `expression` makes of the placeholder of a value.
    pub(super) fn bind_as(&mut self, value: Value, expression: impl Fn(&str) -> String) -> &mut Self {
        self.params.push(value);
        let placeholder = format!("?{}", self.params.len());
        self.push(&expression(&placeholder))
    }

    fn and(&mut self, column: &str, value: Value) {
        self.push(" AND ").push(column).push(" = ").bind(value);
    }

    fn rules(&mut self, table: &str, reach: &Reach) {
        for rule in reach.conditions() {
            let (condition, params) = rule.sql(table, self.params.len() + 1, Form::Single);
            self.push(" AND ").push(&condition);
            self.params.extend(params);
        }
    }

    pub(super) fn finish(self) -> Statement {
        Statement { sql: self.sql.into(), params: self.params }
    }
}

/// A statement about one record, written in advance for each kind of reach.
#[derive(Debug)]
pub(crate) struct One {
    table: String,
    any: Written,
    of_tenant: Written,
    of_owner: Written,
    of_owner_in_tenant: Written,
}

#[derive(Debug)]
struct Written {
    sql: Sql,
    /// The statement up to the end of its conditions, and the rest.
    head: String,
    tail: String,
}

impl One {
    /// `before` and `after` surround the conditions on a record, to which `live` belongs.
    pub(super) fn new(bounds: &Bounds, before: &str, live: &str, after: &str) -> Self {
        let written = |columns: &[&str]| {
            let mut head = format!("{before} WHERE \"id\" = ?1{live}");
            for (index, column) in columns.iter().enumerate() {
                let _infallible = write!(head, " AND {column} = ?{}", index + 2);
            }
            Written { sql: format!("{head}{after}").into(), head, tail: after.to_owned() }
        };
        let (tenant, owner) = (&*bounds.tenant, &*bounds.owner);
        Self {
            table: bounds.table.clone(),
            any: written(&[]),
            of_tenant: written(&[tenant]),
            of_owner: written(&[owner]),
            of_owner_in_tenant: written(&[tenant, owner]),
        }
    }

    /// The statement for the record with this id, if `reach` includes it.
    pub(crate) fn within(&self, id: &str, reach: &Reach) -> Statement {
        let mut params = vec![Value::from(id)];
        let written = match (reach.tenant(), reach.owner()) {
            (None, None) => &self.any,
            (Some(tenant), None) => {
                params.push(Value::from(tenant.as_str()));
                &self.of_tenant
            }
            (None, Some(owner)) => {
                params.push(Value::from(owner));
                &self.of_owner
            }
            (Some(tenant), Some(owner)) => {
                params.extend([Value::from(tenant.as_str()), Value::from(owner)]);
                &self.of_owner_in_tenant
            }
        };
        if reach.conditions().is_empty() {
            return Statement { sql: written.sql.clone(), params };
        }
        let mut text = Text { sql: written.head.clone(), params };
        text.rules(&self.table, reach);
        text.push(&written.tail);
        text.finish()
    }
}
