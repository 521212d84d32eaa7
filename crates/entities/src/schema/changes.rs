use std::fmt;

use gatewright_db::Error;

/// Where users are, for relations to them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Users {
    /// In this table of the same database, whose `id` is text: relations are foreign keys.
    Table(String),
    /// In this table, which is not there yet and will be before the declared ones are made. For [`plan`](super::plan).
    TableToCome(String),
    /// Somewhere that the database cannot check.
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
    /// What an operator may want to know and need not act on.
    pub notes: Vec<String>,
}

impl fmt::Display for Changes {
    /// As SQL, with the notes as comments.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.notes.iter().try_for_each(|note| writeln!(f, "-- {note}"))?;
        self.statements.iter().try_for_each(|statement| writeln!(f, "{statement};"))
    }
}

/// A difference that is not bridged here.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal {
    /// The table.
    pub table: String,
    /// The column, when it is about one.
    pub column: Option<String>,
    /// What is in the way, and the ways on.
    pub reason: String,
    /// The statements that an operator may run: the query that shows the rows in the way, or what makes the change and
    /// may lose data. Empty where only the operator can know.
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

/// Why tables were not brought in line with the declarations.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SchemaError {
    /// Some difference is not bridged. Nothing was changed. Never empty.
    #[error("{}", .0.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n"))]
    Refused(Vec<Refusal>),
    /// Changes are missing, and making them was not asked for.
    #[error("the tables of the entities are not up to date ({} pending); run `gatewright migrate`", changes(.0.statements.len()))]
    Missing(Changes),
    /// A transaction of somebody else held a table all the time. Nothing was changed.
    #[error(
        "a table is in use by a long transaction, such as a dump, and was not changed; end that transaction (see \
         pg_stat_activity), then start again"
    )]
    Locked,
    /// The database failed.
    #[error(transparent)]
    Database(#[from] Error),
}

fn changes(count: usize) -> String {
    if count == 1 { "1 change".to_owned() } else { format!("{count} changes") }
}
