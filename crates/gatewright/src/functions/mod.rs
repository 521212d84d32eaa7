//! Functions of the operator, in TypeScript: in the transactions of writes, after events, as routes, and as jobs.
//!
//! [`gatewright_functions`] runs the code and knows nothing of the service. [`before`] is its seam to entities, a set of
//! [`EntityHooks`](gatewright_entities::hooks::EntityHooks); [`routes`] is its seam to HTTP, [`on`] the one to the outbox, and [`jobs`] that to
//! schedules. [`background`] calls functions for which there is no request. All give a function what it asks for
//! through [`host`], which calls the operations that REST calls, with the same rights and errors. [`records`] converts values.

mod alone;
mod background;
mod before;
mod emit;
mod fetch;
mod host;
mod jobs;
mod list;
mod listening;
mod mail;
mod on;
mod records;
mod routes;

use std::collections::BTreeMap;
use std::fmt::Display;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use axum::Router;
pub(crate) use fetch::is_host;
use gatewright_base::{Ambient, Identity, Secret};
use gatewright_entities::Builder as EntitiesBuilder;
use gatewright_entities::Entities;
use gatewright_functions::{Call, Data, Fault, Function, Limits, Program, Trigger};
use gatewright_http::Problem;
use http::StatusCode;
pub use list::functions;
pub(crate) use listening::listen;
pub(crate) use mail::Message;
pub(crate) use routes::PREFIX;

use crate::Config;

/// How many prepared engines each file keeps.
const IDLE: usize = 4;
/// Lines of a secret from this length on are masked by themselves.
const LONGEST_SHOWN_LINE: usize = 8;
/// The target of lines in the log.
const LOG: &str = "gatewright::functions";
/// The resource and the verb of the scope that API tokens need to call routes.
pub(crate) const SCOPE: (&str, &str) = ("fn", "call");

/// The functions of a configuration, compiled.
#[derive(Clone)]
pub(crate) struct Functions(Arc<Inner>);

struct Inner {
    program: Program,
    write_timeout: Duration,
    timeout: Duration,
    job_timeout: Duration,
    fetch: fetch::Fetch,
    /// Once the server sends mails.
    mails: OnceLock<mail::Mails>,
    /// The names and values of secrets.
    secrets: Vec<(String, Secret)>,
    /// What the log must not show of them, the longest first.
    masks: Vec<Secret>,
}

impl Functions {
    /// Compiles the folder, if there is one.
    ///
    /// Fails with all that is wrong in it.
    pub(crate) fn load(config: &Config, ambient: &Ambient) -> Result<Option<Self>, String> {
        Self::compile(config, ambient).map_err(|faults| {
            let mut lines: Vec<String> = faults.iter().map(ToString::to_string).collect();
            lines.dedup();
            lines.join("\n")
        })
    }

    fn compile(config: &Config, ambient: &Ambient) -> Result<Option<Self>, Vec<Fault>> {
        let functions = &config.functions;
        let Some(folder) = functions.used_folder() else { return Ok(None) };
        let limits = Limits { memory_bytes: functions.memory_bytes, idle: IDLE };
        let program = Program::load(folder, limits, ambient.clone())?;
        let faults = unsuitable(config, &program);
        if !faults.is_empty() {
            return Err(faults);
        }
        let fetch = fetch::Fetch::new(&functions.allow_hosts).map_err(|error| {
            vec![Fault { file: "fetch".to_owned(), line: 0, column: 0, message: error.to_string() }]
        })?;
        let (write_timeout, timeout) = (functions.write_timeout, functions.timeout);
        let job_timeout = functions.job_timeout;
        let secrets: Vec<_> = functions.secrets.iter().filter_map(|name| secret(name)).collect();
        let (masks, mails) = (masks(&secrets), OnceLock::new());
        Ok(Some(Self(Arc::new(Inner { program, write_timeout, timeout, job_timeout, fetch, mails, secrets, masks }))))
    }

