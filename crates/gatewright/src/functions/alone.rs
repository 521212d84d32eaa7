//! Calls of functions outside of transactions.
//!
//! The code of one share runs on one thread at a time, apart from the threads that serve requests. What a function waits for takes no
//! thread.

use std::hash::Hash;
use std::sync::Arc;
use std::time::Duration;

use futures_util::stream::FuturesUnordered;
use futures_util::{FutureExt, StreamExt};
use gatewright_base::{Shares, Turn};
use gatewright_entities::{Call, Entities};
use gatewright_functions::{Data, Ended, Failure, Function, HostError, Request, Step};
use gatewright_http::Problem;

use super::host::{Place, wrong};
use super::{Functions, failed, records};

/// How many things one call may wait for at once.
const WAITING: usize = 100;
/// In milliseconds. What has called the function ends before.
const LONGEST_TIMER: f64 = 3_600_000.0;

/// Runs functions outside of transactions. The code of each share takes turns.
pub(super) struct Alone<K> {
    pub(super) functions: Functions,
    pub(super) entities: Entities,
    threads: Shares<K>,
}

/// One call.
pub(super) struct Calling<'a> {
    pub(super) function: &'a Arc<Function>,
    pub(super) name: &'a Arc<str>,
    /// Who calls. Without a caller, `db` refuses.
    pub(super) call: &'a Call,
    pub(super) has_caller: bool,
    /// For the code. Waiting takes none of it.
    pub(super) time: Duration,
}

impl<K: Eq + Hash + Clone> Alone<K> {
    /// At most `threads` run code, one of each share.
    pub(super) fn new(functions: &Functions, entities: &Entities, threads: usize) -> Self {
        Self { functions: functions.clone(), entities: entities.clone(), threads: Shares::within(1, threads) }
    }

    /// Calls the function. `in_progress` is held by whatever still runs, also after the future was dropped.
    pub(super) async fn run(
        &self,
        calling: &Calling<'_>,
        share: K,
        argument: Data,
        in_progress: &Arc<Turn>,
    ) -> Result<Result<Ended, Failure>, Problem> {
        let (functions, function, time) = (self.functions.clone(), calling.function.clone(), calling.time);
        let turn = (self.threads.take(share.clone()).await, in_progress.clone());
        let prepared = tokio::task::spawn_blocking(move || {
            let prepared = functions.call(&function, argument, time);
            drop(turn);
            prepared
        });
        let mut running = prepared.await.map_err(|_| failed())??;
        // What the function waits for.
        let mut waiting = FuturesUnordered::new();
        loop {
            let turn = (self.threads.take(share.clone()).await, in_progress.clone());
            let stepped = tokio::task::spawn_blocking(move || {
                let step = running.step();
                drop(turn);
                (running, step)
            });
            let step;
            (running, step) = stepped.await.map_err(|_| failed())?;
            self.functions.log_lines(&mut running);
            match step {
                Step::Ended(ended) => return Ok(ended),
                Step::Wants(requests) => {
                    let is_full = waiting.len() + requests.len() > WAITING;
                    for request in requests {
                        waiting.push(async move {
                            let answer = if is_full {
                                Err(wrong("a call waits for at most 100 things at once"))
                            } else {
                                self.perform(calling, &request).await
                            };
                            (request.id, answer)
                        });
                    }
                }
            }
            // One answer is enough to go on.
            let Some((id, answer)) = waiting.next().await else { continue };
            running.answer(id, answer);
            while let Some(Some((id, answer))) = waiting.next().now_or_never() {
                running.answer(id, answer);
            }
        }
    }

    async fn perform(&self, calling: &Calling<'_>, request: &Request) -> Result<Data, HostError> {
        match (request.operation.as_str(), request.arguments.as_slice()) {
            ("fetch", arguments) => self.functions.0.fetch.perform(arguments).await,
            ("timer", [Data::Number(milliseconds)]) => {
                let milliseconds = milliseconds.as_f64().unwrap_or_default().clamp(0.0, LONGEST_TIMER);
                tokio::time::sleep(Duration::from_secs_f64(milliseconds / 1000.0)).await;
                Ok(Data::Null)
            }
            ("mail", arguments) => match self.functions.0.mails.get() {
                Some(mails) => mails.send(calling.name, arguments).await,
                None => Err(wrong("mail: no mail server is configured in [email]")),
            },
            ("db", _) if !calling.has_caller => Err(wrong("db: nobody calls this function; use db.system")),
            _ => match Place::Alone(&self.entities).perform(calling.call, calling.name, request).await {
                Ok(answer) => answer,
                Err(error) => Err(records::error(&Problem::from(error))),
            },
        }
    }
}
