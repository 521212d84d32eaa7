use axum::response::{IntoResponse, Response};
use gatewright_http::{ClientAddr, Counted, Problem, TrustedProxies};
use http::request::Parts;

/// How a limiter finds the address that a request counts against.
#[derive(Clone, Default)]
pub(crate) struct Address {
    pub(crate) trust_forwarded_for: bool,
    /// Used instead of those in the request's extensions.
    pub(crate) trusted_proxies: Option<TrustedProxies>,
}

/// The keys of a client's address: of an IPv4 address itself, of an IPv6 address its /64, and its /48 with a higher limit.
/// See [`Counted::Attempts`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AddressKeys(Vec<(String, u32)>);

impl AddressKeys {
    /// The keys, each with how many times the limit it has.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&str, u32)> {
        self.0.iter().map(|(key, times)| (&**key, *times))
    }
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
    pub(crate) fn keys(&self, parts: &Parts) -> Result<AddressKeys, NoAddress> {
        let client = match &self.trusted_proxies {
            Some(proxies) => {
                ClientAddr::resolve(ClientAddr::peer(parts), &parts.headers, self.trust_forwarded_for, proxies)
            }
            None => ClientAddr::of(parts, self.trust_forwarded_for),
        };
        let networks = Counted::Attempts.networks(client).into_iter();
        let keys = networks.map(|share| (share.network.to_string(), u32::try_from(share.times).unwrap_or(u32::MAX)));
        let keys: Vec<_> = keys.collect();
        if keys.is_empty() { Err(NoAddress) } else { Ok(AddressKeys(keys)) }
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
