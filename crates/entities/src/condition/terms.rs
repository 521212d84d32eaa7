//! The parts of a rule, each as a separate condition, for explanations of a decision.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::resolve::At;
use super::resolve::{Fault, Resolver, Rights, resolve};
use super::{Catalog, Hop, Operand, Rule};
use crate::filter::syntax::{self, Comparison, Expression, Operand as Written, Path, Quantifier, Word};
use crate::readable::FieldRights;

/// A comparison, or an `any(…)` or `all(…)` with its contents.
#[derive(Debug)]
pub(crate) struct Term {
    /// The term as a separate rule.
    pub(crate) rule: Arc<Rule>,
    /// How many `any` and `all` enclose it.
    pub(crate) depth: usize,
    pub(crate) compared: Vec<Compared>,
}

/// A side of a comparison.
#[derive(Debug)]
pub(crate) struct Compared {
    /// The source text.
    pub(crate) text: String,
    pub(crate) value: Source,
}

/// Where the value of a side comes from.
#[derive(Debug)]
pub(crate) enum Source {
    Caller(Word),
    Path {
        hops: Vec<Hop>,
        operand: Operand,
    },
    /// Clients do not know the field, so its value is shown to no caller.
    Hidden,
}

type Around<'a> = Vec<(Quantifier, &'a Path)>;

/// The terms of a rule of the entity at `entity`, in the order of its text.
pub(crate) fn terms(text: &str, catalog: &Catalog, entity: usize) -> Result<Vec<Term>, Fault> {
    let expression = syntax::parse(text).map_err(|error| Fault { message: error.message, place: error.place })?;
    let mut terms = Vec::new();
    Terms { catalog, entity }.collect(&expression, &mut Vec::new(), &mut terms)?;
    Ok(terms)
}

struct Terms<'a> {
    catalog: &'a Catalog,
    entity: usize,
}

impl Terms<'_> {
    fn collect<'e>(
        &self,
        expression: &'e Expression,
        around: &mut Around<'e>,
        terms: &mut Vec<Term>,
    ) -> Result<(), Fault> {
        match expression {
            Expression::Any(parts) | Expression::All(parts) => {
                parts.iter().try_for_each(|part| self.collect(part, around, terms))
            }
            Expression::Not(inner) => self.collect(inner, around, terms),
            Expression::Constant(..) | Expression::Changed(_) => {
                terms.push(self.term(expression, around, around.len(), None)?);
                Ok(())
            }
            Expression::Compare(comparison) => {
                terms.push(self.term(expression, around, around.len(), Some(comparison))?);
                Ok(())
            }
            Expression::Bound(quantifier, path, inner) => {
                let depth = around.len();
                let alone = match &**inner {
                    Expression::Compare(comparison) => Some(comparison),
                    _ => None,
                };
                around.push((*quantifier, path));
                terms.push(self.term(inner, around, depth, alone)?);
                if alone.is_none() {
                    self.collect(inner, around, terms)?;
                }
                around.pop();
                Ok(())
            }
        }
    }

    fn term(
        &self,
        expression: &Expression,
        around: &Around<'_>,
        depth: usize,
        comparison: Option<&Comparison>,
    ) -> Result<Term, Fault> {
        let whole = around.iter().rev().fold(expression.clone(), |inner, (quantifier, path)| {
            Expression::Bound(*quantifier, (*path).clone(), Box::new(inner))
        });
        let resolved = resolve(&whole, self.catalog, self.entity, Rights::Change)?;
        let sides = comparison.into_iter().flat_map(|comparison| [&comparison.left, &comparison.right]);
        let compared = sides.filter_map(|side| self.compared(side, around).transpose()).collect::<Result<_, _>>()?;
        Ok(Term { rule: Arc::new(Rule { text: whole.to_string(), resolved }), depth, compared })
    }

    fn compared(&self, side: &Written, around: &Around<'_>) -> Result<Option<Compared>, Fault> {
        let value = match side {
            // What a record was before a change is not stored, and a length is no value of a field.
            Written::Literal(_) | Written::Old(_) | Written::Length(_) | Written::OldLength(_) => return Ok(None),
            Written::Caller(word) => Source::Caller(*word),
            Written::Path(path) => {
                let (hops, operand) = self.follow(path, around, Rights::Declared)?;
                if self.follow(path, around, Rights::Reader(&FieldRights::ALL)).is_ok() {
                    Source::Path { hops, operand }
                } else {
                    Source::Hidden
                }
            }
        };
        Ok(Some(Compared { text: side.to_string(), value }))
    }

    fn follow(&self, path: &Path, around: &Around<'_>, rights: Rights<'_>) -> Result<(Vec<Hop>, Operand), Fault> {
        let mut resolver =
            Resolver { catalog: self.catalog, rights, row: 0, entities: BTreeSet::new(), names_tenant: false };
        let (mut at, mut hops) = (At { row: 0, entity: self.entity, depth: 0 }, Vec::new());
        for (_, path) in around {
            let (more, end) = resolver.rows(at, path)?;
            hops.extend(more);
            at = end;
        }
        let ended = resolver.field(at, path)?;
        hops.extend(ended.hops);
        Ok((hops, ended.operand))
    }
}
