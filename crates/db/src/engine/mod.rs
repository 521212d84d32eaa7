//! The two engines. Nothing above this module knows which one it talks to.

pub(crate) mod postgres;
pub(crate) mod sqlite;

/// Which engine a database is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Engine {
    /// SQLite, linked in.
    Sqlite,
    /// A Postgres server.
    Postgres,
}
