//! The limiter around routes: each request is an attempt of its key, and a refused one never reaches the route.

use std::fmt;

use axum::response::IntoResponse;
use gatewright_http::layers::Wrapped;
use http::HeaderMap;
use http::request::Parts;
use tower::Layer;

use crate::Limiter;
use crate::gate::{Gate, GateFuture, refuse};

/// Puts a [`Limiter`] in front of a service. Refuses with 429, `Retry-After` and the text `rate limit exceeded`.
#[derive(Clone)]
pub struct LimiterLayer(Gate);

impl LimiterLayer {
    /// Counts by the client's address; see [`Limiter::address_key`].
    pub fn by_address(limiter: Limiter) -> Self {
        Self(Gate::new(move |parts| {
            let (limiter, key) = (limiter.clone(), limiter.address_key(parts));
            Some(match key {
                Ok(key) => pass(limiter, key),
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
    Box::pin(async move {
        let attempt = limiter.attempt(&key).await;
        attempt.map(|()| HeaderMap::new()).map_err(IntoResponse::into_response)
    })
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
