//! Conditions that follow relations: access rules, and `filter=` with paths.
//!
//! [`resolve`](resolve::resolve) turns an expression into a [`Condition`]: names are looked up in the [`Catalog`], paths become
//! related rows that must exist, and values get the types of their fields. [`sql`] writes a condition once for both engines, as
//! `EXISTS` (or, for lists, `IN`) over the tables of the relations.
//!
//! A condition has two values. A comparison with an absent value is false, `!=` is the complement of `=`. A path that follows
//! a back relation has many values: a comparison holds if it holds for one of them.
//!
//! Rows are numbered. Row 0 is the record that is evaluated; each [`Related`] adds one more.

pub(crate) mod bound;
pub(crate) mod caller;
pub(crate) mod catalog;
pub(crate) mod follow;
pub(crate) mod leads;
mod operand;
mod path;
#[cfg(test)]
pub(crate) mod plans;
pub(crate) mod reach;
pub(crate) mod resolve;
mod sql;
pub(crate) mod terms;
pub(crate) mod viewer;

use std::collections::BTreeSet;

use gatewright_db::Value;

use crate::declare::Kind;

pub(crate) use catalog::Catalog;
pub(crate) use reach::{Bound, Rule};
pub(crate) use viewer::Viewer;

/// A condition on a record.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Condition {
    /// At least one holds. False if there are no parts.
    Any(Vec<Self>),
    /// All hold. True if there are no parts.
    All(Vec<Self>),
    /// The inner condition does not hold.
    Not(Box<Self>),
    /// There is a related row for which the inner condition holds.
    Exists(Box<Related>),
    /// The value is absent.
    Absent(Operand),
    /// Both sides have values of this type, in this order.
    Compare { left: Operand, order: Order, right: Operand, as_type: Type },
    /// The value is one of these.
    In(Operand, Vec<Value>),
    /// The text contains this text, which is already case-folded.
    Contains(Operand, String),
    /// The record's column has another value than before the change.
    Changed { name: String },
    /// The array contains the element.
    Has { array: Operand, element: Operand, as_type: Type },
}

/// A row of another entity, and the condition on it.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Related {
    pub(crate) hop: Hop,
    pub(crate) inner: Condition,
}

/// One relation, followed forward or backward.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Hop {
    /// The row that it starts from, and its column.
    pub(crate) from: usize,
    pub(crate) from_column: String,
    /// The row that it leads to, its entity and its column.
    pub(crate) row: usize,
    pub(crate) entity: usize,
    pub(crate) column: String,
    pub(crate) direction: HopDirection,
}

/// Which end of a relation a hop starts from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum HopDirection {
    /// From the record that has the relation to the one record that it names.
    Forward,
    /// From a record to all that name it.
    Back,
    /// From a record to the ids that its relation to many records has. They are read from the record's own list, which a
    /// record has before it is stored too; the table of links finds records by an id.
    Links,
}

/// The columns of a table of links: the record, and the id that it names.
pub(crate) const LINKING: &str = "record";
pub(crate) const LINK: &str = "value";

impl Hop {
    /// The column of the row that it starts from by which an index finds that row.
    pub(crate) fn lead(&self) -> &str {
        match self.direction {
            HopDirection::Links => "id",
            HopDirection::Forward | HopDirection::Back => &self.from_column,
        }
    }
}

/// A value in a comparison.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Operand {
    /// A row's column.
    Column { row: usize, name: String, kind: Kind },
    /// A value inside a row's JSON column.
    Json { row: usize, name: String, path: Vec<String> },
    /// The caller's id.
    Me,
    /// The number of characters of a text column, or of elements of a list.
    Length(Box<Self>),
    /// The caller's roles.
    Roles,
    /// The caller's roles in the request's tenant.
    TenantRoles,
    /// The request's tenant.
    Tenant,
    /// The time of the request.
    Now,
    /// A value of the expression itself.
    Value(Value),
}

/// As which type operands are compared, if one of them is JSON or neither is a column.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Type {
    /// As the columns' own types.
    Own,
    Text,
    Number,
    Bool,
    Time,
}

