//! By which networks a client is counted: the one table of it.
//!
//! A provider gives a household an IPv6 /64, and a customer a /48 with 65,536 of them. A limit of the /64 alone is none
//! for such a customer. So what has a limit for each /64 has a higher one for the /48, and what is shared fairly is
//! shared by /48.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use super::ClientAddr;

/// How many times the limit of a /64 the limit of its /48 is.
const HOUSEHOLDS: usize = 8;
/// The same for attempts. It is higher, because a block lasts, and a /48 may be a campus.
const HOUSEHOLDS_THAT_ATTEMPT: usize = 64;

/// What clients are counted for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Counted {
    /// Open connections.
    Connections,
    /// Seats of event streams: of an address, and of its anonymous callers.
    Streams,
    /// Lists that run at a time.
    Lists,
    /// Attempts and requests of limiters and buckets that count by address: sign-ins, registrations, the API.
    Attempts,
    /// Turns at readers and writers of the database, of anonymous callers.
    Turns,
    /// Bytes of bodies and answers.
    Bytes,
    /// Places for password hashing.
    Hashes,
    /// Jobs in the background that a request starts.
    Jobs,
    /// Exports of accounts that run at a time.
    Exports,
    /// Filters of streams, of anonymous callers.
    Filters,
    /// Mails to one mailbox.
    MailsToMailbox,
    /// Mails to all mailboxes.
    Mails,
    /// Rows of the audit log about refused API tokens.
    RefusedTokens,
    /// Equal failures that share a row of the audit log.
    Repetitions,
    /// Clients that register themselves at the authorization server.
    ClientRegistrations,
}

/// The prefixes of the networks that count, each with how many times the limit it has.
struct Rule {
    v4: &'static [(u8, usize)],
    v6: &'static [(u8, usize)],
}

const ADDRESS: &[(u8, usize)] = &[(32, 1)];
/// A limit for each household, and a higher one for its customer.
const LIMITED: Rule = Rule { v4: ADDRESS, v6: &[(64, 1), (48, HOUSEHOLDS)] };
/// A fair share for each customer.
const SHARED: Rule = Rule { v4: ADDRESS, v6: &[(48, 1)] };

impl Counted {
    /// Everything that is counted.
    pub const ALL: [Self; 15] = [
        Self::Connections,
        Self::Streams,
        Self::Lists,
        Self::Attempts,
        Self::Turns,
        Self::Bytes,
        Self::Hashes,
        Self::Jobs,
        Self::Exports,
        Self::Filters,
        Self::MailsToMailbox,
        Self::Mails,
        Self::RefusedTokens,
        Self::Repetitions,
        Self::ClientRegistrations,
    ];

    fn rule(self) -> Rule {
        match self {
            Self::Connections | Self::Streams | Self::Lists => LIMITED,
            Self::Attempts => Rule { v4: ADDRESS, v6: &[(64, 1), (48, HOUSEHOLDS_THAT_ATTEMPT)] },
            Self::Turns
            | Self::Bytes
            | Self::Hashes
            | Self::Jobs
            | Self::Exports
            | Self::Filters
            | Self::RefusedTokens => SHARED,
            // Mails to a mailbox count together with `Mails`, and all requesters of one mailbox together have a limit too. What
            // is joined as a repetition has no limit: it has one account, one reason and one household.
            Self::MailsToMailbox | Self::Repetitions => Rule { v4: ADDRESS, v6: &[(64, 1)] },
            // IPv4 addresses are limited by the routes.
            Self::Mails => Rule { v4: &[], v6: &[(48, 1)] },
            // A client stays for a day, and a customer may have many IPv4 addresses.
            Self::ClientRegistrations => Rule { v4: &[(16, 1)], v6: &[(48, 1)] },
        }
    }

    /// The networks for which this client counts, the smallest first: none without an address.
    pub fn networks(self, client: ClientAddr) -> Networks {
        let Some(address) = client.ip() else { return Networks::default() };
        let rule = self.rule();
        let of = |prefixes: &[(u8, usize)], at: usize| {
            prefixes.get(at).map(|(prefix, times)| Share { network: Network::of(address, *prefix), times: *times })
        };
        let prefixes = if address.is_ipv4() { rule.v4 } else { rule.v6 };
        Networks([of(prefixes, 0), of(prefixes, 1)])
    }

    /// The network that has the share of this client, as a key: the largest for which it counts. `None` for clients
    /// without a separate share: see [`ClientAddr::has_share`].
    pub fn share_key(self, client: ClientAddr) -> Option<String> {
        let share = self.networks(client).into_iter().last()?;
        client.has_share().then(|| share.network.to_string())
    }

