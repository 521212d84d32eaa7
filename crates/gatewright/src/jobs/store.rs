//! Jobs and their runs in the database, which all servers share.
//!
//! Each transition is one transaction that holds the job's row and asks [`decide`](super::decide). Sign of life of a run is a counter
//! that its server raises: others watch whether it rises, by their own measure of time, so that no clock is compared.

use std::collections::BTreeMap;

use gatewright_base::{Ambient, time};
use gatewright_db::{Db, Error, Row, Tx, dialect, params};
use jiff::Timestamp;

use super::Listed;
use super::decide::{Act, Begun, Cause, Decision, Running, Sign, State, decide, first};

/// How many runs of a job are kept.
pub(super) const KEPT: u32 = 100;
/// The most characters of an error.
const ERROR: usize = 1_000;
/// After which time the runs of jobs that nobody declares are removed, in hours.
const FORGOTTEN: i64 = 24 * 30;
/// The sign of life of a run that its server has given up, because it was stopped.
const RELEASED: i64 = -1;
/// That of a run whose server is known to have died.
const DIED: i64 = -2;

/// The tables. Cheap to clone.
#[derive(Debug, Clone)]
pub(super) struct Store {
    pub(super) db: Db,
    pub(super) ambient: Ambient,
}

/// A run that this server has begun.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Held {
    pub(super) id: String,
    pub(super) job: String,
    pub(super) run: Begun,
    pub(super) started_at: Timestamp,
}

/// What a look at the row of a job has led to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Turn {
    Nothing,
    Skipped,
    /// Another server's run was given up.
    GivenUp,
    Begun {
        held: Held,
        after_dead: bool,
    },
}

/// The row of a job, as it is watched.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Watched {
    pub(super) schedule: String,
    /// Without its run.
    pub(super) state: State,
    /// The run in progress, with its last sign of life.
    pub(super) run: Option<(String, i64)>,
}

impl Watched {
    /// What the server of the run says of it. `is_silent`: it has given no sign of life for long.
    pub(super) fn sign(&self, is_silent: bool) -> Sign {
        sign(self.run.as_ref().map_or(0, |(_, beats)| *beats), is_silent)
    }
}

fn sign(beats: i64, is_silent: bool) -> Sign {
    match beats {
        RELEASED => Sign::Released,
        beats if beats == DIED || is_silent => Sign::Dead,
        _ => Sign::Alive,
    }
}

/// How a run ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Outcome {
    Succeeded,
    Failed,
    Interrupted,
}

impl Outcome {
    pub(super) fn word(self) -> &'static str {
        match self {
            Self::Succeeded => "succeeded",
            Self::Failed => "failed",
            Self::Interrupted => "interrupted",
        }
    }
}

impl Cause {
    fn word(self) -> &'static str {
        match self {
            Self::Schedule => "schedule",
            Self::Operator => "operator",
        }
    }

    fn read(word: &str) -> Self {
        if word == "operator" { Self::Operator } else { Self::Schedule }
    }
}

/// What a request for a run met.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Requested {
    Waiting,
    Running,
}

impl Store {
    /// Adds rows for these jobs, and gives those whose schedule has changed their next time.
    pub(super) async fn declare(&self, jobs: &[Listed]) -> Result<(), Error> {
        let now = self.ambient.now();
        for job in jobs {
            let (text, next) = (job.fingerprint(), first(&job.schedule, now));
            let sql = "INSERT INTO gatewright_jobs (name, schedule, next_at) VALUES (?1, ?2, ?3) ON CONFLICT (name) DO UPDATE \
                       SET schedule = excluded.schedule, next_at = excluded.next_at WHERE gatewright_jobs.schedule <> excluded.schedule";
            self.db.execute(sql, params![job.name.as_str(), text, next]).await?;
        }
        let names: Vec<&str> = jobs.iter().map(|job| job.name.as_str()).collect();
        let names = serde_json::json!(names).to_string();
        let before = now.checked_sub(jiff::SignedDuration::from_hours(FORGOTTEN)).unwrap_or(now);
        let among = dialect::is_among(self.db.engine(), "job", "?1");
        let sql = format!("DELETE FROM gatewright_job_runs WHERE started_at < ?2 AND NOT ({among})");
        self.db.execute(sql, params![names, before]).await.map(|_| ())
    }

