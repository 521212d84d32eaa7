//! Limiters and buckets by the address of a request's client, and refusals as answers.

use axum::response::{IntoResponse, Response};
use gatewright_http::{RateLimited, TrustedProxies};
use http::request::Parts;

use crate::address::NoAddress;
use crate::bucket::TokenBucket;
use crate::{Denied, Limiter};

impl Limiter {
    /// Whether [`Limiter::address_key`] reads `X-Forwarded-For`. Default: off.
    pub fn trust_forwarded_for(self, trust: bool) -> Self {
        self.with(|inner| inner.address.trust_forwarded_for = trust)
    }

    /// The proxies whose `X-Forwarded-For` is trusted, instead of those in the request's extensions.
    pub fn trusted_proxies(self, proxies: TrustedProxies) -> Self {
        self.with(|inner| inner.address.trusted_proxies = Some(proxies))
    }

    /// The key of the client who sent the request with these parts: its IPv4 address, or its IPv6 /64.
    pub fn address_key(&self, parts: &Parts) -> Result<String, NoAddress> {
        self.0.address.key(parts)
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

    /// The key of the client's address.
    pub fn address_key(&self, parts: &Parts) -> Result<String, NoAddress> {
        self.address.key(parts)
    }
}

impl From<Denied> for RateLimited {
    fn from(denied: Denied) -> Self {
        Self { retry_after: denied.retry_after }
    }
}

impl IntoResponse for Denied {
    fn into_response(self) -> Response {
        RateLimited::from(self).into_response()
    }
}
