//! Servers on one Postgres database whose settings differ although they must be equal.
//!
//! Such servers refuse each other's tokens, or do not get each other's events, and no request shows why. So each running server
//! has a row with what must be equal ([`settings`]), and compares it with the rows of the others: at its start, and with each
//! sign of life. A server removes its row when it stops. The row of a killed server is old after a minute, so that a setting
//! which was changed everywhere is not reported for longer. A SQLite database has one server.

mod settings;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use gatewright_base::Ambient;
use gatewright_db::{Db, Engine, Error, MigrateError, OpenError, Step, params, schema};
use tokio::task::AbortHandle;
use tokio::time::{MissedTickBehavior, interval};

use crate::Config;
use crate::app::parts;
use settings::Settings;

/// The component's name and the steps that make its table.
pub(crate) const SCHEMA: (&str, &[Step]) = ("replicas", STEPS);

const TABLE: &str = "gatewright_replicas";
const STEPS: &[Step] = &[Step {
    version: 1,
    name: "replicas",
    sql: "CREATE TABLE gatewright_replicas (
            id {text} PRIMARY KEY,
            settings {text} NOT NULL,
            started_at {time} NOT NULL,
            seen_at {time} NOT NULL
          )",
}];

/// How often a server gives a sign of life.
const SIGN_OF_LIFE: Duration = Duration::from_secs(20);
/// How old the last sign of life of a running server can be.
const MOST_SILENCE: Duration = Duration::from_mins(1);

/// Whether the other servers have the settings of this one that must be equal.
#[derive(Debug, Clone, Default)]
pub(crate) struct Agreement(Arc<AtomicBool>);

impl Agreement {
    pub(crate) fn is_broken(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

/// The row of this server, and the task that keeps it young.
pub(crate) struct Replica {
    own: Own,
    task: AbortHandle,
}

#[derive(Clone)]
struct Own {
    id: String,
    settings: Settings,
    db: Db,
    ambient: Ambient,
    agreement: Agreement,
}

impl Replica {
    /// Adds this server to the servers of `db`, and warns if their settings differ. `None` on SQLite, and if the table is missing
    /// and may not be created. Also returns whether the servers agree, from now on.
    pub(crate) async fn join(
        config: &Config,
        db: &Db,
        ambient: &Ambient,
    ) -> Result<(Option<Self>, Agreement), MigrateError> {
        let agreement = Agreement::default();
        if db.engine() == Engine::Sqlite {
            return Ok((None, agreement));
        }
        if config.database.create_tables {
            let (component, steps) = SCHEMA;
            gatewright_db::migrate(db, component, steps).await?;
        } else if schema::describe(db, TABLE).await?.is_none() {
            tracing::warn!(
                "the settings of servers are not compared: the table {TABLE} is missing; run `gatewright migrate`"
            );
            return Ok((None, agreement));
        }
        let own = Own {
            id: ambient.uuid().to_string(),
            settings: Settings::of(config),
            db: db.clone(),
            ambient: ambient.clone(),
            agreement: agreement.clone(),
        };
        let mut known = Vec::new();
        own.look(&mut known).await;
        let task = tokio::spawn(own.clone().stay(known)).abort_handle();
        Ok((Some(Self { own, task }), agreement))
    }

    /// Removes this server from the servers of the database.
    pub(crate) async fn leave(self) {
        self.task.abort();
        let sql = format!("DELETE FROM {TABLE} WHERE id = ?1");
        if let Err(error) = self.own.db.execute(sql, params![self.own.id.as_str()]).await {
            tracing::debug!(%error, "the row of this server stays until it is old");
        }
    }
}

impl Drop for Replica {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Own {
    async fn stay(self, mut known: Vec<String>) {
        let mut tick = interval(SIGN_OF_LIFE);
        tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
        tick.tick().await;
        loop {
            tick.tick().await;
            self.look(&mut known).await;
        }
    }

    /// Gives a sign of life, and compares the settings. `known` are those that are known to differ: a change is logged once.
    async fn look(&self, known: &mut Vec<String>) {
        let differing = match self.differing().await {
            Ok(differing) => differing,
            Err(error) => return tracing::debug!(%error, "the settings of servers are not compared now"),
        };
        if differing == *known {
            return;
        }
        self.agreement.0.store(!differing.is_empty(), Ordering::Relaxed);
        if differing.is_empty() {
            tracing::info!("all servers on this database have equal settings again");
        } else {
            let settings = differing.join(", ");
            tracing::warn!(
                settings,
                "another server on this database has other values of settings that must be equal: servers refuse tokens of \
                 each other, or lose events. Give all servers the same configuration and restart them"
            );
        }
        *known = differing;
    }

    async fn differing(&self) -> Result<Vec<String>, Error> {
        let now = self.ambient.now();
        let sql = format!(
            "INSERT INTO {TABLE} (id, settings, started_at, seen_at) VALUES (?1, ?2, ?3, ?3) \
             ON CONFLICT (id) DO UPDATE SET seen_at = excluded.seen_at"
        );
        self.db.execute(sql, params![self.id.as_str(), self.settings.to_text(), now]).await?;
        let silent = now.checked_sub(MOST_SILENCE).unwrap_or(now);
        self.db.execute(format!("DELETE FROM {TABLE} WHERE seen_at < ?1"), params![silent]).await?;
        let others = self.db.query(format!("SELECT settings FROM {TABLE} WHERE id <> ?1"), params![self.id.as_str()]);
        let others = others.await?.iter().map(|row| row.get::<String>("settings")).collect::<Result<Vec<_>, _>>()?;
        let mut all: Vec<_> = others.iter().map(|text| Settings::parse(text)).collect();
        all.push(self.settings.clone());
        Ok(Settings::differing(&all))
    }
}

/// The running servers of a database, compared.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Replicas {
    /// How many servers have given a sign of life in the last minute. Zero on SQLite, whose one server is not counted.
    pub running: usize,
    /// The settings that must be equal and differ, in alphabetical order.
    pub differing: Vec<String>,
}

/// Why the servers of a database could not be compared.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ReplicasError {
    /// The database cannot be opened.
    #[error(transparent)]
    Open(#[from] OpenError),
    /// The database failed.
    #[error(transparent)]
    Database(#[from] Error),
}

/// Compares the running servers of the configuration's database. Changes nothing, and creates no SQLite file.
pub async fn replicas(config: &Config) -> Result<Replicas, ReplicasError> {
    let mut config = config.clone();
    config.database.create_file = false;
    let db = parts::open(&config).await?;
    let found = compared(&db, &Ambient::system()).await;
    db.close().await;
    Ok(found?)
}

async fn compared(db: &Db, ambient: &Ambient) -> Result<Replicas, Error> {
    if schema::describe(db, TABLE).await?.is_none() {
        return Ok(Replicas { running: 0, differing: Vec::new() });
    }
    let now = ambient.now();
    let silent = now.checked_sub(MOST_SILENCE).unwrap_or(now);
    let rows = db.query(format!("SELECT settings FROM {TABLE} WHERE seen_at >= ?1"), params![silent]).await?;
    let all = rows.iter().map(|row| Ok(Settings::parse(&row.get::<String>("settings")?)));
    let all = all.collect::<Result<Vec<_>, Error>>()?;
    Ok(Replicas { running: all.len(), differing: Settings::differing(&all) })
}
