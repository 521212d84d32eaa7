//! NATS: one subject. Messages are not split; one over the server's `max_payload` is not sent.

use std::collections::VecDeque;
use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use async_nats::connection::State;
use async_nats::{Client, ConnectOptions, Event, ServerAddr, Subscriber};
use async_trait::async_trait;
use bytes::Bytes;
use futures_util::StreamExt;
use gatewright_base::Secret;
use parking_lot::Mutex;
use percent_encoding::percent_decode_str;
use tokio::sync::watch;

use super::inbound::PROBE;
use super::{ChannelError, Fanout, FanoutError, Received, Receiver, take_channel};

/// How long making a connection may take.
const CONNECT_WITHIN: Duration = Duration::from_secs(4);

/// Fan-out over a NATS server.
pub struct NatsFanout {
    address: ServerAddr,
    credentials: Option<Credentials>,
    roots: Option<PathBuf>,
    subject: String,
    /// The connection to send messages over, if there is one.
    connection: Mutex<Option<Sending>>,
}

/// A connection to send over. Its driver reports messages as flushed that it only queued, and a connection that is closed
/// loses what the server has not read: so the server itself confirms each batch, by a message that follows it.
struct Sending {
    client: Client,
    inbox: String,
    confirmed: Subscription,
    batches: u64,
}

enum Credentials {
    Password(Secret, Secret),
    Token(Secret),
}

impl NatsFanout {
    /// Over the server at `url`: `nats://[user:password@]host[:port]` (or a token in place of both), or `tls://` for TLS, where the certificate must be
    /// issued by an authority that the system trusts, or by one in the PEM file that the parameter `sslrootcert` names.
    /// The parameter `channel` names another subject. Nothing is sent yet.
    pub fn open(url: &Secret) -> Result<Self, ChannelError> {
        let refuse = |reason: &dyn fmt::Display| {
            ChannelError::Url(format!(
                "not a NATS URL, which reads nats://[user:password@]host[:port], or tls:// for TLS: {reason}"
            ))
        };
        let mut url = url::Url::parse(url.expose()).map_err(|error| refuse(&error))?;
        if !matches!(url.scheme(), "nats" | "tls") || url.host_str().is_none_or(str::is_empty) {
            return Err(refuse(&"it has no such scheme or no host"));
        }
        let subject = take_channel(&mut url)?;
        let mut roots = None;
        for (parameter, value) in url.query_pairs() {
            match &*parameter {
                "sslrootcert" => roots = Some(PathBuf::from(value.into_owned())),
                _ => return Err(refuse(&"its parameters are `channel` and `sslrootcert`")),
            }
        }
        if roots.is_some() && url.scheme() != "tls" {
            return Err(refuse(&"sslrootcert is for tls://"));
        }
        url.set_query(None);
        let credentials = take_credentials(&mut url);
        let address = ServerAddr::from_url(url).map_err(|error| refuse(&error))?;
        Ok(Self { address, credentials, roots, subject, connection: Mutex::default() })
    }

    /// A connection that is closed when it is lost, and whose loss is reported.
    async fn connect(&self) -> Result<(Client, watch::Receiver<bool>), FanoutError> {
        let (lost, is_lost) = watch::channel(false);
        let events = move |event: Event| {
            if matches!(event, Event::Disconnected | Event::Closed) {
                lost.send_replace(true);
            }
            async {}
        };
        let mut options = ConnectOptions::new()
            .name("gatewright")
            .connection_timeout(CONNECT_WITHIN)
            // The caller decides when to try again.
            .max_reconnects(1)
            .event_callback(events);
        options = match &self.credentials {
            Some(Credentials::Password(user, password)) => {
                options.user_and_password(user.expose().to_owned(), password.expose().to_owned())
            }
            Some(Credentials::Token(token)) => options.token(token.expose().to_owned()),
            None => options,
        };
        if let Some(roots) = &self.roots {
            options = options.require_tls(true).add_root_certificates(roots.clone());
        }
        let client = options.connect(self.address.clone()).await.map_err(FanoutError::new)?;
        Ok((client, is_lost))
    }

