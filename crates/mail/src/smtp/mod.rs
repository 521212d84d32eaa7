//! Sending over SMTP: one connection for each mail.
//!
//! Mails with links are few and must not be late; a connection that is opened for a mail cannot be stale, and an
//! aborted one cannot send its rest in the next mail. So there is no pool, and QUIT is sent separately: after the
//! server has accepted a mail, no failure of the connection causes it to be sent again.

mod connect;
mod failure;
mod lines;
mod message;
mod url;

use std::time::Duration;

use async_trait::async_trait;
use lettre::transport::smtp::client::AsyncSmtpConnection;
use lettre::transport::smtp::extension::ClientId;
use tokio::time::timeout;

pub use url::{InvalidSmtpUrl, SmtpUrl};

use self::connect::Tls;
use self::url::Security;
use crate::{Mail, Mailbox, SendError, Sender};

/// The settings of [`Smtp`].
#[derive(Debug, Clone)]
pub struct SmtpSettings {
    /// The mail server.
    pub url: SmtpUrl,
    /// Whom mails come from, in the header and towards the server.
    pub from: Mailbox,
    /// Certificate authorities to trust in addition to those of the system, in PEM.
    pub more_authorities: Vec<Vec<u8>>,
    /// How long a connection attempt to one of the server's addresses may take: 15 seconds.
    pub connect_timeout: Duration,
    /// How long sending one mail may take in all: 2 minutes.
    pub timeout: Duration,
}

impl SmtpSettings {
    /// The defaults for this server and sender.
    pub fn new(url: SmtpUrl, from: Mailbox) -> Self {
        let (connect_timeout, timeout) = (Duration::from_secs(15), Duration::from_mins(2));
        Self { url, from, more_authorities: Vec::new(), connect_timeout, timeout }
    }
}

/// SMTP cannot be set up.
#[derive(Debug, thiserror::Error)]
#[error("cannot set up TLS for the mail server: {0}")]
pub struct SmtpInitError(String);

/// Sends mails through an SMTP server. Certificates are always checked, against the system's authorities.
#[derive(Debug)]
pub struct Smtp {
    settings: SmtpSettings,
    tls: Option<Tls>,
    hello: ClientId,
}

impl Smtp {
    /// Prepares TLS; opens no connection.
    pub fn new(settings: SmtpSettings) -> Result<Self, SmtpInitError> {
        let url = &settings.url;
        let tls = match url.security {
            Security::None => None,
            Security::Opportunistic | Security::Required | Security::Wrapped => {
                Some(Tls::towards(&url.host, &settings.more_authorities)?)
            }
        };
        let hello = url.hello.clone().map_or_else(ClientId::default, ClientId::Domain);
        Ok(Self { settings, tls, hello })
    }

    async fn deliver(&self, mail: &Mail) -> Result<AsyncSmtpConnection, SendError> {
        let message = message::build(mail, &self.settings.from)?;
        let mut connection = self.connect().await?;
        let sent = connection.send(message.envelope(), &message.formatted()).await;
        sent.map_err(|error| failure::classify(&error))?;
        Ok(connection)
    }
}

#[async_trait]
impl Sender for Smtp {
    async fn send(&self, mail: &Mail) -> Result<(), SendError> {
        let mut connection = timeout(self.settings.timeout, self.deliver(mail)).await.map_err(|_| {
            SendError::temporary(format!("the mail server took longer than {} s", self.settings.timeout.as_secs()))
        })??;
        tokio::spawn(timeout(self.settings.connect_timeout, async move { connection.quit().await }));
        Ok(())
    }
}
