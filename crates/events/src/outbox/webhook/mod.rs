//! Webhooks: consumers that send events to an HTTP endpoint, as specified by [Standard Webhooks].
//!
//! `signature` signs the calls; `client` calls the endpoint by `gatewright_outbound`, which blocks private networks
//! after name resolution.
//!
//! [Standard Webhooks]: https://www.standardwebhooks.com

mod client;
mod signature;

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;

use gatewright_base::{Ambient, time};
use serde::Serialize;
use serde_json::value::RawValue;
use url::Url;

use super::consumer::{Advice, Failure};
use super::event::entity_of;
use super::{Consumer, ConsumerError, Event, MalformedPayload};
pub use client::Refused;
pub use gatewright_outbound::is_public;
pub use signature::{InvalidSecret, SigningSecret};

use client::Client;

/// A webhook, to be converted into a consumer.
#[must_use = "it delivers nothing before it is declared as a consumer"]
pub struct Webhook {
    name: String,
    event_type: String,
    url: Url,
    secrets: Vec<SigningSecret>,
    entities: Option<Vec<String>>,
    private_networks: bool,
    previous: bool,
}

/// Why a webhook could not be declared.
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
    /// A webhook for every event of a type, signed with `secret`.
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
            previous: false,
        })
    }

    /// Signs with one more secret, while receivers change from an old one to a new one: a receiver accepts either
    /// signature.
    pub fn also_signed_with(mut self, secret: SigningSecret) -> Self {
        self.secrets.push(secret);
        self
    }

    /// Sends only events of these entities.
    pub fn entities(self, entities: Vec<String>) -> Self {
        Self { entities: Some(entities), ..self }
    }

    /// Whether its events have the earlier values of changed fields, as `previous`, if the outbox stores them.
    pub fn previous(self, wanted: bool) -> Self {
        Self { previous: wanted, ..self }
    }

    /// Whether it may call loopback, private and other addresses that are not on the public Internet. Default: false,
    /// because the author of the URL could otherwise reach the server's internal network.
    pub fn private_networks(self, allowed: bool) -> Self {
        Self { private_networks: allowed, ..self }
    }

    /// The consumer that calls the webhook.
    pub fn into_consumer(self, ambient: Ambient) -> Result<Consumer, WebhookError> {
        let Self { name, event_type, url, secrets, entities, private_networks, previous } = self;
        let client = Client::new(url, private_networks).map_err(|error| WebhookError::Client(error.to_string()))?;
        let target = Arc::new(Target { client, secrets, entities, ambient, previous });
        let handler = move |event: Event| {
            let target = target.clone();
            async move { target.deliver(&event).await }
        };
        Ok(Consumer::advised(&name, &event_type, handler)?)
    }
}

struct Target {
    client: Client,
    secrets: Vec<SigningSecret>,
    entities: Option<Vec<String>>,
    ambient: Ambient,
    previous: bool,
}

#[derive(Serialize)]
struct Body<'a> {
    #[serde(rename = "type")]
    event_type: &'a str,
    timestamp: String,
    data: &'a RawValue,
}

impl Target {
    async fn deliver(&self, event: &Event) -> Result<(), (Failure, Advice)> {
        let malformed = || (Failure::from(MalformedPayload), Advice::None);
        let json = if self.previous { event.json_with_previous() } else { Cow::Borrowed(event.json()) };
        let data: &RawValue = serde_json::from_str(&json).map_err(|_| malformed())?;
        let entity = entity_of(data.get()).map_err(|_| malformed())?;
        let wanted =
            self.entities.as_ref().is_none_or(|names| names.iter().any(|name| entity.as_deref() == Some(name)));
        if !wanted {
            return Ok(());
        }
        let body = Body { event_type: event.event_type(), timestamp: time::format(event.created_at()), data };
        let body = serde_json::to_vec(&body).map_err(|_| malformed())?;
        let now = self.ambient.now();
        let sign = |secret: &SigningSecret| secret.sign(event.id(), now.as_second(), &body);
        let signatures: Vec<_> = self.secrets.iter().map(sign).collect();
        let called = self.client.post(event.id(), now, &signatures.join(" "), body).await;
        called.map_err(|(why, advice)| (why.into(), advice))
    }
}

impl fmt::Debug for Webhook {
    /// Without the URL, because its path may be a secret.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Webhook").field("name", &self.name).field("host", &self.url.host_str()).finish_non_exhaustive()
    }
}
