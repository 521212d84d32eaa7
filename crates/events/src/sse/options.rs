use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use gatewright_base::{Identity, JsonCase, Subject};

use crate::EventLog;

/// Names the caller of a stream, or answers that it cannot: the configured principal function.
pub type PrincipalOf = Arc<dyn Fn(&Identity) -> Option<String> + Send + Sync>;

/// How the broker of the streams behaves: the `[events]` section of the configuration.
#[derive(Clone)]
pub struct StreamOptions {
    /// How the one multi-word key of a frame is spelled.
    pub json_case: JsonCase,
    /// How often each stream gets a comment, and within which time a stream ends that would now be refused. At least
    /// 100 milliseconds.
    pub heartbeat: Duration,
    /// Streams at a time, in this process.
    pub max_subscribers: usize,
    /// Of them, those of one caller: an account, or all anonymous clients of one address.
    pub max_subscribers_per_caller: usize,
    /// Of them, those of one client address, whoever calls: see [`Client`](super::Client).
    pub max_subscribers_per_address: usize,
    /// Whether `slow=block` is heard.
    pub allow_client_slow_mode: bool,
    /// How long a writer waits for blocking streams at most.
    pub block_timeout: Duration,
    /// Names a caller, so that a `subscriber_id` can replace that same caller's stream. `None`: nothing is replaced.
    pub principal: Option<PrincipalOf>,
    /// The log that streams resume from. `None`: they do not, and a slow one loses its oldest events.
    pub log: Option<EventLog>,
    /// Re-checks of callers that run at a time.
    pub concurrent_rechecks: usize,
}

impl Default for StreamOptions {
    /// What the configuration file says where it is silent, with [`principal_by_subject`].
    fn default() -> Self {
        Self {
            json_case: JsonCase::Camel,
            heartbeat: Duration::from_secs(15),
            max_subscribers: 10_000,
            max_subscribers_per_caller: 100,
            max_subscribers_per_address: 1_000,
            allow_client_slow_mode: false,
            block_timeout: Duration::from_secs(5),
            principal: Some(Arc::new(principal_by_subject)),
            log: None,
            concurrent_rechecks: 32,
        }
    }
}

/// A principal function: the account that is signed in. Callers that are anonymous, or still owe a second factor,
/// have no name and replace nobody.
pub fn principal_by_subject(caller: &Identity) -> Option<String> {
    Some(match &caller.principal()?.subject {
        Subject::User(id) => format!("user {id}"),
        Subject::Service(id) => format!("service {id}"),
    })
}

impl fmt::Debug for StreamOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StreamOptions")
            .field("json_case", &self.json_case)
            .field("heartbeat", &self.heartbeat)
            .field("max_subscribers", &self.max_subscribers)
            .field("max_subscribers_per_caller", &self.max_subscribers_per_caller)
            .field("max_subscribers_per_address", &self.max_subscribers_per_address)
            .field("allow_client_slow_mode", &self.allow_client_slow_mode)
            .field("block_timeout", &self.block_timeout)
            .field("principal", &self.principal.is_some())
            .field("log", &self.log)
            .field("concurrent_rechecks", &self.concurrent_rechecks)
            .finish()
    }
}