    /// For the one server of a database: no run of another server is in progress. What none has released has lost its server.
    pub(super) async fn bury_all(&self) -> Result<(), Error> {
        let sql = "UPDATE gatewright_jobs SET run_beats = ?1 WHERE run_id IS NOT NULL AND run_beats <> ?2";
        self.db.execute(sql, params![DIED, RELEASED]).await.map(|_| ())
    }

    /// The rows of all jobs, by name.
    pub(super) async fn watch(&self) -> Result<BTreeMap<String, Watched>, Error> {
        let sql = "SELECT name, schedule, next_at, last_due_at, requested_at, run_id, run_beats FROM gatewright_jobs";
        let rows = self.db.query(sql, Vec::new()).await?;
        let watched = rows.iter().map(|row| {
            let beats: i64 = row.get("run_beats")?;
            let run = row.get::<Option<String>>("run_id")?.map(|id| (id, beats));
            Ok((row.get("name")?, Watched { schedule: row.get("schedule")?, state: state(row)?, run }))
        });
        watched.collect()
    }

    /// Does what is to be done about a job. `dead` is a run, with its last sign of life, whose server gives no further one.
    pub(super) async fn turn(&self, job: &Listed, dead: Option<(String, i64)>) -> Result<Turn, Error> {
        let (job, now, id) = (job.clone(), self.ambient.now(), self.ambient.uuid().to_string());
        self.db.write(async move |tx: &Tx| turn(tx, &job, dead.as_ref(), now, &id).await).await
    }

    /// Gives a sign of life. Whether the run is still this server's.
    pub(super) async fn beat(&self, held: &Held) -> Result<bool, Error> {
        // A late sign does not take back what was given up.
        let sql =
            "UPDATE gatewright_jobs SET run_beats = run_beats + 1 WHERE name = ?1 AND run_id = ?2 AND run_beats >= 0";
        Ok(self.db.execute(sql, params![held.job.as_str(), held.id.as_str()]).await? == 1)
    }

    /// Notes how a run ended. Whether it was still this server's.
    pub(super) async fn end(&self, held: &Held, outcome: Outcome, error: Option<String>) -> Result<bool, Error> {
        let (held, now) = (held.clone(), self.ambient.now());
        let error: Option<String> = error.map(|error| error.chars().take(ERROR).collect());
        self.db
            .write(async move |tx: &Tx| {
                let mut values = params![held.job.as_str(), held.id.as_str()];
                let mut sql = "UPDATE gatewright_jobs SET run_id = NULL, run_beats = 0".to_owned();
                match outcome {
                    // Whoever looks next begins it again.
                    Outcome::Interrupted => sql = format!("UPDATE gatewright_jobs SET run_beats = {RELEASED}"),
                    Outcome::Succeeded => {
                        sql.push_str(", last_success_at = ?3");
                        values.push(gatewright_db::Value::Time(now));
                    }
                    Outcome::Failed => {}
                }
                sql.push_str(" WHERE name = ?1 AND run_id = ?2");
                if tx.execute(sql, values).await? == 0 {
                    return Ok(false);
                }
                if outcome != Outcome::Interrupted {
                    close(tx, &held.id, outcome, error.as_deref(), now).await?;
                }
                Ok(true)
            })
            .await
    }

