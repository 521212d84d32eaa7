use std::net::{IpAddr, Ipv6Addr};
use std::sync::Arc;

use ipnet::{IpNet, Ipv4Net, Ipv6Net};

/// The networks whose `X-Forwarded-For` and `X-Forwarded-Proto` are trusted. Cheap to clone; the program puts one into
/// the extensions of every request.
#[derive(Debug, Clone, Default)]
pub struct TrustedProxies(Arc<[IpNet]>);

/// The word for the peers of Unix sockets.
const UNIX: &str = "unix";

/// The address of every peer of a Unix socket, `100::1`. No computer has it: packets to its network are discarded (RFC 6666).
pub const UNIX_PEER: IpAddr = IpAddr::V6(Ipv6Addr::new(0x100, 0, 0, 0, 0, 0, 0, 1));

/// Text that is neither a network nor an address.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("\"{0}\" is not a network: write an address or a network such as 10.0.0.0/8")]
pub struct InvalidNetwork(pub String);

/// How many addresses [`TrustedProxies`] trusts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reach {
    /// As many as an operator may own.
    Own,
    /// This network is larger than what one organization has, apart from private addresses.
    Broad(String),
    /// At least half of this family of addresses, so that almost every client counts as a proxy.
    Family(&'static str),
}

impl TrustedProxies {
    /// Takes networks (`10.0.0.0/8`), single addresses (`192.0.2.1`), and the word `unix` for the peers of Unix sockets.
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
        self.0
            .iter()
            .map(|network| if *network == IpNet::from(UNIX_PEER) { UNIX.to_owned() } else { network.to_string() })
    }

    /// How many addresses the networks have together, however they are divided.
    pub fn reach(&self) -> Reach {
        // What is in use of IPv6, and what of it everybody may use privately.
        let public = Ipv6Net::new_assert(Ipv6Addr::new(0x2000, 0, 0, 0, 0, 0, 0, 0), 3);
        let private = Ipv6Net::new_assert(Ipv6Addr::new(0xfc00, 0, 0, 0, 0, 0, 0, 0), 7);
        let (mut v4, mut v6, mut broad) = (0_u64, 0_u128, None);
        for network in IpNet::aggregate(&self.0.iter().map(IpNet::trunc).collect()) {
            let large = match network {
                IpNet::V4(network) => {
                    v4 += 1 << (32 - network.prefix_len());
                    network.prefix_len() < 8
                }
                IpNet::V6(network) => {
                    if network.contains(&public) {
                        v6 += 1 << 125;
                    } else if public.contains(&network) {
                        v6 += 1 << (128 - network.prefix_len());
                    }
                    network.prefix_len() < 16 && !private.contains(&network)
                }
            };
            if large && broad.is_none() {
                broad = Some(network.to_string());
            }
        }
        match broad {
            _ if v4 >= 1 << 31 => Reach::Family("IPv4"),
            _ if v6 >= 1 << 124 => Reach::Family("IPv6"),
            Some(network) => Reach::Broad(network),
            None => Reach::Own,
        }
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
    if text == UNIX {
        return Ok(IpNet::from(UNIX_PEER));
    }
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
    fn networks_that_cover_a_family_are_found_however_they_are_divided() {
        let reach = |networks: &[&str]| TrustedProxies::parse(networks).unwrap().reach();
        let slices: Vec<String> = (0..128).map(|first| format!("{}.0.0.0/8", first * 2)).collect();
        let slices: Vec<&str> = slices.iter().map(String::as_str).collect();
        for v4 in [
            &["0.0.0.0/0"][..],
            &["1.2.3.4/0"],
            &["0.0.0.0/1"],
            &["0.0.0.0/1", "128.0.0.0/1"],
            &["10.0.0.0/8", "128.0.0.0/2", "192.0.0.0/2"],
            &["::ffff:0:0/96"],
            &["::ffff:128.0.0.0/97"],
            &slices,
        ] {
            assert_eq!(reach(v4), Reach::Family("IPv4"), "{v4:?}");
        }
        for v6 in [&["::/0"][..], &["2000::/3"], &["2000::/4"], &["::1", "2000::/5", "2800::/5"], &["::/1", "8000::/1"]]
        {
            assert_eq!(reach(v6), Reach::Family("IPv6"), "{v6:?}");
        }
        for broad in ["64.0.0.0/7", "::/8", "2600::/12", "fe00::/7", "fe80::/10"] {
            assert_eq!(reach(&["127.0.0.1", broad]), Reach::Broad(broad.to_owned()));
        }
        let own = ["10.0.0.0/8", "127.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "100.64.0.0/10", "::1", "fc00::/7"];
        assert_eq!(reach(&own), Reach::Own);
        assert_eq!(reach(&["2400:cb00::/32", "173.245.48.0/20", "2a06:98c0::/29"]), Reach::Own);
        assert_eq!(reach(&[]), Reach::Own);
    }

    #[test]
    fn invalid_entries_are_refused_by_name() {
        for text in ["", "10.0.0.0/33", "proxy.example.com", "10.0.0", "*"] {
            assert_eq!(TrustedProxies::parse(&[text]).unwrap_err(), InvalidNetwork(text.to_owned()));
        }
    }
}
