//! The layer around all routes, as one service: with separate layers, each would cost every request a boxed future and
//! a clone of all inner services.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use axum::body::Body;
use axum::extract::{DefaultBodyLimit, Request};
use axum::response::{IntoResponse, Response};
use futures_util::FutureExt;
use gatewright_base::{Ambient, Budget, Lease};
use http_body::Body as _;
use parking_lot::Mutex;
use tower::Layer;
use tracing::Instrument;

use super::remainder::Remainder;
use super::request_id::RequestId;
use super::{
    Answer, BodyLimit, Deadline, Inner, Middleware, RouteService, Taken, Wrapped, answer, answers, budgeted, headers,
    panic,
};
use crate::{Counted, TrustedProxies};

/// The envelope around a service: id, log span, headers, the panic handler, the deadline and the body limit. See
/// [`standard`](super::standard).
#[derive(Debug, Clone)]
pub struct EnvelopeLayer(Arc<Settings>);

#[derive(Debug, Clone)]
struct Settings {
    ambient: Ambient,
    limit: BodyLimit,
    deadline: Deadline,
    proxies: Option<TrustedProxies>,
    never_stored: Option<Arc<str>>,
    below: Option<(Arc<str>, BodyLimit)>,
    budget: Option<Budget>,
    streaming: Option<Streaming>,
}

/// Tells which requests are streaming.
#[derive(Clone)]
struct Streaming(Arc<dyn Fn(&Request) -> bool + Send + Sync>);

impl std::fmt::Debug for Streaming {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Streaming(…)")
    }
}

impl EnvelopeLayer {
    /// Uses ids from `ambient`, limits bodies to `limit` bytes, and waits for an answer until `deadline` ends.
    pub fn new(ambient: Ambient, limit: BodyLimit, deadline: Deadline) -> Self {
        Self(Arc::new(Settings {
            ambient,
            limit,
            deadline,
            proxies: None,
            never_stored: None,
            below: None,
            budget: None,
            streaming: None,
        }))
    }

    /// Puts the proxies that are trusted into every request's extensions, where
    /// [`ClientAddr`](crate::ClientAddr) and [`Scheme`](crate::Scheme) look for them.
    pub fn trusted_proxies(self, proxies: TrustedProxies) -> Self {
        // Without any, there is nothing to search for.
        let proxies = Some(proxies).filter(|proxies| !proxies.is_empty());
        Self(Arc::new(Settings { proxies, ..(*self.0).clone() }))
    }

    /// Sets another body limit for requests to `path` and below, in bytes.
    pub fn limit_below(self, path: &str, limit: BodyLimit) -> Self {
        let below = Some((path.trim_end_matches('/').into(), limit));
        Self(Arc::new(Settings { below, ..(*self.0).clone() }))
    }

    /// Takes the bytes of bodies from `budget` while a request is answered: 503 if there are none left. Each address
    /// has a share; the first 16 KiB of a body are not counted.
    pub fn budget(self, budget: Budget) -> Self {
        Self(Arc::new(Settings { budget: Some(budget), ..(*self.0).clone() }))
    }

    /// Requests for which `is_streaming` holds have none of the limits of bodies: not their bytes, not their memory, and no
    /// deadline. Their handlers must read the body in pieces, with limits of their own.
    pub fn streaming(self, is_streaming: impl Fn(&Request) -> bool + Send + Sync + 'static) -> Self {
        let streaming = Some(Streaming(Arc::new(is_streaming)));
        Self(Arc::new(Settings { streaming, ..(*self.0).clone() }))
    }

    /// Sets `Cache-Control: no-store` on every answer to `path` and below, from any layer: if answers contain
    /// credentials, the refusals of a guard or a middleware around them may too.
    pub fn never_store(self, path: &str) -> Self {
        Self(Arc::new(Settings { never_stored: Some(path.trim_end_matches('/').into()), ..(*self.0).clone() }))
    }
}

/// Without axum's own limit on bodies.
type Unlimited<S> = <DefaultBodyLimit as Layer<S>>::Service;