    /// The smallest network for which the client counts, as a key, with one key for all clients without an address.
    pub fn limit_key(self, client: ClientAddr) -> String {
        let first = self.networks(client).into_iter().next();
        first.map_or_else(|| "unknown".to_owned(), |share| share.network.to_string())
    }
}

/// An IPv4 address or network, or an IPv6 network. Displayed as `192.0.2.1`, `192.0.0.0/16` or `2001:db8::/48`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Network {
    first: IpAddr,
    prefix: u8,
}

impl Network {
    fn of(address: IpAddr, prefix: u8) -> Self {
        let first = match address {
            IpAddr::V4(address) => {
                let mask = u32::MAX.checked_shl(32 - u32::from(prefix)).unwrap_or(0);
                Ipv4Addr::from_bits(address.to_bits() & mask).into()
            }
            IpAddr::V6(address) => {
                let mask = u128::MAX.checked_shl(128 - u32::from(prefix)).unwrap_or(0);
                Ipv6Addr::from_bits(address.to_bits() & mask).into()
            }
        };
        Self { first, prefix }
    }
}

impl fmt::Display for Network {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self { first: IpAddr::V4(address), prefix: 32 } => write!(f, "{address}"),
            Self { first, prefix } => write!(f, "{first}/{prefix}"),
        }
    }
}

/// The part of a limit that a network has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Share {
    /// The network.
    pub network: Network,
    /// How many times the limit for one client it has.
    pub times: usize,
}

/// The networks for which a client counts.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Networks([Option<Share>; 2]);

impl IntoIterator for Networks {
    type Item = Share;
    type IntoIter = std::iter::Flatten<std::array::IntoIter<Option<Share>, 2>>;

    fn into_iter(self) -> Self::IntoIter {
        self.0.into_iter().flatten()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn networks(counted: Counted, address: &str) -> Vec<(String, usize)> {
        let client = ClientAddr::new(Some(address.parse().unwrap()));
        counted.networks(client).into_iter().map(|share| (share.network.to_string(), share.times)).collect()
    }

    #[test]
    fn only_what_has_another_limit_beside_it_is_counted_by_a_64_alone() {
        for counted in Counted::ALL {
            let found = networks(counted, "2001:db8:1:2:3::4");
            let is_bounded = found.iter().any(|(network, _)| network == "2001:db8:1::/48");
            let has_another = matches!(counted, Counted::MailsToMailbox | Counted::Repetitions);
            assert_eq!(is_bounded, !has_another, "{counted:?}: {found:?}");
        }
    }

    #[test]
    fn this_is_counted_by_these_networks() {
        let (v4, v6) = ("203.0.113.9", "2001:db8:1:2:3::4");
        let own = |network: &str| vec![(network.to_owned(), 1)];
        let limited = [("2001:db8:1:2::/64".to_owned(), 1), ("2001:db8:1::/48".to_owned(), 8)];
        for counted in [Counted::Connections, Counted::Streams, Counted::Lists] {
            assert_eq!((networks(counted, v4), &networks(counted, v6)[..]), (own(v4), &limited[..]), "{counted:?}");
        }
        for counted in [Counted::Turns, Counted::Bytes, Counted::Hashes, Counted::Jobs, Counted::Filters] {
            assert_eq!(
                (networks(counted, v4), networks(counted, v6)),
                (own(v4), own("2001:db8:1::/48")),
                "{counted:?}"
            );
        }
        assert_eq!(networks(Counted::Attempts, v6)[1], ("2001:db8:1::/48".to_owned(), 64));
        assert_eq!(networks(Counted::Mails, v4), []);
        assert_eq!(networks(Counted::ClientRegistrations, v4), own("203.0.0.0/16"));
        assert_eq!(networks(Counted::ClientRegistrations, "::ffff:203.0.113.9"), own("203.0.0.0/16"));
    }

    #[test]
    fn a_client_without_a_share_has_no_key_of_one_and_the_common_key_of_limits() {
        let unknown = ClientAddr::new(None);
        assert_eq!((Counted::Bytes.share_key(unknown), &*Counted::Attempts.limit_key(unknown)), (None, "unknown"));
        for loopback in ["127.0.0.1", "::1"] {
            let client = ClientAddr::new(loopback.parse().ok());
            assert_eq!(Counted::Bytes.share_key(client), None);
            assert_ne!(Counted::Attempts.limit_key(client), "unknown");
        }
    }
}
