//! A condition as SQL, once for both engines. Every word of it comes from the declarations; values are parameters.

use std::collections::BTreeMap;
use std::fmt::Write;

use gatewright_db::{Engine, Value, dialect};

use super::{Catalog, Condition, HopDirection, Operand, Order, Related, Type, Viewer};
use crate::access::Reach;
use crate::declare::{Kind, names};
use crate::fragment::quoted;

mod json;
mod values;

/// What a statement reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Form {
    /// One record, found by its id: related rows are looked up from it.
    Single,
    /// Many records: related rows that name the caller are looked up first, so that an index leads to the records.
    Many,
}

/// The source of the values of `@` words.
#[derive(Debug, Clone, Copy)]
pub(super) enum Caller<'a> {
    /// From parameters.
    Bound(&'a Viewer),
    /// From the rows of a table of callers, called `_c`, at this time.
    Rows(jiff::Timestamp),
}

/// The aliases of rows by their numbers.
type Rows = BTreeMap<usize, String>;

pub(super) struct Writer<'a> {
    catalog: &'a Catalog,
    engine: Engine,
    caller: Caller<'a>,
    form: Form,
    /// The entity and the alias of a record that does not count in its own back relations.
    pub(super) checked: Option<(usize, &'a str)>,
    pub(super) guards: Option<&'a BTreeMap<usize, Reach>>,
    sql: String,
    params: Vec<Value>,
    first: usize,
    aliases: usize,
    /// The placeholders of the caller's words.
    words: [Option<usize>; 5],
}

impl<'a> Writer<'a> {
    pub(super) fn new(catalog: &'a Catalog, engine: Engine, caller: Caller<'a>, first: usize, form: Form) -> Self {
        let (sql, params) = (String::new(), Vec::new());
        Self {
            catalog,
            engine,
            caller,
            form,
            checked: None,
            guards: None,
            sql,
            params,
            first,
            aliases: 0,
            words: [None; 5],
        }
    }

    pub(super) fn root(&mut self, condition: &Condition, alias: &str) {
        self.write(condition, false, &mut Rows::from([(0, alias.to_owned())]));
    }

    pub(super) fn finish(self) -> (String, Vec<Value>) {
        (self.sql, self.params)
    }

    /// Writes the condition, or its complement if `negated`.
    fn write(&mut self, condition: &Condition, negated: bool, rows: &mut Rows) {
        match condition {
            Condition::Not(inner) => self.write(inner, !negated, rows),
            Condition::Any(parts) => self.join(parts, if negated { " AND " } else { " OR " }, negated, rows),
            Condition::All(parts) => self.join(parts, if negated { " OR " } else { " AND " }, negated, rows),
            Condition::Exists(related) => self.related(related, negated, rows),
            leaf => {
                let test = self.leaf(leaf, rows);
                // An unknown result in SQL counts as false.
                let _infallible =
                    if negated { write!(self.sql, "NOT COALESCE({test}, FALSE)") } else { write!(self.sql, "{test}") };
            }
        }
    }

    fn join(&mut self, parts: &[Condition], word: &str, negated: bool, rows: &mut Rows) {
        if parts.is_empty() {
            self.sql.push_str(if word == " AND " { "1 = 1" } else { "1 = 0" });
            return;
        }
        self.sql.push('(');
        for (number, part) in parts.iter().enumerate() {
            if number > 0 {
                self.sql.push_str(word);
            }
            self.write(part, negated, rows);
        }
        self.sql.push(')');
    }

    fn related(&mut self, related: &Related, negated: bool, rows: &mut Rows) {
        let hop = &related.hop;
        self.aliases += 1;
        let alias = quoted(&format!("_r{}", self.aliases));
        let leads = self.form == Form::Many && !negated && (leads(related) || names_links(related));
        // A record that is judged may not be stored: its links are those of its own list. Those of others are found by an index.
        let by_list = hop.direction == HopDirection::Links && hop.from == 0 && self.form == Form::Single;
        let from_column = if leads || !by_list { hop.lead() } else { &hop.from_column };
        let from = format!("{}.{}", rows[&hop.from], quoted(from_column));
        rows.insert(hop.row, alias.clone());
        let table = self.catalog.at(hop.entity).rows(self.engine);
        let column = format!("{alias}.{}", quoted(&hop.column));
        let not = if negated { "NOT " } else { "" };
        let _infallible = match (leads, self.engine) {
            (false, _) if by_list => {
                let links = dialect::elements(self.engine, &from, &alias);
                write!(self.sql, "{not}EXISTS (SELECT 1 FROM {links} WHERE 1 = 1")
            }
            (false, _) => {
                write!(self.sql, "{not}EXISTS (SELECT 1 FROM {table} AS {alias} WHERE {column} = {from}")
            }
            (true, Engine::Sqlite) => {
                write!(self.sql, "{from} IN (SELECT {column} FROM {table} AS {alias} WHERE {column} IS NOT NULL")
            }
            (true, Engine::Postgres) => {
                write!(
                    self.sql,
                    "{from} = ANY (ARRAY(SELECT {column} FROM {table} AS {alias} WHERE {column} IS NOT NULL"
                )
            }
        };
        self.inside(related, &alias, rows);
        self.sql.push_str(if leads && self.engine == Engine::Postgres { "))" } else { ")" });
    }

