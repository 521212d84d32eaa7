use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use axum::response::{IntoResponse, Response};
use gatewright_base::{Identity, Subject};
use gatewright_http::RateLimited;
use http::request::Parts;
use http::{HeaderMap, HeaderName};
use tower::Layer;

use super::{Level, Rate, TokenBucket};
use crate::gate::{Gate, Gated, Passage};

/// Puts a [`TokenBucket`] in front of a service.
#[derive(Clone)]
pub struct TokenBucketLayer(Gate);

impl TokenBucketLayer {
    /// One bucket for each signed-in caller, whatever credential they use, and one for each address of anonymous ones.
    /// Mount it inside the layer that authenticates.
    pub fn by_caller(bucket: TokenBucket) -> Self {
        let by = bucket.clone();
        Self::by_key(bucket, move |parts| {
            let identity = parts.extensions.get::<Identity>().and_then(Identity::principal);
            Some(match identity.map(|principal| &principal.subject) {
                Some(Subject::User(id)) => format!("user:{id}"),
                Some(Subject::Service(id)) => format!("service:{id}"),
                None => by.address_key(parts),
            })
        })
    }

    /// One bucket for each value that `key_of` makes of a request; one that has no key passes.
    pub fn by_key(bucket: TokenBucket, key_of: impl Fn(&Parts) -> Option<String> + Send + Sync + 'static) -> Self {
        Self(Arc::new(move |parts| {
            let (bucket, key) = (bucket.clone(), key_of(parts)?);
            let passage: Passage = Box::pin(async move { pass(&bucket, &key).await });
            Some(passage)
        }))
    }
}

impl fmt::Debug for TokenBucketLayer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TokenBucketLayer").finish_non_exhaustive()
    }
}

impl<S> Layer<S> for TokenBucketLayer {
    type Service = Gated<S>;

    fn layer(&self, inner: S) -> Gated<S> {
        Gated::new(inner, self.0.clone())
    }
}

/// The budget for the answer's headers, or the refusal with the same headers.
async fn pass(bucket: &TokenBucket, key: &str) -> Result<HeaderMap, Response> {
    let level = bucket.take(key).await.map_err(IntoResponse::into_response)?;
    let budget = budget(bucket.rate(), level);
    if level.admitted {
        return Ok(budget);
    }
    let mut refusal = RateLimited { retry_after: level.retry_after }.into_response();
    refusal.headers_mut().extend(budget);
    Err(refusal)
}

fn budget(rate: &Rate, level: Level) -> HeaderMap {
    HeaderMap::from_iter([
        (HeaderName::from_static("ratelimit-limit"), rate.burst().into()),
        (HeaderName::from_static("ratelimit-remaining"), level.remaining.into()),
        (HeaderName::from_static("ratelimit-reset"), ceil_seconds(level.reset).into()),
    ])
}

fn ceil_seconds(wait: Duration) -> u64 {
    wait.as_secs() + u64::from(wait.subsec_nanos() > 0)
}
