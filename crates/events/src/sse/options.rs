use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use gatewright_base::{Budget, Identity, JsonCase, Subject};

use crate::EventLog;

/// The configured principal function: returns the name of a stream's caller, or `None`.
pub type PrincipalOf = Arc<dyn Fn(&Identity) -> Option<String> + Send + Sync>;

/// The options of the streams' broker: the `[events]` section of the configuration.
#[derive(Clone)]
pub struct StreamOptions {
    /// The case of the only multi-word key of a frame.
    pub json_case: JsonCase,
    /// How often each stream gets a comment, and how soon a stream ends after its caller lost access. At least 100
    /// milliseconds.
    pub heartbeat: Duration,
    /// The most streams in this process.
    pub max_subscribers: usize,
    /// The most streams of one caller: an account, or all anonymous clients of one address.
    pub max_subscribers_per_caller: usize,
    /// The most streams of one client address, for all callers together: see [`Client`](super::Client).
    pub max_subscribers_per_address: usize,
    /// Whether `slow=block` is supported. If not, it is ignored.
    pub allow_client_slow_mode: bool,
    /// The longest time for which a writer waits for blocking streams.
    pub block_timeout: Duration,
    /// Returns the name of a caller, so that a `subscriber_id` can replace the same caller's stream. `None`: no stream
    /// is replaced.
    pub principal: Option<PrincipalOf>,
    /// The log from which streams resume. `None`: they cannot resume, and a slow one loses its oldest events.
    pub log: Option<EventLog>,
    /// The most re-checks of callers at a time.
    pub concurrent_rechecks: usize,
    /// What the frames of large events take their memory from. Default: no limit.
    pub budget: Budget,
}

impl Default for StreamOptions {
    /// The defaults of the configuration file, with [`principal_by_subject`].
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
            budget: Budget::unlimited(),
        }
    }
}

/// A principal function: the account that is signed in. Anonymous callers, and those whose second factor is pending,
/// have no name and replace no stream.
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
            .finish_non_exhaustive()
    }
}
