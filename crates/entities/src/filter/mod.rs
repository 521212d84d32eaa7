//! The query language: the syntax of `filter=` and `field_op=value`, and the SQL that it becomes.
//!
//! Text is parsed into a tree of comparisons ([`syntax`]). Its names are looked up and its values converted to the
//! fields' types ([`typed`]). Both notations become one [`Predicate`], which is compiled to bound SQL once for both
//! engines ([`sql`]), and which can be evaluated for a record in memory ([`matches`]) with the same result.
//!
//! The logic has two values. A comparison with an absent value is false, except `= null`; `!=`, `!~` and `!` are exact
//! complements. So negations are pushed down to the comparisons, where each becomes its complement with `OR … IS NULL`.
//! Only AND and OR remain, under which SQL's third value behaves like false.

pub(crate) mod ast;
pub(crate) mod columns;
#[cfg(test)]
mod differential;
mod display;
pub(crate) mod lexer;
pub(crate) mod matches;
pub(crate) mod search;
pub(crate) mod sql;
pub(crate) mod subject;
pub(crate) mod suffix;
pub(crate) mod syntax;
pub(crate) mod typed;

pub(crate) use columns::{Columns, Names};
pub(crate) use search::Search;
pub(crate) use subject::Subject;
pub(crate) use typed::Predicate;
