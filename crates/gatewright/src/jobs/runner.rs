//! Watches the jobs of a server, and runs those whose turn it is here.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use tokio::sync::watch;
use tokio::task::{JoinHandle, JoinSet};
use tokio::time::{Instant, sleep, timeout};

use super::decide::{Act, Begun, Cause, Decision, Running, decide};
use super::store::{Held, Outcome, Turn, Watched};
use super::{Action, Due, Jobs, Listed};

/// How often the clock is looked at, which may have been set.
const TICK: Duration = Duration::from_millis(250);
/// How often the rows are read, for requests and for runs of other servers.
const LOOK: Duration = Duration::from_secs(1);
/// How often a run gives a sign of life.
const BEAT: Duration = Duration::from_secs(4);
/// After which time without a sign of life a run's server counts as dead.
const SILENCE: Duration = Duration::from_secs(20);
/// After which time without a sign of life that has arrived, a run ends by itself: before another server can begin it again.
const OWN_SILENCE: Duration = SILENCE.saturating_sub(BEAT).saturating_sub(LOOK.saturating_mul(2));
/// How long the notes about interrupted runs may take at the end of a server.
const FAREWELL: Duration = Duration::from_secs(2);

/// The task that runs jobs. It ends when it is dropped, and its runs with it.
pub(crate) struct JobsTask {
    stage: watch::Sender<Stage>,
    task: Option<JoinHandle<()>>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    Running,
    /// No further run begins.
    Draining,
    /// What still runs is given up.
    Halted,
}

impl JobsTask {
    /// Begins no further run, and waits for those in progress, at most for `within`. What runs then is begun again by another server,
    /// or by this one after its next start.
    pub(crate) async fn stop(mut self, within: Duration) {
        let Some(mut task) = self.task.take() else { return };
        self.stage.send_replace(Stage::Draining);
        if timeout(within, &mut task).await.is_err() {
            self.stage.send_replace(Stage::Halted);
            if timeout(FAREWELL, &mut task).await.is_err() {
                task.abort();
            }
        }
    }
}

impl Drop for JobsTask {
    fn drop(&mut self) {
        if let Some(task) = &self.task {
            task.abort();
        }
    }
}

pub(super) fn start(jobs: &Jobs, time: Duration) -> JobsTask {
    let (stage, stages) = watch::channel(Stage::Running);
    let runner = Runner {
        jobs: jobs.clone(),
        time,
        stages,
        runs: JoinSet::new(),
        seen: HashMap::new(),
        is_declared: false,
        is_first: true,
    };
    JobsTask { stage, task: Some(tokio::spawn(runner.run())) }
}

struct Runner {
    jobs: Jobs,
    /// How long a run may take.
    time: Duration,
    stages: watch::Receiver<Stage>,
    runs: JoinSet<()>,
    /// The last signs of life of runs, with the time when this server first saw them.
    seen: HashMap<String, ((String, i64), Instant)>,
    is_declared: bool,
    is_first: bool,
}

impl Runner {
    async fn run(mut self) {
        let (mut watched, mut looked) = (BTreeMap::new(), None::<Instant>);
        loop {
            let mut is_asked = false;
            let jobs = self.jobs.clone();
            tokio::select! {
                () = sleep(TICK) => {}
                () = jobs.0.wake.notified() => is_asked = true,
                _ = self.stages.changed() => break,
                Some(_) = self.runs.join_next(), if !self.runs.is_empty() => continue,
            }
            let now = jobs.0.store.ambient.now();
            let is_due = watched.values().any(|watched: &Watched| watched.state.next_at <= now);
            let is_old = looked.is_none_or(|looked| looked.elapsed() >= LOOK);
            if is_asked || is_due || is_old {
                looked = Some(Instant::now());
                match self.look().await {
                    Ok(found) => watched = found,
                    Err(error) => {
                        tracing::warn!(%error, "jobs cannot be looked for; this is tried again");
                        watched = BTreeMap::new();
                    }
                }
            }
        }
        while self.runs.join_next().await.is_some() {}
    }

    /// Reads the rows, does what is to be done, and returns those of this server's jobs.
    async fn look(&mut self) -> Result<BTreeMap<String, Watched>, gatewright_db::Error> {
        let jobs = self.jobs.clone();
        let store = &jobs.0.store;
        if self.is_first {
            // A SQLite database has one server, and this is it.
            if store.db.engine() == gatewright_db::Engine::Sqlite {
                store.bury_all().await?;
            }
            self.is_first = false;
        }
        if !self.is_declared {
            store.declare(&jobs.0.listed).await?;
            self.is_declared = true;
        }
        let mut rows = store.watch().await?;
        let mut own = BTreeMap::new();
        for job in &jobs.0.listed {
            let Some(mut watched) = rows.remove(&job.name) else {
                // Somebody has removed it.
                self.is_declared = false;
                continue;
            };
            if watched.schedule != job.fingerprint() {
                continue;
            }
            if self.wants_turn(job, &watched) {
                let dead = watched.run.clone();
                let turn = store.turn(job, dead.filter(|_| self.is_dead(&job.name))).await?;
                self.take(job, turn);
                // The row is read again before the next turn.
                watched.state.next_at = watched.state.next_at.max(store.ambient.now());
            }
            own.insert(job.name.clone(), watched);
        }
        Ok(own)
    }

