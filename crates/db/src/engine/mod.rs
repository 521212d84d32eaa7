//! The two engines. The modules above do not know which engine is used.
//!
//! If the feature of an engine is off, a module with the same names replaces it, whose types have no values. So the
//! rest of the crate is the same code in every build, and code for the absent engine compiles to nothing.

#[cfg(feature = "postgres")]
pub(crate) mod postgres;
#[cfg(not(feature = "postgres"))]
#[path = "no_postgres.rs"]
pub(crate) mod postgres;
#[cfg(feature = "sqlite")]
pub(crate) mod sqlite;
#[cfg(not(feature = "sqlite"))]
#[path = "no_sqlite.rs"]
pub(crate) mod sqlite;
#[cfg(any(feature = "postgres", feature = "sqlite"))]
mod totals;

/// Which engine a database is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Engine {
    /// SQLite, linked in.
    Sqlite,
    /// A Postgres server.
    Postgres,
}
