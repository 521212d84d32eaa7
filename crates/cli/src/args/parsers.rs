//! Values of arguments.

use std::convert::Infallible;
use std::net::SocketAddr;

/// An id in any case. A UUID becomes lower case.
#[expect(clippy::unnecessary_wraps, reason = "the form of a parser of arguments")]
pub(super) fn id(text: &str) -> Result<String, Infallible> {
    Ok(gatewright::base::canonical_id(text).into_owned())
}

pub(super) fn address(text: &str) -> Result<SocketAddr, String> {
    gatewright::config::listen_address(text).ok_or_else(|| format!("expected {}", gatewright::config::LISTEN_ADDRESS))
}
