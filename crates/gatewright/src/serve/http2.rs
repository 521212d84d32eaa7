//! HTTP/2, on connections with TLS.
//!
//! Many requests share a connection, so the limits of [`pace`](super::pace) on a connection are not enough: a client that takes
//! nothing of one answer may take others. So an answer is handed to the protocol in portions, each once the client has taken the
//! one before, and a connection ends if one of its answers waits for the client too long.

use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Weak};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use axum::body::Body;
use axum::response::Response;
use http::header::CONTENT_TYPE;
use hyper::body::{Body as HttpBody, Bytes, Frame, SizeHint};
use parking_lot::Mutex;
use tokio::time::Instant;

use super::pace::MIN_RATE;

/// The bytes of an answer that wait in the protocol for the client.
const PORTION: usize = 16 * 1024;

/// The requests of a connection that are answered.
#[derive(Default)]
pub(super) struct Exchanges {
    open: AtomicUsize,
    answers: Mutex<Vec<Weak<Progress>>>,
    /// When the last exchange ended.
    quiet_since: Mutex<Option<Instant>>,
}

/// A request, until its answer has been handed over.
pub(super) struct Exchange(Arc<Exchanges>);

/// How far an answer is.
#[derive(Default)]
struct Progress {
    /// Bytes since the last look.
    taken: AtomicU64,
    /// The last portion waits for the client.
    waits: AtomicBool,
    /// It waited at the last look too.
    has_waited: AtomicBool,
    is_event_stream: bool,
}

impl Exchanges {
    pub(super) fn begin(self: &Arc<Self>) -> Exchange {
        self.open.fetch_add(1, Ordering::Relaxed);
        Exchange(self.clone())
    }

    /// Since when no request is in progress.
    pub(super) fn quiet_since(&self, begun: Instant) -> Option<Instant> {
        (self.open.load(Ordering::Relaxed) == 0).then(|| self.quiet_since.lock().unwrap_or(begun))
    }

    /// Whether the client has delayed an answer for the whole period since the last look.
    pub(super) fn is_stalled(&self, period: Duration) -> bool {
        let mut is_stalled = false;
        self.answers.lock().retain(|answer| {
            let Some(answer) = answer.upgrade() else { return false };
            let taken = answer.taken.swap(0, Ordering::Relaxed);
            let waits = answer.waits.load(Ordering::Relaxed);
            let has_waited = answer.has_waited.swap(waits, Ordering::Relaxed);
            let least = if answer.is_event_stream { 1 } else { MIN_RATE * period.as_secs() };
            is_stalled |= waits && has_waited && taken < least.max(1);
            true
        });
        is_stalled
    }
}

impl Drop for Exchange {
    fn drop(&mut self) {
        if self.0.open.fetch_sub(1, Ordering::Relaxed) == 1 {
            *self.0.quiet_since.lock() = Some(Instant::now());
        }
    }
}

impl Exchange {
    /// The answer, in portions.
    pub(super) fn answer(self, response: Response) -> http::Response<Portioned> {
        let content_type = response.headers().get(CONTENT_TYPE);
        let is_event_stream = content_type.is_some_and(|value| value.as_bytes().starts_with(b"text/event-stream"));
        let progress = Arc::new(Progress { is_event_stream, ..Progress::default() });
        self.0.answers.lock().push(Arc::downgrade(&progress));
        response.map(|body| Portioned { body, rest: Bytes::new(), progress, _exchange: self })
    }
}

/// A body that is handed over in portions.
pub(super) struct Portioned {
    body: Body,
    rest: Bytes,
    progress: Arc<Progress>,
    _exchange: Exchange,
}

impl HttpBody for Portioned {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        self.progress.waits.store(false, Ordering::Relaxed);
        if self.rest.is_empty() {
            let frame = match ready!(Pin::new(&mut self.body).poll_frame(context)) {
                Some(Ok(frame)) => frame,
                other => return Poll::Ready(other),
            };
            match frame.into_data() {
                Ok(data) => self.rest = data,
                Err(trailers) => return Poll::Ready(Some(Ok(trailers))),
            }
        }
        let length = self.rest.len().min(PORTION);
        let portion = self.rest.split_to(length);
        self.progress.taken.fetch_add(length as u64, Ordering::Relaxed);
        self.progress.waits.store(true, Ordering::Relaxed);
        Poll::Ready(Some(Ok(Frame::data(portion))))
    }

    fn is_end_stream(&self) -> bool {
        self.rest.is_empty() && self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        let (hint, rest) = (self.body.size_hint(), self.rest.len() as u64);
        let mut with_rest = SizeHint::new();
        with_rest.set_lower(hint.lower().saturating_add(rest));
        if let Some(upper) = hint.upper() {
            with_rest.set_upper(upper.saturating_add(rest));
        }
        with_rest
    }
}

#[cfg(test)]
mod tests {
    use http_body_util::BodyExt;

    use super::*;

    const PERIOD: Duration = Duration::from_secs(30);

    fn answered(content_type: &str, length: usize) -> (Arc<Exchanges>, Portioned) {
        let exchanges = Arc::new(Exchanges::default());
        let response = Response::builder().header(CONTENT_TYPE, content_type).body(Body::from(vec![7; length]));
        let body = exchanges.begin().answer(response.unwrap()).into_body();
        (exchanges, body)
    }

    #[tokio::test(start_paused = true)]
    async fn an_answer_is_the_same_in_portions() {
        for length in [0, 1, PORTION, PORTION + 1, 100_000] {
            let (exchanges, body) = answered("text/plain", length);
            let begun = Instant::now();
            assert_eq!(body.size_hint().exact(), Some(length as u64));
            assert!(exchanges.quiet_since(begun).is_none());
            assert_eq!(body.collect().await.unwrap().to_bytes(), vec![7; length]);
            assert!(exchanges.quiet_since(begun).is_some() && !exchanges.is_stalled(PERIOD));
        }
    }

    #[tokio::test(start_paused = true)]
    async fn an_answer_that_the_client_does_not_take_is_found() {
        let (exchanges, mut slow) = answered("text/plain", 10_000_000);
        slow.frame().await.unwrap().unwrap();
        assert!(!exchanges.is_stalled(PERIOD), "it has waited for a moment only");
        assert!(exchanges.is_stalled(PERIOD), "nothing was taken for a period");
        for _ in 0..4 {
            slow.frame().await.unwrap().unwrap();
        }
        assert!(exchanges.is_stalled(PERIOD), "64 KiB in 30 seconds are too few");
        for _ in 0..20 {
            slow.frame().await.unwrap().unwrap();
        }
        assert!(!exchanges.is_stalled(PERIOD));
        // One portion is enough for an event stream.
        let (exchanges, mut stream) = answered("text/event-stream", 100_000);
        for _ in 0..3 {
            stream.frame().await.unwrap().unwrap();
            assert!(!exchanges.is_stalled(PERIOD));
        }
        assert!(exchanges.is_stalled(PERIOD));
    }
}