impl<S> Layer<S> for EnvelopeLayer {
    type Service = Wrapped<Unlimited<S>, Self>;

    fn layer(&self, inner: S) -> Self::Service {
        // This layer's own limit applies; axum's would cut bodies at 2 MB.
        Wrapped::new(DefaultBodyLimit::disable().layer(inner), self.clone())
    }
}

impl Middleware for EnvelopeLayer {
    fn handle<S: RouteService>(&self, mut request: Request, inner: Inner<'_, S>) -> Answer<S> {
        let settings = self.0.clone();
        let id = RequestId::of(&request, &settings.ambient);
        let span = id.span(&request);
        let never_stored = settings.never_stored.as_deref().is_some_and(|path| is_below(request.uri().path(), path));
        request.extensions_mut().insert(id.clone());
        if let Some(proxies) = &settings.proxies {
            request.extensions_mut().insert(proxies.clone());
        }
        let inner = inner.take();
        let answered = async move {
            let mut response = within(inner, request, &settings).await;
            headers::secure(response.headers_mut());
            if never_stored {
                headers::never_store(response.headers_mut());
            }
            id.stamp(&mut response);
            response
        };
        answer(answered.instrument(span))
    }
}

impl Settings {
    fn limit_of(&self, request: &Request) -> BodyLimit {
        match &self.below {
            Some((path, limit)) if is_below(request.uri().path(), path) => *limit,
            _ => self.limit,
        }
    }

    /// The request with a body that takes its bytes from the budget, and the lease.
    fn budgeted(&self, request: Request) -> (Request, Option<Arc<Mutex<Lease>>>) {
        let Some(budget) = self.budget.as_ref().filter(|_| !is_free(request.body())) else {
            return (request, None);
        };
        let holder = Counted::Bytes.share_key(answers::client(&request));
        let lease = Arc::new(Mutex::new(budget.lease(holder.as_deref())));
        (request.map(|body| budgeted::incoming(body, lease.clone())), Some(lease))
    }
}

/// Whether a body is one that takes nothing from a budget, however much of it is read.
fn is_free(body: &Body) -> bool {
    body.size_hint().exact().is_some_and(|bytes| bytes <= budgeted::FREE as u64)
}

/// Whether `path` is `above` or a path below it.
fn is_below(path: &str, above: &str) -> bool {
    path.strip_prefix(above).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

/// The answer, or a refusal because a limit was exceeded.
async fn within<S: RouteService>(inner: Taken<S>, request: Request, settings: &Settings) -> Response {
    let (request, remainder) = Remainder::watch(request);
    if settings.streaming.as_ref().is_some_and(|Streaming(is_streaming)| is_streaming(&request)) {
        let answer = AssertUnwindSafe(async move { inner.call(request).await }).catch_unwind().await;
        let response = answered(answer);
        return match remainder {
            Some(remainder) => remainder.settle(response).await,
            None => response,
        };
    }
    // Held until the answer begins: until then the handler keeps the body that it read.
    let (request, _lease) = settings.budgeted(request);
    let response = match settings.limit_of(&request).applied_to(request) {
        Ok(request) => match run(inner, request, settings).await {
            Some(response) => response,
            None => settings.deadline.refusal(remainder.as_ref().is_some_and(Remainder::is_awaited)),
        },
        Err(refused) => refused.into_response(),
    };
    match remainder {
        Some(remainder) => remainder.settle(response).await,
        None => response,
    }
}

/// `None` if there was no answer in time.
async fn run<S: RouteService>(inner: Taken<S>, request: Request, settings: &Settings) -> Option<Response> {
    let exempt = settings.deadline.exempts(request.uri());
    // Calling may panic as well as waiting.
    let answer = AssertUnwindSafe(async move { inner.call(request).await }).catch_unwind();
    let answer = if exempt { Some(answer.await) } else { settings.deadline.wait_for(answer).await };
    answer.map(answered)
}

fn answered(answer: Result<Response, Box<dyn std::any::Any + Send>>) -> Response {
    answer.unwrap_or_else(|payload| panic::answer(&*payload))
}