    /// The condition on the related row, after AND.
    fn inside(&mut self, related: &Related, alias: &str, rows: &mut Rows) {
        self.scope(related.hop.entity, alias);
        self.without_itself(&related.hop, alias);
        if related.inner != Condition::All(Vec::new()) {
            self.sql.push_str(" AND ");
            self.write(&related.inner, false, rows);
        }
    }

    /// Selects, as `_v`, the values of the column that a relation starts from: those of related rows that name the caller.
    pub(super) fn led(&mut self, related: &Related) -> String {
        self.aliases += 1;
        let alias = quoted(&format!("_r{}", self.aliases));
        let table = self.catalog.at(related.hop.entity).rows(self.engine);
        let column = format!("{alias}.{}", quoted(&related.hop.column));
        let _infallible =
            write!(self.sql, "SELECT {column} AS \"_v\" FROM {table} AS {alias} WHERE {column} IS NOT NULL");
        self.inside(related, &alias, &mut Rows::from([(related.hop.row, alias.clone())]));
        std::mem::take(&mut self.sql)
    }

    /// A condition on the row called `root`.
    pub(super) fn part(&mut self, condition: &Condition, root: &str) -> String {
        self.root(condition, root);
        std::mem::take(&mut self.sql)
    }

    /// A condition that names no row.
    pub(super) fn of_caller(&mut self, condition: &Condition) -> String {
        self.write(condition, false, &mut Rows::new());
        std::mem::take(&mut self.sql)
    }

    /// The condition on every related row: it is not in the trash, it belongs to the request's tenant and, if guards
    /// apply, the caller may read it.
    fn scope(&mut self, entity: usize, alias: &str) {
        let entry = self.catalog.at(entity);
        if entry.soft_delete {
            let _infallible = write!(self.sql, " AND {alias}.{} IS NULL", quoted(names::DELETED_COLUMN));
        }
        let reach = self.guards.and_then(|guards| guards.get(&entity));
        // Only an operator's reach has no tenant: theirs are the records of all.
        let is_everywhere = reach.is_some_and(|reach| reach.tenant().is_none());
        if let Some(column) = entry.tenant.as_ref().filter(|_| !is_everywhere) {
            let tenant = self.word(&Operand::Tenant);
            let _infallible = write!(self.sql, " AND {alias}.{} = {tenant}", quoted(column));
        }
        let Some(reach) = reach else { return };
        if let (Some(column), Some(owner)) = (&entry.owner, reach.owner()) {
            let owner = match self.caller {
                Caller::Bound(_) => self.bind(Value::from(owner)),
                // Each caller's own records.
                Caller::Rows(_) => self.word(&Operand::Me),
            };
            let _infallible = write!(self.sql, " AND {alias}.{} = {owner}", quoted(column));
        }
        // A rule is read without the caller's rights.
        let guards = self.guards.take();
        for bound in reach.conditions() {
            self.sql.push_str(" AND ");
            self.root(&bound.rule.resolved.condition, alias);
        }
        self.guards = guards;
    }

    /// A test of values. Its result in SQL may be unknown.
    fn leaf(&mut self, condition: &Condition, rows: &Rows) -> String {
        match condition {
            Condition::Absent(operand) => match operand {
                Operand::Json { path, .. } if !path.is_empty() => {
                    format!("{} IS NULL", self.json_text(operand, rows))
                }
                operand => format!("{} IS NULL", self.operand(operand, rows)),
            },
            Condition::Compare { left: left @ Operand::Json { .. }, order, right, as_type } => {
                self.json_compare(left, *order, right, *as_type, rows)
            }
            Condition::Compare { left, order, right, as_type } => self.compare(left, *order, right, *as_type, rows),
            Condition::In(_, values) if values.is_empty() => "1 = 0".to_owned(),
            Condition::In(operand, values) => {
                let name = self.operand(operand, rows);
                let list: Vec<String> = values.iter().map(|value| self.bind(value.clone())).collect();
                format!("{} IN ({})", self.comparable(operand, name), list.join(", "))
            }
            Condition::Contains(operand @ Operand::Json { .. }, text) => self.json_contains(operand, text, rows),
            Condition::Contains(operand, text) => {
                let name = self.operand(operand, rows);
                let text = self.bind(Value::Text(text.clone()));
                dialect::contains_folded(self.engine, &name, &text)
            }
            Condition::Has { array, element, as_type } => self.has(array, element, *as_type, rows),
            Condition::Changed { name } => {
                format!("{0}.{1} IS DISTINCT FROM {0}.{2}", rows[&0], quoted(name), quoted(&super::old_name(name)))
            }
            // The caller writes these itself.
            Condition::Any(_) | Condition::All(_) | Condition::Not(_) | Condition::Exists(_) => "1 = 0".to_owned(),
        }
    }

