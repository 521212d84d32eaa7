use std::fmt;
use std::time::Duration;

use axum::response::{IntoResponse, Response};
use gatewright_base::{Credential, Identity, Principal, Subject};
use gatewright_http::RateLimited;
use gatewright_http::layers::Wrapped;
use http::request::Parts;
use http::{HeaderMap, HeaderName};
use tower::Layer;

use super::{Level, Rate, TokenBucket};
use crate::address::AddressKeys;
use crate::gate::{Gate, GateFuture, refuse};

/// Puts a [`TokenBucket`] in front of a service.
#[derive(Clone)]
pub struct TokenBucketLayer(Gate);

impl TokenBucketLayer {
    /// One bucket for each signed-in caller, whatever credential they use, and one for each address of anonymous
    /// callers. Mount it inside the layer that authenticates.
    pub fn by_caller(bucket: TokenBucket) -> Self {
        Self(Gate::new(move |parts| {
            Some(match principal(parts) {
                Some(principal) => admission(&bucket, caller_key(principal)),
                None => by_address(&bucket, parts),
            })
        }))
    }

    /// Like [`by_caller`](Self::by_caller), but each API token has its own bucket. So that creating tokens does not add
    /// budget, a request by a token also takes from the bucket of its owner in `owners`, which all tokens of one account
    /// share.
    pub fn by_token(bucket: TokenBucket, owners: TokenBucket) -> Self {
        Self(Gate::new(move |parts| {
            let admission: GateFuture = match principal(parts) {
                Some(principal) => {
                    let owner = caller_key(principal);
                    match &principal.credential {
                        Credential::ApiToken { id, .. } => {
                            let (bucket, owners, token) = (bucket.clone(), owners.clone(), format!("token:{id}"));
                            Box::pin(async move { pass_both((&bucket, &*token), (&owners, &*owner)).await })
                        }
                        _ => admission(&bucket, owner),
                    }
                }
                None => by_address(&bucket, parts),
            };
            Some(admission)
        }))
    }

    /// One bucket for each address, for all its callers.
    pub fn by_address(bucket: TokenBucket) -> Self {
        Self(Gate::new(move |parts| Some(by_address(&bucket, parts))))
    }

    /// One bucket for each value that `key_of` returns; a request without a key passes.
    pub fn by_key(bucket: TokenBucket, key_of: impl Fn(&Parts) -> Option<String> + Send + Sync + 'static) -> Self {
        Self(Gate::new(move |parts| {
            let key = key_of(parts)?;
            Some(admission(&bucket, key))
        }))
    }
}

/// The signed-in account. A session with a pending second factor does not count.
fn principal(parts: &Parts) -> Option<&Principal> {
    parts.extensions.get::<Identity>().and_then(Identity::principal).map(AsRef::as_ref)
}

fn caller_key(principal: &Principal) -> String {
    match &principal.subject {
        Subject::User(id) => format!("user:{id}"),
        Subject::Service(id) => format!("service:{id}"),
    }
}

impl fmt::Debug for TokenBucketLayer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TokenBucketLayer").finish_non_exhaustive()
    }
}

impl<S> Layer<S> for TokenBucketLayer {
    type Service = Wrapped<S, Gate>;

    fn layer(&self, inner: S) -> Self::Service {
        Wrapped::new(inner, self.0.clone())
    }
}

fn by_address(bucket: &TokenBucket, parts: &Parts) -> GateFuture {
    match bucket.address_keys(parts) {
        Ok(keys) => {
            let bucket = bucket.clone();
            Box::pin(async move { pass_all(&bucket, &keys).await })
        }
        Err(missing) => refuse(missing),
    }
}

/// Takes from the buckets of all networks of an address, the smallest first, and returns the one with the fewest tokens
/// left.
async fn pass_all(bucket: &TokenBucket, keys: &AddressKeys) -> Result<HeaderMap, Response> {
    let mut lowest: Option<(Rate, Level)> = None;
    for (key, times) in keys.iter() {
        let rate = bucket.rate().times(times);
        let level = take(bucket, key, &rate).await?;
        if lowest.as_ref().is_none_or(|(_, lowest)| level.remaining < lowest.remaining) {
            lowest = Some((rate, level));
        }
    }
    Ok(lowest.map_or_else(HeaderMap::new, |(rate, level)| budget(&rate, level)))
}

fn admission(bucket: &TokenBucket, key: String) -> GateFuture {
    let bucket = bucket.clone();
    Box::pin(async move { pass(&bucket, &key).await })
}

/// The budget for the answer's headers, or the refusal with the same headers.
async fn pass(bucket: &TokenBucket, key: &str) -> Result<HeaderMap, Response> {
    let rate = bucket.rate();
    take(bucket, key, &rate).await.map(|level| budget(&rate, level))
}

/// Takes from both, and returns the one with fewer tokens left. If the first refuses, the second is not used, so that
/// an overused token takes nothing from its owner's other tokens.
async fn pass_both(first: (&TokenBucket, &str), second: (&TokenBucket, &str)) -> Result<HeaderMap, Response> {
    let (first_rate, second_rate) = (first.0.rate(), second.0.rate());
    let one = take(first.0, first.1, &first_rate).await?;
    let other = take(second.0, second.1, &second_rate).await?;
    let (rate, level) = if other.remaining < one.remaining { (second_rate, other) } else { (first_rate, one) };
    Ok(budget(&rate, level))
}

async fn take(bucket: &TokenBucket, key: &str, rate: &Rate) -> Result<Level, Response> {
    let level = bucket.take_at(key, rate).await.map_err(IntoResponse::into_response)?;
    if level.admitted {
        return Ok(level);
    }
    let mut refusal = RateLimited { retry_after: level.retry_after }.into_response();
    refusal.headers_mut().extend(budget(rate, level));
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
