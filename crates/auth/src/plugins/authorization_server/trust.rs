use gatewright_base::UserId;
use gatewright_db::Error;

use super::client::{Client, Source};
use super::error::OAuthError;
use super::server::Server;

/// That a browser may be sent to a client without a click of its user: the operator registered the client, or this user
/// connected it.
///
/// Anybody can register a client with any address. If its errors were sent there, a link to this service would lead anywhere
/// (RFC 9700, section 4.11.2).
pub(super) struct Trust(());

/// An error for a client, and the address that takes it there.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct ErrorAnswer {
    address: String,
    pub(super) error: OAuthError,
}

impl ErrorAnswer {
    pub(super) fn new(address: String, error: OAuthError) -> Self {
        Self { address, error }
    }

    /// Where to send the browser.
    pub(super) fn address(&self, _: &Trust) -> &str {
        &self.address
    }

    /// The target of a link that a user can follow.
    pub(super) fn link(&self) -> &str {
        &self.address
    }
}

impl Client {
    /// Of a client that the operator registered: trusted whoever the user is.
    pub(super) fn trusted(&self) -> Option<Trust> {
        (self.source == Source::Operator).then_some(Trust(()))
    }
}

impl Server {
    /// Whether a client may get errors by the browser of `user`.
    pub(super) async fn trust(&self, client: &str, source: Source, user: &UserId) -> Result<Option<Trust>, Error> {
        let is_trusted = match source {
            Source::Operator => true,
            Source::Registration | Source::Document => self.consents.any(user, client).await?,
        };
        Ok(is_trusted.then_some(Trust(())))
    }
}
