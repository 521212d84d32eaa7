//! The query language: what `filter=` and `field_op=value` say, and the SQL that it becomes.
//!
//! Text is read into a tree of comparisons ([`syntax`]), whose names are looked up and whose values are turned into the
//! fields' types ([`typed`]). Both ways to ask end in one [`Predicate`], which is compiled to bound SQL once for both
//! engines ([`sql`]), and which can be asked of a record in memory ([`matches`]) with the same answer.
//!
//! The logic has two values. A comparison with an absent value is false, but for `= null`; `!=`, `!~` and `!` are exact
//! complements. So negations are pushed down to the comparisons, where each becomes its complement with `OR … IS NULL`,
//! and what is left is AND and OR, under which SQL's third value behaves like false.

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

pub(crate) use columns::Columns;
pub(crate) use search::Search;
pub(crate) use subject::Subject;
pub(crate) use typed::Predicate;
