//! Limiters and buckets by the address of a request's client, and refusals as answers.

use axum::response::{IntoResponse, Response};
use gatewright_http::{Problem, RateLimited, TrustedProxies};
use http::StatusCode;
use http::request::Parts;

use crate::address::{AddressKeys, NoAddress};
use crate::bucket::TokenBucket;
use crate::{Attempt, Denied, Limiter};

impl Limiter {
    /// Whether [`Limiter::address_keys`] reads `X-Forwarded-For`. Default: off.
    pub fn trust_forwarded_for(self, trust: bool) -> Self {
        self.with(|inner| inner.address.trust_forwarded_for = trust)
    }

    /// The proxies whose `X-Forwarded-For` is trusted, instead of those in the request's extensions.
    pub fn trusted_proxies(self, proxies: TrustedProxies) -> Self {
        self.with(|inner| inner.address.trusted_proxies = Some(proxies))
    }

    /// The keys of the client who sent the request with these parts.
    pub fn address_keys(&self, parts: &Parts) -> Result<AddressKeys, NoAddress> {
        self.0.address.keys(parts)
    }

    /// Counts one attempt of a client's address; `Err` if it must be refused. See [`Limiter::attempt`].
    pub async fn attempt_by(&self, keys: &AddressKeys) -> Result<(), Denied> {
        self.begin_by(keys).await.map(drop)
    }

    /// Like [`Limiter::attempt_by`], for attempts of which only failures should count. See [`Limiter::begin`].
    pub async fn begin_by(&self, keys: &AddressKeys) -> Result<Attempt, Denied> {
        let mut attempt = Attempt::empty();
        for (key, times) in keys.iter() {
            self.add_to(&mut attempt, key, self.policy().times(times)).await?;
        }
        Ok(attempt)
    }
}

impl TokenBucket {
    /// Whether an anonymous caller's address is read from `X-Forwarded-For`. Default: off.
    pub fn trust_forwarded_for(mut self, trust: bool) -> Self {
        self.address.trust_forwarded_for = trust;
        self
    }

    /// The proxies whose `X-Forwarded-For` is trusted, instead of those in the request's extensions.
    pub fn trusted_proxies(mut self, proxies: TrustedProxies) -> Self {
        self.address.trusted_proxies = Some(proxies);
        self
    }

    /// The keys of the client's address.
    pub fn address_keys(&self, parts: &Parts) -> Result<AddressKeys, NoAddress> {
        self.address.keys(parts)
    }
}

impl From<Denied> for Problem {
    fn from(denied: Denied) -> Self {
        Self::of(StatusCode::TOO_MANY_REQUESTS).with_detail(denied.to_string()).retry_after(denied.retry_after())
    }
}

impl IntoResponse for Denied {
    fn into_response(self) -> Response {
        RateLimited { retry_after: self.retry_after() }.into_response()
    }
}
