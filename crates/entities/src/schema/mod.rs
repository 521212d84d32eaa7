//! Tables that follow the declarations: additive changes are made, destructive ones are refused.
//!
//! [`plan`] compares the declarations with the database (`diff`) and returns the statements that are missing; [`apply`]
//! does the same under the schema lock and runs them in one transaction: if two replicas start together, the second
//! waits and finds nothing left to do. A change that would lose data, or fail on existing data, is a [`Refusal`] with
//! table, column and the SQL with which an operator can make it.
//!
//! Tables, columns and indexes are added. A field that is no longer declared keeps its column if inserts do not need
//! it.

mod changes;
mod compare;
mod convert;
mod diff;
mod files;
mod held;
mod history;
mod links;
pub(crate) mod marks;
mod obstacles;
mod order;
mod queries;
mod rename;
mod script;
mod search;
pub(crate) mod sequences;
mod table;
mod verify;
mod violation;

use std::time::Duration;

use gatewright_db::{Db, Error, Tx, dialect};

use crate::Declarations;
use history::History;

pub use changes::{Changes, Refusal, SchemaError, Users};
pub use held::{Rules, broken_rules, remember_kept_rules};
pub use history::make_history;
pub(crate) use queries::MAX_QUERY;
pub use queries::{ViewFinding, check_views};
pub use search::build_search;
pub(crate) use search::{Dropped, dropped};
pub(crate) use table::type_word;
pub use verify::{Finding, verify};

/// How often a change of tables is tried.
const TRIES: usize = 30;
/// How long others have a table to themselves between two tries to change it.
const GIVEN_WAY: Duration = Duration::from_secs(1);

/// Returns the missing statements and changes nothing.
pub async fn plan(db: &Db, declarations: &Declarations, users: &Users) -> Result<Changes, SchemaError> {
    let (declarations, users) = (declarations.clone(), users.clone());
    db.read(async move |tx: &Tx| diff::changes(tx, &declarations.models, &users).await).await
}

/// Runs the missing statements, and returns them.
///
/// A change needs an exclusive lock on its table, and other statements queue behind a waiting lock. So if a long
/// transaction holds the table, the change gives up and is retried.
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

/// Fails with [`SchemaError::Missing`] if something is missing.
pub async fn check(db: &Db, declarations: &Declarations, users: &Users) -> Result<(), SchemaError> {
    let changes = plan(db, declarations, users).await?;
    if changes.statements.is_empty() { Ok(()) } else { Err(SchemaError::Missing(changes)) }
}