/// How two values compare.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Order {
    Equal,
    Greater,
    GreaterOrEqual,
    Less,
    LessOrEqual,
}

impl Order {
    pub(crate) fn sql(self) -> &'static str {
        match self {
            Self::Equal => "=",
            Self::Greater => ">",
            Self::GreaterOrEqual => ">=",
            Self::Less => "<",
            Self::LessOrEqual => "<=",
        }
    }
}

impl Condition {
    /// How many values it compares with.
    pub(crate) fn values(&self) -> usize {
        match self {
            Self::Any(parts) | Self::All(parts) => parts.iter().map(Self::values).sum(),
            Self::Not(inner) => inner.values(),
            Self::Exists(related) => related.inner.values(),
            Self::In(_, values) => values.len(),
            Self::Absent(_) | Self::Changed { .. } => 0,
            Self::Compare { .. } | Self::Contains(..) | Self::Has { .. } => 1,
        }
    }
}

impl Condition {
    /// How many relations it follows.
    pub(crate) fn relations(&self) -> usize {
        match self {
            Self::Any(parts) | Self::All(parts) => parts.iter().map(Self::relations).sum(),
            Self::Not(inner) => inner.relations(),
            Self::Exists(related) => 1 + related.inner.relations(),
            Self::In(..)
            | Self::Absent(_)
            | Self::Changed { .. }
            | Self::Compare { .. }
            | Self::Contains(..)
            | Self::Has { .. } => 0,
        }
    }

    /// Collects the columns of the record itself, row 0, that it reads.
    pub(crate) fn own_columns<'a>(&'a self, columns: &mut BTreeSet<&'a str>) {
        let mut of = |operand: &'a Operand| match operand.measured() {
            Operand::Column { row: 0, name, .. } | Operand::Json { row: 0, name, .. } => drop(columns.insert(name)),
            _ => {}
        };
        match self {
            Self::Any(parts) | Self::All(parts) => parts.iter().for_each(|part| part.own_columns(columns)),
            Self::Not(inner) => inner.own_columns(columns),
            Self::Exists(related) => {
                if related.hop.from == 0 {
                    columns.insert(&related.hop.from_column);
                }
                related.inner.own_columns(columns);
            }
            Self::Changed { name } => drop(columns.insert(name)),
            Self::Absent(one) | Self::In(one, _) | Self::Contains(one, _) => of(one),
            Self::Compare { left, right, .. } => {
                of(left);
                of(right);
            }
            Self::Has { array, element, .. } => {
                of(array);
                of(element);
            }
        }
    }
}

/// The name under which a condition reads the value that a column had before the change. No field has such a name.
pub(crate) fn old_name(column: &str) -> String {
    format!("{OLD}{column}")
}

/// The beginning of these names.
const OLD: &str = "old.";

impl Condition {
    /// The columns of the record before the change that it reads.
    pub(crate) fn old_columns(&self) -> BTreeSet<&str> {
        let mut columns = BTreeSet::new();
        self.own_columns(&mut columns);
        let mut old: BTreeSet<&str> = columns.iter().filter_map(|column| column.strip_prefix(OLD)).collect();
        self.changed_columns(&mut old);
        old
    }

    fn changed_columns<'a>(&'a self, columns: &mut BTreeSet<&'a str>) {
        match self {
            Self::Any(parts) | Self::All(parts) => parts.iter().for_each(|part| part.changed_columns(columns)),
            Self::Not(inner) => inner.changed_columns(columns),
            Self::Exists(related) => related.inner.changed_columns(columns),
            Self::Changed { name } => drop(columns.insert(name)),
            _ => {}
        }
    }
}

impl Operand {
    /// What has the length, or the operand itself.
    fn measured(&self) -> &Self {
        match self {
            Self::Length(of) => of,
            operand => operand,
        }
    }

    /// The row that it belongs to.
    fn row(&self) -> Option<usize> {
        match self.measured() {
            Self::Column { row, .. } | Self::Json { row, .. } => Some(*row),
            Self::Me
            | Self::Roles
            | Self::TenantRoles
            | Self::Tenant
            | Self::Now
            | Self::Value(_)
            | Self::Length(_) => None,
        }
    }
}
