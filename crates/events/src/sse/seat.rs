use std::sync::Arc;

use super::subscribe::{Client, Subscribe};

/// What `subscriber_id` names: a stream of one caller on one table.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Name {
    pub(super) table: Arc<str>,
    pub(super) principal: String,
    pub(super) subscriber_id: String,
}

/// Whose share a seat counts against.
#[derive(Debug, Clone, Default)]
pub(super) struct Seat {
    /// In whose turn the stream's condition is tested.
    pub(super) lane: Arc<str>,
    /// An account, or an anonymous client's address.
    pub(super) caller: Option<Arc<str>>,
    pub(super) address: Option<Arc<str>>,
}

impl Seat {
    pub(super) fn of(request: &Subscribe) -> Self {
        let address = match &request.client {
            Client::Address(address) => Some(address.clone()),
            Client::Unknown | Client::Local => None,
        };
        let caller = request.client.share_of(&request.caller);
        let lane = caller.clone().unwrap_or_default();
        Self { lane, caller: caller.filter(|_| request.client != Client::Local), address }
    }
}