    /// Asks for a run, which one of the servers begins. `None` if no server has declared such a job yet.
    pub(super) async fn request(&self, job: &str) -> Result<Option<Requested>, Error> {
        let (job, now) = (job.to_owned(), self.ambient.now());
        self.db
            .write(async move |tx: &Tx| {
                let lock = dialect::for_update(tx.engine());
                let sql = format!("SELECT run_id FROM gatewright_jobs WHERE name = ?1{lock}");
                let Some(row) = tx.query_opt(sql, params![job.as_str()]).await? else { return Ok(None) };
                if row.get::<Option<String>>("run_id")?.is_some() {
                    return Ok(Some(Requested::Running));
                }
                let sql = "UPDATE gatewright_jobs SET requested_at = ?2 WHERE name = ?1 AND requested_at IS NULL";
                tx.execute(sql, params![job.as_str(), now]).await?;
                Ok(Some(Requested::Waiting))
            })
            .await
    }

    /// The row of a job for its operator: the next time, the latest success.
    pub(super) async fn rows(&self) -> Result<BTreeMap<String, (Timestamp, Option<Timestamp>)>, Error> {
        let rows = self.db.query("SELECT name, next_at, last_success_at FROM gatewright_jobs", Vec::new()).await?;
        let entry = |row: &Row| Ok((row.get("name")?, (row.get("next_at")?, row.get("last_success_at")?)));
        rows.iter().map(entry).collect()
    }

    /// The latest runs of a job, the latest first.
    pub(super) async fn history(&self, job: &str, limit: u32) -> Result<Vec<super::JobRun>, Error> {
        // Bytes: an error has at most 1,000 characters, and `limit` is at most 100.
        let sql = "SELECT id, cause, due_at, attempt, started_at, ended_at, outcome, error, skipped FROM gatewright_job_runs \
                   WHERE job = ?1 ORDER BY started_at DESC, attempt DESC, id DESC LIMIT ?2";
        let rows = self.db.query(sql, params![job, i64::from(limit.min(KEPT))]).await?;
        rows.iter().map(run).collect()
    }
}

fn run(row: &Row) -> Result<super::JobRun, Error> {
    let (started_at, ended_at): (Timestamp, Option<Timestamp>) = (row.get("started_at")?, row.get("ended_at")?);
    let milliseconds = |ended: Timestamp| u64::try_from(ended.duration_since(started_at).as_millis()).unwrap_or(0);
    Ok(super::JobRun {
        id: row.get("id")?,
        cause: row.get("cause")?,
        due_at: time::format(row.get("due_at")?),
        attempt: row.get("attempt")?,
        started_at: time::format(started_at),
        ended_at: ended_at.map(time::format),
        duration_ms: ended_at.map(milliseconds),
        outcome: row.get("outcome")?,
        error: row.get("error")?,
        skipped: row.get("skipped")?,
    })
}

