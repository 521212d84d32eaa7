use std::net::{IpAddr, SocketAddr};

use reqwest::dns::{Addrs, Name, Resolve, Resolving};
use url::{Host, Url};

use crate::is_public;

/// Resolves names and leaves out the addresses that are not public. The connection uses the returned addresses, so that
/// a name that resolves differently a moment later does not bypass the check.
pub(crate) struct Guard {
    pub(crate) private_networks: bool,
}

/// An address that is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the address is not public")]
pub(crate) struct NotPublic;

impl Resolve for Guard {
    fn resolve(&self, name: Name) -> Resolving {
        let private_networks = self.private_networks;
        Box::pin(async move {
            let found = tokio::net::lookup_host((name.as_str(), 0)).await?;
            Ok(allowed(found, private_networks)?)
        })
    }
}

/// Refuses a URL whose host is an address that is not public.
pub(crate) fn check_literal(url: &Url, private_networks: bool) -> Result<(), NotPublic> {
    let literal = match url.host() {
        Some(Host::Ipv4(address)) => IpAddr::V4(address),
        Some(Host::Ipv6(address)) => IpAddr::V6(address),
        _ => return Ok(()),
    };
    if private_networks || is_public(literal) { Ok(()) } else { Err(NotPublic) }
}

fn allowed(found: impl Iterator<Item = SocketAddr>, private_networks: bool) -> Result<Addrs, NotPublic> {
    let kept: Vec<SocketAddr> = found.filter(|address| private_networks || is_public(address.ip())).collect();
    if kept.is_empty() { Err(NotPublic) } else { Ok(Box::new(kept.into_iter())) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn addresses(texts: &[&str]) -> std::vec::IntoIter<SocketAddr> {
        texts.iter().map(|text| SocketAddr::new(text.parse().unwrap(), 0)).collect::<Vec<_>>().into_iter()
    }

    #[test]
    fn only_public_addresses_of_a_name_are_called() {
        let kept: Vec<_> = allowed(addresses(&["127.0.0.1", "1.1.1.1", "::1"]), false).unwrap().collect();
        assert_eq!(kept, addresses(&["1.1.1.1"]).collect::<Vec<_>>());
        assert_eq!(allowed(addresses(&["10.0.0.1", "fe80::1"]), false).err(), Some(NotPublic));
        assert_eq!(allowed(addresses(&["10.0.0.1"]), true).unwrap().count(), 1);
    }
}