    /// Adds the functions that run in writes.
    pub(crate) fn around(&self, entities: EntitiesBuilder) -> EntitiesBuilder {
        let mut each: BTreeMap<&str, before::Before> = BTreeMap::new();
        for function in self.all() {
            if let Trigger::Before { entity, action } = &function.trigger {
                each.entry(entity).or_insert_with(|| before::Before::new(self)).add(action, function);
            }
        }
        each.into_iter().fold(entities, |entities, (entity, hooks)| entities.entity_hooks(entity.to_owned(), hooks))
    }

    /// The routes, at `/fn`.
    pub(crate) fn routes(&self, config: &Config, entities: &Entities) -> Router {
        routes::routes(self, config, entities)
    }

    /// The methods and paths of the routes that need no CSRF token.
    pub(crate) fn open_routes(&self) -> impl Iterator<Item = (&str, String)> {
        self.all().iter().filter_map(|function| match &function.trigger {
            Trigger::Route { method, path, csrf: false } => Some((method.as_str(), routes::mounted(path))),
            _ => None,
        })
    }

    fn all(&self) -> &[Arc<Function>] {
        self.0.program.functions()
    }

    /// Prepares a call.
    fn call(&self, function: &Arc<Function>, argument: Data, time: Duration) -> Result<Call, Problem> {
        self.0.program.call(function, argument, time).map_err(|fault| {
            tracing::error!(function = function.name, %fault, "a function cannot be prepared");
            failed()
        })
    }
}

/// Compiles and evaluates the functions of a configuration, and does nothing else.
///
/// Fails with a text that has a line for everything that is wrong: file, line, column and reason.
pub fn check_functions(config: &Config) -> Result<usize, String> {
    Ok(Functions::load(config, &Ambient::system())?.map_or(0, |functions| functions.all().len()))
}

/// The value of an environment variable.
fn secret(name: &str) -> Option<(String, Secret)> {
    match std::env::var(name) {
        Ok(value) => Some((name.to_owned(), Secret::new(value))),
        Err(_) => {
            tracing::warn!(
                "functions.secrets: the environment variable {name} is not set, so `secrets.{name}` is undefined"
            );
            None
        }
    }
}

/// A secret whole, as JSON writes it, and line by line.
fn masks(secrets: &[(String, Secret)]) -> Vec<Secret> {
    let forms = |(_, secret): &(String, Secret)| {
        let text = secret.expose().to_owned();
        let json = serde_json::Value::from(text.as_str()).to_string();
        let json = json.trim_matches('"').to_owned();
        let lines = text.lines().filter(|line| line.len() >= LONGEST_SHOWN_LINE).map(str::to_owned).collect::<Vec<_>>();
        [text, json].into_iter().chain(lines).filter(|form| !form.is_empty()).collect::<Vec<_>>()
    };
    let mut masks: Vec<String> = secrets.iter().flat_map(forms).collect();
    masks.sort_by_key(|mask| std::cmp::Reverse(mask.len()));
    masks.dedup();
    masks.into_iter().map(Secret::new).collect()
}

/// What the declarations name that the configuration does not have.
fn unsuitable(config: &Config, program: &Program) -> Vec<Fault> {
    let fault = |function: &Function, message: String| Fault {
        file: function.file.clone(),
        line: function.line,
        column: function.column,
        message: format!("{}: {message}", function.name),
    };
    let mut faults = Vec::new();
    let mut mounted: BTreeMap<(String, String), &str> = BTreeMap::new();
    for function in program.functions() {
        match &function.trigger {
            Trigger::Before { entity, .. } if !config.entities.iter().any(|known| known.name() == *entity) => {
                faults.push(fault(function, format!("there is no entity \"{entity}\"")));
            }
            Trigger::Before { .. } => {}
            Trigger::Route { method, path, csrf } => {
                let place = (method.clone(), routes::shape(path));
                if let Some(other) = mounted.insert(place, &function.name) {
                    faults.push(fault(function, format!("{method} {path} is the route of {other} already")));
                }
                let others = program.functions().iter().filter_map(|other| match &other.trigger {
                    Trigger::Route { method: others, path, csrf } if others == method => Some((path, *csrf)),
                    _ => None,
                });
                // What needs no token is known by its path, before there is a route.
                for (other, others_csrf) in others.filter(|(other, _)| *other != path && routes::overlap(other, path)) {
                    if *csrf && !others_csrf {
                        let message = format!(
                            "{method} {path} is also one of {other}, which has `csrf: false`: give both the same"
                        );
                        faults.push(fault(function, message));
                    }
                }
            }
            Trigger::On { .. } => {
                faults.extend(on::fault(config, function).map(|message| fault(function, message)));
            }
            Trigger::Job { schedule, timezone } => {
                let is_taken = config.jobs.iter().any(|job| job.name == function.name);
                let wrong = jobs::schedule(schedule, timezone).err();
                let taken = is_taken.then(|| "a [[job]] of the configuration has this name already".to_owned());
                faults.extend(wrong.into_iter().chain(taken).map(|message| fault(function, message)));
            }
        }
    }
    faults
}

