//! Tables that follow the declarations: additive changes are made, destructive ones are refused.
//!
//! [`plan`] compares the declarations with the database (`diff`) and returns the statements that are missing;
//! [`apply`] does the same under the schema lock and runs them, in one transaction: two replicas that start together go
//! one after the other, and the second finds nothing left to do. What would lose data, or fail on what is there, is a
//! [`Refusal`] that names table and column and brings the SQL with which an operator may do it on purpose.
//!
//! Tables, columns and indexes are added. A field that left the declarations keeps its column as long as inserts can do
//! without it.

mod compare;
mod convert;
mod diff;
mod held;
mod history;
mod mend;
mod obstacles;
mod order;
mod rename;
mod script;
mod table;

use std::fmt;
use std::time::Duration;

use gatewright_db::{Db, Error, Tx, dialect};

use crate::Declarations;
use history::History;

pub use held::{Rules, broken_rules, remember_kept_rules};
pub use history::make_history;
pub(crate) use table::type_word;

/// How often a change of tables is tried.
const TRIES: usize = 30;
/// How long others have a table to themselves between two tries to change it.
const GIVEN_WAY: Duration = Duration::from_secs(1);

/// Where users are, for relations to them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Users {
    /// In this table of the same database, whose `id` is text: relations are foreign keys.
    Table(String),
    /// In this table, which is not there yet and will be before the declared ones are made. For [`plan`].
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
    /// The statements that an operator may run. They may lose data. Empty where only the operator can know.
    pub sql: Vec<String>,
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "table \"{}\"", self.table)?;
        if let Some(column) = &self.column {
            write!(f, ", column \"{column}\"")?;
        }
        write!(f, ": {}", self.reason)?;
        if !self.sql.is_empty() {
            write!(f, "; to do it, run: {};", self.sql.join("; "))?;
        }
        Ok(())
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
    #[error("the tables of the entities are not up to date ({} changes are missing); run `gatewright migrate`", .0.statements.len())]
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

/// Says what is missing and changes nothing.
pub async fn plan(db: &Db, declarations: &Declarations, users: &Users) -> Result<Changes, SchemaError> {
    let (declarations, users) = (declarations.clone(), users.clone());
    db.read(async move |tx: &Tx| diff::changes(tx, &declarations.models, &users).await).await
}

/// Makes what is missing, and returns it.
///
/// A change needs its table for itself, and everybody's statements wait behind one that waits. So it gives way to a long
/// transaction, and is tried again.
pub async fn apply(db: &Db, declarations: &Declarations, users: &Users) -> Result<Changes, SchemaError> {
    for _ in 0..TRIES {
        match try_to_apply(db, declarations, users).await {
            Err(SchemaError::Database(Error::Locked)) => tokio::time::sleep(GIVEN_WAY).await,
            done => return done,
        }
    }
    Err(SchemaError::Locked)
}

async fn try_to_apply(db: &Db, declarations: &Declarations, users: &Users) -> Result<Changes, SchemaError> {
    let (declarations, users) = (declarations.clone(), users.clone());
    db.write(async move |tx: &Tx| {
        dialect::lock_schema(tx).await?;
        dialect::give_way(tx).await?;
        dialect::create_functions(tx).await?;
        let changes = diff::changes(tx, &declarations.models, &users).await?;
        for statement in &changes.statements {
            tx.execute(statement.clone(), Vec::new()).await?;
        }
        History::load(tx).await?.record(tx, &declarations.models).await?;
        Ok(changes)
    })
    .await
}

/// Fails with [`SchemaError::Missing`] where something is missing.
pub async fn check(db: &Db, declarations: &Declarations, users: &Users) -> Result<(), SchemaError> {
    let changes = plan(db, declarations, users).await?;
    if changes.statements.is_empty() { Ok(()) } else { Err(SchemaError::Missing(changes)) }
}
