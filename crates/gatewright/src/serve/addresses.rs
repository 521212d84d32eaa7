use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::net::IpAddr;
use std::sync::Arc;

use gatewright_http::{ClientAddr, Counted, Network, Networks, TrustedProxies};
use parking_lot::Mutex;

/// Counts the open connections of each address. Cheap to clone; all clones count together.
#[derive(Clone)]
pub(super) struct Addresses(Arc<Inner>);

struct Inner {
    /// The most connections of one address; `None` for no limit.
    most: Option<usize>,
    /// Loopback addresses are counted too.
    counts_loopback: bool,
    /// Their connections belong to many clients, and are not counted.
    proxies: TrustedProxies,
    open: Mutex<HashMap<Network, usize>>,
}

/// An open connection. Dropping it ends the count.
pub(super) struct Seat {
    addresses: Addresses,
    networks: Networks,
}

impl Addresses {
    /// Counts connections up to `most` for each address that is not a trusted proxy. Without `most`, the limit is 1,000, and
    /// loopback addresses are not counted, because they may be an undeclared proxy. Zero means no limit.
    pub(super) fn new(most: Option<usize>, proxies: TrustedProxies) -> Self {
        let limit = Some(most.unwrap_or(1_000)).filter(|most| *most > 0);
        Self(Arc::new(Inner { most: limit, counts_loopback: most.is_some(), proxies, open: Mutex::default() }))
    }

    /// Counts one more connection of `peer`; `None` if the limit is reached.
    pub(super) fn enter(&self, peer: IpAddr) -> Option<Seat> {
        let networks = self.counted(peer.to_canonical());
        let mut open = self.0.open.lock();
        let most = self.0.most.unwrap_or(usize::MAX);
        let taken = |network: &Network| open.get(network).copied().unwrap_or(0);
        if networks.into_iter().any(|share| taken(&share.network) >= most.saturating_mul(share.times)) {
            return None;
        }
        for share in networks {
            *open.entry(share.network).or_default() += 1;
        }
        drop(open);
        Some(Seat { addresses: self.clone(), networks })
    }

    fn counted(&self, peer: IpAddr) -> Networks {
        let is_free = self.0.proxies.contains(peer) || (peer.is_loopback() && !self.0.counts_loopback);
        if self.0.most.is_none() || is_free {
            return Networks::default();
        }
        Counted::Connections.networks(ClientAddr::new(Some(peer)))
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        let mut open = self.addresses.0.open.lock();
        for share in self.networks {
            if let Entry::Occupied(mut count) = open.entry(share.network) {
                *count.get_mut() -= 1;
                if *count.get() == 0 {
                    count.remove();
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ip(text: &str) -> IpAddr {
        text.parse().unwrap()
    }

    /// How many of 100 connections are accepted.
    fn admitted(addresses: &Addresses, peers: impl Iterator<Item = IpAddr>) -> usize {
        let seats: Vec<_> = peers.take(100).filter_map(|peer| addresses.enter(peer)).collect();
        seats.len()
    }

    #[test]
    fn an_address_has_a_limit_and_closed_connections_free_it() {
        let addresses = Addresses::new(Some(3), TrustedProxies::default());
        for peer in ["203.0.113.7", "::ffff:203.0.113.8", "2001:db8::1", "127.0.0.1"] {
            for _ in 0..2 {
                assert_eq!(admitted(&addresses, std::iter::repeat(ip(peer))), 3, "{peer}");
            }
        }
        let one = addresses.enter(ip("203.0.113.7"));
        assert_eq!(admitted(&addresses, std::iter::repeat(ip("::ffff:203.0.113.7"))), 2, "one address, two spellings");
        drop(one);
        assert!(addresses.0.open.lock().is_empty(), "addresses without connections are forgotten");
    }

    #[test]
    fn an_ipv6_client_counts_by_its_64_and_its_48() {
        let addresses = Addresses::new(Some(3), TrustedProxies::default());
        let hosts = (1..).map(|host| ip(&format!("2001:db8:1:1::{host:x}")));
        assert_eq!(admitted(&addresses, hosts), 3, "one /64");
        let households = (1..).map(|household| ip(&format!("2001:db8:1:{household:x}::1")));
        assert_eq!(admitted(&addresses, households), 24, "one /48");
        let sites = (1..).map(|site| ip(&format!("2001:db8:{site:x}::1")));
        assert_eq!(admitted(&addresses, sites), 100);
    }

    #[test]
    fn proxies_are_not_counted_and_loopback_only_if_the_limit_is_set() {
        let proxies = || TrustedProxies::parse(&["10.0.0.0/8", "127.0.0.2"]).unwrap();
        let same = |peer: &str| std::iter::repeat(ip(peer));
        let set = Addresses::new(Some(3), proxies());
        assert_eq!(admitted(&set, same("10.1.2.3")), 100);
        assert_eq!(admitted(&set, same("127.0.0.2")), 100);
        assert_eq!(admitted(&set, same("127.0.0.1")), 3);
        let default = Addresses::new(None, proxies());
        for loopback in ["127.0.0.1", "::1", "::ffff:127.0.0.1"] {
            let seats: Vec<_> = same(loopback).take(2_000).filter_map(|peer| default.enter(peer)).collect();
            assert_eq!(seats.len(), 2_000);
        }
        let seats: Vec<_> = same("203.0.113.7").take(2_000).filter_map(|peer| default.enter(peer)).collect();
        assert_eq!(seats.len(), 1_000);
        assert_eq!(admitted(&Addresses::new(Some(0), proxies()), same("203.0.113.7")), 100);
    }
}
