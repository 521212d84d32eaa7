use std::convert::Infallible;
use std::future::Future;
use std::task::{Context, Poll};

use axum::extract::Request;
use axum::response::Response;
use futures_util::FutureExt;
use futures_util::future::{BoxFuture, Either};
use tower::Service;

use super::take_ready;

/// A service for a router: its errors are answers.
pub trait RouteService:
    Service<Request, Response = Response, Error = Infallible, Future: Send> + Clone + Send + 'static
{
}

impl<S> RouteService for S where
    S: Service<Request, Response = Response, Error = Infallible, Future: Send> + Clone + Send + 'static
{
}

/// A layer as one function for each request. Its [`Layer`](tower::Layer) wraps services in [`Wrapped`].
///
/// ```
/// use axum::extract::Request;
/// use gatewright_http::layers::{Answer, Inner, Middleware, RouteService, answer};
/// use http::{HeaderValue, StatusCode, header::SERVER};
///
/// #[derive(Clone)]
/// struct Named;
///
/// impl Middleware for Named {
///     fn handle<S: RouteService>(&self, request: Request, inner: Inner<'_, S>) -> Answer<S> {
///         if request.uri().path() == "/favicon.ico" {
///             return inner.pass(request);
///         }
///         let called = inner.call(request);
///         answer(async move {
///             let mut response = called.await;
///             response.headers_mut().insert(SERVER, HeaderValue::from_static("me"));
///             response
///         })
///     }
/// }
/// ```
pub trait Middleware {
    /// Answers the request, by the service behind it or by itself.
    fn handle<S: RouteService>(&self, request: Request, inner: Inner<'_, S>) -> Answer<S>;
}

/// A service behind a [`Middleware`].
#[derive(Debug, Clone)]
pub struct Wrapped<S, M> {
    inner: S,
    middleware: M,
}

/// The result of a [`Middleware`]: the unchanged answer of the inner service, or its own boxed one.
pub type Answer<S> = Either<<S as Service<Request>>::Future, BoxFuture<'static, Result<Response, Infallible>>>;

/// The service behind a [`Middleware`], ready to be called.
pub struct Inner<'s, S>(&'s mut S);

/// A service that was taken out, to be called later.
pub struct Taken<S>(S);

impl<S, M> Wrapped<S, M> {
    /// Puts `middleware` in front of `inner`.
    pub fn new(inner: S, middleware: M) -> Self {
        Self { inner, middleware }
    }
}

impl<S: RouteService, M: Middleware> Service<Request> for Wrapped<S, M> {
    type Response = Response;
    type Error = Infallible;
    type Future = Answer<S>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, request: Request) -> Answer<S> {
        self.middleware.handle(request, Inner(&mut self.inner))
    }
}

impl<S: RouteService> Inner<'_, S> {
    /// Has the service answer, and does nothing with the answer. Costs nothing.
    pub fn pass(self, request: Request) -> Answer<S> {
        Either::Left(self.0.call(request))
    }

    /// Calls the service now, for a middleware that only changes the answer: this needs no clone of the service.
    pub fn call(self, request: Request) -> impl Future<Output = Response> + Send + use<S> {
        infallible(self.0.call(request))
    }

    /// Takes the service, for a middleware that waits before it calls the service. A clone replaces it.
    pub fn take(self) -> Taken<S> {
        Taken(take_ready(self.0))
    }
}

impl<S: RouteService> Taken<S> {
    /// Has the service answer.
    pub fn call(mut self, request: Request) -> impl Future<Output = Response> + Send + use<S> {
        infallible(self.0.call(request))
    }
}

/// The answer of a [`Middleware`] that waits, changes an answer or refuses. Create a refusal inside the future: only there
/// is the visitor's [`Locale`](crate::locale::Locale) known.
pub fn answer<F>(answer: impl Future<Output = Response> + Send + 'static) -> Made<F> {
    Either::Right(Box::pin(answer.map(Ok)))
}

/// See [`Answer`].
type Made<F> = Either<F, BoxFuture<'static, Result<Response, Infallible>>>;

fn infallible<F>(answer: F) -> impl Future<Output = Response> + Send + use<F>
where
    F: Future<Output = Result<Response, Infallible>> + Send,
{
    answer.map(|Ok(response)| response)
}

#[cfg(test)]
mod tests {
    use std::future::{Ready, ready};
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use axum::body::Body;
    use axum::response::IntoResponse;
    use http::StatusCode;
    use tower::ServiceExt;

    use super::*;

    /// Counts its clones.
    struct Counted(Arc<AtomicUsize>);

    impl Clone for Counted {
        fn clone(&self) -> Self {
            self.0.fetch_add(1, Ordering::SeqCst);
            Self(self.0.clone())
        }
    }

    impl Service<Request> for Counted {
        type Response = Response;
        type Error = Infallible;
        type Future = Ready<Result<Response, Infallible>>;

        fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
            Poll::Ready(Ok(()))
        }

        fn call(&mut self, _: Request) -> Self::Future {
            ready(Ok(Response::new(Body::empty())))
        }
    }

    /// Acts according to the path.
    struct ByPath;

    impl Middleware for ByPath {
        fn handle<S: RouteService>(&self, request: Request, inner: Inner<'_, S>) -> Answer<S> {
            match request.uri().path() {
                "/pass" => inner.pass(request),
                "/after" => answer(inner.call(request)),
                "/refuse" => answer(async { StatusCode::FORBIDDEN.into_response() }),
                _ => answer(inner.take().call(request)),
            }
        }
    }

    #[tokio::test]
    async fn a_service_is_cloned_only_if_it_is_called_later() {
        for (path, status, clones) in [("/pass", 200, 0), ("/after", 200, 0), ("/refuse", 403, 0), ("/later", 200, 1)] {
            let count = Arc::new(AtomicUsize::new(0));
            let service = Wrapped::new(Counted(count.clone()), ByPath);
            let request = Request::get(path).body(Body::empty()).unwrap();
            let Ok(response) = service.oneshot(request).await;
            assert_eq!((response.status().as_u16(), count.load(Ordering::SeqCst)), (status, clones), "{path}");
        }
    }
}
