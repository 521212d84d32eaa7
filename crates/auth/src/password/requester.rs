use std::hash::{DefaultHasher, Hash, Hasher};
use std::net::IpAddr;

use gatewright_base::UserId;
use gatewright_http::{ClientAddr, Counted, Network};

/// The client for whom a password is hashed. Requesters take turns: see [`Passwords`](super::Passwords).
///
/// Each IPv4 address is a requester. An IPv6 /48 is one requester, because one customer of a provider can have so many
/// addresses. The known devices of an account are one requester, and so is the server; strangers cannot take their
/// places.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Requester(Origin);

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Origin {
    Server,
    /// The hash of the account's id. Two accounts with one hash share their places.
    Known(u64),
    Network(Option<Network>),
}

impl Requester {
    /// Trusted server code: a command line, a migration.
    pub const SERVER: Self = Self(Origin::Server);

    /// The client at `address`. All clients without an address are one requester.
    pub fn client(address: Option<IpAddr>) -> Self {
        let networks = Counted::Hashes.networks(ClientAddr::new(address));
        Self(Origin::Network(networks.into_iter().last().map(|share| share.network)))
    }

    /// A known device of this account.
    pub(crate) fn known_device(user: &UserId) -> Self {
        let mut hasher = DefaultHasher::new();
        user.hash(&mut hasher);
        Self(Origin::Known(hasher.finish()))
    }

    /// Whether it is more than an address.
    pub(super) fn is_known(self) -> bool {
        !matches!(self.0, Origin::Network(_))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ipv4_counts_by_address_and_ipv6_by_48() {
        let of = |text: &str| Requester::client(Some(text.parse().unwrap()));
        assert_eq!(of("192.0.2.1"), of("::ffff:192.0.2.1"));
        assert_ne!(of("192.0.2.1"), of("192.0.2.2"));
        assert_eq!(of("2001:db8:1::1"), of("2001:db8:1:ffff::2"));
        assert_ne!(of("2001:db8:1::1"), of("2001:db8:2::1"));
        assert_ne!(Requester::client(None), Requester::SERVER);
    }
}
