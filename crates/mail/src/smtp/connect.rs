//! Opens a connection that may send: TCP, TLS, login, in this order. Any failure ends it.

use std::fmt;
use std::net::SocketAddr;

use lettre::transport::smtp::authentication::{Credentials, DEFAULT_MECHANISMS};
use lettre::transport::smtp::client::{AsyncSmtpConnection, Certificate, TlsParameters};
use tokio::net::{TcpStream, lookup_host};
use tokio::time::timeout;

use super::lines::LineByLine;
use super::url::Security;
use super::{Smtp, SmtpInitError, failure};
use crate::SendError;

/// How to verify the server's identity.
#[derive(Clone)]
pub(super) struct Tls(TlsParameters);

impl Tls {
    /// For `host`, whose certificate must be issued by the system's authorities or those in `more` (PEM).
    pub(super) fn towards(host: &str, more: &[Vec<u8>]) -> Result<Self, SmtpInitError> {
        const PEM_BEGIN: &[u8] = b"-----BEGIN CERTIFICATE-----";
        let failed = |error: lettre::transport::smtp::Error| SmtpInitError(error.to_string());
        let mut builder = TlsParameters::builder(host.to_owned());
        for pem in more {
            // Text without a certificate would count as an empty list.
            if !pem.windows(PEM_BEGIN.len()).any(|window| window == PEM_BEGIN) {
                return Err(SmtpInitError("a certificate authority is not a certificate in PEM".to_owned()));
            }
            builder = builder.add_root_certificate(Certificate::from_pem(pem).map_err(failed)?);
        }
        builder.build().map(Self).map_err(failed)
    }
}

impl Smtp {
    /// Opens a connection. The password is sent only after all required TLS steps.
    pub(super) async fn connect(&self) -> Result<AsyncSmtpConnection, SendError> {
        let url = &self.settings.url;
        let mut connection = match url.security {
            Security::Wrapped => self.connect_wrapped().await?,
            Security::None | Security::Opportunistic | Security::Required => self.connect_plain().await?,
        };
        let must_upgrade = match url.security {
            Security::None | Security::Wrapped => false,
            Security::Opportunistic => connection.can_starttls(),
            Security::Required => true,
        };
        if must_upgrade && let Some(Tls(parameters)) = &self.tls {
            let upgraded = connection.starttls(parameters.clone(), &self.hello).await;
            upgraded.map_err(|error| failure::classify(&error))?;
        }
        if let Some(credentials) = &url.credentials {
            let (user, password) = (credentials.user.expose(), credentials.password.expose());
            let credentials = Credentials::new(user.to_owned(), password.to_owned());
            let login = connection.auth(DEFAULT_MECHANISMS, &credentials).await;
            login.map_err(|error| failure::classify(&error))?;
        }
        Ok(connection)
    }

    async fn connect_wrapped(&self) -> Result<AsyncSmtpConnection, SendError> {
        let url = &self.settings.url;
        let (place, timeout) = ((url.host.as_str(), url.port), Some(self.settings.connect_timeout));
        let tls = self.tls.clone().map(|Tls(parameters)| parameters);
        let connected = AsyncSmtpConnection::connect_tokio1(place, timeout, &self.hello, tls, None).await;
        connected.map_err(|error| failure::classify(&error))
    }

    async fn connect_plain(&self) -> Result<AsyncSmtpConnection, SendError> {
        let stream = Box::new(LineByLine::new(self.dial().await?));
        let connected = AsyncSmtpConnection::connect_with_transport(stream, &self.hello).await;
        connected.map_err(|error| failure::classify(&error))
    }

    /// Tries the host's addresses one after the other.
    async fn dial(&self) -> Result<TcpStream, SendError> {
        let url = &self.settings.url;
        let addresses =
            lookup_host((url.host.as_str(), url.port)).await.map_err(|error| failure::unreachable(&error))?;
        let mut last = failure::unreachable(&"its name has no address");
        for address in addresses {
            match timeout(self.settings.connect_timeout, TcpStream::connect::<SocketAddr>(address)).await {
                Ok(Ok(stream)) => return Ok(stream),
                Ok(Err(error)) => last = failure::unreachable(&error),
                Err(_) => last = failure::unreachable(&"no answer in time"),
            }
        }
        Err(last)
    }
}

impl fmt::Debug for Tls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Tls")
    }
}
