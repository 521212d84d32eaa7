use std::fmt;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;
use gatewright_base::{Identity, Unavailable};
use gatewright_http::ClientAddr;
use http::HeaderMap;

use super::condition::Condition;
use super::tables::Tables;
use super::view::RecordView;
use crate::EntityEvent;

/// Decides which events a stream's caller may see. Called for every event of the table, on the broker's task, so it
/// must be fast for every record; use a [`Condition`] for a client's filter. A panic ends the stream.
pub type Filter = Arc<dyn Fn(&EntityEvent) -> Visibility + Send + Sync>;

/// The result of a filter for an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Visibility {
    /// The caller may see it.
    Shown,
    /// The caller may not see it.
    Hidden,
    /// The caller could read the record before this update and no longer can: they get `entity.deleted` with only its
    /// id, regardless of the stream's condition.
    Left,
    /// Only the database can decide. A stream with a log gets the event from there, if [`Subscribe::admitted`] allows
    /// it; any other stream does not get it.
    Unknown,
}

impl From<bool> for Visibility {
    fn from(may: bool) -> Self {
        if may { Self::Shown } else { Self::Hidden }
    }
}

/// Checks, at every heartbeat, whether a stream may continue.
pub type Recheck = Arc<dyn Fn() -> BoxFuture<'static, Result<Verdict, Unavailable>> + Send + Sync>;

/// Decides which of some logged events the caller may see, with the current permissions and records; `None` if the
/// caller would be refused.
pub type Admit = Arc<dyn Fn(Vec<Arc<EntityEvent>>) -> Answering<Admitted> + Send + Sync>;

/// A result; an error is retried, and `None` ends the stream.
pub type Answering<T> = BoxFuture<'static, Result<Option<T>, Unavailable>>;

/// The visibility of some logged events for a stream's caller, one for each. [`Visibility::Unknown`] counts as hidden.
pub enum Admitted {
    /// It is known.
    Now(Vec<Visibility>),
    /// The result takes longer. Other streams do not wait for it; it is dropped when the stream ends.
    Later(Answering<Vec<Visibility>>),
}

impl From<Vec<Visibility>> for Admitted {
    fn from(visibilities: Vec<Visibility>) -> Self {
        Self::Now(visibilities)
    }
}

/// The result of a re-check.
pub enum Verdict {
    /// The stream continues, with this filter from now on.
    Continue(Filter),
    /// The caller would be refused now.
    End,
}

/// A request for a stream, whose caller was checked.
pub struct Subscribe {
    pub(crate) tables: Tables,
    pub(crate) caller: Identity,
    pub(crate) params: Params,
    pub(crate) filter: Filter,
    pub(crate) condition: Option<Condition>,
    pub(crate) client: Client,
    pub(crate) recheck: Option<Recheck>,
    pub(crate) admit: Option<Admit>,
    pub(crate) tags: bool,
    pub(crate) views: Vec<(Arc<str>, RecordView)>,
}

impl Subscribe {
    /// A stream of `table` for `caller`, with the events that pass `filter`.
    pub fn new<S: Into<Visibility>>(
        table: impl Into<Arc<str>>,
        caller: Identity,
        params: Params,
        filter: impl Fn(&EntityEvent) -> S + Send + Sync + 'static,
    ) -> Self {
        Self::of_several([table.into()], caller, params, filter)
    }

    /// A stream of the events of several tables, in one order. It takes one seat, and `subscriber_id` names it as a whole. The
    /// filter, the condition and the admission get the events of all of them.
    pub fn of_several<S: Into<Visibility>>(
        tables: impl IntoIterator<Item = Arc<str>>,
        caller: Identity,
        params: Params,
        filter: impl Fn(&EntityEvent) -> S + Send + Sync + 'static,
    ) -> Self {
        Self {
            tables: Tables::of(tables),
            caller,
            params,
            filter: Arc::new(move |event| filter(event).into()),
            condition: None,
            client: Client::Unknown,
            recheck: None,
            admit: None,
            tags: false,
            views: Vec::new(),
        }
    }

    /// Restricts the stream to events that meet `condition`.
    pub fn matching(self, condition: Option<Condition>) -> Self {
        Self { condition, ..self }
    }

    /// Adds the entity tag to each record, under [`entity_tag::KEY`](gatewright_http::entity_tag::KEY).
    pub fn tagged(self, tags: bool) -> Self {
        Self { tags, ..self }
    }

    /// Shows records of `table` through `view`, and not as they are.
    pub fn showing(mut self, table: impl Into<Arc<str>>, view: RecordView) -> Self {
        self.views.push((table.into(), view));
        self
    }

    /// Sets the client address: see [`StreamOptions::max_subscribers_per_address`](super::StreamOptions).
    pub fn from_client(self, client: Client) -> Self {
        Self { client, ..self }
    }

    /// Uses `admit` instead of the filter for events from the log.
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

    /// Calls `recheck` at every heartbeat. Without it only the client, a cut or the shutdown ends the stream. Omit it
    /// only for public streams.
    pub fn rechecked<F, Fut>(mut self, recheck: F) -> Self
    where
        F: Fn() -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<Verdict, Unavailable>> + Send + 'static,
    {
        self.recheck = Some(Arc::new(move || Box::pin(recheck())));
        self
    }
}

/// The client address of a stream.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Client {
    /// Unknown. Its seats count only for its account, if it has one.
    #[default]
    Unknown,
    /// On this computer. The limits per account and per address do not apply.
    Local,
    /// This address.
    Address(ClientAddr),
}

impl From<ClientAddr> for Client {
    fn from(client: ClientAddr) -> Self {
        match client.ip() {
            None => Self::Unknown,
            Some(address) if address.is_loopback() => Self::Local,
            Some(_) => Self::Address(client),
        }
    }
}

/// The parameters that a client can set for its stream.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Params {
    /// Blocking delivery: `?slow=block` or `X-SSE-Slow: block`. Ignored unless the broker allows it.
    pub block: bool,
    /// The stream's name, `?subscriber_id=…`. A later stream of the same caller and table with this name replaces it.
    pub subscriber_id: Option<String>,
    /// The position to resume from: `Last-Event-ID`, or else `?since=…`. Ignored without a log.
    pub since: Option<String>,
}

impl Params {
    /// Reads them from a request's query and headers. Other parameters are ignored. If a parameter is repeated, the
    /// first counts. An empty `subscriber_id` counts as absent.
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
    /// The limit of streams is reached: of the process, of one caller or of one address.
    #[error("too many subscribers")]
    TooMany {
        /// When a retry makes sense: within a heartbeat, dead connections lose their seats.
        retry_after: Duration,
    },
    /// The server is stopping.
    #[error("the server is shutting down")]
    ShuttingDown,
    /// The position to resume from is invalid.
    #[error("invalid cursor: give the id of an event of a stream, or an Event-Cursor")]
    Cursor,
    /// The `subscriber_id` is longer than [`MAX_SUBSCRIBER_ID`] bytes.
    #[error("subscriber_id is at most {MAX_SUBSCRIBER_ID} bytes")]
    SubscriberId,
}

/// The longest `subscriber_id`, in bytes.
pub const MAX_SUBSCRIBER_ID: usize = 128;

impl fmt::Debug for Admitted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Now(visibilities) => f.debug_tuple("Now").field(visibilities).finish(),
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
        f.debug_struct("Subscribe").field("tables", &self.tables).field("params", &self.params).finish_non_exhaustive()
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