    /// Whether something is to be done about a job, as far as its row shows.
    fn wants_turn(&mut self, job: &Listed, watched: &Watched) -> bool {
        match &watched.run {
            Some(sign) if self.seen.get(&job.name).is_some_and(|(seen, _)| seen == sign) => {}
            Some(sign) => {
                self.seen.insert(job.name.clone(), (sign.clone(), Instant::now()));
            }
            None => {
                self.seen.remove(&job.name);
            }
        }
        let mut state = watched.state.clone();
        if watched.run.is_some() {
            let run = Begun { cause: Cause::Schedule, due_at: state.next_at, attempt: 1 };
            state.running = Some(Running { run, sign: watched.sign(self.is_dead(&job.name)) });
        }
        let Decision { next_at, act } = decide(&state, &job.schedule, self.jobs.0.store.ambient.now());
        act != Act::Nothing || next_at != watched.state.next_at
    }

    fn is_dead(&self, job: &str) -> bool {
        self.seen.get(job).is_some_and(|(_, since)| since.elapsed() >= SILENCE)
    }

    fn take(&mut self, job: &Listed, turn: Turn) {
        let Some(counts) = self.jobs.0.counts.get(&job.name) else { return };
        match turn {
            Turn::Nothing => {}
            Turn::Skipped => {
                counts.skipped.fetch_add(1, Ordering::Relaxed);
                tracing::warn!(job = job.name, "the job is due while it still runs; this due time is skipped");
            }
            Turn::GivenUp => {
                counts.interrupted.fetch_add(1, Ordering::Relaxed);
                tracing::error!(
                    job = job.name,
                    "the job was interrupted by the end of its server too often; it is given up"
                );
            }
            Turn::Begun { held, after_dead } => {
                if after_dead {
                    counts.interrupted.fetch_add(1, Ordering::Relaxed);
                    tracing::warn!(job = job.name, "the server of the job's run has ended; the run is made again");
                }
                let Some(action) = self.jobs.0.actions.get(&job.name).cloned() else { return };
                let run = Run { jobs: self.jobs.clone(), held, action, time: self.time, stages: self.stages.clone() };
                self.runs.spawn(run.perform());
            }
        }
    }
}

/// One run.
struct Run {
    jobs: Jobs,
    held: Held,
    action: Arc<dyn Action>,
    time: Duration,
    stages: watch::Receiver<Stage>,
}

impl Run {
    async fn perform(mut self) {
        let began = Instant::now();
        let due = Due { job: self.held.job.clone(), at: self.held.run.due_at };
        tracing::info!(job = due.job, run = self.held.id, "the job begins");
        let action = self.action.clone();
        // In a task of its own: a panic ends this run and nothing else.
        let mut work = JoinSet::new();
        work.spawn(async move { action.run(&due).await });
        let ended = tokio::select! {
            ended = timeout(self.time, work.join_next()) => match ended {
                Ok(Some(Ok(Ok(())))) => (Outcome::Succeeded, None),
                Ok(Some(Ok(Err(error)))) => (Outcome::Failed, Some(error)),
                Ok(_) => (Outcome::Failed, Some("the job panicked".to_owned())),
                Err(_) => (Outcome::Failed, Some(format!("the job took longer than {} ms", self.time.as_millis()))),
            },
            () = lost(&self.jobs, &self.held) => {
                tracing::warn!(
                    job = self.held.job,
                    "another server has taken over the job's run, or soon does; it ends here"
                );
                return;
            }
            _ = self.stages.wait_for(|stage| *stage == Stage::Halted) => {
                (Outcome::Interrupted, Some("its server was stopped".to_owned()))
            }
        };
        drop(work);
        self.note(ended, began.elapsed()).await;
    }

    async fn note(self, (outcome, error): (Outcome, Option<String>), took: Duration) {
        let (job, ms) = (self.held.job.as_str(), u64::try_from(took.as_millis()).unwrap_or(u64::MAX));
        match (&outcome, &error) {
            (Outcome::Succeeded, _) => tracing::info!(job, ms, "the job succeeded"),
            (_, error) => {
                tracing::error!(job, ms, "the job {}: {}", outcome.word(), error.as_deref().unwrap_or_default());
            }
        }
        if let Some(counts) = self.jobs.0.counts.get(job) {
            let count = match outcome {
                Outcome::Succeeded => &counts.succeeded,
                Outcome::Failed => &counts.failed,
                Outcome::Interrupted => &counts.interrupted,
            };
            count.fetch_add(1, Ordering::Relaxed);
        }
        // Without the note, the run would be made again.
        let store = &self.jobs.0.store;
        while let Err(reason) = store.end(&self.held, outcome, error.clone()).await {
            tracing::warn!(job, error = %reason, "the end of the job's run cannot be noted; this is tried again");
            sleep(LOOK).await;
            if outcome == Outcome::Interrupted || matches!(store.beat(&self.held).await, Ok(false)) {
                return;
            }
        }
    }
}

/// Gives signs of life until the run belongs to another server, or until others may soon think so.
async fn lost(jobs: &Jobs, held: &Held) {
    let mut last = Instant::now();
    loop {
        sleep(BEAT.min(OWN_SILENCE.saturating_sub(last.elapsed()))).await;
        let (begun, left) = (Instant::now(), OWN_SILENCE.saturating_sub(last.elapsed()));
        if left.is_zero() {
            return;
        }
        match timeout(left, jobs.0.store.beat(held)).await {
            // Others count from when it was written, which is not before.
            Ok(Ok(true)) => last = begun,
            Ok(Ok(false)) | Err(_) => return,
            Ok(Err(error)) => tracing::debug!(job = held.job, %error, "a sign of life of a job's run was not given"),
        }
    }
}