async fn turn(tx: &Tx, job: &Listed, dead: Option<&(String, i64)>, now: Timestamp, id: &str) -> Result<Turn, Error> {
    let sql = format!(
        "SELECT next_at, last_due_at, requested_at, run_id, run_beats FROM gatewright_jobs WHERE name = ?1 AND schedule = ?2{}",
        dialect::for_update(tx.engine())
    );
    let Some(row) = tx.query_opt(sql, params![job.name.as_str(), job.fingerprint()]).await? else {
        return Ok(Turn::Nothing);
    };
    let (run_id, beats): (Option<String>, i64) = (row.get("run_id")?, row.get("run_beats")?);
    let mut state = state(&row)?;
    if let Some(run_id) = &run_id {
        let is_silent = dead.is_some_and(|(id, last)| id == run_id && *last == beats);
        state.running = Some(Running { run: begun(tx, run_id, now).await?, sign: sign(beats, is_silent) });
    }
    let Decision { next_at, act } = decide(&state, &job.schedule, now);
    if next_at != state.next_at {
        let sql = "UPDATE gatewright_jobs SET next_at = ?2 WHERE name = ?1";
        tx.execute(sql, params![job.name.as_str(), next_at]).await?;
    }
    Ok(match act {
        Act::Nothing => Turn::Nothing,
        Act::Skip(due) => {
            passed(tx, job, due).await?;
            let sql = "UPDATE gatewright_job_runs SET skipped = skipped + 1 WHERE id = ?1";
            tx.execute(sql, params![run_id.unwrap_or_default()]).await?;
            Turn::Skipped
        }
        Act::GiveUp => {
            interrupted(tx, run_id.as_deref(), now).await?;
            let sql = "UPDATE gatewright_jobs SET run_id = NULL, run_beats = 0 WHERE name = ?1";
            tx.execute(sql, params![job.name.as_str()]).await?;
            Turn::GivenUp
        }
        Act::Begin { run, after_dead } => {
            if after_dead {
                interrupted(tx, run_id.as_deref(), now).await?;
            }
            if run.cause == Cause::Schedule {
                passed(tx, job, run.due_at).await?;
            }
            // Whoever asked for a run gets this one.
            let sql = "UPDATE gatewright_jobs SET run_id = ?2, run_beats = 0, requested_at = NULL WHERE name = ?1";
            tx.execute(sql, params![job.name.as_str(), id]).await?;
            let sql = "INSERT INTO gatewright_job_runs (id, job, cause, due_at, attempt, started_at, outcome) \
                       VALUES (?1, ?2, ?3, ?4, ?5, ?6, 'running')";
            let values = params![id, job.name.as_str(), run.cause.word(), run.due_at, run.attempt, now];
            tx.execute(sql, values).await?;
            let sql = "DELETE FROM gatewright_job_runs WHERE job = ?1 AND id NOT IN (SELECT id FROM gatewright_job_runs \
                       WHERE job = ?1 ORDER BY started_at DESC, attempt DESC, id DESC LIMIT ?2) AND id <> ?3";
            tx.execute(sql, params![job.name.as_str(), i64::from(KEPT), id]).await?;
            let held = Held { id: id.to_owned(), job: job.name.clone(), run, started_at: now };
            Turn::Begun { held, after_dead }
        }
    })
}

/// The state of a row, without its run.
fn state(row: &Row) -> Result<State, Error> {
    Ok(State {
        next_at: row.get("next_at")?,
        last_due_at: row.get("last_due_at")?,
        requested_at: row.get("requested_at")?,
        running: None,
    })
}

/// The run that is in progress.
async fn begun(tx: &Tx, id: &str, now: Timestamp) -> Result<Begun, Error> {
    let sql = "SELECT cause, due_at, attempt FROM gatewright_job_runs WHERE id = ?1";
    Ok(match tx.query_opt(sql, params![id]).await? {
        Some(row) => {
            let cause = Cause::read(&row.get::<String>("cause")?);
            Begun { cause, due_at: row.get("due_at")?, attempt: row.get("attempt")? }
        }
        None => Begun { cause: Cause::Schedule, due_at: now, attempt: 1 },
    })
}

/// Notes that a due time has passed.
async fn passed(tx: &Tx, job: &Listed, due: Timestamp) -> Result<(), Error> {
    let sql = "UPDATE gatewright_jobs SET last_due_at = ?2 WHERE name = ?1";
    tx.execute(sql, params![job.name.as_str(), due]).await.map(|_| ())
}

async fn interrupted(tx: &Tx, id: Option<&str>, now: Timestamp) -> Result<(), Error> {
    let Some(id) = id else { return Ok(()) };
    close(tx, id, Outcome::Interrupted, Some("its server ended before the run did"), now).await
}

async fn close(tx: &Tx, id: &str, outcome: Outcome, error: Option<&str>, now: Timestamp) -> Result<(), Error> {
    let sql = "UPDATE gatewright_job_runs SET outcome = ?2, error = ?3, ended_at = ?4 WHERE id = ?1";
    tx.execute(sql, params![id, outcome.word(), error, now]).await.map(|_| ())
}
