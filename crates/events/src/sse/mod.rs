//! The event streams: `GET /{table}/_events` as server-sent events.
//!
//! A stream is one seat at the broker. [`Streams::respond`] takes the seat (the limit is exact, and no stream is
//! evicted) and answers with a body that drains the seat's buffer of 32 frames. A task takes events from the bus,
//! encodes each once, calls each stream's filter and puts the same shared bytes into every buffer. A full buffer drops
//! its oldest frame, so that no client can delay another, the writers or the process. Tables and callers take turns
//! (`lanes`), and equal conditions are tested once ([`Condition`]). Queued frames are joined into one write to the
//! connection.
//!
//! A second task sends heartbeats to each stream, and re-checks each caller's access within every heartbeat: see
//! [`Subscribe::rechecked`]. Code that ends a credential in this process can end its streams at once: [`Streams::cut`].
//!
//! The broker does not know access rules: the code that opens a stream passes a [`Filter`] and a re-check.

mod body;
mod broker;
mod catch_up;
mod condition;
mod dispatch;
mod frame;
mod heartbeat;
mod lanes;
mod options;
mod pages;
mod registry;
mod ring;
mod seat;
mod seating;
mod subscribe;
mod subscriber;
pub(crate) mod tables;
mod ticks;
mod view;
mod wheel;

use std::fmt;
use std::sync::Arc;

use axum::body::Body;
use gatewright_base::Principal;
use http::header::{CACHE_CONTROL, CONTENT_TYPE};
use http::{HeaderName, HeaderValue, Response};

pub use self::body::EventBody;
pub use self::condition::Condition;
pub use self::options::{PrincipalOf, StreamOptions, principal_by_subject};
pub use self::ring::CAPACITY;
pub use self::subscribe::{
    Admit, Admitted, Answering, Client, Filter, MAX_SUBSCRIBER_ID, Params, Recheck, Refused, Subscribe, Verdict,
    Visibility,
};
pub use self::view::RecordView;

use self::broker::Broker;
pub use self::broker::StreamStats;
use crate::bus::{Bound, Bus, Interest};

/// The broker of this process's event streams. Cheap to clone; all clones are the same broker.
#[derive(Clone)]
pub struct Streams(Option<Arc<Broker>>);

impl Streams {
    /// Starts a broker on `bus`, with its two tasks on the current Tokio runtime. They end with the bus, with
    /// [`Streams::shutdown`], or when the last handle and the last stream are gone.
    pub fn start(bus: &Bus, options: StreamOptions) -> Self {
        let tap = bus.tap("streams", Interest::all(), Bound::default(), true);
        let broker = Arc::new(Broker::new(options, tap.queue().clone(), bus.blocking().clone()));
        let stop = broker.stop.clone();
        tokio::spawn(heartbeat::run(Arc::downgrade(&broker), stop.clone()));
        if let Some(log) = broker.options.log.clone() {
            tokio::spawn(catch_up::watch(Arc::downgrade(&broker), log, stop.clone()));
        }
        tokio::spawn(dispatch::run(Arc::downgrade(&broker), tap, stop));
        Self(Some(broker))
    }

    /// No broker: every stream is refused with [`Refused::NoBus`].
    pub fn disabled() -> Self {
        Self(None)
    }

    /// Whether the broker still exists.
    pub fn is_enabled(&self) -> bool {
        self.0.is_some()
    }

    /// Opens a stream and returns its response: status 200, with headers against caching and buffering. It contains
    /// every event that is published after this call and passes the filter.
    pub fn respond(&self, request: Subscribe) -> Result<Response<Body>, Refused> {
        let mut response = Response::new(Body::new(self.subscribe(request)?));
        let headers = response.headers_mut();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("text/event-stream"));
        headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
        headers.insert(HeaderName::from_static("x-accel-buffering"), HeaderValue::from_static("no"));
        Ok(response)
    }

    /// Opens a stream as a body for the caller's own response. Dropping the body ends it.
    pub fn subscribe(&self, request: Subscribe) -> Result<EventBody, Refused> {
        self.0.as_ref().ok_or(Refused::NoBus)?.subscribe(request)
    }

    /// Ends the streams of the matching callers at once, without sending queued events. Returns how many there were.
    ///
    /// For code that ends a session, a token or an account in this process. Streams on other replicas, and requests for
    /// a stream that were authenticated just before, end at the next re-check.
    pub fn cut(&self, matches: impl Fn(&Principal) -> bool) -> usize {
        self.0.as_ref().map_or(0, |broker| broker.cut(matches))
    }

    /// Refuses new streams, and ends open ones after the events published so far are written to them.
    pub fn shutdown(&self) {
        if let Some(broker) = &self.0 {
            broker.close();
        }
    }

    /// Waits until no stream is open: after [`Streams::shutdown`], until all connections have taken their queued
    /// events. If a client does not read, this lasts as long as its connection, so use a timeout.
    pub async fn closed(&self) {
        if let Some(broker) = &self.0 {
            broker.emptied().await;
        }
    }

    /// Numbers for the metrics.
    pub fn stats(&self) -> StreamStats {
        self.0.as_ref().map(|broker| broker.stats()).unwrap_or_default()
    }
}

impl fmt::Debug for Streams {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Streams").field(&self.stats()).finish()
    }
}