    fn compare(&mut self, left: &Operand, order: Order, right: &Operand, as_type: Type, rows: &Rows) -> String {
        let first = self.operand(left, rows);
        let second = match (right, as_type, self.engine) {
            (Operand::Value(value), Type::Time, Engine::Postgres) => {
                format!("CAST({} AS timestamptz)", self.bind(value.clone()))
            }
            _ => self.operand(right, rows),
        };
        format!("{} {} {second}", self.comparable(left, first), order.sql())
    }

    /// The expression in the form that compares.
    fn comparable(&self, operand: &Operand, expression: String) -> String {
        match operand {
            Operand::Column { kind: Kind::Decimal, .. } => dialect::decimal_order(self.engine, &expression),
            _ => expression,
        }
    }

    fn operand(&mut self, operand: &Operand, rows: &Rows) -> String {
        match operand {
            Operand::Column { row, name, .. } | Operand::Json { row, name, .. } => {
                format!("{}.{}", rows[row], quoted(name))
            }
            Operand::Length(of) => {
                let is_list = matches!(**of, Operand::Json { .. });
                let of = self.operand(of, rows);
                if is_list { dialect::json_items(self.engine, &of) } else { dialect::characters(&of) }
            }
            Operand::Value(value) => self.bind(value.clone()),
            word => self.word(word),
        }
    }

    /// A word of the request, each bound once.
    fn word(&mut self, word: &Operand) -> String {
        let text = |text: &Option<std::sync::Arc<str>>| text.as_deref().map_or(Value::Null, Value::from);
        let (slot, value, sql_type) = match (word, self.caller) {
            (Operand::Me, Caller::Bound(viewer)) => (0, text(&viewer.me), "text"),
            (Operand::Tenant, Caller::Bound(viewer)) => (1, text(&viewer.tenant), "text"),
            (Operand::Roles, Caller::Bound(viewer)) => (2, Value::from(&*viewer.roles), "text"),
            (Operand::TenantRoles, Caller::Bound(viewer)) => (4, Value::from(&*viewer.tenant_roles), "text"),
            (_, Caller::Bound(viewer)) => (3, Value::Time(viewer.now), "timestamptz"),
            (Operand::Me, Caller::Rows(_)) => return "\"_c\".\"me\"".to_owned(),
            (Operand::Tenant, Caller::Rows(_)) => return "\"_c\".\"tenant\"".to_owned(),
            (Operand::Roles, Caller::Rows(_)) => return "\"_c\".\"roles\"".to_owned(),
            (Operand::TenantRoles, Caller::Rows(_)) => return "\"_c\".\"tenant_roles\"".to_owned(),
            (_, Caller::Rows(now)) => (3, Value::Time(now), "timestamptz"),
        };
        let number = match self.words[slot] {
            Some(number) => number,
            None => {
                self.params.push(value);
                *self.words[slot].insert(self.first + self.params.len() - 1)
            }
        };
        match (self.engine, slot) {
            // SQLite would convert a value to a number if the type is unknown to it.
            (Engine::Sqlite, 3) => format!("?{number}"),
            _ => format!("CAST(?{number} AS {sql_type})"),
        }
    }

    fn bind(&mut self, value: Value) -> String {
        self.params.push(value);
        format!("?{}", self.first + self.params.len() - 1)
    }
}

/// Whether the related rows can be found before the row that they start from: by the caller's id, without a value of
/// that row.
pub(super) fn leads(related: &Related) -> bool {
    names_caller(&related.inner, related.hop.row) && stands_alone(&related.inner, related.hop.row)
}

/// Whether the related rows are links to ids that the condition names.
fn names_links(related: &Related) -> bool {
    let names = |part: &Condition| match part {
        Condition::Compare { left, order: Order::Equal, right: Operand::Value(_), .. } => {
            left.row() == Some(related.hop.row)
        }
        Condition::In(operand, _) => operand.row() == Some(related.hop.row),
        _ => false,
    };
    related.hop.direction == HopDirection::Links && names(&related.inner)
}

fn names_caller(condition: &Condition, row: usize) -> bool {
    match condition {
        Condition::Compare { left, order: Order::Equal, right: Operand::Me, .. } => left.row() == Some(row),
        Condition::Exists(related) => related.hop.from == row && names_caller(&related.inner, related.hop.row),
        Condition::All(parts) => parts.iter().any(|part| names_caller(part, row)),
        Condition::Any(parts) => !parts.is_empty() && parts.iter().all(|part| names_caller(part, row)),
        _ => false,
    }
}

/// Whether the condition names no row before `first`.
pub(super) fn stands_alone(condition: &Condition, first: usize) -> bool {
    let operand = |operand: &Operand| operand.row().is_none_or(|row| row >= first);
    match condition {
        Condition::Any(parts) | Condition::All(parts) => parts.iter().all(|part| stands_alone(part, first)),
        Condition::Not(inner) => stands_alone(inner, first),
        Condition::Exists(related) => related.hop.from >= first && stands_alone(&related.inner, first),
        Condition::Changed { .. } => false,
        Condition::Absent(one) | Condition::In(one, _) | Condition::Contains(one, _) => operand(one),
        Condition::Compare { left, right, .. } => operand(left) && operand(right),
        Condition::Has { array, element, .. } => operand(array) && operand(element),
    }
}
