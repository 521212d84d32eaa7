use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// The network of an address, as large as one customer may have: an IPv6 /48 or an IPv4 /16.
pub(super) fn network(address: IpAddr) -> String {
    match address.to_canonical() {
        IpAddr::V4(address) => format!("{}/16", Ipv4Addr::from_bits(address.to_bits() & 0xffff_0000)),
        IpAddr::V6(address) => format!("{}/48", Ipv6Addr::from_bits(address.to_bits() & !(u128::MAX >> 48))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_network_is_a_48_or_a_16() {
        for (address, expected) in [
            ("203.0.113.9", "203.0.0.0/16"),
            ("::ffff:203.0.113.9", "203.0.0.0/16"),
            ("2001:db8:1:2:3::4", "2001:db8:1::/48"),
            ("2001:db8:1:ffff::1", "2001:db8:1::/48"),
        ] {
            assert_eq!(network(address.parse().unwrap()), expected);
        }
    }
}
