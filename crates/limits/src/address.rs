use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use gatewright_http::{ClientAddr, TrustedProxies};
use http::request::Parts;

/// How a limiter finds the address that a request counts against.
#[derive(Clone, Default)]
pub(crate) struct Address {
    pub(crate) trust_forwarded_for: bool,
    /// In place of those in the request's extensions.
    pub(crate) trusted_proxies: Option<TrustedProxies>,
    warned: Arc<AtomicBool>,
}

impl Address {
    /// The client's IPv4 address, or its IPv6 /64. All clients without an address share one key, which is said once.
    pub(crate) fn key(&self, scope: &str, parts: &Parts) -> String {
        let client = match &self.trusted_proxies {
            Some(proxies) => {
                ClientAddr::resolve(ClientAddr::peer(parts), &parts.headers, self.trust_forwarded_for, proxies)
            }
            None => ClientAddr::of(parts, self.trust_forwarded_for),
        };
        if client.ip().is_none() && !self.warned.swap(true, Ordering::Relaxed) {
            tracing::warn!(
                scope,
                "requests carry no client address, so that all clients share one limit; serve the router with \
                 into_make_service_with_connect_info::<SocketAddr>()"
            );
        }
        client.limit_key()
    }
}
