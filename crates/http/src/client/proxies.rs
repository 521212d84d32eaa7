use std::net::IpAddr;
use std::sync::Arc;

use ipnet::{IpNet, Ipv4Net};

/// The networks whose `X-Forwarded-For` and `X-Forwarded-Proto` are trusted. Cheap to clone; the program puts one into
/// the extensions of every request.
#[derive(Debug, Clone, Default)]
pub struct TrustedProxies(Arc<[IpNet]>);

/// Text that is neither a network nor an address.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("\"{0}\" is not a network: write an address or a network such as 10.0.0.0/8")]
pub struct InvalidNetwork(pub String);

impl TrustedProxies {
    /// Takes networks (`10.0.0.0/8`) and single addresses (`192.0.2.1`).
    pub fn parse<T: AsRef<str>>(networks: &[T]) -> Result<Self, InvalidNetwork> {
        networks
            .iter()
            .map(|text| parse_network(text.as_ref()))
            .collect::<Result<Vec<_>, _>>()
            .map(|list| Self(list.into()))
    }

    /// Whether `address` is in one of the networks. IPv4 written as IPv6 is IPv4.
    pub fn contains(&self, address: IpAddr) -> bool {
        let address = address.to_canonical();
        self.0.iter().any(|network| network.contains(&address))
    }

    /// The networks as text.
    pub fn networks(&self) -> impl Iterator<Item = String> {
        self.0.iter().map(ToString::to_string)
    }

    /// Whether no network is named.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl<'de> serde::Deserialize<'de> for TrustedProxies {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let networks = Vec::<String>::deserialize(deserializer)?;
        Self::parse(&networks).map_err(serde::de::Error::custom)
    }
}

fn parse_network(text: &str) -> Result<IpNet, InvalidNetwork> {
    let network = match text.parse::<IpNet>() {
        Ok(network) => network,
        Err(_) => {
            text.parse::<IpAddr>().map(IpNet::from).map_err(|_| InvalidNetwork(text.chars().take(100).collect()))?
        }
    };
    // Addresses are compared in their canonical form, so that a mapped network must be brought into it as well.
    if let IpNet::V6(mapped) = network
        && let Some(address) = mapped.addr().to_ipv4_mapped()
        && let Some(length) = mapped.prefix_len().checked_sub(96)
        && let Ok(network) = Ipv4Net::new(address, length)
    {
        return Ok(IpNet::V4(network));
    }
    Ok(network)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn networks_and_addresses_are_accepted_in_every_notation() {
        let proxies =
            TrustedProxies::parse(&["10.0.0.0/8", "192.0.2.1", "2001:db8::/32", "::ffff:172.16.0.0/108"]).unwrap();
        for inside in ["10.1.2.3", "::ffff:10.1.2.3", "192.0.2.1", "2001:db8::1", "172.20.0.1", "::ffff:172.16.0.9"] {
            assert!(proxies.contains(inside.parse().unwrap()), "{inside}");
        }
        for outside in ["11.0.0.1", "192.0.2.2", "2001:db9::1", "172.32.0.1", "::1"] {
            assert!(!proxies.contains(outside.parse().unwrap()), "{outside}");
        }
        assert!(!TrustedProxies::default().contains("10.0.0.1".parse().unwrap()));
    }

    #[test]
    fn invalid_entries_are_refused_by_name() {
        for text in ["", "10.0.0.0/33", "proxy.example.com", "10.0.0", "*"] {
            assert_eq!(TrustedProxies::parse(&[text]).unwrap_err(), InvalidNetwork(text.to_owned()));
        }
    }
}
