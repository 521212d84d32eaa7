//! Search by words: `[entity.search]`.
//!
//! One tokenizer of the server makes words of a text ([`words`]). Beside each searched text, a column holds the words that an index
//! stores ([`stored`]): on SQLite words separated by spaces, from which triggers feed an FTS5 table; on Postgres a `tsvector` with
//! a GIN index. A write sets the column together with the text. The engines compare words by their bytes and do nothing else, so both
//! find the same records. A query ([`query`]) becomes a condition and a rank ([`sought`]).

pub(crate) mod build;
#[cfg(test)]
mod differential;
pub(crate) mod index;
pub(crate) mod query;
mod sought;
pub(crate) mod stored;
#[cfg(test)]
mod uax29;
pub(crate) mod words;

pub(crate) use index::Index;
pub(crate) use query::Query;
pub(crate) use sought::Sought;
pub(crate) use stored::Indexed;
