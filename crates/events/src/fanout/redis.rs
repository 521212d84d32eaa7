//! Publish and subscribe of Redis. Messages of any size are sent unsplit.

use std::fmt;
use std::time::Duration;

use ::redis::aio::{MultiplexedConnection, PubSubStream};
use ::redis::{AsyncConnectionConfig, Client, Pipeline};
use async_trait::async_trait;
use bytes::Bytes;
use futures_util::StreamExt;
use gatewright_base::Secret;
use parking_lot::Mutex;

use super::{ChannelError, Fanout, FanoutError, Received, Receiver, take_channel};

/// How long the server may take to answer, or to take a connection.
const WITHIN: Duration = Duration::from_secs(4);

/// Fan-out over a Redis server.
pub struct RedisFanout {
    client: Client,
    channel: String,
    /// The connection to send messages over, if there is one.
    connection: Mutex<Option<MultiplexedConnection>>,
}

impl RedisFanout {
    /// Over the server at `url`: `redis://[user:password@]host[:port][/database]`, or `rediss://` for TLS, with the
    /// parameter `sslrootcert` for your own certificate authority. Nothing is sent yet.
    /// In Redis, channels are shared by all databases; here each database has its own, and the parameter `channel`
    /// names another.
    pub fn open(url: &Secret) -> Result<Self, ChannelError> {
        let refuse = |error: &dyn fmt::Display| ChannelError::Url(error.to_string());
        let mut url = url::Url::parse(url.expose()).map_err(|error| refuse(&error))?;
        let channel = take_channel(&mut url)?;
        let client = gatewright_redis::client(&Secret::new(url.as_str())).map_err(|error| refuse(&error))?;
        let database = client.get_connection_info().redis_settings().db();
        Ok(Self { channel: format!("{channel}:{database}"), client, connection: Mutex::default() })
    }

    async fn connection(&self) -> Result<MultiplexedConnection, FanoutError> {
        let current = self.connection.lock().clone();
        if let Some(connection) = current {
            return Ok(connection);
        }
        let config =
            AsyncConnectionConfig::new().set_connection_timeout(Some(WITHIN)).set_response_timeout(Some(WITHIN));
        let made = self.client.get_multiplexed_async_connection_with_config(&config).await;
        let connection = made.map_err(FanoutError::new)?;
        *self.connection.lock() = Some(connection.clone());
        Ok(connection)
    }
}

#[async_trait]
impl Fanout for RedisFanout {
    fn name(&self) -> &'static str {
        "redis"
    }

    async fn send(&self, messages: &[Bytes]) -> Result<usize, FanoutError> {
        let mut pipeline = Pipeline::with_capacity(messages.len());
        for message in messages {
            pipeline.cmd("PUBLISH").arg(&self.channel).arg(&message[..]).ignore();
        }
        let mut connection = self.connection().await?;
        // Taken out before use: if this future is dropped halfway, the replies that are still to come would be misread.
        self.connection.lock().take();
        pipeline.query_async::<()>(&mut connection).await.map_err(FanoutError::new)?;
        *self.connection.lock() = Some(connection);
        Ok(0)
    }

    async fn listen(&self) -> Result<Box<dyn Receiver>, FanoutError> {
        let mut messages = self.client.get_async_pubsub().await.map_err(FanoutError::new)?;
        messages.subscribe(&self.channel).await.map_err(FanoutError::new)?;
        Ok(Box::new(Subscription(messages.into_on_message())))
    }
}

struct Subscription(PubSubStream);

#[async_trait]
impl Receiver for Subscription {
    async fn next(&mut self) -> Result<Received, FanoutError> {
        let ended = || FanoutError::new("the subscribing connection ended");
        let message = self.0.next().await.ok_or_else(ended)?;
        Ok(message.get_payload::<Vec<u8>>().map_or(Received::Noise, |bytes| Received::Message(bytes.into())))
    }
}

impl fmt::Debug for RedisFanout {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let server = self.client.get_connection_info().addr().to_string();
        f.debug_struct("RedisFanout").field("server", &server).field("channel", &self.channel).finish_non_exhaustive()
    }
}