/// The answer where a function has failed. What went wrong is in the log.
fn failed() -> Problem {
    Problem::new(StatusCode::INTERNAL_SERVER_ERROR, "function_failed", "a function of this service failed")
}

impl Functions {
    /// Logs what a function has logged.
    fn log_lines(&self, call: &mut Call) {
        let function = call.function().name.clone();
        for line in call.take_lines() {
            let text = on_one_line(&self.masked(&line.text));
            match line.level.as_str() {
                "error" => tracing::error!(target: LOG, function, "{text}"),
                "warn" => tracing::warn!(target: LOG, function, "{text}"),
                "debug" => tracing::debug!(target: LOG, function, "{text}"),
                _ => tracing::info!(target: LOG, function, "{text}"),
            }
        }
    }

    fn log_failure(&self, function: &Function, failure: &dyn Display) {
        let failure = self.told(&failure.to_string());
        tracing::error!(target: LOG, function = function.name, "the function failed: {failure}");
    }

    /// A failure as operators may read it: without the values of secrets, and with its stack on lines that are those of no log.
    fn told(&self, failure: &str) -> String {
        let failure = self.masked(failure);
        failure.lines().map(on_one_line).collect::<Vec<_>>().join("\n  ")
    }

    /// The text without the values of secrets.
    fn masked(&self, text: &str) -> String {
        self.0.masks.iter().fold(text.to_owned(), |text, mask| text.replace(mask.expose(), "***"))
    }

    /// The secrets, as functions see them.
    fn secrets(&self) -> Data {
        let entry = |(name, secret): &(String, Secret)| (name.clone(), Data::from(secret.expose()));
        Data::Object(self.0.secrets.iter().map(entry).collect())
    }
}

/// A text in which nothing begins another line: what came from a caller must not look like a line of the log.
fn on_one_line(text: &str) -> String {
    let mut line = String::with_capacity(text.len());
    for char in text.chars() {
        let is_harmless = char == '\t' || !(char.is_control() || matches!(char, '\u{2028}' | '\u{2029}'));
        if is_harmless {
            line.push(char);
        } else {
            line.extend(char.escape_default());
        }
    }
    line
}

/// The caller, as functions see it: null without one.
fn caller(identity: &Identity) -> Data {
    let Some(principal) = identity.principal() else { return Data::Null };
    let kind = if principal.user_id().is_some() { "user" } else { "service" };
    let roles = principal.roles.iter().map(Data::from).collect();
    let email = principal.email.as_deref().map_or(Data::Null, Data::from);
    Data::Object(vec![
        ("kind".to_owned(), Data::from(kind)),
        ("id".to_owned(), Data::from(principal.subject.as_str())),
        ("email".to_owned(), email),
        ("roles".to_owned(), Data::List(roles)),
    ])
}

#[cfg(test)]
mod tests {
    use super::on_one_line;

    #[test]
    fn what_a_function_logs_begins_no_other_line() {
        let hostile = "a\tä\r\n2026-01-01T00:00:00Z  INFO \u{1b}[2J\u{2028}b\u{85}c";
        let shown = on_one_line(hostile);
        assert_eq!(shown, r"a	ä\r\n2026-01-01T00:00:00Z  INFO \u{1b}[2J\u{2028}b\u{85}c");
    }
}
