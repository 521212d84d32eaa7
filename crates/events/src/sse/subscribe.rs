use std::fmt;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;
use gatewright_base::{Identity, Subject, Unavailable};
use http::HeaderMap;

use super::condition::Condition;
use crate::EntityEvent;

/// Decides which events a stream's caller may see. Called for every event of the table, on the broker's task: it must be
/// quick, whatever is in the record; what a client asks of records is a [`Condition`]. One that panics ends its stream.
pub type Filter = Arc<dyn Fn(&EntityEvent) -> Sight + Send + Sync>;

/// What a filter says of an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sight {
    /// The caller may see it.
    Shown,
    /// The caller may not see it.
    Hidden,
    /// The caller could read the record before this update, and may not any more: they get `entity.deleted` with its id alone,
    /// whatever they asked of records.
    Left,
    /// Only the database can tell. A stream with a log gets the event from there, as far as [`Subscribe::admitted`] lets
    /// it; any other stream does not get it.
    Unknown,
}

impl From<bool> for Sight {
    fn from(may: bool) -> Self {
        if may { Self::Shown } else { Self::Hidden }
    }
}

/// Asks, at every heartbeat, whether a stream may go on.
pub type Recheck = Arc<dyn Fn() -> BoxFuture<'static, Result<Verdict, Unavailable>> + Send + Sync>;

/// Says which of some logged events the caller may see, as they are now and as the records are now; none if the caller would be
/// refused.
pub type Admit = Arc<dyn Fn(Vec<Arc<EntityEvent>>) -> Answering<Admitted> + Send + Sync>;

/// An answer that may have to be asked for again, or none that ends the stream.
pub type Answering<T> = BoxFuture<'static, Result<Option<T>, Unavailable>>;

/// What a stream's caller may see of some logged events: one answer for each. [`Sight::Unknown`] counts as hidden.
pub enum Admitted {
    /// It is known.
    Now(Vec<Sight>),
    /// It takes a while to find out. Other streams do not wait for it; it is dropped when the stream ends.
    Later(Answering<Vec<Sight>>),
}

impl From<Vec<Sight>> for Admitted {
    fn from(sights: Vec<Sight>) -> Self {
        Self::Now(sights)
    }
}

/// What a re-check found.
pub enum Verdict {
    /// The caller may go on and sees, from now on, what this filter lets through.
    Continue(Filter),
    /// The caller would be refused now.
    End,
}

/// A request for a stream, from a caller who may have one.
pub struct Subscribe {
    pub(crate) table: Arc<str>,
    pub(crate) caller: Identity,
    pub(crate) params: Params,
    pub(crate) filter: Filter,
    pub(crate) condition: Option<Condition>,
    pub(crate) client: Client,
    pub(crate) recheck: Option<Recheck>,
    pub(crate) admit: Option<Admit>,
    pub(crate) tags: bool,
}

impl Subscribe {
    /// A stream of `table` for `caller`, carrying what `filter` lets through.
    pub fn new<S: Into<Sight>>(
        table: impl Into<Arc<str>>,
        caller: Identity,
        params: Params,
        filter: impl Fn(&EntityEvent) -> S + Send + Sync + 'static,
    ) -> Self {
        Self {
            table: table.into(),
            caller,
            params,
            filter: Arc::new(move |event| filter(event).into()),
            condition: None,
            client: Client::Unknown,
            recheck: None,
            admit: None,
            tags: false,
        }
    }

    /// Carries, of what the caller may see, what meets `condition`.
    pub fn matching(self, condition: Option<Condition>) -> Self {
        Self { condition, ..self }
    }

    /// Has each record carry its entity tag, under [`entity_tag::KEY`](gatewright_http::entity_tag::KEY).
    pub fn tagged(self, tags: bool) -> Self {
        Self { tags, ..self }
    }

    /// Says where the client is: see [`StreamOptions::max_subscribers_per_address`](super::StreamOptions).
    pub fn from_client(self, client: Client) -> Self {
        Self { client, ..self }
    }

    /// Has `admit` asked about events from the log, in place of the filter.
    pub fn admitted<F, Fut, A>(mut self, admit: F) -> Self
    where
        F: Fn(Vec<Arc<EntityEvent>>) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<Option<A>, Unavailable>> + Send + 'static,
        A: Into<Admitted>,
    {
        self.admit = Some(Arc::new(move |events| {
            let asked = admit(events);
            Box::pin(async move { Ok(asked.await?.map(A::into)) })
        }));
        self
    }

    /// Has `recheck` asked at every heartbeat. Without it nothing but the client, a cut or the shutdown ends the stream,
    /// which is right only where anybody may read it.
    pub fn rechecked<F, Fut>(mut self, recheck: F) -> Self
    where
        F: Fn() -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<Verdict, Unavailable>> + Send + 'static,
    {
        self.recheck = Some(Arc::new(move || Box::pin(recheck())));
        self
    }
}

