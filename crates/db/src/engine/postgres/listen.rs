//! A connection that listens: Postgres sends notifications only to the session that requested them.

use tokio::sync::mpsc;
use tokio_postgres::Client;

use super::connect::Connector;
use crate::Error;

/// Notifications that wait for a slow reader. Past it they stay in the server's own queue.
const WAITING: usize = 1024;

/// The notifications of a channel since [`Db::listen`](crate::Db::listen). Dropping it closes its connection.
pub struct Listener {
    messages: mpsc::Receiver<Result<String, Error>>,
    _client: Client,
    task: tokio::task::JoinHandle<()>,
}

impl Listener {
    pub(super) async fn open(connector: &Connector, channel: &str) -> Result<Self, Error> {
        let quoted = format!("LISTEN \"{}\"", channel.replace('"', "\"\""));
        let (sender, messages) = mpsc::channel(WAITING);
        let (client, task) = connector.listen(sender, &quoted).await?;
        Ok(Self { messages, _client: client, task })
    }

    /// The payload of the next notification. After an error the connection is closed: listen again. Notifications may
    /// have been missed meanwhile. Safe to cancel.
    pub async fn next(&mut self) -> Result<String, Error> {
        let ended = || Err(Error::ConnectionLost("the listening connection ended".to_owned()));
        self.messages.recv().await.unwrap_or_else(ended)
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl std::fmt::Debug for Listener {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Listener").finish_non_exhaustive()
    }
}
