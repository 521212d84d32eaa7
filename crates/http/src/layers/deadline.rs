use std::fmt;
use std::future::poll_fn;
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use axum::response::{IntoResponse, Response};
use http::{StatusCode, Uri};
use tokio::task::unconstrained;
use tokio::time::sleep;

use super::RETRY_SOON;
use crate::Problem;

type Exempt = dyn Fn(&Uri) -> bool + Send + Sync;

/// The deadline for the beginning of an answer: 503 after it, or 408 if the request's own body has not arrived.
///
/// The body of an answer has no deadline, so an event stream is never interrupted.
#[derive(Clone)]
pub struct Deadline {
    after: Duration,
    exempt: Option<Arc<Exempt>>,
}

impl Deadline {
    /// Every answer must begin within `after`.
    pub fn new(after: Duration) -> Self {
        Self { after, exempt: None }
    }

    /// Exempts requests whose target satisfies `exempt`, such as long polls.
    pub fn exempting(mut self, exempt: impl Fn(&Uri) -> bool + Send + Sync + 'static) -> Self {
        self.exempt = Some(Arc::new(exempt));
        self
    }
}

impl fmt::Debug for Deadline {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Deadline").field("after", &self.after).finish_non_exhaustive()
    }
}

impl Deadline {
    pub(super) fn exempts(&self, uri: &Uri) -> bool {
        self.exempt.as_ref().is_some_and(|exempt| exempt(uri))
    }

    /// The result of `answer`, if it is ready in time.
    pub(super) async fn wait_for<T>(&self, answer: impl Future<Output = T>) -> Option<T> {
        let (mut answer, mut timer) = (pin!(answer), None);
        poll_fn(|context| {
            if let Poll::Ready(answer) = answer.as_mut().poll(context) {
                return Poll::Ready(Some(answer));
            }
            // Many answers are ready at once and need no timer. It is on the heap because it is large and aligned to
            // 128 bytes, and so would be the future of each request. Unconstrained: it fires for a handler too that
            // always uses its whole share of the runtime's time.
            let timer = timer.get_or_insert_with(|| Box::pin(unconstrained(sleep(self.after))));
            timer.as_mut().poll(context).map(|()| None)
        })
        .await
    }

    /// The 503 for a request that took too long, or the 408 for a client that did (`awaits_client`).
    pub(super) fn refusal(&self, awaits_client: bool) -> Response {
        if awaits_client {
            tracing::info!(after = ?self.after, "the request's body took too long");
            return Problem::of(StatusCode::REQUEST_TIMEOUT).into_response();
        }
        tracing::warn!(after = ?self.after, "the request took too long");
        Problem::unavailable("the request took too long", RETRY_SOON).with_code("timeout").into_response()
    }
}
