//! Functions as jobs: they run without a caller, outside of any transaction.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use futures_util::stream::FuturesUnordered;
use futures_util::{FutureExt, StreamExt};
use gatewright_base::{Identity, Shares, time};
use gatewright_entities::{Call, Entities};
use gatewright_functions::{Data, Ended, Function, HostError, Request, Step, Trigger};
use gatewright_http::Problem;

use super::host::{Place, wrong};
use super::{Functions, records};
use crate::jobs::{Action, Due, Listed, Schedule, zone};

/// How many threads run the code of jobs.
const THREADS: usize = 4;
/// How many things one run may wait for at once.
const WAITING: usize = 100;
/// In milliseconds. The run ends before.
const LONGEST_TIMER: f64 = 3_600_000.0;

/// One function as a job.
struct FunctionJob {
    functions: Functions,
    function: Arc<Function>,
    name: Arc<str>,
    entities: Entities,
    threads: Arc<Shares<()>>,
    time: Duration,
}

/// The schedule of a function's job.
pub(super) fn schedule(text: &str, timezone: &str) -> Result<Schedule, String> {
    let zone = zone(timezone)?;
    Schedule::parse(text, zone).map_err(|error| format!("the schedule {text:?} is wrong at {}: {error}", error.column))
}

impl Functions {
    /// The jobs that functions declare.
    pub(crate) fn jobs(&self) -> Vec<Listed> {
        let job = |function: &Arc<Function>| match &function.trigger {
            Trigger::Job { schedule: text, timezone } => {
                let schedule = schedule(text, timezone).ok()?;
                Some(Listed { name: function.name.clone(), schedule, kind: "function" })
            }
            Trigger::Before { .. } | Trigger::On { .. } | Trigger::Route { .. } => None,
        };
        self.all().iter().filter_map(job).collect()
    }

    /// What these jobs do, by their names.
    pub(crate) fn job_actions(&self, entities: &Entities) -> BTreeMap<String, Arc<dyn Action>> {
        let threads = Arc::new(Shares::new(THREADS));
        let jobs = self.all().iter().filter(|function| matches!(function.trigger, Trigger::Job { .. }));
        let action = |function: &Arc<Function>| {
            let job: Arc<dyn Action> = Arc::new(FunctionJob {
                functions: self.clone(),
                function: function.clone(),
                name: function.name.as_str().into(),
                entities: entities.clone(),
                threads: threads.clone(),
                time: self.0.job_timeout,
            });
            (function.name.clone(), job)
        };
        jobs.map(action).collect()
    }
}

#[async_trait]
impl Action for FunctionJob {
    async fn run(&self, due: &Due) -> Result<(), String> {
        let argument = Data::Object(vec![
            ("due".to_owned(), Data::from(time::format(due.at))),
            ("secrets".to_owned(), self.functions.secrets()),
        ]);
        self.called(argument).await.map_err(|error| {
            let error = self.functions.masked(&error);
            tracing::error!(target: super::LOG, function = self.function.name, "the function failed: {error}");
            error
        })
    }
}

impl FunctionJob {
    /// Calls the function. The error may contain secrets.
    async fn called(&self, argument: Data) -> Result<(), String> {
        let (functions, function, time) = (self.functions.clone(), self.function.clone(), self.time);
        let turn = self.threads.take(()).await;
        let prepared = tokio::task::spawn_blocking(move || {
            let prepared = functions.0.program.call(&function, argument, time);
            drop(turn);
            prepared
        });
        let mut running = panicked(prepared.await)?.map_err(|fault| fault.to_string())?;
        // Without a caller, and without a tenant.
        let call = Call::from(Identity::Anonymous);
        let place = Place::Alone(&self.entities);
        let mut waiting = FuturesUnordered::new();
        loop {
            let turn = self.threads.take(()).await;
            let stepped = tokio::task::spawn_blocking(move || {
                let step = running.step();
                drop(turn);
                (running, step)
            });
            let step;
            (running, step) = panicked(stepped.await)?;
            self.functions.log_lines(&mut running);
            match step {
                Step::Ended(Ok(Ended::Value(_))) => return Ok(()),
                Step::Ended(Ok(Ended::Refused { .. })) => return Err("refuse() is for writes and routes".to_owned()),
                Step::Ended(Err(failure)) => return Err(failure.to_string()),
                Step::Wants(requests) => {
                    let is_full = waiting.len() + requests.len() > WAITING;
                    for request in requests {
                        let (place, call) = (&place, &call);
                        waiting.push(async move {
                            let answer = if is_full {
                                Err(wrong("a call waits for at most 100 things at once"))
                            } else {
                                self.perform(place, call, &request).await
                            };
                            (request.id, answer)
                        });
                    }
                }
            }
            let Some((id, answer)) = waiting.next().await else { continue };
            running.answer(id, answer);
            while let Some(Some((id, answer))) = waiting.next().now_or_never() {
                running.answer(id, answer);
            }
        }
    }

    async fn perform(&self, place: &Place<'_>, call: &Call, request: &Request) -> Result<Data, HostError> {
        match (request.operation.as_str(), request.arguments.as_slice()) {
            ("db", _) => Err(wrong("a job has no caller: use db.system")),
            ("fetch", arguments) => self.functions.0.fetch.perform(arguments).await,
            ("timer", [Data::Number(milliseconds)]) => {
                let milliseconds = milliseconds.as_f64().unwrap_or_default().clamp(0.0, LONGEST_TIMER);
                tokio::time::sleep(Duration::from_secs_f64(milliseconds / 1000.0)).await;
                Ok(Data::Null)
            }
            _ => match place.perform(call, &self.name, request).await {
                Ok(answer) => answer,
                Err(error) => Err(records::error(&Problem::from(error))),
            },
        }
    }
}

fn panicked<T>(joined: Result<T, tokio::task::JoinError>) -> Result<T, String> {
    joined.map_err(|_| "the engine of the function panicked".to_owned())
}
