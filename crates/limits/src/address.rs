use axum::response::{IntoResponse, Response};
use gatewright_http::{ClientAddr, Problem, TrustedProxies};
use http::request::Parts;

/// How a limiter finds the address that a request counts against.
#[derive(Clone, Default)]
pub(crate) struct Address {
    pub(crate) trust_forwarded_for: bool,
    /// Used instead of those in the request's extensions.
    pub(crate) trusted_proxies: Option<TrustedProxies>,
}

/// A request has no client address, so that a limit by address would be one limit for all clients. The answer is 500,
/// and the log says how to fix it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error(
    "the request carries no client address to count against; serve the router with \
     into_make_service_with_connect_info::<SocketAddr>(), or put ConnectInfo<SocketAddr> into each request's extensions"
)]
pub struct NoAddress;

impl Address {
    /// The client's IPv4 address, or its IPv6 /64.
    pub(crate) fn key(&self, parts: &Parts) -> Result<String, NoAddress> {
        let client = match &self.trusted_proxies {
            Some(proxies) => {
                ClientAddr::resolve(ClientAddr::peer(parts), &parts.headers, self.trust_forwarded_for, proxies)
            }
            None => ClientAddr::of(parts, self.trust_forwarded_for),
        };
        if client.ip().is_some() { Ok(client.limit_key()) } else { Err(NoAddress) }
    }
}

impl From<NoAddress> for Problem {
    fn from(error: NoAddress) -> Self {
        Self::internal(&error)
    }
}

impl IntoResponse for NoAddress {
    fn into_response(self) -> Response {
        Problem::from(self).into_response()
    }
}