/// Where a client is.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum Client {
    /// Nobody knows. Its seats count for its account, if it has one.
    #[default]
    Unknown,
    /// On this computer. Neither its account's nor its address's share of the seats bounds it.
    Local,
    /// At this address, written as it is counted.
    Address(Arc<str>),
}

impl Client {
    /// Against whose share counts what a caller takes: an account's, or an anonymous client's address's. None if nobody knows.
    pub fn share_of(&self, caller: &Identity) -> Option<Arc<str>> {
        match (caller.principal().map(|principal| &principal.subject), self) {
            (Some(Subject::User(id)), _) => Some(format!("user {id}").into()),
            (Some(Subject::Service(id)), _) => Some(format!("service {id}").into()),
            (None, Self::Address(address)) => Some(format!("address {address}").into()),
            (None, Self::Unknown | Self::Local) => None,
        }
    }
}

/// What a client may ask of its stream.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Params {
    /// Blocking delivery: `?slow=block` or `X-SSE-Slow: block`. Heard only where the broker allows it.
    pub block: bool,
    /// The stream's name, which a later one of the same caller and table takes over: `?subscriber_id=…`.
    pub subscriber_id: Option<String>,
    /// The position to resume from: `Last-Event-ID`, or else `?since=…`. Without a log it is not heard.
    pub since: Option<String>,
}

impl Params {
    /// Reads them from a request's query and headers. Other parameters are left to the caller of this; where one comes
    /// twice, the first counts, and an empty `subscriber_id` is none.
    pub fn read(query: Option<&str>, headers: &HeaderMap) -> Self {
        let query = query.unwrap_or_default().as_bytes();
        let first = |name: &str| form_urlencoded::parse(query).find(|(key, _)| key == name).map(|(_, value)| value);
        let header = headers.get("x-sse-slow").and_then(|value| value.to_str().ok());
        let last = headers.get("last-event-id").map(|value| String::from_utf8_lossy(value.as_bytes()).into_owned());
        let last = last.filter(|last| !last.is_empty());
        let since = || first("since").filter(|since| !since.is_empty()).map(std::borrow::Cow::into_owned);
        Self {
            block: first("slow").is_some_and(|value| value == "block") || header == Some("block"),
            subscriber_id: first("subscriber_id").filter(|id| !id.is_empty()).map(std::borrow::Cow::into_owned),
            since: last.or_else(since),
        }
    }
}

/// Why a stream was not opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Refused {
    /// The process has no event bus.
    #[error("events are not enabled")]
    NoBus,
    /// All seats are taken, or all that one caller or one address may take.
    #[error("too many subscribers")]
    TooMany {
        /// When it is worth another try: within a heartbeat dead connections lose their seats.
        retry_after: Duration,
    },
    /// The server is going down.
    #[error("the server is shutting down")]
    ShuttingDown,
    /// The position to resume from is none.
    #[error("invalid cursor: give the id of an event of a stream, or an Event-Cursor")]
    Cursor,
    /// The `subscriber_id` is over [`MAX_SUBSCRIBER_ID`] bytes.
    #[error("subscriber_id is at most {MAX_SUBSCRIBER_ID} bytes")]
    SubscriberId,
}

/// The longest `subscriber_id`, in bytes.
pub const MAX_SUBSCRIBER_ID: usize = 128;

impl fmt::Debug for Admitted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Now(sights) => f.debug_tuple("Now").field(sights).finish(),
            Self::Later(_) => f.write_str("Later(…)"),
        }
    }
}

impl fmt::Debug for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Continue(_) => "Continue",
            Self::End => "End",
        })
    }
}

impl fmt::Debug for Subscribe {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Subscribe").field("table", &self.table).field("params", &self.params).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn params_come_from_query_and_header() {
        let cases = [
            (None, None, false, None),
            (Some("slow=block"), None, true, None),
            (Some("slow=Block"), None, false, None),
            (Some("slow=drop&slow=block"), None, false, None),
            (None, Some("block"), true, None),
            (None, Some("drop"), false, None),
            (Some("filter=a&subscriber_id=tab%201"), None, false, Some("tab 1")),
            (Some("subscriber_id="), None, false, None),
            (Some("subscriber_id=a&subscriber_id=b"), None, false, Some("a")),
        ];
        for (query, header, block, subscriber_id) in cases {
            let mut headers = HeaderMap::new();
            if let Some(header) = header {
                headers.insert("x-sse-slow", header.parse().unwrap());
            }
            let expected = Params { block, subscriber_id: subscriber_id.map(str::to_owned), since: None };
            assert_eq!(Params::read(query, &headers), expected, "{query:?} {header:?}");
        }
    }
}
