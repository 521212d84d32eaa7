//! What the database lacks for a configuration, said or done: `gatewright migrate`.

use gatewright_auth::{AuthBuilder, legacy_booleans};
use gatewright_base::Ambient;
use gatewright_db::{Db, MigrateError, OpenError, Step, legacy};
use gatewright_entities::schema::{self, Changes, SchemaError, Users};
use gatewright_entities::{DeclarationErrors, Declarations, tenancy};

use gatewright_events::fanout::PostgresFanout;
use gatewright_events::outbox;
use gatewright_limits::SqlStore;

use crate::Config;
use crate::app::parts;
use crate::config::{Fanout, LimitStore};

/// Why tables were not brought up to date, or not looked at.
#[derive(Debug, thiserror::Error)]
pub enum MigrationError {
    /// The entities are declared wrongly.
    #[error(transparent)]
    Declarations(#[from] DeclarationErrors),
    /// The database cannot be opened.
    #[error(transparent)]
    Open(#[from] OpenError),
    /// The service's own tables cannot be brought up to date.
    #[error("the service's own tables cannot be brought up to date: {0}")]
    Own(#[from] MigrateError),
    /// The entities' tables cannot be brought up to date.
    #[error(transparent)]
    Entities(#[from] SchemaError),
}

/// The statements that are missing, in their order, and remarks for an operator. Changes nothing.
pub async fn plan(config: &Config) -> Result<Changes, MigrationError> {
    let declarations = Declarations::check(&config.entities)?;
    let db = parts::open(config).await?;
    let mut own = Vec::new();
    for (component, steps) in components(config, &db) {
        let missing = legacy::pending(&db, component, steps, legacy_booleans(component)).await?;
        own.extend(missing.iter().map(|step| tidy(step)));
    }
    // The service's own tables come first, so that relations to users find theirs.
    let users = match parts::users(config) {
        Users::Table(table) if !own.is_empty() => Users::TableToCome(table),
        users => users,
    };
    let mut changes = schema::plan(&db, &declarations, &users).await?;
    changes.statements.splice(0..0, own);
    Ok(changes)
}

/// Makes what is missing, and returns it.
pub async fn migrate(config: &Config) -> Result<Changes, MigrationError> {
    let declarations = Declarations::check(&config.entities)?;
    let mut changes = plan(config).await?;
    let db = parts::open(config).await?;
    for (component, steps) in components(config, &db) {
        legacy::migrate(&db, component, steps, legacy_booleans(component)).await?;
    }
    let made = schema::apply(&db, &declarations, &parts::users(config)).await?;
    changes.notes = made.notes;
    Ok(changes)
}

/// The service's own tables.
fn components(config: &Config, db: &Db) -> Vec<(&'static str, &'static [Step])> {
    let auth = parts::auth(config, db, &Ambient::system());
    let mut components = auth.as_ref().map(AuthBuilder::components).unwrap_or_default();
    if config.outbox.enabled {
        components.push((outbox::COMPONENT, outbox::STEPS));
    }
    if parts::has_tenants(config) {
        components.push((tenancy::COMPONENT, tenancy::STEPS));
    }
    if config.rate_limit.store == LimitStore::Database {
        components.push(SqlStore::SCHEMA);
    }
    // A fan-out database of its own is brought up to date when the server starts.
    if config.events.fanout == Some(Fanout::Postgres) && config.events.fanout_url.is_none() {
        components.push(PostgresFanout::SCHEMA);
    }
    components
}

/// A step's text without its ends: it is printed, one statement after the other.
fn tidy(step: &str) -> String {
    step.trim().trim_end_matches(';').to_owned()
}
