//! From an expression to a [`Condition`].

use std::collections::BTreeSet;

use super::{Catalog, Condition, Hop, HopDirection, Related};
use crate::filter::lexer::Place;
use crate::filter::syntax::{self, Expression, Path, Quantifier};
use crate::readable::FieldRights;

/// What is wrong with an expression, and the position in its text.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message} at {place}")]
pub(crate) struct Fault {
    pub(crate) message: String,
    pub(crate) place: Place,
}

impl Fault {
    pub(crate) fn new(place: Place, message: impl Into<String>) -> Self {
        Self { message: message.into(), place }
    }
}

/// Whose names an expression may use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Rights<'a> {
    /// A declaration's: hidden fields too.
    Declared,
    /// A declaration's about a change: the record before it too.
    Change,
    /// A declaration's about the caller: no names at all.
    Caller,
    /// A client: only the names of fields that this client may read.
    Reader(&'a FieldRights),
}

/// A condition, and the entity that it applies to.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Resolved {
    pub(crate) condition: Condition,
    /// The entities that its paths lead to.
    pub(crate) entities: BTreeSet<usize>,
    pub(crate) names_tenant: bool,
}

/// A row in the course of a path.
#[derive(Debug, Clone, Copy)]
pub(super) struct At {
    pub(super) row: usize,
    pub(super) entity: usize,
    /// How many relations the path has followed.
    pub(super) depth: usize,
}

pub(super) struct Resolver<'a> {
    pub(super) catalog: &'a Catalog,
    pub(super) rights: Rights<'a>,
    /// The last row that was numbered.
    pub(super) row: usize,
    pub(super) entities: BTreeSet<usize>,
    pub(super) names_tenant: bool,
}

/// Reads a rule of the entity at `entity`.
pub(crate) fn read(text: &str, catalog: &Catalog, entity: usize, rights: Rights<'_>) -> Result<Resolved, Fault> {
    let expression = syntax::parse(text).map_err(|error| Fault { message: error.message, place: error.place })?;
    resolve(&expression, catalog, entity, rights)
}

/// Looks up the names of an expression and types its values.
pub(crate) fn resolve(
    expression: &Expression,
    catalog: &Catalog,
    entity: usize,
    rights: Rights<'_>,
) -> Result<Resolved, Fault> {
    let mut resolver = Resolver { catalog, rights, row: 0, entities: BTreeSet::new(), names_tenant: false };
    let condition = resolver.expression(At { row: 0, entity, depth: 0 }, expression)?;
    Ok(Resolved { condition, entities: resolver.entities, names_tenant: resolver.names_tenant })
}

impl Resolver<'_> {
    fn expression(&mut self, at: At, expression: &Expression) -> Result<Condition, Fault> {
        Ok(match expression {
            Expression::Any(parts) => Condition::Any(self.all(at, parts)?),
            Expression::All(parts) => Condition::All(self.all(at, parts)?),
            Expression::Not(inner) => Condition::Not(Box::new(self.expression(at, inner)?)),
            Expression::Compare(comparison) => self.compare(at, comparison)?,
            Expression::Constant(_, place) if matches!(self.rights, Rights::Reader(_)) => {
                return Err(Fault::new(*place, "expected a comparison"));
            }
            Expression::Constant(true, _) => Condition::All(Vec::new()),
            Expression::Constant(false, _) => Condition::Any(Vec::new()),
            Expression::Changed(field) => {
                self.may_compare_with_before(at, field.place, "changed")?;
                Condition::Changed { name: self.column(at.entity, &field.name, field.place)?.name }
            }
            Expression::Bound(quantifier, path, inner) => {
                let (hops, end) = self.rows(at, path)?;
                let inner = self.expression(end, inner)?;
                match quantifier {
                    Quantifier::Any => within(hops, inner),
                    // `all` holds if no row fails the condition.
                    Quantifier::All => not(within(hops, not(inner))),
                }
            }
        })
    }

    /// Whether an expression may refer to the record before the change here.
    pub(super) fn may_compare_with_before(&self, at: At, place: Place, word: &str) -> Result<(), Fault> {
        if self.rights != Rights::Change {
            let message = format!("{word} has a meaning only in rules for update, rules of fields and checks");
            return Err(Fault::new(place, message));
        }
        if at.row != 0 {
            return Err(Fault::new(place, format!("{word} is about the record itself, not about a related one")));
        }
        Ok(())
    }

    /// Whether an expression may name fields.
    pub(super) fn may_name_fields(&self, Path(steps): &Path) -> Result<(), Fault> {
        match self.rights {
            Rights::Caller => Err(Fault::new(steps[0].place, OF_CALLER)),
            Rights::Declared | Rights::Change | Rights::Reader(_) => Ok(()),
        }
    }

    fn all(&mut self, at: At, parts: &[Expression]) -> Result<Vec<Condition>, Fault> {
        parts.iter().map(|part| self.expression(at, part)).collect()
    }
}

/// Why a name is refused in a rule over the caller.
pub(super) const OF_CALLER: &str = "this rule is about the caller alone: @me, @roles, @tenant_roles and @tenant";

/// The condition on the row at the end of `hops`.
pub(super) fn within(hops: Vec<Hop>, inner: Condition) -> Condition {
    hops.into_iter().rev().fold(inner, |inner, hop| Condition::Exists(Box::new(Related { hop, inner })))
}

pub(super) fn not(condition: Condition) -> Condition {
    match condition {
        Condition::Not(inner) => *inner,
        condition => Condition::Not(Box::new(condition)),
    }
}

/// Splits a path after its last relation that leads to many records: the part before it can have many rows, the part after it has one or
/// none.
pub(super) fn split(mut hops: Vec<Hop>) -> (Vec<Hop>, Vec<Hop>) {
    let last = hops.iter().rposition(|hop| hop.direction != HopDirection::Forward);
    let tail = hops.split_off(last.map_or(0, |last| last + 1));
    (hops, tail)
}
