use std::sync::Arc;

use gatewright_base::{Identity, Subject};
use gatewright_http::Counted;

use super::subscribe::{Client, Subscribe};

/// What `subscriber_id` names: a stream of one caller on one table.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Name {
    pub(super) table: Arc<str>,
    pub(super) principal: String,
    pub(super) subscriber_id: String,
}

/// Whose shares a seat counts against.
#[derive(Debug, Clone, Default)]
pub(super) struct Seat {
    /// In whose turn the stream's condition is tested.
    pub(super) lane: Arc<str>,
    pub(super) shares: Vec<Share>,
}

/// Something that has a limited number of seats.
#[derive(Debug, Clone)]
pub(super) struct Share {
    pub(super) key: Arc<str>,
    pub(super) limit: Limit,
    /// How many times the limit it has.
    pub(super) times: usize,
}

/// The limits of [`StreamOptions`](super::StreamOptions).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Limit {
    /// Of an account, or of the anonymous callers of an address.
    Caller,
    Address,
}

impl Seat {
    pub(super) fn of(request: &Subscribe) -> Self {
        let networks: Vec<_> = match request.client {
            Client::Address(client) => Counted::Streams.networks(client).into_iter().collect(),
            Client::Unknown | Client::Local => Vec::new(),
        };
        let of_networks = |limit: Limit, name: &str| {
            let share = |share: &gatewright_http::Share| Share {
                key: format!("{name} {}", share.network).into(),
                limit,
                times: share.times,
            };
            networks.iter().map(share).collect::<Vec<_>>()
        };
        let callers = match account_of(&request.caller) {
            Some(key) => vec![Share { key, limit: Limit::Caller, times: 1 }],
            None => of_networks(Limit::Caller, "anonymous"),
        };
        // The largest network, so that a client with many addresses has one turn.
        let lane = callers.last().map(|share| share.key.clone()).unwrap_or_default();
        let callers = if request.client == Client::Local { Vec::new() } else { callers };
        Self { lane, shares: [callers, of_networks(Limit::Address, "address")].concat() }
    }
}

fn account_of(caller: &Identity) -> Option<Arc<str>> {
    Some(match &caller.principal()?.subject {
        Subject::User(id) => format!("user {id}").into(),
        Subject::Service(id) => format!("service {id}").into(),
    })
}
