//! Parsed expressions, before their names and values are looked up.

use super::lexer::Place;

/// An expression whose names and values have not been looked up yet.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Expression {
    /// At least one is true.
    Any(Vec<Self>),
    /// All are true.
    All(Vec<Self>),
    /// The inner expression is false.
    Not(Box<Self>),
    /// One comparison.
    Compare(Comparison),
    /// `any(path, …)` or `all(path, …)`.
    Bound(Quantifier, Path, Box<Self>),
    /// `true` or `false` alone.
    Constant(bool, Place),
    /// `changed(field)`.
    Changed(Step),
}

/// For how many related records an expression must be true.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Quantifier {
    Any,
    All,
}

/// A comparison of two operands.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Comparison {
    pub(crate) left: Operand,
    pub(crate) place: Place,
    pub(crate) operator: Operator,
    pub(crate) right: Operand,
    pub(crate) right_place: Place,
}

/// One side of a comparison.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Operand {
    Path(Path),
    /// `@old.field`
    Old(Path),
    /// `length(field)`
    Length(Path),
    /// `length(@old.field)`
    OldLength(Path),
    Caller(Word),
    Literal(Literal),
}

/// A property of the request itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Word {
    Me,
    Roles,
    TenantRoles,
    Tenant,
    Now,
}

/// `a.b.c`, never empty.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Path(pub(crate) Vec<Step>);

/// `name`, or `name(field)`.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Step {
    pub(crate) name: String,
    /// The relation by which the records of the entity `name` point at the record so far.
    pub(crate) back: Option<Back>,
    pub(crate) place: Place,
}

/// The relation field of a back relation.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Back {
    pub(crate) field: String,
    pub(crate) place: Place,
}

/// How operands are compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Operator {
    Equal,
    NotEqual,
    Greater,
    GreaterOrEqual,
    Less,
    LessOrEqual,
    Contains,
    NotContains,
    In,
    Has,
}

/// A value as it was written.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Literal {
    Null,
    Bool(bool),
    /// The digits as written, so that no digit is lost before the field's type is known.
    Number(String),
    Text(String),
    List(Vec<Literal>),
}

impl Comparison {
    /// The name of the one field that is compared with a literal, where nothing else is.
    pub(crate) fn plain(&self) -> Option<(&str, &Literal)> {
        let (Operand::Path(Path(steps)), Operand::Literal(literal)) = (&self.left, &self.right) else { return None };
        match steps.as_slice() {
            [Step { name, back: None, .. }] => Some((name, literal)),
            _ => None,
        }
    }
}
