use std::fmt;

use gatewright_db::Error;

/// Where users are stored, for relations to them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Users {
    /// An existing table of the same database, whose `id` is text: relations are foreign keys.
    Table(String),
    /// A table that does not exist yet and is created before the declared ones. For [`plan`](super::plan).
    TableToCome(String),
    /// In another store, so that the database cannot check relations.
    Elsewhere,
}

impl Default for Users {
    /// The table `users`.
    fn default() -> Self {
        Self::Table("users".to_owned())
    }
}

/// What is missing in the database.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Changes {
    /// In the order to run them.
    pub statements: Vec<String>,
    /// Information for an operator that needs no action.
    pub notes: Vec<String>,
}

impl fmt::Display for Changes {
    /// As SQL, with the notes as comments.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.notes.iter().try_for_each(|note| writeln!(f, "-- {note}"))?;
        self.statements.iter().try_for_each(|statement| writeln!(f, "{statement};"))
    }
}

/// A difference that the service does not resolve by itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal {
    /// The table.
    pub table: String,
    /// The column, if the difference is in one.
    pub column: Option<String>,
    /// The obstacle, and the possible ways to continue.
    pub reason: String,
    /// Statements for an operator: the query that lists the rows in the way, or the change, which may lose data. Empty
    /// if only the operator can decide.
    pub sql: Vec<String>,
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "table \"{}\"", self.table)?;
        if let Some(column) = &self.column {
            write!(f, ", column \"{column}\"")?;
        }
        write!(f, ": {}", self.reason)?;
        if self.sql.is_empty() {
            return Ok(());
        }
        let shows_rows = self.sql.iter().all(|statement| statement.starts_with("SELECT "));
        let what = if shows_rows { "the rows" } else { "to do it, run" };
        write!(f, "; {what}: {};", self.sql.join("; "))
    }
}

/// Why tables were not migrated to the declarations.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SchemaError {
    /// The service does not resolve these differences. Nothing was changed. Never empty.
    #[error("{}", .0.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n"))]
    Refused(Vec<Refusal>),
    /// Changes are missing, and the tables were only checked.
    #[error("the tables of the entities are not up to date ({} pending); run `gatewright migrate`", changes(.0.statements.len()))]
    Missing(Changes),
    /// A transaction of another client locked a table all the time. Nothing was changed.
    #[error(
        "a table is in use by a long transaction, such as a dump, and was not changed; end that transaction (see \
         pg_stat_activity), then start again"
    )]
    Locked,
    /// A view cannot be served.
    #[error("view \"{view}\": {reason}")]
    View {
        /// The view.
        view: String,
        /// Why not.
        reason: String,
    },
    /// The database failed.
    #[error(transparent)]
    Database(#[from] Error),
}

fn changes(count: usize) -> String {
    if count == 1 { "1 change".to_owned() } else { format!("{count} changes") }
}
