//! Functions as jobs: they run without a caller, outside of any transaction.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use gatewright_base::time;
use gatewright_entities::Entities;
use gatewright_functions::{Data, Function, Trigger};

use super::Functions;
use super::background::Background;
use crate::jobs::{Action, Due, Listed, Schedule, zone};

/// One function as a job.
struct FunctionJob {
    background: Background,
    function: Arc<Function>,
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
        let background = Background::new(self, entities);
        let jobs = self.all().iter().filter(|function| matches!(function.trigger, Trigger::Job { .. }));
        let action = |function: &Arc<Function>| {
            let job: Arc<dyn Action> = Arc::new(FunctionJob {
                background: background.clone(),
                function: function.clone(),
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
        let argument = vec![("due".to_owned(), Data::from(time::format(due.at)))];
        self.background.call(&self.function, argument, (self.time, self.time), 0).await
    }
}
