//! A consumer of the server's own: tells an event to an HTTP endpoint, in the manner of [Standard Webhooks].
//!
//! `signature` proves who sends; `client` calls the endpoint by `gatewright_outbound`, which keeps it off private networks,
//! whatever names resolve to.
//!
//! [Standard Webhooks]: https://www.standardwebhooks.com

mod client;
mod signature;

use std::fmt;
use std::sync::Arc;

use gatewright_base::{Ambient, time};
use serde::Serialize;
use serde_json::value::RawValue;
use url::Url;

use super::event::entity_of;
use super::{Consumer, ConsumerError, Event, MalformedPayload};
pub use client::Refused;
pub use gatewright_outbound::is_public;
pub use signature::{InvalidSecret, SigningSecret};

use client::Client;

/// A webhook that is to become a consumer.
#[must_use = "it delivers nothing before it is declared as a consumer"]
pub struct Webhook {
    name: String,
    event_type: String,
    url: Url,
    secrets: Vec<SigningSecret>,
    entities: Option<Vec<String>>,
    private_networks: bool,
}

/// A webhook that cannot be.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum WebhookError {
    /// The URL is not one that can be called.
    #[error("a webhook's URL begins with https:// or http:// and names a host")]
    Url,
    /// The secret cannot sign.
    #[error(transparent)]
    Secret(#[from] InvalidSecret),
    /// The name or the event type is refused.
    #[error(transparent)]
    Consumer(#[from] ConsumerError),
    /// The HTTP client cannot be built.
    #[error("the HTTP client for webhooks cannot be built: {0}")]
    Client(String),
}

impl Webhook {
    /// A webhook that is told of every event of a type, signed with `secret`.
    pub fn new(name: &str, event_type: &str, url: &str, secret: SigningSecret) -> Result<Self, WebhookError> {
        let url = Url::parse(url).map_err(|_| WebhookError::Url)?;
        if !matches!(url.scheme(), "https" | "http") || !url.has_host() {
            return Err(WebhookError::Url);
        }
        Ok(Self {
            name: name.to_owned(),
            event_type: event_type.to_owned(),
            url,
            secrets: vec![secret],
            entities: None,
            private_networks: false,
        })
    }

    /// Signs with one more secret, while receivers change from an old one to a new one: either signature will do.
    pub fn also_signed_with(mut self, secret: SigningSecret) -> Self {
        self.secrets.push(secret);
        self
    }

    /// Tells of these entities alone.
    pub fn entities(self, entities: Vec<String>) -> Self {
        Self { entities: Some(entities), ..self }
    }

    /// Whether it may go to loopback, private and other addresses that are not on the public Internet. It may not, unless
    /// said: whoever chooses the URL could otherwise reach what the server can reach.
    pub fn private_networks(self, allowed: bool) -> Self {
        Self { private_networks: allowed, ..self }
    }

    /// The consumer that does it.
    pub fn into_consumer(self, ambient: Ambient) -> Result<Consumer, WebhookError> {
        let Self { name, event_type, url, secrets, entities, private_networks } = self;
        let client = Client::new(url, private_networks).map_err(|error| WebhookError::Client(error.to_string()))?;
        let target = Arc::new(Target { client, secrets, entities, ambient });
        let handler = move |event: Event| {
            let target = target.clone();
            async move { target.tell(&event).await }
        };
        Ok(Consumer::new(&name, &event_type, handler)?)
    }
}

struct Target {
    client: Client,
    secrets: Vec<SigningSecret>,
    entities: Option<Vec<String>>,
    ambient: Ambient,
}

/// Why an event was not told. Says nothing of what was sent or answered beyond the status.
#[derive(Debug, thiserror::Error)]
enum Failed {
    #[error(transparent)]
    Payload(#[from] MalformedPayload),
    #[error(transparent)]
    Call(#[from] Refused),
}

#[derive(Serialize)]
struct Body<'a> {
    #[serde(rename = "type")]
    event_type: &'a str,
    timestamp: String,
    data: &'a RawValue,
}

impl Target {
    async fn tell(&self, event: &Event) -> Result<(), Failed> {
        let data: &RawValue = serde_json::from_str(event.json()).map_err(|_| MalformedPayload)?;
        let entity = entity_of(data.get())?;
        let wanted =
            self.entities.as_ref().is_none_or(|names| names.iter().any(|name| entity.as_deref() == Some(name)));
        if !wanted {
            return Ok(());
        }
        let body = Body { event_type: event.event_type(), timestamp: time::format(event.created_at()), data };
        let body = serde_json::to_vec(&body).map_err(|_| MalformedPayload)?;
        let timestamp = self.ambient.now().as_second();
        let signatures: Vec<_> = self.secrets.iter().map(|secret| secret.sign(event.id(), timestamp, &body)).collect();
        Ok(self.client.post(event.id(), timestamp, &signatures.join(" "), body).await?)
    }
}

impl fmt::Debug for Webhook {
    /// Leaves the URL out: its path may be a secret.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Webhook").field("name", &self.name).field("host", &self.url.host_str()).finish_non_exhaustive()
    }
}
