//! The limiter around routes: each request is an attempt of its key, and a refused one never reaches the route.

use std::fmt;

use axum::response::IntoResponse;
use gatewright_http::layers::Wrapped;
use http::HeaderMap;
use http::request::Parts;
use tower::Layer;

use crate::gate::{Gate, GateFuture, refuse};
use crate::{Denied, Limiter};

/// Puts a [`Limiter`] in front of a service. Refuses with 429, `Retry-After` and the text `rate limit exceeded`.
#[derive(Clone)]
pub struct LimiterLayer(Gate);

impl LimiterLayer {
    /// Counts by the client's address; see [`Limiter::address_keys`].
    pub fn by_address(limiter: Limiter) -> Self {
        Self(Gate::new(move |parts| {
            let (limiter, keys) = (limiter.clone(), limiter.address_keys(parts));
            Some(match keys {
                Ok(keys) => passed(async move { limiter.attempt_by(&keys).await }),
                Err(missing) => refuse(missing),
            })
        }))
    }

    /// Counts by the value that `key_of` returns; a request without a key is not counted and passes.
    pub fn by_key(limiter: Limiter, key_of: impl Fn(&Parts) -> Option<String> + Send + Sync + 'static) -> Self {
        Self(Gate::new(move |parts| {
            let (limiter, key) = (limiter.clone(), key_of(parts)?);
            Some(pass(limiter, key))
        }))
    }
}

fn pass(limiter: Limiter, key: String) -> GateFuture {
    passed(async move { limiter.attempt(&key).await })
}

fn passed(attempt: impl Future<Output = Result<(), Denied>> + Send + 'static) -> GateFuture {
    Box::pin(async move { attempt.await.map(|()| HeaderMap::new()).map_err(IntoResponse::into_response) })
}

impl fmt::Debug for LimiterLayer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LimiterLayer").finish_non_exhaustive()
    }
}

impl<S> Layer<S> for LimiterLayer {
    type Service = Wrapped<S, Gate>;

    fn layer(&self, inner: S) -> Self::Service {
        Wrapped::new(inner, self.0.clone())
    }
}
