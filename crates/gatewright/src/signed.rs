//! Signed requests to programs of the operator's, as [Standard Webhooks](https://www.standardwebhooks.com) has them.

use std::time::Duration;

use gatewright_events::outbox::webhook::SigningSecret;
use gatewright_outbound::{Outbound, OutboundError};
use http::{Method, StatusCode};
use jiff::Timestamp;
use url::Url;

/// Sends signed requests to one URL.
pub(crate) struct Signed {
    http: Outbound,
    url: Url,
    secret: SigningSecret,
}

/// An answer of any status.
pub(crate) struct SignedAnswer {
    pub(crate) status: StatusCode,
    pub(crate) body: Vec<u8>,
}

impl Signed {
    /// For a URL. `private`: whether it may be an address that is not public. A request ends after `timeout`.
    pub(crate) fn new(
        url: Url,
        secret: SigningSecret,
        private: bool,
        timeout: Duration,
    ) -> Result<Self, OutboundError> {
        Ok(Self { http: Outbound::new(timeout, private)?, url, secret })
    }

    /// Sends a body and reads the answer, which has at most `longest` bytes. The status of an answer that cannot be read whole is in
    /// the error.
    pub(crate) async fn post(
        &self,
        id: &str,
        now: Timestamp,
        body: Vec<u8>,
        longest: usize,
    ) -> Result<SignedAnswer, (OutboundError, Option<StatusCode>)> {
        let signature = self.secret.sign(id, now.as_second(), &body);
        let request = self.http.request(Method::POST, &self.url).map_err(|error| (error, None))?;
        let request = request
            .header("content-type", "application/json")
            .header("webhook-id", id)
            .header("webhook-timestamp", now.as_second())
            .header("webhook-signature", signature)
            .body(body);
        let mut response = request.send().await.map_err(|error| (error.into(), None))?;
        let (status, mut body) = (response.status(), Vec::new());
        let broken = |error: OutboundError| (error, Some(status));
        while let Some(chunk) = response.chunk().await.map_err(|error| broken(error.into()))? {
            if body.len() + chunk.len() > longest {
                return Err(broken(OutboundError::TooLong));
            }
            body.extend_from_slice(&chunk);
        }
        Ok(SignedAnswer { status, body })
    }
}