    async fn connection(&self) -> Result<Sending, FanoutError> {
        // Taken away while it is used: one that did not do its work is not used again.
        let current = self.connection.lock().take();
        if let Some(sending) = current.filter(|sending| sending.client.connection_state() == State::Connected) {
            return Ok(sending);
        }
        let (client, lost) = self.connect().await?;
        let inbox = client.new_inbox();
        let messages = client.subscribe(inbox.clone()).await.map_err(FanoutError::new)?;
        let confirmed = Subscription { messages, early: VecDeque::new(), lost, _client: client.clone() };
        Ok(Sending { client, inbox, confirmed, batches: 0 })
    }
}

impl Sending {
    /// Waits until the server has everything that was published before.
    async fn confirm(&mut self) -> Result<(), FanoutError> {
        self.batches += 1;
        let batch = Bytes::from(self.batches.to_string());
        self.client.publish(self.inbox.clone(), batch.clone()).await.map_err(FanoutError::new)?;
        self.client.flush().await.map_err(FanoutError::new)?;
        while self.confirmed.next().await? != Received::Message(batch.clone()) {}
        Ok(())
    }
}

#[async_trait]
impl Fanout for NatsFanout {
    fn name(&self) -> &'static str {
        "nats"
    }

    async fn send(&self, messages: &[Bytes]) -> Result<usize, FanoutError> {
        let mut sending = self.connection().await?;
        let (most, mut refused) = (sending.client.max_payload(), 0);
        for message in messages {
            if message.len() > most {
                refused += 1;
                continue;
            }
            sending.client.publish(self.subject.clone(), message.clone()).await.map_err(FanoutError::new)?;
        }
        sending.confirm().await?;
        *self.connection.lock() = Some(sending);
        Ok(refused)
    }

    async fn listen(&self) -> Result<Box<dyn Receiver>, FanoutError> {
        let (client, lost) = self.connect().await?;
        let messages = client.subscribe(self.subject.clone()).await.map_err(FanoutError::new)?;
        let mut subscription = Subscription { messages, early: VecDeque::new(), lost, _client: client.clone() };
        // A subscription is sent without a reply. When a probe comes back over it, the server has it.
        let probe = Bytes::from([PROBE, client.new_inbox().as_bytes()].concat());
        client.publish(self.subject.clone(), probe.clone()).await.map_err(FanoutError::new)?;
        client.flush().await.map_err(FanoutError::new)?;
        let mut early = VecDeque::new();
        loop {
            match subscription.next().await? {
                Received::Message(message) if message == probe => break,
                other => early.push_back(other),
            }
        }
        Ok(Box::new(Subscription { early, ..subscription }))
    }
}

/// The driver does not read them from an address.
fn take_credentials(url: &mut url::Url) -> Option<Credentials> {
    let secret = |text: &str| Secret::new(percent_decode_str(text).decode_utf8_lossy().into_owned());
    let credentials = match (url.username(), url.password()) {
        ("", _) => None,
        (token, None) => Some(Credentials::Token(secret(token))),
        (user, Some(password)) => Some(Credentials::Password(secret(user), secret(password))),
    };
    // Neither fails if there is a host.
    let _taken_out = (url.set_username(""), url.set_password(None));
    credentials
}

struct Subscription {
    messages: Subscriber,
    /// Messages that arrived before the subscription was confirmed.
    early: VecDeque<Received>,
    lost: watch::Receiver<bool>,
    _client: Client,
}

#[async_trait]
impl Receiver for Subscription {
    async fn next(&mut self) -> Result<Received, FanoutError> {
        if let Some(heard) = self.early.pop_front() {
            return Ok(heard);
        }
        tokio::select! {
            biased;
            message = self.messages.next() => match message {
                Some(message) => Ok(Received::Message(message.payload)),
                None => Err(FanoutError::new("the subscription ended")),
            },
            _ = self.lost.wait_for(|lost| *lost) => Err(FanoutError::new("the connection was lost")),
        }
    }
}

impl fmt::Debug for NatsFanout {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let server = format!("{}:{}", self.address.host(), self.address.port());
        f.debug_struct("NatsFanout").field("server", &server).field("subject", &self.subject).finish_non_exhaustive()
    }
}
