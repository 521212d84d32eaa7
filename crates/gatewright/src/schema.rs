//! Plans and runs the migration of a database to a configuration: `gatewright migrate`.

use std::io;
use std::path::Path;
use std::time::Duration;

use gatewright_auth::{AuthBuilder, legacy_booleans};
use gatewright_base::{Ambient, Secret};
use gatewright_db::{Db, Engine, MigrateError, OpenError, Step, legacy};
use gatewright_entities::schema::{self, Changes, Rules, SchemaError, Users};
use gatewright_entities::{DeclarationErrors, Declarations, answers, tenancy};

use gatewright_events::fanout::PostgresFanout;
use gatewright_events::{log, outbox};
use gatewright_limits::SqlStore;

use tempfile::TempDir;

use crate::app::{files, mail, parts};
use crate::config::{Fanout, LimitStore};
use crate::{Config, functions, jobs, replicas};

/// Why tables could not be migrated or compared.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum MigrationError {
    /// The entities are declared wrongly.
    #[error(transparent)]
    Declarations(#[from] DeclarationErrors),
    /// The database cannot be opened.
    #[error(transparent)]
    Open(#[from] OpenError),
    /// The temporary empty database, which replaces a missing one, cannot be created.
    #[error("no temporary folder can be created: {0}")]
    Scratch(#[source] io::Error),
    /// The service's own tables cannot be migrated.
    #[error("the service's own tables cannot be brought up to date: {0}")]
    Own(#[from] MigrateError),
    /// The entities' tables cannot be migrated.
    #[error(transparent)]
    Entities(#[from] SchemaError),
}

/// The statements that are missing, in their order, and remarks for an operator. Changes nothing.
pub async fn plan(config: &Config) -> Result<Changes, MigrationError> {
    let (db, _scratch) = open_to_look(config).await?;
    let mut changes = missing(config, &db).await?;
    let declarations = Declarations::check(&config.declared())?;
    if changes.statements.is_empty() || db.engine() == Engine::Sqlite {
        changes.notes.extend(schema::check_views(&db, &declarations).await?);
    } else if declarations.has_views() {
        // The server looks for tables that are not there yet.
        changes.notes.push("the views were not tried, because their tables may change".to_owned());
    }
    let broken = schema::broken_rules(&db, &declarations, Rules::All).await;
    changes.notes.extend(broken.map_err(SchemaError::from)?);
    Ok(changes)
}

/// The same for a database that is open, and without a look for records that break a rule: that would read all of them.
pub(crate) async fn missing(config: &Config, db: &Db) -> Result<Changes, MigrationError> {
    let declarations = Declarations::check(&config.declared())?;
    let mut own = Vec::new();
    for (component, steps) in components(config, db) {
        let missing = legacy::pending(db, component, steps, legacy_booleans(component)).await?;
        own.extend(missing.iter().map(|step| tidy(step)));
    }
    // The service's own tables come first, so that relations to users find theirs.
    let users = match parts::users(config) {
        Users::Table(table) if !own.is_empty() => Users::TableToCome(table),
        users => users,
    };
    let mut changes = schema::plan(db, &declarations, &users).await?;
    if !own.is_empty() {
        own.insert(0, tidy(&gatewright_db::migrations_table(db.engine())));
    }
    changes.statements.splice(0..0, own);
    Ok(changes)
}

/// Runs the missing statements, and returns them.
pub async fn migrate(config: &Config) -> Result<Changes, MigrationError> {
    let declarations = Declarations::check(&config.declared())?;
    let mut changes = plan(config).await?;
    let db = parts::open(config).await?;
    for (component, steps) in components(config, &db) {
        legacy::migrate(&db, component, steps, legacy_booleans(component)).await?;
    }
    let made = schema::apply(&db, &declarations, &parts::users(config)).await?;
    changes.notes = made.notes;
    changes.notes.extend(schema::check_views(&db, &declarations).await?);
    index(config, &db).await?;
    let broken = schema::remember_kept_rules(&db, &declarations, Rules::All).await;
    changes.notes.extend(broken.map_err(SchemaError::from)?);
    Ok(changes)
}

/// The database, only for reading. A missing SQLite file is not created: an empty database is used instead, in which
/// everything is missing.
async fn open_to_look(config: &Config) -> Result<(Db, Option<TempDir>), MigrationError> {
    if config.database.file().is_none_or(Path::exists) {
        return Ok((parts::open(config).await?, None));
    }
    let folder = tempfile::tempdir().map_err(MigrationError::Scratch)?;
    let mut empty = config.clone();
    empty.database.create_file = true;
    empty.database.url = Secret::new(format!("sqlite://{}", folder.path().join("empty.db").display()));
    Ok((parts::open(&empty).await?, Some(folder)))
}

/// The service's own tables.
fn components(config: &Config, db: &Db) -> Vec<(&'static str, &'static [Step])> {
    let auth = parts::auth(config, db, &Ambient::system(), None);
    let mut components = auth.as_ref().map(AuthBuilder::components).unwrap_or_default();
    if db.engine() == Engine::Postgres {
        components.push(replicas::SCHEMA);
    }
    if parts::has_log(config) {
        components.push((log::COMPONENT, log::STEPS));
    }
    components.push((answers::COMPONENT, answers::STEPS));
    if config.outbox.enabled || functions::listen(config).is_some() {
        components.push((outbox::COMPONENT, outbox::STEPS));
    }
    if jobs::may_exist(config) {
        components.push(jobs::SCHEMA);
    }
    if parts::has_tenants(config) {
        components.push((tenancy::COMPONENT, tenancy::STEPS));
    }
    if config.has_files() {
        components.extend(files::SCHEMA);
    }
    if config.email.is_some() {
        components.extend(mail::SCHEMA);
    }
    if config.rate_limit.store == LimitStore::Database {
        components.push(SqlStore::SCHEMA);
    }
    // A separate fan-out database is migrated when the server starts.
    if config.events.fanout == Some(Fanout::Postgres) && config.events.fanout_url.is_none() {
        components.push(PostgresFanout::SCHEMA);
    }
    components
}

/// Builds the search indexes that are declared and not built.
pub(crate) async fn index(config: &Config, db: &Db) -> Result<(), MigrationError> {
    let declarations = Declarations::check(&config.entities)?;
    Ok(schema::build_search(db, &declarations).await?)
}

/// Creates the tables of `source` in `target`: those of the entities, and the service's own, whether or not the
/// configuration enables the parts that use them.
pub(crate) async fn make_like(config: &Config, source: &Db, target: &Db) -> Result<(), MigrationError> {
    let declarations = Declarations::check(&config.declared())?;
    for (component, steps) in recorded(config, source).await? {
        legacy::migrate(target, component, steps, legacy_booleans(component)).await?;
    }
    schema::apply(target, &declarations, &parts::users(config)).await?;
    schema::make_history(target).await.map_err(SchemaError::from)?;
    schema::remember_kept_rules(target, &declarations, Rules::All).await.map_err(SchemaError::from)?;
    Ok(())
}

/// The components of which a database has tables.
async fn recorded(config: &Config, db: &Db) -> Result<Vec<(&'static str, &'static [Step])>, MigrationError> {
    let mut all = config.clone();
    (all.auth.enabled, all.auth.plugins, all.authorization_server.enabled) = (true, None, true);
    (all.events.enabled, all.events.replay, all.outbox.enabled) = (true, Duration::from_secs(1), true);
    all.rate_limit.store = LimitStore::Database;
    let mut components = components(&all, db);
    if !jobs::may_exist(&all) {
        components.push(jobs::SCHEMA);
    }
    if !parts::has_tenants(&all) {
        components.push((tenancy::COMPONENT, tenancy::STEPS));
    }
    if !all.has_files() {
        components.extend(files::SCHEMA);
    }
    if all.email.is_none() {
        components.extend(mail::SCHEMA);
    }
    let names = db.query("SELECT DISTINCT component FROM gatewright_migrations", Vec::new()).await;
    let names =
        names.and_then(|rows| rows.iter().map(|row| row.get::<String>("component")).collect::<Result<Vec<_>, _>>());
    let names = names.map_err(MigrateError::from)?;
    components.retain(|(component, _)| names.iter().any(|name| name == component));
    Ok(components)
}

/// A step's text without its ends: it is printed, one statement after the other.
fn tidy(step: &str) -> String {
    step.trim().trim_end_matches(';').to_owned()
}
