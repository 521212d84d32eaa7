//! The connection to the server: opened on demand, replaced after a failure, with pauses that grow while the server is
//! unavailable.
//!
//! Callers share one connection, whose requests and answers are pipelined. A caller that finds none starts to connect,
//! in a separate task so that it continues if the caller is dropped, and all wait for the same result. While the server
//! is unavailable, callers are refused at once until the pause is over, and the next one tries again: no caller waits
//! for an unavailable server a second time, and nothing runs without callers.

use std::sync::Arc;
use std::time::Duration;

use ::redis::aio::MultiplexedConnection;
use ::redis::{
    AsyncConnectionConfig, Client, Cmd, ErrorKind, FromRedisValue, RedisError, RedisResult, ScriptInvocation,
    ServerErrorKind,
};
use tokio::sync::watch;
use tokio::time::Instant;

use crate::StoreError;

/// How long making a connection may take.
const CONNECT_WITHIN: Duration = Duration::from_secs(2);
/// How long an answer may take. A slower server cannot prevent guessing.
const ANSWER_WITHIN: Duration = Duration::from_secs(1);
/// The pause after the first failure to connect; it doubles up to the longest.
const FIRST_PAUSE: Duration = Duration::from_millis(100);
const LONGEST_PAUSE: Duration = Duration::from_secs(2);
/// Requests that wait to be written before callers wait to be among them.
const QUEUE: usize = 512;

pub(super) struct Link {
    client: Client,
    state: watch::Sender<State>,
}

pub(super) enum Request<'a> {
    Command(Cmd),
    /// Sent by its hash, and as a whole if the server does not have it.
    Script(ScriptInvocation<'a>),
}

#[derive(Clone)]
enum State {
    /// There is no connection, and the next caller may open one.
    Idle,
    Connecting {
        failures: u32,
    },
    Up(Connection),
    /// Connecting failed; the next attempt is not made before this time.
    Down {
        failures: u32,
        again_at: Instant,
        error: RedisError,
    },
}

#[derive(Clone)]
struct Connection {
    /// Distinguishes connections.
    number: Arc<()>,
    driver: MultiplexedConnection,
}

impl Link {
    pub(super) fn new(client: Client) -> Self {
        Self { client, state: watch::Sender::new(State::Idle) }
    }

    /// Where the server is, without credentials.
    pub(super) fn location(&self) -> String {
        self.client.get_connection_info().addr().to_string()
    }

    /// Runs `request` on the connection. If the connection turns out to be closed, because it was idle or its server
    /// restarted, the request runs once more on a new one: an attempt that the first run counted is then counted twice.
    pub(super) async fn run<T: FromRedisValue>(self: &Arc<Self>, request: Request<'_>) -> Result<T, StoreError> {
        let mut outcome = self.run_once(&request).await;
        if outcome.as_ref().is_err_and(|failure| failure.was_connected && failure.error.is_connection_dropped()) {
            outcome = self.run_once(&request).await;
        }
        outcome.map_err(|failure| StoreError::new(format!("redis at {}: {}", self.location(), failure.error)))
    }

    async fn run_once<T: FromRedisValue>(self: &Arc<Self>, request: &Request<'_>) -> Result<T, Failure> {
        let connection = self.connection().await.map_err(|error| Failure { error, was_connected: false })?;
        let mut driver = connection.driver.clone();
        let answer = match request {
            Request::Command(command) => command.query_async(&mut driver).await,
            Request::Script(script) => script.invoke_async(&mut driver).await,
        };
        answer.map_err(|error| {
            if spoils_connection(&error) {
                self.discard(&connection);
            }
            Failure { error, was_connected: true }
        })
    }

    /// The connection when it is open, or the reason why there is none.
    async fn connection(self: &Arc<Self>) -> RedisResult<Connection> {
        if let State::Up(connection) = &*self.state.borrow() {
            return Ok(connection.clone());
        }
        let mut watched = self.state.subscribe();
        loop {
            if self.state.send_if_modified(State::begin) {
                tokio::spawn(Outcome::of_connecting(self.clone()));
            }
            match &*watched.borrow_and_update() {
                State::Up(connection) => return Ok(connection.clone()),
                State::Down { error, .. } => return Err(error.clone()),
                // Discarded in this very moment: this caller begins.
                State::Idle => continue,
                State::Connecting { .. } => {}
            }
            // The sender is in `self`, so that there will be a change.
            let _changed = watched.changed().await;
        }
    }

    /// Makes the next caller connect again, unless another one has done so already.
    fn discard(&self, connection: &Connection) {
        self.state.send_if_modified(|state| {
            let current = matches!(state, State::Up(up) if Arc::ptr_eq(&up.number, &connection.number));
            if current {
                *state = State::Idle;
            }
            current
        });
    }
}

struct Failure {
    error: RedisError,
    was_connected: bool,
}

impl State {
    /// Turns a state in which the caller is to connect into one in which it does.
    fn begin(&mut self) -> bool {
        let failures = match self {
            Self::Idle => 0,
            Self::Down { failures, again_at, .. } if *again_at <= Instant::now() => *failures,
            _ => return false,
        };
        *self = Self::Connecting { failures };
        true
    }
}

/// The result of connecting. It is sent on drop, so that callers never wait forever, even if the task is aborted.
struct Outcome {
    link: Arc<Link>,
    result: RedisResult<MultiplexedConnection>,
}

impl Outcome {
    async fn of_connecting(link: Arc<Link>) {
        let cut_off = RedisError::from((ErrorKind::Io, "the attempt to connect was cut off"));
        let mut outcome = Self { link: link.clone(), result: Err(cut_off) };
        let config = AsyncConnectionConfig::new()
            .set_connection_timeout(Some(CONNECT_WITHIN))
            .set_response_timeout(Some(ANSWER_WITHIN))
            .set_pipeline_buffer_size(QUEUE);
        outcome.result = link.client.get_multiplexed_async_connection_with_config(&config).await;
    }
}

impl Drop for Outcome {
    fn drop(&mut self) {
        let cut_off = RedisError::from((ErrorKind::Io, "the attempt to connect was cut off"));
        let result = std::mem::replace(&mut self.result, Err(cut_off));
        self.link.state.send_modify(|state| {
            let failures = if let State::Connecting { failures } = state { *failures } else { 0 };
            *state = match result {
                Ok(driver) => State::Up(Connection { number: Arc::default(), driver }),
                Err(error) => {
                    let pause = FIRST_PAUSE.saturating_mul(1 << failures.min(16)).min(LONGEST_PAUSE);
                    let again_at = Instant::now() + pause;
                    State::Down { failures: failures.saturating_add(1), again_at, error }
                }
            };
        });
    }
}

/// Whether a connection with this error must not be used again. After a refusal of one request it is still valid; an
/// answer that is invalid or late may belong to any request.
fn spoils_connection(error: &RedisError) -> bool {
    match error.kind() {
        // The server lost its role or the client its right: a new connection may lead to another server.
        ErrorKind::Server(kind) => matches!(kind, ServerErrorKind::ReadOnly | ServerErrorKind::MasterDown),
        ErrorKind::Extension => error.code() == Some("NOAUTH"),
        _ => true,
    }
}
