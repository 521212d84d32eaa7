//! Calls of functions without a request: after events, and at times.

use std::sync::Arc;
use std::time::Duration;

use gatewright_base::Shares;
use gatewright_entities::{Call, Entities};
use gatewright_functions::{Data, Ended, Function};

use super::Functions;
use super::alone::{Alone, Calling};

/// How many calls of one function may be in progress in this process, each with its memory.
pub(super) const CALLS: usize = 4;
/// How many calls of all functions may be in progress.
const ALL_CALLS: usize = 16;
/// How many threads run code, at most one of each function. A part of the machine's, so that requests have the rest.
const THREADS: usize = 4;

/// Calls functions in the background. Cheap to clone; all clones share the limits.
#[derive(Clone)]
pub(super) struct Background(Arc<Inner>);

struct Inner {
    /// By the function's name.
    alone: Alone<Arc<str>>,
    calls: Shares<Arc<str>>,
}

impl Background {
    pub(super) fn new(functions: &Functions, entities: &Entities) -> Self {
        let alone = Alone::new(functions, entities, THREADS);
        Self(Arc::new(Inner { alone, calls: Shares::within(CALLS, ALL_CALLS) }))
    }

    /// Calls a function for nobody: `db` refuses, `db.system` works, and `secrets` are given. `time` is for its code, and `whole`
    /// for everything: waiting for the database and for other servers too. `chain` counts the events that led to the call.
    ///
    /// Fails with the reason in words, without the values of secrets. It is in the log already.
    pub(super) async fn call(
        &self,
        function: &Arc<Function>,
        argument: Vec<(String, Data)>,
        (time, whole): (Duration, Duration),
        chain: u8,
    ) -> Result<(), String> {
        let Inner { alone, calls } = &*self.0;
        let functions = &alone.functions;
        let name: Arc<str> = function.name.as_str().into();
        let in_progress = Arc::new(calls.take(name.clone()).await);
        let mut argument = argument;
        argument.push(("secrets".to_owned(), functions.secrets()));
        let call = Call::default().led_by(chain);
        let calling = Calling { function, name: &name, call: &call, has_caller: false, time };
        let run = alone.run(&calling, name.clone(), Data::Object(argument), &in_progress);
        let ended = match tokio::time::timeout(whole, run).await {
            Ok(Ok(ended)) => ended,
            Ok(Err(_)) => return Err("the function cannot be called; the log has the reason".to_owned()),
            Err(_) => {
                let failure = format!("it was not done after {} seconds", whole.as_secs());
                functions.log_failure(function, &failure);
                return Err(failure);
            }
        };
        let failure = match ended {
            Ok(Ended::Value(_)) => return Ok(()),
            Ok(Ended::Refused { status, answer }) => {
                format!("refused: {} {}", status.into_json(), answer.into_json())
            }
            Err(failure) => failure.to_string(),
        };
        functions.log_failure(function, &failure);
        Err(functions.told(&failure))
    }
}
